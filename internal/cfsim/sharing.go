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
	rules := sharedSpacesFields()
	if err := c.allow(rules.params()...); err != nil {
		return nil, err
	}
	asked, err := c.fields(rules)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.instance(c)
	if err != nil {
		return nil, err
	}
	return c.sharedSpaces(i, asked)
}

// sharedSpacesFields are what may be asked for beside the list.
func sharedSpacesFields() fieldRules {
	return fieldRules{"space": {"name", "guid", "relationships.organization"}, "space.organization": {"name", "guid"}}
}

// sharedSpaces is the list of spaces that an instance is shared with, and the
// resources that were asked for.
func (c *call) sharedSpaces(i *instance, asked map[string][]string) (*answer, error) {
	data := []guidRef{}
	for _, sp := range i.sharedWith {
		data = append(data, guidRef{sp.guid})
	}
	self := c.base + "/v3/service_instances/" + i.guid + "/relationships/shared_spaces"
	body := map[string]any{"data": data, "links": map[string]link{"self": {Href: self}}}
	extra := map[string]included{}
	if names := asked["space"]; names != nil {
		extra["spaces"] = distinct(i.sharedWith, func(sp *space) any { return sp }, func(o any) map[string]any { return selected(names, spaceFields(o)) })
	}
	if names := asked["space.organization"]; names != nil {
		extra["organizations"] = distinct(i.sharedWith, func(sp *space) any { return sp.organization }, func(o any) map[string]any { return selected(names, organizationFields(o)) })
	}
	if len(extra) > 0 {
		body["included"] = extra
	}
	return jsonAnswer(http.StatusOK, body)
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
