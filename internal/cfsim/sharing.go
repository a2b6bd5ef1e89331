package cfsim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// inPlaces applies the filters by space and organization: an instance is also found where it is shared.
func (i *instance) inPlaces(spaces, orgs []string) bool {
	in := func(sp *space) bool { return passes(spaces, sp.guid) && passes(orgs, sp.organization.guid) }
	return in(i.space) || slices.ContainsFunc(i.sharedWith, in)
}

// unshare ends the sharing with one space.
func (i *instance) unshare(sp *space) {
	i.sharedWith = slices.DeleteFunc(slices.Clone(i.sharedWith), func(other *space) bool { return other == sp })
}

// sharedSpacesFields are what may be asked for beside the list of spaces.
var sharedSpacesFields = fieldRules{"space": {"name", "guid", "relationships.organization"}, "space.organization": {"name", "guid"}}

// getSharedSpaces lists the spaces that an instance is shared with.
func getSharedSpaces(c *call) (*answer, error) {
	c.query.allow(sharedSpacesFields.params()...)
	asked := c.query.fields(sharedSpacesFields)
	if err := c.query.problem(); err != nil {
		return nil, err
	}
	i, err := c.instance()
	if err != nil {
		return nil, err
	}
	return sharedSpaces(c, i, asked), nil
}

// sharedSpaces is the list of spaces that an instance is shared with, and the resources that were asked for.
func sharedSpaces(c *call, i *instance, asked map[string][]string) *answer {
	data := []guidRef{}
	for _, sp := range i.sharedWith {
		data = append(data, guidRef{sp.guid})
	}
	self := c.base + "/v3/service_instances/" + i.guid + "/relationships/shared_spaces"
	body := map[string]any{"data": data, "links": map[string]link{"self": {Href: self}}}
	extra := map[string]any{}
	includeFields(extra, "spaces", asked["space"], i.sharedWith, func(sp *space) *space { return sp }, (*space).fields)
	includeFields(extra, "organizations", asked["space.organization"], i.sharedWith, func(sp *space) *organization { return sp.organization }, (*organization).fields)
	if len(extra) > 0 {
		body["included"] = extra
	}
	return jsonAnswer(http.StatusOK, body)
}

// readShares reads the spaces of a request to share.
func readShares(c *call) ([]string, error) {
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
func shareInstance(c *call) (*answer, error) {
	if err := c.featureAllows(featureSharing); err != nil {
		return nil, err
	}
	row, err := c.instanceToChange()
	if err != nil {
		return nil, err
	}
	guids, err := readShares(c)
	if err != nil {
		return nil, err
	}
	spaces, err := shareable(c, row, guids)
	if err != nil {
		return nil, err
	}
	for _, sp := range spaces {
		if !slices.Contains(row.sharedWith, sp) {
			row.sharedWith = append(slices.Clone(row.sharedWith), sp)
		}
	}
	return sharedSpaces(c, row, nil), nil
}

// shareable returns the spaces of a request when all of them can have the instance, and what the Cloud Controller says
// when one cannot.
func shareable(c *call, row *instance, guids []string) ([]*space, error) {
	spaces, err := sharingSpaces(c, row, guids)
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
		other := c.database.instances.named(sp, row.name)
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

// sharingSpaces finds the spaces of a request to share; those that the caller cannot see, or not change, are named all
// at once.
func sharingSpaces(c *call, row *instance, guids []string) ([]*space, error) {
	var found []*space
	var unseen, unwritable []string
	for _, guid := range guids {
		sp := c.database.spaceByGUID[guid]
		switch {
		case sp == nil:
			unseen = append(unseen, "'"+guid+"'")
		case c.writable(sp) != nil:
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
func unshareInstance(c *call) (*answer, error) {
	row, err := c.instanceToChange()
	if err != nil {
		return nil, err
	}
	sp := c.database.spaceByGUID[c.second]
	if sp == nil {
		return nil, unprocessable("Unable to unshare service instance from space " + c.second + ". Ensure the space exists.")
	}
	row.unshare(sp)
	return newAnswer(http.StatusNoContent, "", nil), nil
}

// getUsageSummary counts the applications that use an instance where it is shared: there are none.
func getUsageSummary(c *call) (*answer, error) {
	row, err := c.instance()
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
	}}), nil
}

// share takes spaces as "ORG/SPACE" and shares an instance with these and no others; a space is made where it is
// missing.
func share(c *controlCall, row *instance, places []string) error {
	var with []*space
	for _, place := range places {
		sp, err := c.spaceOrNew(place)
		if err != nil {
			return err
		}
		if other := c.database.instances.named(sp, row.name); sp == row.space || other != nil && other != row {
			return refusedControl(http.StatusConflict, "The space %q has an instance %q already.", place, row.name)
		}
		with = append(with, sp)
	}
	row.sharedWith = with
	return nil
}
