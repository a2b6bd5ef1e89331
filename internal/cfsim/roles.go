package cfsim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// roleName is what a role may exist once for.
type roleName struct {
	kind, user, place string
}

// role is what a user has in a space or an organization.
type role struct {
	roleName
	guid    string
	created time.Time
}

func (r *role) sortKeys() sortKeys { return sortKeys{r.kind, r.created} }

// inSpace tells whether a kind of role is one in a space.
func inSpace(kind string) bool { return strings.HasPrefix(kind, "space_") }

const (
	roleOrgUser    = "organization_user"
	roleOrgManager = "organization_manager"
	roleDeveloper  = "space_developer"
	roleAuditor    = "space_auditor"
)

func roleKinds() []string {
	return []string{roleAuditor, roleDeveloper, "space_manager", "space_supporter", roleOrgUser, "organization_auditor", roleOrgManager, "organization_billing_manager"}
}

// roles are those that were given, in order, and behind them those that the
// permissions of the control stand for. The caller holds s.mu.
func (s *Simulator) roles() []*role {
	var list []*role
	for name, given := range s.world.roles {
		list = append(list, &role{name, given.guid, given.created})
	}
	slices.SortFunc(list, func(a, b *role) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.guid, b.guid)) })
	for _, u := range s.world.users {
		list = append(list, s.implied(u)...)
	}
	return list
}

// implied are the roles that a user has by a permission of the control: in
// every organization, or in every space and its organization.
func (s *Simulator) implied(u *user) []*role {
	held := s.conditions.Permissions[u.presentation()]
	kind := map[permission]string{permitOrgManager: roleOrgManager, permitDeveloper: roleDeveloper, permitAuditor: roleAuditor}[held]
	if kind == "" {
		return nil
	}
	var list []*role
	add := func(kind, place string, since time.Time) {
		name := roleName{kind, u.guid, place}
		if _, given := s.world.roles[name]; !given {
			list = append(list, &role{name, fixedGUID("role", kind+" "+u.guid+" "+place), since})
		}
	}
	for _, o := range s.world.organizations {
		add(roleOrgUser, o.guid, o.created)
		if !inSpace(kind) {
			add(kind, o.guid, o.created)
		}
	}
	for _, sp := range s.world.spaces {
		if inSpace(kind) {
			add(kind, sp.guid, sp.created)
		}
	}
	return list
}

// member tells whether a user has a role in an organization, as who gets one in
// a space must have. A login without a permission may do everything.
func (s *Simulator) member(u *user, o *organization) bool {
	held, limited := s.conditions.Permissions[u.presentation()]
	if everything := u.guid == "ferry" || u.name == "admin"; everything && !limited {
		return true
	}
	return limited && held != permitNothing && held != permitAdmin || slices.ContainsFunc(s.roles(), func(r *role) bool { return r.user == u.guid && r.place == o.guid })
}

type roleView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Type          string           `json:"type"`
	Relationships map[string]toOne `json:"relationships"`
	Links         map[string]link  `json:"links"`
}

func (c *call) roleView(r *role) roleView {
	v := roleView{
		GUID: r.guid, CreatedAt: timestamp(r.created), UpdatedAt: timestamp(r.created), Type: r.kind,
		Relationships: map[string]toOne{"user": related(r.user), "space": {}, "organization": {}},
		Links:         map[string]link{"self": {Href: c.base + "/v3/roles/" + r.guid}, "user": {Href: c.base + "/v3/users/" + r.user}},
	}
	place := "organization"
	if inSpace(r.kind) {
		place = "space"
	}
	v.Relationships[place] = related(r.place)
	v.Links[place] = link{Href: c.base + "/v3/" + place + "s/" + r.place}
	return v
}

// newRole is a request for a role that has been read.
type newRole struct {
	kind, place          string
	guid, name, fromHere string // of the user: a GUID, or a name and maybe an origin
}

