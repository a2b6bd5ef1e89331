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

type spaceView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Name          string           `json:"name"`
	Suspended     bool             `json:"suspended"`
	Relationships map[string]toOne `json:"relationships"`
	Metadata      metadata         `json:"metadata"`
	Links         map[string]link  `json:"links"`
}

func (sp *space) sortKeys() sortKeys { return sortKeys{sp.name, sp.updated} }

func (w *world) addSpace(o *organization, name string, now time.Time) *space {
	seed := o.guid + "/" + name
	guid := unusedGUID("space", seed, w.vanished[seed], func(guid string) bool { return w.spaceByGUID[guid] != nil })
	sp := &space{guid: guid, name: name, organization: o, created: now, updated: now}
	w.spaces = append(w.spaces, sp)
	w.spaceByGUID[sp.guid] = sp
	w.spaceByName[spaceName{o, w.names.places(name)}] = sp
	return sp
}

func (w *world) spaceNamed(o *organization, name string) *space {
	return w.spaceByName[spaceName{o, w.names.places(name)}]
}

// removeSpace drops a space with the roles in it, and what was shared with it is
// not any more. One of that name that comes later gets another GUID.
func (w *world) removeSpace(sp *space) {
	for _, row := range w.instances.ordered {
		row.sharedWith = slices.DeleteFunc(slices.Clone(row.sharedWith), func(other *space) bool { return other == sp })
	}
	maps.DeleteFunc(w.roles, func(name roleName, _ *role) bool { return name.place == sp.guid })
	w.spaces = slices.DeleteFunc(w.spaces, func(other *space) bool { return other == sp })
	delete(w.spaceByGUID, sp.guid)
	delete(w.spaceByName, spaceName{sp.organization, w.names.places(sp.name)})
	w.vanished[sp.organization.guid+"/"+sp.name]++
}

func (s *Simulator) spaceView(c *call) func(*space) spaceView {
	return func(sp *space) spaceView {
		v := c.spaceView(sp)
		v.Suspended = s.conditions.Suspended[sp.place()]
		return v
	}
}

func (c *call) spaceView(sp *space) spaceView {
	self := c.base + "/v3/spaces/" + sp.guid
	return spaceView{
		GUID: sp.guid, Name: sp.name, CreatedAt: timestamp(sp.created), UpdatedAt: timestamp(sp.updated),
		Relationships: map[string]toOne{"organization": related(sp.organization.guid), "quota": {}},
		Metadata:      sp.metadata,
		Links: map[string]link{
			"self":         {Href: self},
			"organization": {Href: c.base + "/v3/organizations/" + sp.organization.guid},
		},
	}
}

func (s *Simulator) listSpaces(c *call) (*answer, error) {
	if err := c.allow("names", "guids", "organization_guids", "include", "page", "per_page", "order_by", "label_selector"); err != nil {
		return nil, err
	}
	names, guids, orgs := c.wanted("names"), c.wanted("guids"), c.wanted("organization_guids")
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	extra, err := c.includedOrganizations()
	if err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[spaceView], error) {
		found := passing(s.world.spaces, func(sp *space) bool {
			return s.readable(c) && c.names.places.passes(names, sp.name) && passes(guids, sp.guid) && passes(orgs, sp.organization.guid) && labels.matches(sp.metadata.Labels)
		})
		return takePage(c, found, (*space).sortKeys, s.spaceView(c), extra)
	})
}

// includedOrganizations reads the include parameter of the list of spaces.
func (c *call) includedOrganizations() (func([]*space) map[string]included, error) {
	if !c.query.Has("include") || c.korifi {
		return nil, nil
	}
	for _, name := range c.wanted("include") {
		if name != "org" && name != "organization" {
			return nil, badQuery("Invalid included resource: '" + name + "'. Valid included resources are: 'org', 'organization'")
		}
	}
	return func(spaces []*space) map[string]included {
		views := distinct(spaces, func(sp *space) *organization { return sp.organization }, c.organizationView)
		return map[string]included{"organizations": views}
	}, nil
}

// distinct renders what rows refer to, each once, in order of appearance.
func distinct[R any, O comparable, V any](rows []R, refer func(R) O, render func(O) V) []V {
	seen := map[O]bool{}
	views := []V{}
	for _, row := range rows {
		if o := refer(row); !seen[o] {
			seen[o] = true
			views = append(views, render(o))
		}
	}
	return views
}

