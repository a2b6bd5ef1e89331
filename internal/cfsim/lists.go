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

type page struct {
	number, size int
}

type listBody[V any] struct {
	Pagination pagination          `json:"pagination"`
	Resources  []V                 `json:"resources"`
	Included   map[string]included `json:"included,omitempty"`
}

// included is what a list carries beside its resources.
type included any

func (c *call) page() (page, error) {
	p := page{number: 1, size: 50}
	if c.query.Has("page") {
		n, err := strconv.Atoi(c.query.Get("page"))
		if err != nil || n < 1 {
			return p, badQuery("Page must be a positive integer")
		}
		p.number = n
	}
	if c.query.Has("per_page") {
		n, err := strconv.Atoi(c.query.Get("per_page"))
		if err != nil || n < 1 || n > 5000 {
			return p, badQuery("Per page must be between 1 and 5000")
		}
		p.size = n
	}
	return p, nil
}

// cut returns the rows on page p.
func cut[R any](rows []R, p page) []R {
	from := min((p.number-1)*p.size, len(rows))
	to := min(from+p.size, len(rows))
	return rows[from:to]
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

// takePage renders one page of rows, which come in order of creation and are
// the caller's own slice. by is what they can be ordered by; extra may be nil.
func takePage[R, V any](c *call, rows []R, by func(R) sortKeys, render func(R) V, extra func([]R) map[string]included) (*listPage[V], error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	if err := order(c, rows, by); err != nil {
		return nil, err
	}
	visible := cut(rows, p)
	list := &listPage[V]{listBody[V]{Pagination: c.pagination(p, len(rows)), Resources: make([]V, 0, len(visible))}}
	for _, row := range visible {
		list.body.Resources = append(list.body.Resources, render(row))
	}
	if extra != nil {
		list.body.Included = extra(visible)
	}
	return list, nil
}

// listPage is a page that was taken from the model and is yet to be encoded,
// which needs no lock.
type listPage[V any] struct {
	body listBody[V]
}

// listed answers with what read takes from the model while it is locked.
func listed[V any](s *Simulator, read func() (*listPage[V], error)) (*answer, error) {
	s.mu.Lock()
	list, err := read()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, list.body)
}

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

// sortKeys are what rows can be ordered by beside their creation.
type sortKeys struct {
	name    string
	updated time.Time
}

// order applies order_by to rows that are in order of creation.
func order[R any](c *call, rows []R, by func(R) sortKeys) error {
	if !c.query.Has("order_by") {
		return nil
	}
	asked := c.query.Get("order_by")
	switch strings.TrimLeft(asked, "+- ") { // a plus sign that was not encoded is a blank
	case "created_at":
	case "updated_at":
		slices.SortStableFunc(rows, func(a, b R) int { return by(a).updated.Compare(by(b).updated) })
	case "name":
		slices.SortStableFunc(rows, func(a, b R) int { return cmp.Compare(by(a).name, by(b).name) })
	default:
		return badQuery("Order by can only be: 'created_at', 'updated_at', 'name'")
	}
	if strings.HasPrefix(asked, "-") {
		slices.Reverse(rows)
	}
	return nil
}

// The fields[...] parameters and what each may ask for.
type fieldRules map[string][]string

// Fields of the list of instances; a single instance does not have the
// relationships.
func instanceListFields() fieldRules {
	return fieldRules{
		"space":              {"guid", "name", "relationships.organization"},
		"space.organization": {"guid", "name"},
		"service_plan":       {"guid", "name", "relationships.service_offering"},
		"service_plan.service_offering": {
			"guid", "name", "description", "documentation_url", "tags", "relationships.service_broker"},
		"service_plan.service_offering.service_broker": {"guid", "name"},
	}
}

func instanceFields() fieldRules {
	rules := instanceListFields()
	for resource, names := range rules {
		rules[resource] = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "relationships.") })
	}
	return rules
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

// fields returns what was asked for, by resource.
func (c *call) fields(rules fieldRules) (map[string][]string, error) {
	asked := map[string][]string{}
	for resource, valid := range rules {
		names := c.wanted("fields[" + resource + "]")
		for _, name := range names {
			if !slices.Contains(valid, name) {
				return nil, badQuery("Fields valid keys for '" + resource + "' are: '" + strings.Join(valid, "', '") + "'")
			}
		}
		if names != nil {
			asked[resource] = names
		}
	}
	return asked, nil
}

// includedBroker reads the fields parameter for the service broker of
// offerings and plans; the result is nil when it is not set.
func includedBroker[R any](c *call, resource string) (func([]R) map[string]included, error) {
	asked, err := c.fields(fieldRules{resource: {"guid", "name"}})
	if err != nil || asked[resource] == nil {
		return nil, err
	}
	return func(rows []R) map[string]included {
		brokers := []map[string]any{}
		if len(rows) > 0 {
			brokers = append(brokers, selected(asked[resource], brokerFields()))
		}
		return map[string]included{"service_brokers": brokers}
	}, nil
}

func brokerFields() map[string]any {
	return map[string]any{"guid": brokerGUID(), "name": brokerName}
}

// selected returns the named fields of a resource; "relationships.x" is put
// where it belongs.
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

// includedByInstances renders the resources around instances that were asked
// for, each once.
func includedByInstances(asked map[string][]string) func([]*instance) map[string]included {
	if len(asked) == 0 {
		return nil
	}
	return func(rows []*instance) map[string]included {
		result := map[string]included{}
		add := func(resource, collection string, refer func(*instance) any, render func(any) map[string]any) {
			if names := asked[resource]; names != nil {
				result[collection] = distinct(rows, refer, func(o any) map[string]any { return selected(names, render(o)) })
			}
		}
		add("space", "spaces", func(i *instance) any { return i.space }, spaceFields)
		add("space.organization", "organizations", func(i *instance) any { return i.space.organization }, organizationFields)
		add("service_plan", "service_plans", func(i *instance) any { return i.plan }, planFieldsOf)
		add("service_plan.service_offering", "service_offerings", func(i *instance) any { return i.plan.offering }, offeringFieldsOf)
		add("service_plan.service_offering.service_broker", "service_brokers", func(*instance) any { return brokerName }, func(any) map[string]any { return brokerFields() })
		return result
	}
}

func spaceFields(o any) map[string]any {
	sp := o.(*space)
	return map[string]any{"guid": sp.guid, "name": sp.name, "relationships.organization": related(sp.organization.guid)}
}

func organizationFields(o any) map[string]any {
	org := o.(*organization)
	return map[string]any{"guid": org.guid, "name": org.name}
}

func planFieldsOf(o any) map[string]any {
	p := o.(*plan)
	return map[string]any{"guid": p.guid, "name": p.spec.name, "relationships.service_offering": related(p.offering.guid)}
}

func offeringFieldsOf(value any) map[string]any {
	o := value.(*offering)
	return map[string]any{
		"guid": o.guid, "name": o.spec.name, "description": o.spec.description, "documentation_url": "",
		"tags": orNone(o.spec.tags), "relationships.service_broker": related(brokerGUID()),
	}
}