func (c *call) newRole() (newRole, error) {
	m, err := c.message("type", "relationships")
	if err != nil {
		return newRole{}, err
	}
	n := newRole{kind: m.text("type")}
	if !slices.Contains(roleKinds(), n.kind) && len(m.problems) == 0 {
		kinds, _ := json.Marshal(roleKinds()) // strings
		m.refuse("Type must be one of the allowed types " + strings.ReplaceAll(string(kinds), ",", ", "))
	}
	n.readUser(m)
	if inSpace(n.kind) {
		n.place = m.relationship("space", "Space", true)
	} else if len(m.problems) == 0 {
		n.place = m.relationship("organization", "Organization", true)
	}
	return n, m.problem()
}

// readUser takes either a GUID or a name.
func (n *newRole) readUser(m *message) {
	var all struct {
		User struct {
			Data map[string]json.RawMessage `json:"data"`
		} `json:"user"`
	}
	_ = json.Unmarshal(m.fields["relationships"], &all) // what is wrong with it is found below
	data := all.User.Data
	name, byName := data["username"]
	from, withOrigin := data["origin"]
	_, byGUID := data["guid"]
	switch {
	case byGUID && byName:
		m.refuse("Username cannot be specified when identifying user by guid")
	case byGUID && withOrigin:
		m.refuse("User origin cannot be specified when identifying user by guid")
	case !byName && withOrigin:
		m.refuse("User origin cannot be specified without specifying the username")
	case byGUID:
		n.guid = m.relationship("user", "User", true)
	case !byName:
		m.refuse("User must have a username or guid specified")
	case json.Unmarshal(name, &n.name) != nil:
		m.refuse("Username must be a string")
	case withOrigin && json.Unmarshal(from, &n.fromHere) != nil:
		m.refuse("User origin must be a string")
	}
}

// createRole gives a role. That of a space developer counts for a login that
// the control has made an organization manager.
func (s *Simulator) createRole(c *call) (*answer, error) {
	n, err := c.newRole()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.manager(c) {
		return nil, notAuthorized()
	}
	where, o, err := s.rolePlace(n)
	if err != nil {
		return nil, err
	}
	u, err := s.roleUser(c, n)
	if err != nil {
		return nil, err
	}
	if inSpace(n.kind) && (u == nil || !s.member(u, o)) {
		return nil, unprocessable("Users cannot be assigned roles in a space if they do not have a role in that space's organization.")
	}
	name := roleName{n.kind, u.guid, n.place}
	if _, exists := s.world.roles[name]; exists {
		return nil, unprocessable("User '" + u.presentation() + "' already has '" + n.kind + "' role in " + where + ".")
	}
	given := &role{name, s.random.guid(), s.options.Now()}
	s.world.roles[name] = given
	return jsonAnswer(http.StatusCreated, c.roleView(given))
}

// roleUser finds who is to get a role. One for an organization makes the user
// known; for a space there is none, then.
func (s *Simulator) roleUser(c *call, n newRole) (*user, error) {
	if n.guid != "" && inSpace(n.kind) {
		return s.world.user(n.guid), nil
	}
	if n.guid != "" {
		return s.world.userOrNew(n.guid, s.options.Now()), nil
	}
	if err := s.featureAllows(c, featureUsernames); err != nil {
		return nil, err
	}
	u := s.world.namedUser(n.name, n.fromHere)
	switch {
	case u != nil || inSpace(n.kind):
		return u, nil
	case n.fromHere != "":
		return nil, unprocessable("No user exists with the username '" + n.name + "' and origin '" + n.fromHere + "'.")
	}
	return nil, unprocessable("No user exists with the username '" + n.name + "'.")
}

// rolePlace returns how a place is called in texts, and its organization.
func (s *Simulator) rolePlace(n newRole) (string, *organization, error) {
	if inSpace(n.kind) {
		if sp := s.world.spaceByGUID[n.place]; sp != nil {
			return "space '" + sp.name + "'", sp.organization, nil
		}
		return "", nil, unprocessable("Invalid space. Ensure that the space exists and you have access to it.")
	}
	if o := s.world.organization(n.place); o != nil {
		return "organization '" + o.name + "'", o, nil
	}
	return "", nil, unprocessable("Invalid organization. Ensure that the organization exists and you have access to it.")
}

