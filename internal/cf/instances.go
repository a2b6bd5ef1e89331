package cf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
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

// instanceRow is an instance as the API shows it.
type instanceRow struct {
	resource.ServiceInstance
	LastOperation *lastOperation `json:"last_operation"`
	// Provided is not in go-cfclient's type.
	Provided *provided `json:"broker_provided_metadata"`
}

// provided are labels and attributes that the backing broker gave the instance.
type provided struct {
	Labels     map[string]string `json:"labels"`
	Attributes map[string]string `json:"attributes"`
}

func (i instanceRow) facts() facts {
	return facts{guid: i.GUID, metadata: i.Metadata, last: i.LastOperation}
}

// FindInstances returns every instance of this name in the org. The filter by org
// also finds what other orgs share into it; those rows are left out. Databases that
// ignore case find too much as well, so the name is compared again.
func (b *Backend) FindInstances(ctx context.Context, name string) (broker.Look, error) {
	org, err := b.org(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	name = Name(name)
	r := request{
		path: instancesRoute, what: "find instances named " + strconv.Quote(name),
		query: url.Values{
			"names": {list(name)}, "organization_guids": {org}, "per_page": {"200"},
			"fields[space]": {"guid,relationships.organization"},
		},
	}
	look := broker.Look{Began: b.config.Now()}
	err = pages(ctx, b, r, func(p page[instanceRow]) {
		foreign := foreignSpaces(p.Included.Spaces, org)
		for _, i := range p.Resources {
			if i.Name == name && !foreign[spaceOf(i)] {
				look.Rows = append(look.Rows, b.instanceRow(i, p.header))
			}
		}
	})
	if err != nil {
		return broker.Look{}, err
	}
	return look, nil
}

// foreignSpaces returns the spaces of other orgs. One whose org is not told counts
// as ours: a row too many is judged by its marks, a row too few would be absence.
func foreignSpaces(spaces []resource.Space, org string) map[string]bool {
	foreign := map[string]bool{}
	for _, s := range spaces {
		if s.Relationships == nil || s.Relationships.Organization == nil || s.Relationships.Organization.Data == nil {
			continue
		}
		foreign[s.GUID] = s.Relationships.Organization.Data.GUID != org
	}
	return foreign
}

func spaceOf(i instanceRow) string {
	if i.Relationships.Space == nil || i.Relationships.Space.Data == nil {
		return ""
	}
	return i.Relationships.Space.Data.GUID
}

// FindInstance returns the instance with this GUID, or an empty Look.
func (b *Backend) FindInstance(ctx context.Context, guid string) (broker.Look, error) {
	look := broker.Look{Began: b.config.Now()}
	row, header, err := b.instance(ctx, guid)
	switch {
	case isAbsent(err):
		return look, nil
	case err != nil:
		return broker.Look{}, err
	}
	look.Rows = []broker.Row{b.instanceRow(row, header)}
	return look, nil
}

// instanceRow returns the row with what the backing broker said of the instance.
func (b *Backend) instanceRow(i instanceRow, header http.Header) broker.Row {
	row := b.row(i.facts(), header)
	if i.DashboardURL != nil {
		row.DashboardURL = *i.DashboardURL
	}
	if p := i.Provided; p != nil && len(p.Labels)+len(p.Attributes) > 0 {
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
