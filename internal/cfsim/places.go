package cfsim

import (
	"maps"
	"net/http"
	"slices"
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