func (s *Simulator) listRoles(c *call) (*answer, error) {
	params := []string{"guids", "types", "user_guids", "space_guids", "organization_guids", "include", "page", "per_page", "order_by"}
	if err := c.allow(slices.Concat(params, timeParams())...); err != nil {
		return nil, err
	}
	inTime, err := c.timeFilter()
	if err != nil {
		return nil, err
	}
	extra, err := s.includedByRoles(c)
	if err != nil {
		return nil, err
	}
	guids, kinds, users := c.wanted("guids"), c.wanted("types"), c.wanted("user_guids")
	spaces, orgs := c.wanted("space_guids"), c.wanted("organization_guids")
	return listed(s, func() (*listPage[roleView], error) {
		found := passing(s.roles(), func(r *role) bool {
			return s.readable(c) && passes(guids, r.guid) && passes(kinds, r.kind) && passes(users, r.user) && inTime(r.created, r.created) &&
				(spaces == nil || inSpace(r.kind) && passes(spaces, r.place)) && (orgs == nil || !inSpace(r.kind) && passes(orgs, r.place))
		})
		return takePage(c, found, (*role).sortKeys, c.roleView, extra)
	})
}

// includedByRoles reads the include parameter of roles.
func (s *Simulator) includedByRoles(c *call) (func([]*role) map[string]included, error) {
	asked := c.wanted("include")
	for _, name := range asked {
		if !slices.Contains([]string{"user", "space", "organization"}, name) {
			return nil, badQuery("Invalid included resource: '" + name + "'. Valid included resources are: 'user', 'organization', 'space'")
		}
	}
	if asked == nil {
		return nil, nil
	}
	return func(roles []*role) map[string]included {
		result := map[string]included{}
		if slices.Contains(asked, "user") {
			result["users"] = distinct(roles, func(r *role) *user { return s.world.user(r.user) }, c.userView)
		}
		in := func(space bool) []*role {
			return passing(roles, func(r *role) bool { return inSpace(r.kind) == space })
		}
		if slices.Contains(asked, "space") {
			result["spaces"] = distinct(in(true), func(r *role) *space { return s.world.spaceByGUID[r.place] }, s.spaceView(c))
		}
		if slices.Contains(asked, "organization") {
			result["organizations"] = distinct(in(false), func(r *role) *organization { return s.world.organization(r.place) }, s.organizationView(c))
		}
		return result
	}, nil
}

func (s *Simulator) getRole(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.roleByGUID(c)
	if r == nil {
		return nil, notFound("Role")
	}
	return jsonAnswer(http.StatusOK, c.roleView(r))
}

func (s *Simulator) roleByGUID(c *call) *role {
	at := slices.IndexFunc(s.roles(), func(r *role) bool { return r.guid == c.guid })
	if at < 0 || !s.readable(c) {
		return nil
	}
	return s.roles()[at]
}

// deleteRole takes a role away, by a job. One that a permission of the control
// stands for stays.
func (s *Simulator) deleteRole(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.roleByGUID(c)
	switch {
	case r == nil:
		return nil, notFound("Role")
	case !s.manager(c):
		return nil, notAuthorized()
	case r.kind == roleOrgUser && s.hasSpaceRole(r.user, r.place):
		return nil, unprocessable("Cannot delete organization_user role while user has roles in spaces in that organization.")
	}
	j := s.newJob(jobDeleteRole, r.guid)
	s.queueStep(j, func() {
		delete(s.world.roles, r.roleName)
		j.set(jobComplete, s.options.Now())
	})
	return jobAnswer(c.base, j), nil
}

func (s *Simulator) hasSpaceRole(userGUID, org string) bool {
	return slices.ContainsFunc(s.roles(), func(r *role) bool {
		sp := s.world.spaceByGUID[r.place]
		return r.user == userGUID && sp != nil && sp.organization.guid == org
	})
}

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
