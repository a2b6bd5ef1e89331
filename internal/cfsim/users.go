package cfsim

import (
	"net/http"
	"slices"
	"time"
)

// user is whom roles are given to: a user of the UAA, or a client, which has no
// name and no origin.
type user struct {
	guid, name, origin string
	created            time.Time
}

func (u *user) sortKeys() sortKeys { return sortKeys{u.presentation(), u.created} }

// presentation is the name where there is one.
func (u *user) presentation() string {
	if u.name != "" {
		return u.name
	}
	return u.guid
}

// origin is the only identity provider.
const origin = "uaa"

func newUsers(now time.Time) []*user {
	return []*user{
		{guid: userLogin("admin").subject, name: "admin", origin: origin, created: now},
		{guid: "ferry", created: now},
	}
}

func (w *world) user(guid string) *user {
	for _, u := range w.users {
		if u.guid == guid {
			return u
		}
	}
	return nil
}

// userOrNew returns a user, who is written down when the Cloud Controller has
// not heard of it: it takes any GUID for one of the UAA's.
func (w *world) userOrNew(guid string, now time.Time) *user {
	if u := w.user(guid); u != nil {
		return u
	}
	u := &user{guid: guid, created: now}
	w.users = append(w.users, u)
	return u
}

// namedUser asks the UAA for a user; origin "" is any.
func (w *world) namedUser(name, from string) *user {
	for _, u := range w.users {
		if u.name != "" && withoutCase(u.name) == withoutCase(name) && (from == "" || from == u.origin) {
			return u
		}
	}
	return nil
}

type userView struct {
	GUID             string          `json:"guid"`
	CreatedAt        string          `json:"created_at"`
	UpdatedAt        string          `json:"updated_at"`
	Username         *string         `json:"username"`
	PresentationName string          `json:"presentation_name"`
	Origin           *string         `json:"origin"`
	Metadata         metadata        `json:"metadata"`
	Links            map[string]link `json:"links"`
}

func (c *call) userView(u *user) userView {
	v := userView{
		GUID: u.guid, CreatedAt: timestamp(u.created), UpdatedAt: timestamp(u.created), PresentationName: u.presentation(),
		Links: map[string]link{"self": {Href: c.base + "/v3/users/" + u.guid}},
	}
	if u.name != "" {
		v.Username, v.Origin = &u.name, &u.origin
	}
	return v
}

// listUsers shows all users to operators, and to others those in their
// organizations, who are all that have roles.
func (s *Simulator) listUsers(c *call) (*answer, error) {
	if err := c.allow("guids", "usernames", "partial_usernames", "origins", "label_selector", "page", "per_page", "order_by"); err != nil {
		return nil, err
	}
	guids, names, origins := c.wanted("guids"), c.wanted("usernames"), c.wanted("origins")
	if origins != nil && names == nil {
		return nil, badQuery("Origins filter cannot be provided without usernames or partial_usernames filter.")
	}
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[userView], error) {
		found := passing(s.world.users, func(u *user) bool {
			return s.sees(c, u) && passes(guids, u.guid) && (names == nil || u.name != "" && collation(withoutCase).passes(names, u.name)) &&
				passes(origins, u.origin) && labels.matches(nil)
		})
		return takePage(c, found, (*user).sortKeys, c.userView, nil)
	})
}

func (s *Simulator) sees(c *call, u *user) bool {
	inSight := func(r *role) bool { return r.user == u.guid }
	return s.administrator(c) || u.guid == c.caller || s.readable(c) && slices.ContainsFunc(s.roles(), inSight)
}

func (s *Simulator) getUser(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.world.user(c.guid)
	if u == nil || !s.sees(c, u) {
		return nil, notFound("User")
	}
	return jsonAnswer(http.StatusOK, c.userView(u))
}
