package cfsim

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// offering is a row of the marketplace.
type offering struct {
	spec      *offeringSpec
	guid      string
	catalogID string
	plans     []*plan
	shareable bool // instances can be shared
}

// plan is a row of the marketplace.
type plan struct {
	spec      planSpec // a copy: the version changes
	offering  *offering
	guid      string
	catalogID string
	hidden    bool
	paid      bool
	orgs      []string // that see it; nil is everybody, empty nobody but operators
	instances int      // how many have this plan
}

func (o *offering) sortKeys() sortKeys { return sortKeys{name: o.spec.name} }

func (p *plan) sortKeys() sortKeys { return sortKeys{name: p.spec.name} }

// active tells whether the backing broker's catalog has the plan.
func (p *plan) active() bool { return !p.hidden }

// listed tells whether the Cloud Controller still has the row: one that has left the catalog stays while instances use
// it.
func (p *plan) listed() bool { return p.active() || p.instances > 0 }

func (p *plan) bindable() bool { return p.offering.spec.bindable && !p.spec.notBindable }

func (o *offering) active() bool { return slices.ContainsFunc(o.plans, (*plan).active) }

func (o *offering) listed() bool { return slices.ContainsFunc(o.plans, (*plan).listed) }

// marketplace are the rows made from the backing broker's catalog.
type marketplace struct {
	registrations int
	offerings     []*offering
	plans         map[string]*plan // by GUID
}

func newMarketplace() *marketplace {
	m := &marketplace{}
	for _, spec := range catalog() {
		o := &offering{spec: &spec, catalogID: fixedGUID("catalog service", spec.name)}
		for _, planSpec := range spec.plans {
			id := fixedGUID("catalog plan", spec.name+"/"+planSpec.name)
			o.plans = append(o.plans, &plan{spec: planSpec, offering: o, catalogID: id})
		}
		m.offerings = append(m.offerings, o)
	}
	m.register()
	return m
}

// register gives all rows GUIDs, which depend on names and on how many registrations there were before. Instances keep
// their plans.
func (m *marketplace) register() {
	suffix := ""
	if m.registrations > 0 {
		suffix = "#" + strconv.Itoa(m.registrations)
	}
	m.registrations++
	m.plans = map[string]*plan{}
	for _, o := range m.offerings {
		o.guid = fixedGUID("offering", o.spec.name+suffix)
		for _, p := range o.plans {
			p.guid = fixedGUID("plan", o.spec.name+"/"+p.spec.name+suffix)
			m.plans[p.guid] = p
		}
	}
}

// offering returns one by name, nil when there is none.
func (m *marketplace) offering(name string) *offering {
	for _, o := range m.offerings {
		if o.spec.name == name {
			return o
		}
	}
	return nil
}

// plan returns a plan by "offering/plan", nil when there is none.
func (m *marketplace) plan(name string) *plan {
	for _, p := range m.plans {
		if p.offering.spec.name+"/"+p.spec.name == name {
			return p
		}
	}
	return nil
}

// forgetInstances makes rows vanish that were only kept for instances.
func (m *marketplace) forgetInstances() {
	for _, p := range m.plans {
		p.instances = 0
	}
}

// brokerName is the one service broker that is registered.
const brokerName = "backing-broker"

func brokerGUID() string { return fixedGUID("service broker", brokerName) }

type offeringView struct {
	GUID             string           `json:"guid"`
	CreatedAt        string           `json:"created_at"`
	UpdatedAt        string           `json:"updated_at"`
	Name             string           `json:"name"`
	Description      string           `json:"description"`
	Available        bool             `json:"available"`
	Tags             []string         `json:"tags"`
	Requires         []string         `json:"requires"`
	Shareable        bool             `json:"shareable"`
	DocumentationURL string           `json:"documentation_url"`
	BrokerCatalog    offeringCatalog  `json:"broker_catalog"`
	Relationships    map[string]toOne `json:"relationships"`
	Metadata         metadata         `json:"metadata"`
	Links            map[string]link  `json:"links"`
}

type offeringCatalog struct {
	ID       string            `json:"id"`
	Metadata map[string]string `json:"metadata"`
	Features offeringFeatures  `json:"features"`
}

type offeringFeatures struct {
	PlanUpdateable       bool `json:"plan_updateable"`
	Bindable             bool `json:"bindable"`
	InstancesRetrievable bool `json:"instances_retrievable"`
	BindingsRetrievable  bool `json:"bindings_retrievable"`
	AllowContextUpdates  bool `json:"allow_context_updates"`
}

