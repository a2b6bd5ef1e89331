package cfsim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// instance is a row of service_instances.
type instance struct {
	sequence    int64
	guid, name  string
	space       *space
	plan        *plan
	tags        []string
	metadata    metadata
	maintenance string // version
	last        lastOperation
	created     time.Time
	updated     time.Time
	received    json.RawMessage // parameters that the backing broker last got
	applied     json.RawMessage // parameters that it last accepted
	keys        []*key
	job         *job // the latest, nil when it has none or the job is gone
	forced      int  // how often the control set its state
	dashboard   *string
	deletion    *job      // of the latest delete
	deleted     time.Time // when a delete was asked for (Korifi)
	sharedWith  []*space
}

// Kinds and states of last operations.
const (
	kindCreate = "create"
	kindUpdate = "update"
	kindDelete = "delete"

	stateInitial    = "initial"
	stateInProgress = "in progress"
	stateSucceeded  = "succeeded"
	stateFailed     = "failed"
)

// lastOperation of an instance or key. It is written anew at every step, so that created says when it was last written,
// as in the Cloud Controller.
type lastOperation struct {
	kind, state, description string
	written                  time.Time
}

func (l lastOperation) is(kind, state string) bool { return l.kind == kind && l.state == state }

// running tells whether an operation is under way.
func (l lastOperation) running() bool { return l.state == stateInitial || l.state == stateInProgress }

// blank tells that there was no operation yet, or none that is known.
func (l lastOperation) blank() bool { return l.kind == "" }

func (i *instance) sortKeys() sortKeys { return sortKeys{i.name, i.updated} }

func (i *instance) call(operation string) brokerCall {
	return brokerCall{org: i.space.organization.name, instance: i.name, operation: operation}
}

// setDashboard takes "" for none.
func (i *instance) setDashboard(url string) {
	i.dashboard = nil
	if url != "" {
		i.dashboard = &url
	}
}

// instanceName is what is unique.
type instanceName struct {
	space *space
	name  string
}

// instanceTable holds instances in order of creation, with the indexes that make look-ups cheap however many there are.
type instanceTable struct {
	names   collation
	ordered []*instance
	byGUID  map[string]*instance
	byName  map[string][]*instance // of all spaces, by the name's collation
	taken   map[instanceName]*instance
}

func newInstanceTable(names collation) instanceTable {
	return instanceTable{
		names:  names,
		byGUID: map[string]*instance{},
		byName: map[string][]*instance{},
		taken:  map[instanceName]*instance{},
	}
}

func (t *instanceTable) get(guid string) *instance { return t.byGUID[guid] }

func (t *instanceTable) named(sp *space, name string) *instance {
	if i := t.taken[instanceName{sp, t.names(name)}]; i != nil {
		return i
	}
	return t.sharedInto(sp, name)
}

// sharedInto returns an instance of another space that is shared with sp.
func (t *instanceTable) sharedInto(sp *space, name string) *instance {
	for _, i := range t.byName[t.names(name)] {
		if slices.Contains(i.sharedWith, sp) {
			return i
		}
	}
	return nil
}

// free tells whether a row may have a name in its space and in those that it is shared with.
func (t *instanceTable) free(row *instance, name string) bool {
	return !slices.ContainsFunc(append([]*space{row.space}, row.sharedWith...), func(sp *space) bool {
		other := t.named(sp, name)
		return other != nil && other != row
	})
}

func (t *instanceTable) add(i *instance) {
	t.ordered = append(t.ordered, i)
	t.byGUID[i.guid] = i
	t.index(i)
	i.plan.instances++
}

func (t *instanceTable) index(i *instance) {
	name := t.names(i.name)
	t.byName[name] = append(t.byName[name], i)
	t.taken[instanceName{i.space, name}] = i
}

func (t *instanceTable) unindex(i *instance) {
	name := t.names(i.name)
	rest := slices.DeleteFunc(t.byName[name], func(other *instance) bool { return other == i })
	t.byName[name] = rest
	if len(rest) == 0 {
		delete(t.byName, name)
	}
	delete(t.taken, instanceName{i.space, name})
}

