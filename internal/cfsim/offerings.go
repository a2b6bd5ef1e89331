package cfsim

import (
	"net/http"
	"slices"
)

// The one service broker that is registered.
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

func (s *Simulator) offeringView(c *call) func(*offering) offeringView {
	created := timestamp(s.world.started)
	return func(o *offering) offeringView {
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
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (s *Simulator) listOfferings(c *call) (*answer, error) {
	params := []string{"names", "guids", "broker_catalog_ids", "service_broker_guids", "service_broker_names", "space_guids", "organization_guids",
		"available", "label_selector", "fields[service_broker]", "page", "per_page", "order_by"}
	refused := []string{"guids", "broker_catalog_ids", "service_broker_guids", "space_guids", "organization_guids", "available", "label_selector"}
	if err := c.allow(c.without(params, refused...)...); err != nil {
		return nil, err
	}
	extra, err := includedBroker[*offering](c, "service_broker")
	if err != nil {
		return nil, err
	}
	wanted, err := s.offeringFilter(c)
	if err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[offeringView], error) {
		found := passing(s.world.market.offerings, func(o *offering) bool { return o.listed() && wanted(o) })
		return takePage(c, found, (*offering).sortKeys, s.offeringView(c), extra)
	})
}

// offeringFilter reads the filters of the list. An offering is seen where one
// of its plans is.
func (s *Simulator) offeringFilter(c *call) (func(*offering) bool, error) {
	names, guids, ids := c.wanted("names"), c.wanted("guids"), c.wanted("broker_catalog_ids")
	available, err := c.flag("available")
	if err != nil {
		return nil, err
	}
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	return func(o *offering) bool {
		return c.names.places.passes(names, o.spec.name) && passes(guids, o.guid) && passes(ids, o.catalogID) &&
			(available == nil || *available == o.active()) && labels.matches(nil) &&
			c.ofBroker() && slices.ContainsFunc(o.plans, func(p *plan) bool { return p.listed() && s.shown(c, p) && s.visibleWhere(c, p) })
	}, nil
}

// ofBroker applies the filters by service broker.
func (c *call) ofBroker() bool {
	return passes(c.wanted("service_broker_guids"), brokerGUID()) && passes(c.wanted("service_broker_names"), brokerName)
}

func (s *Simulator) getOffering(c *call) (*answer, error) {
	if err := c.allow("fields[service_broker]"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.world.market.offerings {
		if o.guid == c.guid && o.listed() {
			return jsonAnswer(http.StatusOK, s.offeringView(c)(o))
		}
	}
	return nil, notFound("Service offering")
}
