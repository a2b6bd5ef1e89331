package cfsim

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

type pagination struct {
	TotalResults int   `json:"total_results"`
	TotalPages   int   `json:"total_pages"`
	First        link  `json:"first"`
	Last         link  `json:"last"`
	Next         *link `json:"next"`
	Previous     *link `json:"previous"`
}

type listBody[V any] struct {
	Pagination pagination     `json:"pagination"`
	Resources  []V            `json:"resources"`
	Included   map[string]any `json:"included,omitempty"`
}

// row is what a list is made of.
type row interface {
	sortKeys() sortKeys
}

// sortKeys are what rows can be ordered by beside their creation.
type sortKeys struct {
	name    string
	updated time.Time
}

// including renders what a request wants to have beside rows; nil is nothing.
type including[R any] func(rows []R) map[string]any

// passing returns a slice of its own with the rows that are wanted.
func passing[R any](rows []R, wanted func(R) bool) []R {
	var found []R
	for _, row := range rows {
		if wanted(row) {
			found = append(found, row)
		}
	}
	return found
}

// listed answers with one page of rows, which come in order of creation and are the caller's own slice, or with the
// first thing that is wrong with the query.
func listed[R row, V any](c *call, rows []R, view func(R, *call) V, extra including[R]) (*answer, error) {
	p := c.query.page()
	order(&c.query, rows)
	if err := c.query.problem(); err != nil {
		return nil, err
	}
	from := min((p.number-1)*p.size, len(rows))
	visible := rows[from:min(from+p.size, len(rows))]
	body := listBody[V]{Pagination: c.pagination(p, len(rows)), Resources: make([]V, 0, len(visible))}
	for _, row := range visible {
		body.Resources = append(body.Resources, view(row, c))
	}
	if extra != nil {
		body.Included = extra(visible)
	}
	return jsonAnswer(http.StatusOK, body), nil
}

// order applies order_by to rows that are in order of creation.
func order[R row](q *query, rows []R) {
	if !q.Has("order_by") {
		return
	}
	asked := q.Get("order_by")
	switch strings.TrimLeft(asked, "+- ") { // a plus sign that was not encoded is a blank
	case "created_at":
	case "updated_at":
		slices.SortStableFunc(rows, func(a, b R) int { return a.sortKeys().updated.Compare(b.sortKeys().updated) })
	case "name":
		slices.SortStableFunc(rows, func(a, b R) int { return cmp.Compare(a.sortKeys().name, b.sortKeys().name) })
	default:
		q.refuse("Order by can only be: 'created_at', 'updated_at', 'name'")
	}
	if strings.HasPrefix(asked, "-") {
		slices.Reverse(rows)
	}
}

func (c *call) pagination(p page, total int) pagination {
	last := max(1, (total+p.size-1)/p.size)
	result := pagination{
		TotalResults: total, TotalPages: last,
		First: c.pageLink(1, p.size), Last: c.pageLink(last, p.size),
	}
	if p.number < last {
		next := c.pageLink(p.number+1, p.size)
		result.Next = &next
	}
	if p.number > 1 {
		previous := c.pageLink(p.number-1, p.size)
		result.Previous = &previous
	}
	return result
}

func (c *call) pageLink(number, size int) link {
	query := c.request.URL.Query()
	query.Set("page", strconv.Itoa(number))
	query.Set("per_page", strconv.Itoa(size))
	return link{Href: c.base + c.request.URL.Path + "?" + query.Encode()}
}

// distinct renders what rows refer to, each once, in order of appearance.
func distinct[R any, O comparable, V any](rows []R, refer func(R) O, view func(O) V) []V {
	seen := map[O]bool{}
	views := []V{}
	for _, row := range rows {
		if o := refer(row); !seen[o] {
			seen[o] = true
			views = append(views, view(o))
		}
	}
	return views
}

// fieldRules are the resources that fields[RESOURCE] may ask for, and which fields of each.
type fieldRules map[string][]string

// instanceListFields are those of the list of instances.
var instanceListFields = fieldRules{
	"space":                         {"guid", "name", "relationships.organization"},
	"space.organization":            {"guid", "name"},
	"service_plan":                  {"guid", "name", "relationships.service_offering"},
	"service_plan.service_offering": {"guid", "name", "description", "documentation_url", "tags", "relationships.service_broker"},
	"service_plan.service_offering.service_broker": {"guid", "name"},
}

