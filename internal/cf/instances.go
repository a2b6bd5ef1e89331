package cf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const (
	instancesRoute = "/v3/service_instances"
	instanceRoute  = "/v3/service_instances/:guid"
)

func instancePath(guid string) string { return instancesRoute + "/" + url.PathEscape(guid) }

// instanceRow is an instance as the API shows it. go-cfclient's type fails as a whole on
// a date or a tag that is not as documented.
type instanceRow struct {
	identity
	Name          string             `json:"name"`
	LastOperation *lastOperation     `json:"last_operation"`
	Metadata      *resource.Metadata `json:"metadata"`
	Relationships struct {
		Space       *resource.ToOneRelationship `json:"space"`
		ServicePlan *resource.ToOneRelationship `json:"service_plan"`
	} `json:"relationships"`
	DashboardURL    optional[string]             `json:"dashboard_url"`
	MaintenanceInfo optional[maintenanceVersion] `json:"maintenance_info"`
	Provided        optional[provided]           `json:"broker_provided_metadata"`
}

// provided are labels and attributes that the backing broker gave the instance.
type provided struct {
	Labels     map[string]string `json:"labels"`
	Attributes map[string]string `json:"attributes"`
}

func (i instanceRow) facts() facts {
	return facts{guid: i.GUID, metadata: i.Metadata, last: i.LastOperation}
}

// FindInstances returns every instance of this name in the org, and those with these
// GUIDs. Databases that ignore case find too much, so the name is compared again. It takes
// one call, one more when a GUID is not among what has the name, and another one or more
// when nothing of ours is left (see seen).
func (b *Backend) FindInstances(ctx context.Context, name string, guids ...string) (broker.Look, error) {
	name = Name(name)
	look, err := b.newLook(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	rows, err := b.instances(ctx, "find instances named "+strconv.Quote(name),
		url.Values{"names": {list(name)}, "per_page": {"200"}})
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

// FindInstance returns the instance with this GUID, or an empty Look. It takes one
// call; a look that finds nothing takes one more, or two (see seen).
func (b *Backend) FindInstance(ctx context.Context, guid string) (broker.Look, error) {
	look, err := b.newLook(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	row, header, err := b.instance(ctx, guid)
	switch {
	case isAbsent(err):
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
	row.DashboardURL = i.DashboardURL.value
	if plan := i.Relationships.ServicePlan; plan != nil && plan.Data != nil {
		row.PlanGUID = plan.Data.GUID
	}
	row.MaintenanceVersion = i.MaintenanceInfo.value.Version
	if p := i.Provided.value; len(p.Labels)+len(p.Attributes) > 0 {
		row.Provided = &lifecycle.Provided{Labels: p.Labels, Attributes: p.Attributes}
	}
	return row
}

func (b *Backend) instance(ctx context.Context, guid string) (instanceRow, http.Header, error) {
	r := request{
		method: http.MethodGet, path: instancePath(guid), route: instanceRoute,
		what: "get instance " + strconv.Quote(guid),
	}
	var row instanceRow
	header, err := b.get(ctx, r, &row)
	if err == nil && row.GUID != guid {
		err = &Error{Call: r.what, Err: errors.New("the answer is not the instance")}
	}
	return row, header, err
}

// get reads one resource.
func (b *Backend) get(ctx context.Context, r request, into any) (http.Header, error) {
	answer, err := b.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer.body, into); err != nil {
		return nil, &Error{Call: r.what, Status: answer.status, Err: withoutValue(err)}
	}
	return answer.header, nil
}
