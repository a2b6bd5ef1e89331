package cfsim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const maxName = 255 // characters

type organization struct {
	guid, name string
	created    time.Time
	updated    time.Time
	metadata   metadata
}

type space struct {
	guid, name   string
	organization *organization
	created      time.Time
	updated      time.Time
	metadata     metadata
}

// spaceName is what is unique.
type spaceName struct {
	organization *organization
	name         string
}

func (o *organization) sortKeys() sortKeys { return sortKeys{o.name, o.updated} }

func (sp *space) sortKeys() sortKeys { return sortKeys{sp.name, sp.updated} }

func (db *database) organization(guid string) *organization {
	at := slices.IndexFunc(db.organizations, func(o *organization) bool { return o.guid == guid })
	if at < 0 {
		return nil
	}
	return db.organizations[at]
}

func (db *database) organizationNamed(name string) *organization {
	at := slices.IndexFunc(db.organizations, func(o *organization) bool { return db.names.places.same(o.name, name) })
	if at < 0 {
		return nil
	}
	return db.organizations[at]
}

func (db *database) addOrganization(name string, now time.Time) *organization {
	guid := unusedGUID("organization", name, 0, func(guid string) bool { return db.organization(guid) != nil })
	o := &organization{guid: guid, name: name, created: now, updated: now}
	db.organizations = append(db.organizations, o)
	return o
}

func (db *database) spaceNamed(o *organization, name string) *space {
	return db.spaceByName[spaceName{o, db.names.places(name)}]
}

// spaceAt returns a space by "ORG/SPACE", nil when there is none.
func (db *database) spaceAt(place string) *space {
	org, name, _ := strings.Cut(place, "/")
	if o := db.organizationNamed(org); o != nil {
		return db.spaceNamed(o, name)
	}
	return nil
}

func (db *database) addSpace(o *organization, name string, now time.Time) *space {
	seed := o.guid + "/" + name
	guid := unusedGUID("space", seed, db.removed[seed], func(guid string) bool { return db.spaceByGUID[guid] != nil })
	sp := &space{guid: guid, name: name, organization: o, created: now, updated: now}
	db.spaces = append(db.spaces, sp)
	db.spaceByGUID[sp.guid] = sp
	db.spaceByName[spaceName{o, db.names.places(name)}] = sp
	return sp
}

// removeSpace drops a space with the roles in it, and what was shared with it is not any more. One of that name that
// comes later gets another GUID.
func (db *database) removeSpace(sp *space) {
	for _, row := range db.instances.ordered {
		row.unshare(sp)
	}
	maps.DeleteFunc(db.roles, func(name roleName, _ *role) bool { return name.place == sp.guid })
	db.spaces = slices.DeleteFunc(db.spaces, func(other *space) bool { return other == sp })
	delete(db.spaceByGUID, sp.guid)
	delete(db.spaceByName, spaceName{sp.organization, db.names.places(sp.name)})
	db.removed[sp.organization.guid+"/"+sp.name]++
}

// toOne is a relationship to one resource; without one, data is null.
type toOne struct {
	Data *guidRef `json:"data"`
}

type guidRef struct {
	GUID string `json:"guid"`
}

func related(guid string) toOne { return toOne{&guidRef{guid}} }

// placeView is an organization or a space.
type placeView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Name          string           `json:"name"`
	Suspended     bool             `json:"suspended"`
	Relationships map[string]toOne `json:"relationships"`
	Metadata      metadata         `json:"metadata"`
	Links         map[string]link  `json:"links"`
}

func (o *organization) view(c *call) placeView {
	self := c.base + "/v3/organizations/" + o.guid
	return placeView{
		GUID: o.guid, Name: o.name, CreatedAt: timestamp(o.created), UpdatedAt: timestamp(o.updated),
		Suspended: c.conditions.Suspended[o.name], Metadata: o.metadata,
		Relationships: map[string]toOne{"quota": related(quotaGUID())},
		Links: map[string]link{
			"self": {Href: self}, "domains": {Href: self + "/domains"}, "default_domain": {Href: self + "/domains/default"},
			"quota": {Href: c.base + "/v3/organization_quotas/" + quotaGUID()},
		},
	}
}

func (sp *space) view(c *call) placeView {
	return placeView{
		GUID: sp.guid, Name: sp.name, CreatedAt: timestamp(sp.created), UpdatedAt: timestamp(sp.updated),
		Suspended: c.conditions.Suspended[sp.place()], Metadata: sp.metadata,
		Relationships: map[string]toOne{"organization": related(sp.organization.guid), "quota": {}},
		Links: map[string]link{
			"self":         {Href: c.base + "/v3/spaces/" + sp.guid},
			"organization": {Href: c.base + "/v3/organizations/" + sp.organization.guid},
		},
	}
}

