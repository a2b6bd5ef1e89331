package cfsim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
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

// newShares reads the spaces of a request to share.
func (c *call) newShares() ([]string, error) {
	m, err := c.message("data")
	if err != nil {
		return nil, err
	}
	var data []struct {
		GUID *string `json:"guid"`
	}
	if err := json.Unmarshal(m.fields["data"], &data); err != nil || data == nil {
		m.refuse("Data must be an array")
	}
	var guids []string
	for i, one := range data {
		if one.GUID == nil {
			m.refuse("Invalid data type: Data[" + strconv.Itoa(i) + "] guid should be a string.")
			continue
		}
		guids = append(guids, *one.GUID)
	}
	return guids, m.problem()
}

// shareInstance shares an instance with more spaces.
func (s *Simulator) shareInstance(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.featureAllows(c, featureSharing); err != nil {
		return nil, err
	}
	row, err := s.instanceToChange(c)
	if err != nil {
		return nil, err
	}
	guids, err := c.newShares()
	if err != nil {
		return nil, err
	}
	spaces, err := s.shareable(c, row, guids)
	if err != nil {
		return nil, err
	}
	for _, sp := range spaces {
		if !slices.Contains(row.sharedWith, sp) {
			row.sharedWith = append(slices.Clone(row.sharedWith), sp)
		}
	}
	return c.sharedSpaces(row, nil)
}

// shareable returns the spaces of a request when all of them can have the
// instance, and what the Cloud Controller says when one cannot.
func (s *Simulator) shareable(c *call, row *instance, guids []string) ([]*space, error) {
	spaces, err := s.sharingSpaces(c, row, guids)
	if err != nil {
		return nil, err
	}
	offering, plan := row.plan.offering, row.plan
	switch {
	case !offering.shareable:
		return nil, unprocessable("The " + offering.spec.name + " service does not support service instance sharing.")
	case slices.Contains(spaces, row.space):
		return nil, unprocessable("Unable to share service instance '" + row.name + "' with space '" + row.space.guid +
			"'. Service instances cannot be shared into the space where they were created.")
	case !plan.active():
		return nil, unprocessable("The service instance could not be shared as the " + plan.spec.name + " plan is inactive.")
	}
	for _, sp := range spaces {
		other := s.world.instances.named(sp, row.name)
		switch {
		case !plan.visibleIn(sp.organization):
			return nil, unprocessable("Access to service " + offering.spec.name + " and plan " + plan.spec.name + " is not enabled in " + sp.place() + ".")
		case other != nil && other.space == sp:
			return nil, unprocessable("A service instance called " + row.name + " already exists in " + sp.name + ".")
		case other != nil:
			return nil, unprocessable("A service instance called " + row.name + " has already been shared with " + sp.name + ".")
		}
	}
	switch {
	case row.last.is(kindCreate, stateFailed):
		return nil, failure(http.StatusNotFound, 60004, "CF-ServiceInstanceNotFound", "The service instance could not be found: "+row.name)
	case row.last.kind == kindCreate && row.last.running():
		return nil, unprocessable("Service instance is currently being created. It can be shared after its creation succeeded.")
	case row.last.is(kindDelete, stateInProgress):
		return nil, unprocessable("The service instance is getting deleted.")
	}
	return spaces, nil
}

// sharingSpaces finds the spaces of a request to share; those that the caller
// cannot see, or not change, are named all at once.
func (s *Simulator) sharingSpaces(c *call, row *instance, guids []string) ([]*space, error) {
	var found []*space
	var unseen, unwritable []string
	for _, guid := range guids {
		sp := s.world.spaceByGUID[guid]
		switch {
		case sp == nil:
			unseen = append(unseen, "'"+guid+"'")
		case s.writable(c, sp) != nil:
			unwritable = append(unwritable, "'"+guid+"'")
		default:
			found = append(found, sp)
		}
	}
	var problems []string
	unable := func(list []string, why string) {
		if list != nil {
			problems = append(problems, "Unable to share service instance "+row.name+" with spaces ["+strings.Join(list, ", ")+"]. "+why)
		}
	}
	unable(unseen, "Ensure the spaces exist and that you have access to them.")
	unable(unwritable, "Write permission is required in order to share a service instance with a space.")
	if problems != nil {
		return nil, unprocessable(strings.Join(problems, "\n"))
	}
	return found, nil
}

// unshareInstance ends the sharing with one space.
func (s *Simulator) unshareInstance(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, err := s.instanceToChange(c)
	if err != nil {
		return nil, err
	}
	sp := s.world.spaceByGUID[c.second]
	if sp == nil {
		return nil, unprocessable("Unable to unshare service instance from space " + c.second + ". Ensure the space exists.")
	}
	row.sharedWith = slices.DeleteFunc(slices.Clone(row.sharedWith), func(other *space) bool { return other == sp })
	return newAnswer(http.StatusNoContent, "", nil), nil
}

// getUsageSummary counts the applications that use an instance where it is
// shared: there are none.
func (s *Simulator) getUsageSummary(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, err := s.instance(c)
	if err != nil {
		return nil, err
	}
	type usage struct {
		Space guidRef `json:"space"`
		Apps  int     `json:"bound_app_count"`
	}
	summary := []usage{}
	for _, sp := range row.sharedWith {
		summary = append(summary, usage{Space: guidRef{sp.guid}})
	}
	spaces := c.base + "/v3/service_instances/" + row.guid + "/relationships/shared_spaces"
	return jsonAnswer(http.StatusOK, map[string]any{"usage_summary": summary, "links": map[string]link{
		"self": {Href: spaces + "/usage_summary"}, "shared_spaces": {Href: spaces}, "service_instance": {Href: c.base + "/v3/service_instances/" + row.guid},
	}})
}