func (s *Simulator) getSpace(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.world.spaceByGUID[c.guid]
	if sp == nil || !s.readable(c) {
		return nil, notFound("Space")
	}
	return jsonAnswer(http.StatusOK, s.spaceView(c)(sp))
}

func (s *Simulator) createSpace(c *call) (*answer, error) {
	m, err := c.message("name", "relationships", "metadata")
	if err != nil {
		return nil, err
	}
	name, org, patch := m.name(false), m.relationship("organization", "Organization", true), m.metadata()
	if utf8.RuneCountInString(name) > maxName {
		m.refuse("Name is too long (maximum is 255 characters)")
	}
	if err := m.problem(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.world.organization(org)
	if o == nil || !s.readable(c) {
		return nil, unprocessable("Invalid organization. Ensure the organization exists and you have access to it.")
	}
	if err := s.mayAddSpace(c, o); err != nil {
		return nil, err
	}
	if s.world.spaceNamed(o, name) != nil {
		return nil, unprocessable("Name must be unique per organization")
	}
	marks, err := metadata{}.applied(patch)
	if err != nil {
		return nil, err
	}
	sp := s.world.addSpace(o, name, s.options.Now())
	sp.metadata = marks
	return jsonAnswer(http.StatusCreated, c.spaceView(sp))
}

// mayAddSpace refuses spaces by those who may not make any, and in an
// organization that takes none.
func (s *Simulator) mayAddSpace(c *call, o *organization) error {
	switch {
	case !s.manager(c):
		return notAuthorized()
	case s.conditions.Suspended[o.name] && s.permission(c) != permitAdmin:
		return failure(http.StatusForbidden, 10017, "CF-OrgSuspended", "The organization is suspended")
	case s.conditions.Deleting[o.name]:
		return failure(http.StatusUnprocessableEntity, 10020, "CF-ResourceBeingDeleted", "The organization is being deleted")
	}
	return nil
}

type organization struct {
	guid, name string
	created    time.Time
	updated    time.Time
	metadata   metadata
}

type organizationView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Name          string           `json:"name"`
	Suspended     bool             `json:"suspended"`
	Relationships map[string]toOne `json:"relationships"`
	Metadata      metadata         `json:"metadata"`
	Links         map[string]link  `json:"links"`
}

// toOne is a relationship to one resource; without one, data is null.
type toOne struct {
	Data *guidRef `json:"data"`
}

type guidRef struct {
	GUID string `json:"guid"`
}

func related(guid string) toOne { return toOne{&guidRef{guid}} }

func (o *organization) sortKeys() sortKeys { return sortKeys{o.name, o.updated} }

func (w *world) addOrganization(name string, now time.Time) *organization {
	guid := unusedGUID("organization", name, 0, func(guid string) bool { return w.organization(guid) != nil })
	o := &organization{guid: guid, name: name, created: now, updated: now}
	w.organizations = append(w.organizations, o)
	return o
}

func (w *world) organizationNamed(name string) *organization {
	for _, o := range w.organizations {
		if w.names.places.same(o.name, name) {
			return o
		}
	}
	return nil
}

func (w *world) organization(guid string) *organization {
	for _, o := range w.organizations {
		if o.guid == guid {
			return o
		}
	}
	return nil
}

func (s *Simulator) organizationView(c *call) func(*organization) organizationView {
	return func(o *organization) organizationView {
		v := c.organizationView(o)
		v.Suspended = s.conditions.Suspended[o.name]
		return v
	}
}

func (c *call) organizationView(o *organization) organizationView {
	self := c.base + "/v3/organizations/" + o.guid
	return organizationView{
		GUID: o.guid, Name: o.name, CreatedAt: timestamp(o.created), UpdatedAt: timestamp(o.updated),
		Metadata:      o.metadata,
		Relationships: map[string]toOne{"quota": related(quotaGUID())},
		Links: map[string]link{
			"self": {Href: self}, "domains": {Href: self + "/domains"}, "default_domain": {Href: self + "/domains/default"},
			"quota": {Href: c.base + "/v3/organization_quotas/" + quotaGUID()},
		},
	}
}

func (s *Simulator) listOrganizations(c *call) (*answer, error) {
	if err := c.allow("names", "guids", "page", "per_page", "order_by", "label_selector"); err != nil {
		return nil, err
	}
	names, guids := c.wanted("names"), c.wanted("guids")
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[organizationView], error) {
		found := passing(s.world.organizations, func(o *organization) bool {
			return s.readable(c) && c.names.places.passes(names, o.name) && passes(guids, o.guid) && labels.matches(o.metadata.Labels)
		})
		return takePage(c, found, (*organization).sortKeys, s.organizationView(c), nil)
	})
}