func (o *offering) view(c *call) offeringView {
	created := timestamp(c.database.started)
	return offeringView{
		GUID: o.guid, CreatedAt: created, UpdatedAt: created,
		Name: o.spec.name, Description: o.spec.description, Available: o.active(), Shareable: o.shareable,
		Tags: orNone(o.spec.tags), Requires: orNone(o.spec.requires),
		BrokerCatalog: offeringCatalog{ID: o.catalogID, Metadata: map[string]string{"displayName": o.spec.name}, Features: offeringFeatures{
			PlanUpdateable: o.spec.updateable, Bindable: o.spec.bindable, InstancesRetrievable: o.spec.retrievable,
			BindingsRetrievable: o.spec.retrievable, AllowContextUpdates: o.spec.contexts,
		}},
		Relationships: map[string]toOne{"service_broker": related(brokerGUID())},
		Links: map[string]link{
			"self":           {Href: c.base + "/v3/service_offerings/" + o.guid},
			"service_plans":  {Href: c.base + "/v3/service_plans?service_offering_guids=" + o.guid},
			"service_broker": {Href: c.base + "/v3/service_brokers/" + brokerGUID()},
		},
	}
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func listOfferings(c *call) (*answer, error) {
	params := []string{"names", "guids", "broker_catalog_ids", "service_broker_guids", "service_broker_names", "space_guids", "organization_guids",
		"available", "label_selector", "fields[service_broker]", "page", "per_page", "order_by"}
	c.query.allow(c.exceptOnKorifi(params, "guids", "broker_catalog_ids", "service_broker_guids", "space_guids", "organization_guids", "available", "label_selector")...)
	extra := includingBroker[*offering](&c.query, "service_broker")
	wanted := offeringFilter(c)
	found := passing(c.database.market.offerings, func(o *offering) bool { return o.listed() && wanted(o) })
	return listed(c, found, (*offering).view, extra)
}

// offeringFilter reads the filters of the list. An offering is shown where one of its plans is.
func offeringFilter(c *call) func(*offering) bool {
	q, compared := &c.query, c.database.names
	names, guids, ids := q.wanted("names"), q.wanted("guids"), q.wanted("broker_catalog_ids")
	available, labels := q.flag("available"), q.selector()
	return func(o *offering) bool {
		return compared.places.passes(names, o.spec.name) && passes(guids, o.guid) && passes(ids, o.catalogID) &&
			(available == nil || *available == o.active()) && labels.matches(nil) &&
			q.ofBroker() && slices.ContainsFunc(o.plans, func(p *plan) bool { return p.listed() && c.shown(p) && c.visibleWhere(p) })
	}
}

// ofBroker applies the filters by service broker.
func (q *query) ofBroker() bool {
	return passes(q.wanted("service_broker_guids"), brokerGUID()) && passes(q.wanted("service_broker_names"), brokerName)
}

func getOffering(c *call) (*answer, error) {
	if err := c.query.only("fields[service_broker]"); err != nil {
		return nil, err
	}
	for _, o := range c.database.market.offerings {
		if o.guid == c.guid && o.listed() {
			return jsonAnswer(http.StatusOK, o.view(c)), nil
		}
	}
	return nil, notFound("Service offering")
}

// marketplaceChange is what the control takes. Plans are named "offering/plan".
type marketplaceChange struct {
	Hide        []string          `json:"hide"`
	Show        []string          `json:"show"`
	Reregister  bool              `json:"reregister"`
	Maintenance map[string]string `json:"maintenance"`
	// Paid and Free say whether plans cost something.
	Paid []string `json:"paid"`
	Free []string `json:"free"`
	// Shareable says of offerings whether their instances can be shared.
	Shareable map[string]bool `json:"shareable"`
	// VisibleIn names the organizations that see a plan; none for an empty list, all for null.
	VisibleIn map[string][]string `json:"visible_in"`
}

// changeMarketplace is POST /__sim/marketplace: it does all that is asked for, or nothing.
func changeMarketplace(c *controlCall) (any, error) {
	var change marketplaceChange
	if err := c.read(&change); err != nil {
		return nil, err
	}
	if err := c.database.market.check(change); err != nil {
		return nil, err
	}
	market := c.database.market
	if change.Reregister {
		market.register()
	}
	for _, name := range change.Hide {
		market.plan(name).hidden = true
	}
	for _, name := range change.Show {
		market.plan(name).hidden = false
	}
	for name, version := range change.Maintenance {
		market.plan(name).spec.version = version
	}
	for _, name := range change.Paid {
		market.plan(name).paid = true
	}
	for _, name := range change.Free {
		market.plan(name).paid = false
	}
	for name, orgs := range change.VisibleIn {
		market.plan(name).orgs = orgs
	}
	for name, on := range change.Shareable {
		market.offering(name).shareable = on
	}
	return nil, nil
}

func (m *marketplace) check(change marketplaceChange) error {
	names := slices.Concat(change.Hide, change.Show, change.Paid, change.Free, slices.Collect(maps.Keys(change.VisibleIn)))
	for name, version := range change.Maintenance {
		names = append(names, name)
		if !semanticVersion.MatchString(version) {
			return badInput("The version %q of %s is not a semantic version.", version, name)
		}
	}
	for name := range change.Shareable {
		if m.offering(name) == nil {
			return badInput("There is no offering %q.", name)
		}
	}
	for _, name := range names {
		if m.plan(name) == nil {
			return badInput("There is no plan %q; plans are named offering/plan.", name)
		}
	}
	return nil
}