func listOrganizations(c *call) (*answer, error) {
	q := &c.query
	q.allow("names", "guids", "page", "per_page", "order_by", "label_selector")
	names, guids, labels := q.wanted("names"), q.wanted("guids"), q.selector()
	found := passing(c.database.organizations, func(o *organization) bool {
		return c.readable() && c.database.names.places.passes(names, o.name) && passes(guids, o.guid) && labels.matches(o.metadata.Labels)
	})
	return listed(c, found, (*organization).view, nil)
}

// organization returns the row of a request that its caller may read.
func (c *call) organization() (*organization, error) {
	o := c.database.organization(c.guid)
	if o == nil || !c.readable() {
		return nil, notFound("Organization")
	}
	return o, nil
}

func getOrganization(c *call) (*answer, error) {
	o, err := c.organization()
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, o.view(c)), nil
}

func createOrganization(c *call) (*answer, error) {
	m, err := c.message("name", "suspended", "metadata")
	if err != nil {
		return nil, err
	}
	name := m.name(false)
	if err := m.problem(); err != nil {
		return nil, err
	}
	if !c.administrator() {
		return nil, notAuthorized()
	}
	if c.database.organizationNamed(name) != nil {
		return nil, unprocessable("Organization '" + name + "' already exists.")
	}
	o := c.database.addOrganization(name, c.now())
	return jsonAnswer(http.StatusCreated, o.view(c)), nil
}

// placeUpdate is a PATCH of a space or an organization that has been read.
type placeUpdate struct {
	name      *string
	suspended *bool
	metadata  metadataPatch
}

func readPlaceUpdate(c *call, fields ...string) (placeUpdate, error) {
	m, err := c.message(c.exceptOnKorifi(fields, "name", "suspended")...)
	if err != nil {
		return placeUpdate{}, err
	}
	var u placeUpdate
	if m.has("name") {
		name := m.placeName()
		u.name = &name
	}
	if m.has("suspended") {
		u.suspended = m.truth("suspended")
	}
	u.metadata = m.metadata()
	return u, m.problem()
}

// placeName is the name of a space, or the new name of an organization.
func (m *message) placeName() string {
	name := m.name(false)
	if utf8.RuneCountInString(name) > maxName {
		m.refuse("Name is too long (maximum is 255 characters)")
	}
	return name
}

// updateOrganization renames an organization, marks or suspends it.
func updateOrganization(c *call) (*answer, error) {
	o, err := c.organization()
	if err != nil {
		return nil, err
	}
	if !c.manager() {
		return nil, notAuthorized()
	}
	u, err := readPlaceUpdate(c, "name", "suspended", "metadata")
	if err != nil {
		return nil, err
	}
	if u.suspended != nil && !c.administrator() {
		return nil, notAuthorized()
	}
	if u.name != nil {
		if other := c.database.organizationNamed(*u.name); other != nil && other != o {
			return nil, unprocessable("Name must be unique")
		}
	}
	marks, err := o.metadata.applied(u.metadata)
	if err != nil {
		return nil, err
	}
	o.metadata, o.updated = marks, c.now()
	if u.name != nil {
		c.renameOrganization(o, *u.name)
	}
	if u.suspended != nil {
		c.conditions.change(conditionChange{Suspended: map[string]bool{o.name: *u.suspended}})
	}
	return jsonAnswer(http.StatusOK, o.view(c)), nil
}

// renameOrganization keeps what the control has said about the organization, its spaces and the plans that it sees.
func (cc *controller) renameOrganization(o *organization, name string) {
	before := o.name
	o.name = name
	cc.conditions.move(before, name)
	for _, p := range cc.database.market.plans {
		p.orgs = slices.Clone(p.orgs)
		for i, org := range p.orgs {
			if org == before {
				p.orgs[i] = name
			}
		}
	}
}

func listSpaces(c *call) (*answer, error) {
	q := &c.query
	q.allow("names", "guids", "organization_guids", "include", "page", "per_page", "order_by", "label_selector")
	names, guids, orgs, labels := q.wanted("names"), q.wanted("guids"), q.wanted("organization_guids"), q.selector()
	extra := includingOrganizations(c)
	found := passing(c.database.spaces, func(sp *space) bool {
		return c.readable() && c.database.names.places.passes(names, sp.name) && passes(guids, sp.guid) &&
			passes(orgs, sp.organization.guid) && labels.matches(sp.metadata.Labels)
	})
	return listed(c, found, (*space).view, extra)
}