func (t *instanceTable) remove(i *instance) {
	at, found := slices.BinarySearchFunc(t.ordered, i.sequence, func(other *instance, sequence int64) int {
		return cmp.Compare(other.sequence, sequence)
	})
	if found {
		t.ordered = slices.Delete(t.ordered, at, at+1)
	}
	delete(t.byGUID, i.guid)
	t.unindex(i)
	i.plan.instances--
}

func (t *instanceTable) rename(i *instance, name string) {
	t.unindex(i)
	i.name = name
	t.index(i)
}

func (t *instanceTable) changePlan(i *instance, p *plan) {
	i.plan.instances--
	i.plan = p
	p.instances++
}

// candidates narrows a search by names or GUIDs down without a scan.
func (t *instanceTable) candidates(names, guids []string) []*instance {
	if names == nil && guids == nil {
		return t.ordered
	}
	var found []*instance
	for _, guid := range guids {
		if i := t.byGUID[guid]; i != nil {
			found = append(found, i)
		}
	}
	if guids == nil {
		for _, name := range names {
			found = append(found, t.byName[t.names(name)]...)
		}
	}
	slices.SortFunc(found, func(a, b *instance) int { return cmp.Compare(a.sequence, b.sequence) })
	return slices.Compact(found)
}

// removeInstance drops a row with its keys.
func (db *database) removeInstance(i *instance) {
	for _, k := range i.keys {
		delete(db.keys, k.guid)
	}
	i.keys = nil
	db.instances.remove(i)
}

func (db *database) instancesIn(sp *space) []*instance {
	return passing(db.instances.ordered, func(row *instance) bool { return row.space == sp })
}

// present tells whether the row is still in the table.
func (db *database) present(i *instance) bool { return db.instances.byGUID[i.guid] == i }

type instanceView struct {
	GUID             string            `json:"guid"`
	CreatedAt        string            `json:"created_at"`
	UpdatedAt        string            `json:"updated_at"`
	Name             string            `json:"name"`
	Tags             []string          `json:"tags"`
	LastOperation    any               `json:"last_operation"`
	Type             string            `json:"type"`
	MaintenanceInfo  any               `json:"maintenance_info"`
	UpgradeAvailable bool              `json:"upgrade_available"`
	DashboardURL     any               `json:"dashboard_url,omitempty"` // a *string that may be null, or not there at all
	Relationships    instanceRelations `json:"relationships"`
	Metadata         metadata          `json:"metadata"`
	Links            instanceLinks     `json:"links"`
}

type instanceRelations struct {
	Space       toOne `json:"space"`
	ServicePlan toOne `json:"service_plan"`
}

type instanceLinks struct {
	Self                      link `json:"self"`
	Space                     link `json:"space"`
	ServiceCredentialBindings link `json:"service_credential_bindings"`
	ServiceRouteBindings      link `json:"service_route_bindings"`
	ServicePlan               link `json:"service_plan"`
	Parameters                link `json:"parameters"`
	SharedSpaces              link `json:"shared_spaces"`
}

type lastOperationView struct {
	Type        string  `json:"type"`
	State       string  `json:"state"`
	Description *string `json:"description"`
	UpdatedAt   string  `json:"updated_at"`
	CreatedAt   string  `json:"created_at"`
}

func (i *instance) view(c *call) instanceView {
	self := c.base + "/v3/service_instances/" + i.guid
	v := instanceView{
		GUID: i.guid, CreatedAt: timestamp(i.created), UpdatedAt: timestamp(i.updated),
		Name: i.name, Tags: orNone(i.tags), LastOperation: i.last.viewOn(c.options), Type: "managed",
		MaintenanceInfo:  maintenanceOn(c.options, i.maintenance),
		UpgradeAvailable: i.plan.spec.version != "" && i.plan.spec.version != i.maintenance,
		Relationships:    instanceRelations{related(i.space.guid), related(i.plan.guid)},
		Metadata:         i.metadata,
		Links: instanceLinks{
			Self:                      link{Href: self},
			Space:                     link{Href: c.base + "/v3/spaces/" + i.space.guid},
			ServiceCredentialBindings: link{Href: c.base + "/v3/service_credential_bindings?service_instance_guids=" + i.guid},
			ServiceRouteBindings:      link{Href: c.base + "/v3/service_route_bindings?service_instance_guids=" + i.guid},
			ServicePlan:               link{Href: c.base + "/v3/service_plans/" + i.plan.guid},
			Parameters:                link{Href: self + "/parameters"},
			SharedSpaces:              link{Href: self + "/relationships/shared_spaces"},
		},
	}
	if !c.options.Korifi {
		v.DashboardURL = i.dashboard
	}
	return v
}