func (s *Simulator) getOrganization(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.world.organization(c.guid)
	if o == nil || !s.readable(c) {
		return nil, notFound("Organization")
	}
	return jsonAnswer(http.StatusOK, s.organizationView(c)(o))
}

func (s *Simulator) createOrganization(c *call) (*answer, error) {
	m, err := c.message("name", "suspended", "metadata")
	if err != nil {
		return nil, err
	}
	name := m.name(false)
	if err := m.problem(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.administrator(c) {
		return nil, notAuthorized()
	}
	if s.world.organizationNamed(name) != nil {
		return nil, unprocessable("Organization '" + name + "' already exists.")
	}
	o := s.world.addOrganization(name, s.options.Now())
	return jsonAnswer(http.StatusCreated, c.organizationView(o))
}

// deleteSpace queues a job that removes a space with all that is in it.
func (s *Simulator) deleteSpace(c *call) (*answer, error) {
	if err := c.allow(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.world.spaceByGUID[c.guid]
	if sp == nil || !s.readable(c) {
		return nil, notFound("Space")
	}
	if !s.manager(c) {
		return nil, notAuthorized()
	}
	j := s.newJob(jobDeleteSpace, sp.guid)
	s.queueStep(j, func() { s.emptySpace(sp, j) })
	return jobAnswer(c.base, j), nil
}

// emptySpace asks for every instance to be removed, and removes the space only
// when all have gone at once. Otherwise the job fails, and asynchronous deletes
// go on: a later DELETE of the space then works.
func (s *Simulator) emptySpace(sp *space, j *job) {
	if s.world.spaceByGUID[sp.guid] != sp {
		j.set(jobComplete, s.options.Now()) // somebody else was faster
		return
	}
	var problems []string
	for _, row := range s.world.instancesOf(sp) {
		if problem := s.deleteBelow(row); problem != "" {
			problems = append(problems, "\t"+problem)
		}
	}
	if problems != nil {
		j.set(jobFailed, s.options.Now(), cfError{290008, "CF-SpaceDeletionFailed", "Deletion of space " + sp.name +
			" failed because one or more resources within could not be deleted.\n\n" + strings.Join(problems, "\n\n")})
		return
	}
	s.world.removeSpace(sp)
	j.set(jobComplete, s.options.Now())
}

// deleteBelow removes one instance on the way to removing its space, and returns
// why it is still there.
func (s *Simulator) deleteBelow(row *instance) string {
	busy := instanceBusy(row.name).Detail
	w := &deprovisioning{instanceWork: s.onInstance(row)}
	if over, _ := w.moot(false); over {
		return busy
	}
	r := w.ask()
	switch r.outcome {
	case replyDone:
		if err := w.succeeded(); err != nil {
			return err.Detail
		}
		return ""
	case replyAccepted:
		row.job = s.newJob(jobDeleteInstance, row.guid)
		s.heard(row.job, w, r)
		return busy
	case replySilent:
		r.message = timedOutMessage
	default: // refused: the broker's message stands
	}
	w.refused(r)
	return r.message
}

// nameFree tells whether an instance may have a name in its space and in those
// that it is shared with.
func (s *Simulator) nameFree(row *instance, name string) bool {
	return !slices.ContainsFunc(append([]*space{row.space}, row.sharedWith...), func(sp *space) bool {
		other := s.world.instances.named(sp, name)
		return other != nil && other != row
	})
}

// renameByHand gives an instance a name as somebody with a database shell does:
// nothing is asked, and nothing else of the row changes.
func (s *Simulator) renameByHand(row *instance, name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return refusedControl(http.StatusBadRequest, "A name cannot be blank.")
	case !s.nameFree(row, name):
		return refusedControl(http.StatusConflict, "There is an instance %q already where %q is.", name, row.name)
	}
	s.world.instances.rename(row, name)
	row.updated = s.options.Now()
	return nil
}

// renameKey does the same to a key, for which the API has no other way either.
func (s *Simulator) renameKey(row *key, name string) error {
	if strings.TrimSpace(name) == "" {
		return refusedControl(http.StatusBadRequest, "A name cannot be blank.")
	}
	if other := s.world.keyNamed(row.instance, name); other != nil && other != row {
		return refusedControl(http.StatusConflict, "The instance %q has a key %q already.", row.instance.name, name)
	}
	row.name, row.updated = name, s.options.Now()
	return nil
}

// placeUpdate is a PATCH of a space or an organization that has been read.
type placeUpdate struct {
	name      *string
	suspended *bool
	metadata  metadataPatch
}

func (c *call) placeUpdate(fields ...string) (placeUpdate, error) {
	m, err := c.message(c.without(fields, "name", "suspended")...)
	if err != nil {
		return placeUpdate{}, err
	}
	var u placeUpdate
	if m.has("name") {
		name := m.name(false)
		if utf8.RuneCountInString(name) > maxName {
			m.refuse("Name is too long (maximum is 255 characters)")
		}
		u.name = &name
	}
	if m.has("suspended") {
		u.suspended = m.truth("suspended")
	}
	u.metadata = m.metadata()
	return u, m.problem()
}

// updateSpace renames a space or marks it. Everything in it stays as it is.
func (s *Simulator) updateSpace(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.world.spaceByGUID[c.guid]
	if sp == nil || !s.readable(c) {
		return nil, notFound("Space")
	}
	if err := s.mayAddSpace(c, sp.organization); err != nil {
		return nil, err
	}
	u, err := c.placeUpdate("name", "metadata")
	if err != nil {
		return nil, err
	}
	if u.name != nil {
		if other := s.world.spaceNamed(sp.organization, *u.name); other != nil && other != sp {
			return nil, unprocessable("Name must be unique per organization")
		}
	}
	marks, err := sp.metadata.applied(u.metadata)
	if err != nil {
		return nil, err
	}
	sp.metadata, sp.updated = marks, s.options.Now()
	if u.name != nil {
		s.renameSpace(sp, *u.name)
	}
	return jsonAnswer(http.StatusOK, s.spaceView(c)(sp))
}

// renameSpace keeps what the control has said about the space.
func (s *Simulator) renameSpace(sp *space, name string) {
	w, before := s.world, sp.place()
	delete(w.spaceByName, spaceName{sp.organization, w.names.places(sp.name)})
	sp.name = name
	w.spaceByName[spaceName{sp.organization, w.names.places(name)}] = sp
	s.conditions.move(before, sp.place())
}

// updateOrganization renames an organization, marks or suspends it.
func (s *Simulator) updateOrganization(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.world.organization(c.guid)
	if o == nil || !s.readable(c) {
		return nil, notFound("Organization")
	}
	if !s.manager(c) {
		return nil, notAuthorized()
	}
	u, err := c.placeUpdate("name", "suspended", "metadata")
	if err != nil {
		return nil, err
	}
	if u.suspended != nil && !s.administrator(c) {
		return nil, notAuthorized()
	}
	if u.name != nil {
		if other := s.world.organizationNamed(*u.name); other != nil && other != o {
			return nil, unprocessable("Name must be unique")
		}
	}
	marks, err := o.metadata.applied(u.metadata)
	if err != nil {
		return nil, err
	}
	o.metadata, o.updated = marks, s.options.Now()
	if u.name != nil {
		s.renameOrganization(o, *u.name)
	}
	if u.suspended != nil {
		s.conditions.change(conditionChange{Suspended: map[string]bool{o.name: *u.suspended}})
	}
	return jsonAnswer(http.StatusOK, s.organizationView(c)(o))
}

// renameOrganization keeps what the control has said about the organization,
// its spaces and the plans that it sees.
func (s *Simulator) renameOrganization(o *organization, name string) {
	before := o.name
	o.name = name
	s.conditions.move(before, name)
	for _, p := range s.world.market.plans {
		p.orgs = slices.Clone(p.orgs)
		for i, org := range p.orgs {
			if org == before {
				p.orgs[i] = name
			}
		}
	}
}

// move has all that holds for a place hold under its new name.
func (c *conditions) move(before, after string) {
	moveKeys(c.Quota, before, after)
	moveKeys(c.Suspended, before, after)
	moveKeys(c.Deleting, before, after)
}

func moveKeys[V any](of map[string]V, before, after string) {
	for place, value := range maps.Clone(of) {
		if rest, inside := strings.CutPrefix(place, before); inside && (rest == "" || rest[0] == '/') {
			delete(of, place)
			of[after+rest] = value
		}
	}
}