// withoutRelationships is what a single instance has of the fields of a list.
func (r fieldRules) withoutRelationships() fieldRules {
	result := fieldRules{}
	for resource, names := range r {
		result[resource] = passing(names, func(name string) bool { return !strings.HasPrefix(name, "relationships.") })
	}
	return result
}

// params are the query parameters that the rules make valid.
func (r fieldRules) params() []string {
	var names []string
	for resource := range r {
		names = append(names, "fields["+resource+"]")
	}
	slices.Sort(names)
	return names
}

// fields returns the fields that were asked for, by resource.
func (q *query) fields(rules fieldRules) map[string][]string {
	asked := map[string][]string{}
	for resource, valid := range rules {
		names := q.wanted("fields[" + resource + "]")
		for _, name := range names {
			if !slices.Contains(valid, name) {
				q.refuse("Fields valid keys for '" + resource + "' are: '" + strings.Join(valid, "', '") + "'")
			}
		}
		if names != nil {
			asked[resource] = names
		}
	}
	return asked
}

// includeFields puts the named fields of what rows refer to into a collection; without names there is nothing to put.
func includeFields[R any, O comparable](into map[string]any, collection string, names []string, rows []R, refer func(R) O, fields func(O) map[string]any) {
	if names != nil {
		into[collection] = distinct(rows, refer, func(o O) map[string]any { return selected(names, fields(o)) })
	}
}

// selected returns the named fields of a resource; "relationships.x" is put where it belongs.
func selected(names []string, resource map[string]any) map[string]any {
	result := map[string]any{}
	for _, name := range names {
		if relation, nested := strings.CutPrefix(name, "relationships."); nested {
			result["relationships"] = map[string]any{relation: resource[name]}
			continue
		}
		result[name] = resource[name]
	}
	return result
}

// includingBroker reads the fields parameter for the service broker of offerings and plans.
func includingBroker[R any](q *query, resource string) including[R] {
	names := q.fields(fieldRules{resource: {"guid", "name"}})[resource]
	if names == nil {
		return nil
	}
	return func(rows []R) map[string]any {
		result := map[string]any{}
		includeFields(result, "service_brokers", names, rows, func(R) string { return brokerName }, brokerFields)
		return result
	}
}

// includingFields renders the resources around instances that were asked for, each once.
func includingFields(asked map[string][]string) including[*instance] {
	if len(asked) == 0 {
		return nil
	}
	return func(rows []*instance) map[string]any {
		result := map[string]any{}
		includeFields(result, "spaces", asked["space"], rows, func(i *instance) *space { return i.space }, (*space).fields)
		includeFields(result, "organizations", asked["space.organization"], rows, func(i *instance) *organization { return i.space.organization }, (*organization).fields)
		includeFields(result, "service_plans", asked["service_plan"], rows, func(i *instance) *plan { return i.plan }, (*plan).fields)
		includeFields(result, "service_offerings", asked["service_plan.service_offering"], rows, func(i *instance) *offering { return i.plan.offering }, (*offering).fields)
		includeFields(result, "service_brokers", asked["service_plan.service_offering.service_broker"], rows, func(*instance) string { return brokerName }, brokerFields)
		return result
	}
}

func (sp *space) fields() map[string]any {
	return map[string]any{"guid": sp.guid, "name": sp.name, "relationships.organization": related(sp.organization.guid)}
}

func (o *organization) fields() map[string]any {
	return map[string]any{"guid": o.guid, "name": o.name}
}

func (p *plan) fields() map[string]any {
	return map[string]any{"guid": p.guid, "name": p.spec.name, "relationships.service_offering": related(p.offering.guid)}
}

func (o *offering) fields() map[string]any {
	return map[string]any{
		"guid": o.guid, "name": o.spec.name, "description": o.spec.description, "documentation_url": "",
		"tags": orNone(o.spec.tags), "relationships.service_broker": related(brokerGUID()),
	}
}

func brokerFields(string) map[string]any {
	return map[string]any{"guid": brokerGUID(), "name": brokerName}
}
