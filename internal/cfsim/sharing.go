package cfsim

import (
	"net/http"
	"slices"
)

// inPlaces applies the filters by space and organization: an instance is also
// found where it is shared.
func (i *instance) inPlaces(spaces, orgs []string) bool {
	in := func(sp *space) bool { return passes(spaces, sp.guid) && passes(orgs, sp.organization.guid) }
	return in(i.space) || slices.ContainsFunc(i.sharedWith, in)
}

// getSharedSpaces lists the spaces that an instance is shared with.
func (s *Simulator) getSharedSpaces(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.instance(c)
	if err != nil {
		return nil, err
	}
	data := []guidRef{}
	for _, sp := range i.sharedWith {
		data = append(data, guidRef{sp.guid})
	}
	self := c.base + "/v3/service_instances/" + i.guid + "/relationships/shared_spaces"
	return jsonAnswer(http.StatusOK, map[string]any{"data": data, "links": map[string]link{"self": {Href: self}}})
}

// share takes spaces as "ORG/SPACE" and shares an instance with these and no
// others; a space is made where it is missing.
func (s *Simulator) share(row *instance, places []string) error {
	var with []*space
	for _, place := range places {
		sp, err := s.spaceAt(place)
		if err != nil {
			return err
		}
		if other := s.world.instances.named(sp, row.name); sp == row.space || other != nil && other != row {
			return refusedControl(http.StatusConflict, "The space %q has an instance %q already.", place, row.name)
		}
		with = append(with, sp)
	}
	row.sharedWith = with
	return nil
}
