package cf

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const (
	instancesRoute = "/v3/service_instances"
	instanceRoute  = "/v3/service_instances/:guid"
)

func instancePath(guid string) string { return instancesRoute + "/" + url.PathEscape(guid) }

// instanceRow is an instance as the API shows it. go-cfclient's type fails as a whole on a date or a tag that is not as
// documented.
type instanceRow struct {
	ccapi.Identity
	Name          string             `json:"name"`
	LastOperation *lastOperation     `json:"last_operation"`
	Metadata      *resource.Metadata `json:"metadata"`
	Relationships struct {
		Space       *resource.ToOneRelationship `json:"space"`
		ServicePlan *resource.ToOneRelationship `json:"service_plan"`
	} `json:"relationships"`
	DashboardURL    ccapi.Optional[string]             `json:"dashboard_url"`
	MaintenanceInfo ccapi.Optional[maintenanceVersion] `json:"maintenance_info"`
	Provided        ccapi.Optional[provided]           `json:"broker_provided_metadata"`
}

// provided are labels and attributes that the backing broker gave the instance.
type provided struct {
	Labels     map[string]string `json:"labels"`
	Attributes map[string]string `json:"attributes"`
}

func (i instanceRow) facts() facts {
	return facts{guid: i.GUID, metadata: i.Metadata, last: i.LastOperation}
}