// includingOrganizations reads the include parameter of the list of spaces.
func includingOrganizations(c *call) including[*space] {
	if !c.query.Has("include") || c.options.Korifi {
		return nil
	}
	c.query.includes("'org', 'organization'", "org", "organization")
	return func(spaces []*space) map[string]any {
		views := distinct(spaces, func(sp *space) *organization { return sp.organization }, func(o *organization) placeView { return o.view(c) })
		return map[string]any{"organizations": views}
	}
}

// space returns the row of a request that its caller may read.
func (c *call) space() (*space, error) {
	sp := c.database.spaceByGUID[c.guid]
	if sp == nil || !c.readable() {
		return nil, notFound("Space")
	}
	return sp, nil
}

func getSpace(c *call) (*answer, error) {
	sp, err := c.space()
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, sp.view(c)), nil
}

func createSpace(c *call) (*answer, error) {
	m, err := c.message("name", "relationships", "metadata")
	if err != nil {
		return nil, err
	}
	name, org, patch := m.placeName(), m.relationship("organization", "Organization", true), m.metadata()
	if err := m.problem(); err != nil {
		return nil, err
	}
	o := c.database.organization(org)
	if o == nil || !c.readable() {
		return nil, unprocessable("Invalid organization. Ensure the organization exists and you have access to it.")
	}
	if err := c.mayChangeSpaces(o); err != nil {
		return nil, err
	}
	if c.database.spaceNamed(o, name) != nil {
		return nil, unprocessable("Name must be unique per organization")
	}
	marks, err := metadata{}.applied(patch)
	if err != nil {
		return nil, err
	}
	sp := c.database.addSpace(o, name, c.now())
	sp.metadata = marks
	return jsonAnswer(http.StatusCreated, sp.view(c)), nil
}

// mayChangeSpaces refuses those who may not make or change spaces, and everybody in an organization that takes none.
func (c *call) mayChangeSpaces(o *organization) error {
	switch {
	case !c.manager():
		return notAuthorized()
	case c.conditions.Suspended[o.name] && c.permission() != permitAdmin:
		return orgSuspended()
	case c.conditions.Deleting[o.name]:
		return beingDeleted("organization")
	}
	return nil
}

// updateSpace renames a space or marks it. Everything in it stays as it is.
func updateSpace(c *call) (*answer, error) {
	sp, err := c.space()
	if err != nil {
		return nil, err
	}
	if err := c.mayChangeSpaces(sp.organization); err != nil {
		return nil, err
	}
	u, err := readPlaceUpdate(c, "name", "metadata")
	if err != nil {
		return nil, err
	}
	if u.name != nil {
		if other := c.database.spaceNamed(sp.organization, *u.name); other != nil && other != sp {
			return nil, unprocessable("Name must be unique per organization")
		}
	}
	marks, err := sp.metadata.applied(u.metadata)
	if err != nil {
		return nil, err
	}
	sp.metadata, sp.updated = marks, c.now()
	if u.name != nil {
		c.renameSpace(sp, *u.name)
	}
	return jsonAnswer(http.StatusOK, sp.view(c)), nil
}

// renameSpace keeps what the control has said about the space.
func (cc *controller) renameSpace(sp *space, name string) {
	db, before := cc.database, sp.place()
	delete(db.spaceByName, spaceName{sp.organization, db.names.places(sp.name)})
	sp.name = name
	db.spaceByName[spaceName{sp.organization, db.names.places(name)}] = sp
	cc.conditions.move(before, sp.place())
}

// deleteSpace queues a job that removes a space with all that is in it.
func deleteSpace(c *call) (*answer, error) {
	if err := c.query.only(); err != nil {
		return nil, err
	}
	sp, err := c.space()
	if err != nil {
		return nil, err
	}
	if !c.manager() {
		return nil, notAuthorized()
	}
	j := c.newJob(jobDeleteSpace, sp.guid)
	c.workers.queueStep(func() { c.emptySpace(sp, j) })
	return jobAnswer(c.base, j), nil
}

// emptySpace has every instance removed, and removes the space only when all have gone at once. Otherwise the job
// fails, and asynchronous deletes go on: a later DELETE of the space then works.
func (cc *controller) emptySpace(sp *space, j *job) {
	if cc.database.spaceByGUID[sp.guid] != sp {
		j.end(cc.now()) // somebody else was faster
		return
	}
	var problems []string
	for _, row := range cc.database.instancesIn(sp) {
		if problem := cc.removeNow(row); problem != "" {
			problems = append(problems, "\t"+problem)
		}
	}
	if problems != nil {
		j.end(cc.now(), cfError{290008, "CF-SpaceDeletionFailed", "Deletion of space " + sp.name +
			" failed because one or more resources within could not be deleted.\n\n" + strings.Join(problems, "\n\n")})
		return
	}
	cc.database.removeSpace(sp)
	j.end(cc.now())
}