// viewOn is what the API shows of the last operation of an instance. A Cloud Controller has nothing to show where there
// was none; Korifi shows empty words.
func (l lastOperation) viewOn(o Options) any {
	if l.blank() && !o.Korifi {
		return struct{}{}
	}
	return l.view()
}

func (l lastOperation) view() lastOperationView {
	at := timestamp(l.written)
	v := lastOperationView{Type: l.kind, State: l.state, CreatedAt: at, UpdatedAt: at}
	if l.description != "" {
		v.Description = &l.description
	}
	return v
}

// instance returns the row of a request that its caller may read.
func (c *call) instance() (*instance, error) {
	i := c.database.instances.get(c.guid)
	if i == nil || !c.readable() {
		return nil, notFound("Service instance")
	}
	return i, nil
}

// instanceToChange returns the row of a request that its caller may change.
func (c *call) instanceToChange() (*instance, error) {
	i, err := c.instance()
	if err != nil {
		return nil, err
	}
	return i, c.writable(i.space)
}

func getInstance(c *call) (*answer, error) {
	rules := instanceListFields.withoutRelationships()
	c.query.allow(rules.params()...)
	extra := includingFields(c.query.fields(rules))
	if err := c.query.problem(); err != nil {
		return nil, err
	}
	i, err := c.instance()
	if err != nil {
		return nil, err
	}
	body := struct {
		instanceView
		Included map[string]any `json:"included,omitempty"`
	}{instanceView: i.view(c)}
	if extra != nil {
		body.Included = extra([]*instance{i})
	}
	return jsonAnswer(http.StatusOK, body), nil
}

// getInstanceParameters asks the backing broker while the caller waits.
func getInstanceParameters(c *call) (*answer, error) {
	i, err := c.instance()
	switch {
	case err != nil:
		return nil, err
	case i.last.is(kindCreate, stateFailed):
		return nil, notFound("Service instance")
	case !i.plan.offering.spec.retrievable:
		return nil, failure(http.StatusBadRequest, 120004, "CF-ServiceFetchInstanceParametersNotSupported", "This service does not support fetching service instance parameters.")
	case i.last.running():
		return nil, &apiError{status: http.StatusConflict, cfError: instanceBusy(i.name)}
	}
	return c.fetch(i.call(fetchInstance), i.applied)
}

func listInstances(c *call) (*answer, error) {
	q := &c.query
	params := slices.Concat([]string{"names", "guids", "type", "space_guids", "organization_guids", "service_plan_guids", "service_plan_names",
		"label_selector", "page", "per_page", "order_by"}, instanceListFields.params(), timeParams)
	q.allow(c.exceptOnKorifi(params, "organization_guids", "service_plan_names")...)
	extra := includingFields(q.fields(instanceListFields))
	wanted := instanceFilter(c)
	found := passing(c.database.instances.candidates(q.wanted("names"), q.wanted("guids")), func(i *instance) bool { return c.readable() && wanted(i) })
	return listed(c, found, (*instance).view, extra)
}

func instanceFilter(c *call) func(*instance) bool {
	q, compared := &c.query, c.database.names
	names, guids := q.wanted("names"), q.wanted("guids")
	spaces, orgs := q.wanted("space_guids"), q.wanted("organization_guids")
	plans, planNames := q.wanted("service_plan_guids"), q.wanted("service_plan_names")
	labels, inTime := q.selector(), q.timeFilter()
	kinds := q.oneOf("type", "'managed', 'user-provided'", "managed", "user-provided")
	return func(i *instance) bool {
		return compared.rows.passes(names, i.name) && passes(guids, i.guid) && passes(kinds, "managed") &&
			i.inPlaces(spaces, orgs) && inTime(i.created, i.updated) &&
			passes(plans, i.plan.guid) && compared.places.passes(planNames, i.plan.spec.name) &&
			labels.matches(i.metadata.Labels)
	}
}