// FindInstances returns every instance of this name in the org, and those with these GUIDs. Databases that ignore case
// find too much, so the name is compared again. It takes one call, one more when a GUID is not among what has the name,
// and another one or more when nothing of ours is left (see seen).
func (b *Backend) FindInstances(ctx context.Context, name string, guids ...string) (broker.Look, error) {
	name = Name(name)
	look, err := b.newLook(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	rows, err := b.instances(ctx, "find instances named "+strconv.Quote(name),
		url.Values{"names": {ccapi.Filter(name)}, "per_page": {"200"}})
	if err != nil {
		return broker.Look{}, err
	}
	missing := distinct(guids)
	keep := func(i found) {
		look.Rows = append(look.Rows, b.instanceRow(i.instanceRow, i.header))
		missing = slices.DeleteFunc(missing, func(guid string) bool { return guid == i.GUID })
	}
	for _, i := range rows {
		if i.Name == name || slices.Contains(guids, i.GUID) {
			keep(i)
		}
	}
	if len(missing) > 0 {
		if rows, err = b.instancesByGUID(ctx, missing); err != nil {
			return broker.Look{}, err
		}
		for _, i := range rows {
			if slices.Contains(missing, i.GUID) { // and not among the rows of the name
				keep(i)
			}
		}
	}
	return b.seen(ctx, look, guids)
}

// newLook begins a look-up: its time is that before its first call.
func (b *Backend) newLook(ctx context.Context) (broker.Look, error) {
	place, err := b.Place(ctx)
	return broker.Look{Began: b.config.Now(), Place: place}, err
}

// FindInstance returns the instance with this GUID, or an empty Look. It takes one call; a look that finds nothing
// takes one more, or two (see seen).
func (b *Backend) FindInstance(ctx context.Context, guid string) (broker.Look, error) {
	look, err := b.newLook(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	row, header, err := b.instance(ctx, guid)
	switch {
	case ccapi.IsAbsent(err):
		return b.seen(ctx, look, nil)
	case err != nil:
		return broker.Look{}, err
	}
	look.Rows = []broker.Row{b.instanceRow(row, header)}
	return look, nil
}

// instanceRow returns the row with what the backing broker said of the instance.
func (b *Backend) instanceRow(i instanceRow, header http.Header) broker.Row {
	row := b.row(i.facts(), header)
	row.DashboardURL = i.DashboardURL.Value
	if plan := i.Relationships.ServicePlan; plan != nil && plan.Data != nil {
		row.PlanGUID = plan.Data.GUID
	}
	row.MaintenanceVersion = i.MaintenanceInfo.Value.Version
	if p := i.Provided.Value; len(p.Labels)+len(p.Attributes) > 0 {
		row.Provided = &lifecycle.Provided{Labels: p.Labels, Attributes: p.Attributes}
	}
	return row
}

func (b *Backend) instance(ctx context.Context, guid string) (instanceRow, http.Header, error) {
	r := ccapi.Request{
		Method: http.MethodGet, Path: instancePath(guid), Route: instanceRoute,
		What: "get instance " + strconv.Quote(guid),
	}
	var row instanceRow
	header, err := b.api.Get(ctx, r, &row)
	if err == nil && row.GUID != guid {
		err = &ccapi.Error{Call: r.What, Err: errors.New("the answer is not the instance")}
	}
	return row, header, err
}

// maxFilter is how many characters of GUIDs one filter names: an address stays far below the 8 KB that proxies take.
const maxFilter = 3000

// found is a row of a list with the header of its page.
type found struct {
	instanceRow
	header http.Header
}

// instances returns the instances of our org that the filter lets through. What other orgs share into it is left out.
// It takes one call; where the API cannot filter by org (Korifi) one more for spaces that were not met before.
func (b *Backend) instances(ctx context.Context, what string, filter url.Values) ([]found, error) {
	org, err := b.org(ctx)
	if err != nil {
		return nil, err
	}
	if b.tongue.dialect() != korifi {
		list, err := b.instancesByOrg(ctx, what, filter, org)
		if !filterRefused(err) {
			return list, err
		}
		// Whoever refuses these filters; Korifi is known by one of them alone.
		if _, err := b.dialect(ctx); err != nil {
			return nil, err
		}
	}
	return b.instancesBySpace(ctx, what, filter, org)
}

func (b *Backend) instancesByOrg(ctx context.Context, what string, filter url.Values, org string) ([]found, error) {
	r := ccapi.Request{Path: instancesRoute, What: what, Query: maps.Clone(filter)}
	r.Query.Set("organization_guids", org)
	r.Query.Set("fields[space]", "guid,relationships.organization")
	var list []found
	err := ccapi.Pages(ctx, b.api, r, func(p ccapi.Page[instanceRow]) error {
		var included struct {
			Spaces []spaceRow `json:"spaces"`
		}
		if err := p.DecodeIncluded(&included); err != nil {
			return err
		}
		foreign := b.placed(included.Spaces, org)
		for _, i := range p.Resources {
			if !foreign[spaceOf(i)] {
				list = append(list, found{i, p.Header})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.tongue.learn(classic)
	return list, nil
}

func (b *Backend) instancesBySpace(ctx context.Context, what string, filter url.Values, org string) ([]found, error) {
	var list []found
	err := ccapi.Pages(ctx, b.api, ccapi.Request{Path: instancesRoute, What: what, Query: maps.Clone(filter)}, func(p ccapi.Page[instanceRow]) error {
		for _, i := range p.Resources {
			list = append(list, found{i, p.Header})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b.withoutForeign(ctx, list, org)
}

// instancesByGUID returns those of the instances that are there. It takes one call, and on Korifi, which names no
// filter for it, one for each.
func (b *Backend) instancesByGUID(ctx context.Context, guids []string) ([]found, error) {
	var rows []found
	if b.tongue.dialect() != korifi {
		for _, part := range filters(guids) {
			some, err := b.instances(ctx, "find instances by GUID", url.Values{"guids": {ccapi.Filter(part...)}, "per_page": {"200"}})
			if err != nil {
				return nil, err
			}
			rows = append(rows, some...)
		}
		return rows, nil
	}
	for _, guid := range guids {
		switch row, header, err := b.instance(ctx, guid); {
		case err == nil:
			rows = append(rows, found{row, header})
		case !ccapi.IsAbsent(err):
			return nil, err
		}
	}
	org, err := b.org(ctx)
	if err != nil {
		return nil, err
	}
	return b.withoutForeign(ctx, rows, org)
}

// distinct returns the GUIDs, each once; an empty one, which a filter would take for all, is none.
func distinct(guids []string) (each []string) {
	for _, guid := range guids {
		if guid != "" && !slices.Contains(each, guid) {
			each = append(each, guid)
		}
	}
	return each
}

// filters cuts GUIDs into lists that are short enough for the filter of one address.
func filters(guids []string) (cut [][]string) {
	length := 0
	for _, guid := range guids {
		length += len(guid)
		if len(cut) == 0 || length > maxFilter {
			cut, length = append(cut, nil), len(guid)
		}
		cut[len(cut)-1] = append(cut[len(cut)-1], guid)
	}
	return cut
}

// withoutForeign leaves out what is in spaces of other orgs.
func (b *Backend) withoutForeign(ctx context.Context, list []found, org string) ([]found, error) {
	foreign, err := b.foreignSpaces(ctx, list, org)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(f found) bool { return foreign[spaceOf(f.instanceRow)] }), nil
}

// foreignSpaces asks for the spaces of the rows that are not known to be ours.
func (b *Backend) foreignSpaces(ctx context.Context, rows []found, org string) (map[string]bool, error) {
	known := b.places.known()
	asked := map[string]bool{}
	for _, f := range rows {
		if guid := spaceOf(f.instanceRow); guid != "" && !known[guid] {
			asked[guid] = true
		}
	}
	foreign := map[string]bool{}
	for _, guids := range filters(slices.Sorted(maps.Keys(asked))) {
		r := ccapi.Request{
			Path: "/v3/spaces", What: "find spaces of instances",
			Query: url.Values{"guids": {ccapi.Filter(guids...)}, "per_page": {"200"}},
		}
		spaces, err := ccapi.List[spaceRow](ctx, b.api, r)
		if err != nil {
			return nil, err
		}
		maps.Copy(foreign, b.placed(spaces, org))
	}
	return foreign, nil
}

// placed remembers which of the spaces are ours and returns those of other orgs. One whose org is not told counts as
// ours: a row too many is judged by its marks, a row too few would be absence.
func (b *Backend) placed(spaces []spaceRow, org string) (foreign map[string]bool) {
	foreign = map[string]bool{}
	for _, s := range spaces {
		if s.Relationships.Organization == nil || s.Relationships.Organization.Data == nil {
			continue
		}
		if s.Relationships.Organization.Data.GUID == org {
			b.places.meet(s.GUID)
		} else {
			foreign[s.GUID] = true
		}
	}
	return foreign
}

func spaceOf(i instanceRow) string {
	if i.Relationships.Space == nil || i.Relationships.Space.Data == nil {
		return ""
	}
	return i.Relationships.Space.Data.GUID
}
