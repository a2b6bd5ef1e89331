package cfsim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

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
