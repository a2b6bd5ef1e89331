package cfsim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// user is whom roles are given to: a user of the UAA, or a client, which has no name and no origin.
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

func (db *database) user(guid string) *user {
	for _, u := range db.users {
		if u.guid == guid {
			return u
		}
	}
	return nil
}

// userOrNew returns a user, who gets a row when the Cloud Controller does not know it: it takes any GUID for one of the
// UAA's.
func (db *database) userOrNew(guid string, now time.Time) *user {
	if u := db.user(guid); u != nil {
		return u
	}
	u := &user{guid: guid, created: now}
	db.users = append(db.users, u)
	return u
}

// namedUser asks the UAA for a user; origin "" is any.
func (db *database) namedUser(name, from string) *user {
	for _, u := range db.users {
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

func (u *user) view(c *call) userView {
	v := userView{
		GUID: u.guid, CreatedAt: timestamp(u.created), UpdatedAt: timestamp(u.created), PresentationName: u.presentation(),
		Links: map[string]link{"self": {Href: c.base + "/v3/users/" + u.guid}},
	}
	if u.name != "" {
		v.Username, v.Origin = &u.name, &u.origin
	}
	return v
}

// listUsers shows all users to operators, and to others those in their organizations, who are all that have roles.
func listUsers(c *call) (*answer, error) {
	q := &c.query
	q.allow("guids", "usernames", "partial_usernames", "origins", "label_selector", "page", "per_page", "order_by")
	guids, names, origins := q.wanted("guids"), q.wanted("usernames"), q.wanted("origins")
	if origins != nil && names == nil {
		q.refuse("Origins filter cannot be provided without usernames or partial_usernames filter.")
	}
	labels := q.selector()
	found := passing(c.database.users, func(u *user) bool {
		return c.maySee(u) && passes(guids, u.guid) && (names == nil || u.name != "" && collation(withoutCase).passes(names, u.name)) &&
			passes(origins, u.origin) && labels.matches(nil)
	})
	return listed(c, found, (*user).view, nil)
}

func (c *call) maySee(u *user) bool {
	ofUser := func(r *role) bool { return r.user == u.guid }
	return c.administrator() || u.guid == c.caller || c.readable() && slices.ContainsFunc(c.roles(), ofUser)
}

func getUser(c *call) (*answer, error) {
	u := c.database.user(c.guid)
	if u == nil || !c.maySee(u) {
		return nil, notFound("User")
	}
	return jsonAnswer(http.StatusOK, u.view(c)), nil
}

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

var roleKinds = []string{roleAuditor, roleDeveloper, "space_manager", "space_supporter", roleOrgUser, "organization_auditor", roleOrgManager, "organization_billing_manager"}

// roles are those that were given, in order, and behind them those that the permissions of the control stand for.
func (cc *controller) roles() []*role {
	var list []*role
	for name, given := range cc.database.roles {
		list = append(list, &role{name, given.guid, given.created})
	}
	slices.SortFunc(list, func(a, b *role) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.guid, b.guid)) })
	for _, u := range cc.database.users {
		list = append(list, cc.implied(u)...)
	}
	return list
}

// implied are the roles that a user has by a permission of the control: in every organization, or in every space and
// its organization.
func (cc *controller) implied(u *user) []*role {
	held := cc.conditions.Permissions[u.presentation()]
	kind := map[permission]string{permitOrgManager: roleOrgManager, permitDeveloper: roleDeveloper, permitAuditor: roleAuditor}[held]
	if kind == "" {
		return nil
	}
	var list []*role
	add := func(kind, place string, since time.Time) {
		name := roleName{kind, u.guid, place}
		if _, given := cc.database.roles[name]; !given {
			list = append(list, &role{name, fixedGUID("role", kind+" "+u.guid+" "+place), since})
		}
	}
	for _, o := range cc.database.organizations {
		add(roleOrgUser, o.guid, o.created)
		if !inSpace(kind) {
			add(kind, o.guid, o.created)
		}
	}
	for _, sp := range cc.database.spaces {
		if inSpace(kind) {
			add(kind, sp.guid, sp.created)
		}
	}
	return list
}

// member tells whether a user has a role in an organization, as who gets one in a space must have. A login without a
// permission may do everything.
func (cc *controller) member(u *user, o *organization) bool {
	held, limited := cc.conditions.Permissions[u.presentation()]
	if everything := u.guid == "ferry" || u.name == "admin"; everything && !limited {
		return true
	}
	return limited && held != permitNothing && held != permitAdmin || slices.ContainsFunc(cc.roles(), func(r *role) bool { return r.user == u.guid && r.place == o.guid })
}

func (cc *controller) hasSpaceRole(userGUID, org string) bool {
	return slices.ContainsFunc(cc.roles(), func(r *role) bool {
		sp := cc.database.spaceByGUID[r.place]
		return r.user == userGUID && sp != nil && sp.organization.guid == org
	})
}

type roleView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Type          string           `json:"type"`
	Relationships map[string]toOne `json:"relationships"`
	Links         map[string]link  `json:"links"`
}

