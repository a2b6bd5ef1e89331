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