func (r *role) view(c *call) roleView {
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

// createRole gives a role. That of a space developer counts for a login that the control has made an organization
// manager.
func createRole(c *call) (*answer, error) {
	n, err := readNewRole(c)
	if err != nil {
		return nil, err
	}
	if !c.manager() {
		return nil, notAuthorized()
	}
	where, o, err := rolePlace(c, n)
	if err != nil {
		return nil, err
	}
	u, err := roleUser(c, n)
	if err != nil {
		return nil, err
	}
	if inSpace(n.kind) && (u == nil || !c.member(u, o)) {
		return nil, unprocessable("Users cannot be assigned roles in a space if they do not have a role in that space's organization.")
	}
	name := roleName{n.kind, u.guid, n.place}
	if _, exists := c.database.roles[name]; exists {
		return nil, unprocessable("User '" + u.presentation() + "' already has '" + n.kind + "' role in " + where + ".")
	}
	given := &role{name, c.random.guid(), c.now()}
	c.database.roles[name] = given
	return jsonAnswer(http.StatusCreated, given.view(c)), nil
}

// newRole is a request for a role that has been read.
type newRole struct {
	kind, place          string
	guid, name, fromHere string // of the user: a GUID, or a name and maybe an origin
}

func readNewRole(c *call) (newRole, error) {
	m, err := c.message("type", "relationships")
	if err != nil {
		return newRole{}, err
	}
	n := newRole{kind: m.text("type")}
	if !slices.Contains(roleKinds, n.kind) && len(m.problems) == 0 {
		kinds, _ := json.Marshal(roleKinds) // strings
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

// rolePlace returns how a place is called in texts, and its organization.
func rolePlace(c *call, n newRole) (string, *organization, error) {
	if inSpace(n.kind) {
		if sp := c.database.spaceByGUID[n.place]; sp != nil {
			return "space '" + sp.name + "'", sp.organization, nil
		}
		return "", nil, unprocessable("Invalid space. Ensure that the space exists and you have access to it.")
	}
	if o := c.database.organization(n.place); o != nil {
		return "organization '" + o.name + "'", o, nil
	}
	return "", nil, unprocessable("Invalid organization. Ensure that the organization exists and you have access to it.")
}

// roleUser finds who is to get a role. One for an organization makes the user known; for a space there is none, then.
func roleUser(c *call, n newRole) (*user, error) {
	if n.guid != "" && inSpace(n.kind) {
		return c.database.user(n.guid), nil
	}
	if n.guid != "" {
		return c.database.userOrNew(n.guid, c.now()), nil
	}
	if err := c.featureAllows(featureUsernames); err != nil {
		return nil, err
	}
	u := c.database.namedUser(n.name, n.fromHere)
	switch {
	case u != nil || inSpace(n.kind):
		return u, nil
	case n.fromHere != "":
		return nil, unprocessable("No user exists with the username '" + n.name + "' and origin '" + n.fromHere + "'.")
	}
	return nil, unprocessable("No user exists with the username '" + n.name + "'.")
}

func listRoles(c *call) (*answer, error) {
	q := &c.query
	params := []string{"guids", "types", "user_guids", "space_guids", "organization_guids", "include", "page", "per_page", "order_by"}
	q.allow(slices.Concat(params, timeParams)...)
	inTime := q.timeFilter()
	extra := includingAroundRoles(c)
	guids, kinds, users := q.wanted("guids"), q.wanted("types"), q.wanted("user_guids")
	spaces, orgs := q.wanted("space_guids"), q.wanted("organization_guids")
	found := passing(c.roles(), func(r *role) bool {
		return c.readable() && passes(guids, r.guid) && passes(kinds, r.kind) && passes(users, r.user) && inTime(r.created, r.created) &&
			(spaces == nil || inSpace(r.kind) && passes(spaces, r.place)) && (orgs == nil || !inSpace(r.kind) && passes(orgs, r.place))
	})
	return listed(c, found, (*role).view, extra)
}

// includingAroundRoles reads the include parameter of roles.
func includingAroundRoles(c *call) including[*role] {
	asked := c.query.includes("'user', 'organization', 'space'", "user", "organization", "space")
	if asked == nil {
		return nil
	}
	return func(roles []*role) map[string]any {
		result := map[string]any{}
		if slices.Contains(asked, "user") {
			result["users"] = distinct(roles, func(r *role) *user { return c.database.user(r.user) }, func(u *user) userView { return u.view(c) })
		}
		in := func(space bool) []*role {
			return passing(roles, func(r *role) bool { return inSpace(r.kind) == space })
		}
		if slices.Contains(asked, "space") {
			result["spaces"] = distinct(in(true), func(r *role) *space { return c.database.spaceByGUID[r.place] }, func(sp *space) placeView { return sp.view(c) })
		}
		if slices.Contains(asked, "organization") {
			result["organizations"] = distinct(in(false), func(r *role) *organization { return c.database.organization(r.place) }, func(o *organization) placeView { return o.view(c) })
		}
		return result
	}
}

// role returns the row of a request that its caller may see.
func (c *call) role() (*role, error) {
	roles := c.roles()
	at := slices.IndexFunc(roles, func(r *role) bool { return r.guid == c.guid })
	if at < 0 || !c.readable() {
		return nil, notFound("Role")
	}
	return roles[at], nil
}

func getRole(c *call) (*answer, error) {
	r, err := c.role()
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, r.view(c)), nil
}

// deleteRole takes a role away, by a job. One that a permission of the control stands for stays.
func deleteRole(c *call) (*answer, error) {
	r, err := c.role()
	switch {
	case err != nil:
		return nil, err
	case !c.manager():
		return nil, notAuthorized()
	case r.kind == roleOrgUser && c.hasSpaceRole(r.user, r.place):
		return nil, unprocessable("Cannot delete organization_user role while user has roles in spaces in that organization.")
	}
	j := c.newJob(jobDeleteRole, r.guid)
	c.workers.queueStep(func() {
		delete(c.database.roles, r.roleName)
		j.end(c.now())
	})
	return jobAnswer(c.base, j), nil
}
