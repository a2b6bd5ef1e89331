package cfsim

import (
	"net/http"
	"slices"
)

type planView struct {
	GUID            string           `json:"guid"`
	CreatedAt       string           `json:"created_at"`
	UpdatedAt       string           `json:"updated_at"`
	Name            string           `json:"name"`
	VisibilityType  string           `json:"visibility_type"`
	Available       bool             `json:"available"`
	Free            bool             `json:"free"`
	Costs           []cost           `json:"costs"`
	Description     string           `json:"description"`
	MaintenanceInfo maintenanceView  `json:"maintenance_info"`
	BrokerCatalog   planCatalog      `json:"broker_catalog"`
	Schemas         schemasView      `json:"schemas"`
	Relationships   map[string]toOne `json:"relationships"`
	Metadata        metadata         `json:"metadata"`
	Links           map[string]link  `json:"links"`
}

// maintenanceView is {} for a plan or instance without a version.
type maintenanceView struct {
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
}

type planCatalog struct {
	ID                     string            `json:"id"`
	Metadata               map[string]string `json:"metadata"`
	MaximumPollingDuration *int              `json:"maximum_polling_duration"`
	Features               planFeatures      `json:"features"`
}

type planFeatures struct {
	Bindable       bool `json:"bindable"`
	PlanUpdateable bool `json:"plan_updateable"`
}

func (p *plan) view(c *call) planView {
	created := timestamp(c.database.started)
	self := c.base + "/v3/service_plans/" + p.guid
	v := planView{
		GUID: p.guid, CreatedAt: created, UpdatedAt: created, Name: p.spec.name, VisibilityType: p.visibility(),
		Available: p.active(), Free: !p.paid, Costs: p.costs(), Description: p.spec.description,
		MaintenanceInfo: maintenanceOf(p.spec.version),
		BrokerCatalog: planCatalog{
			ID: p.catalogID, Metadata: map[string]string{"displayName": p.spec.name},
			Features: planFeatures{Bindable: p.bindable(), PlanUpdateable: p.offering.spec.updateable},
		},
		Schemas:       p.spec.schemas.view(),
		Relationships: map[string]toOne{"service_offering": related(p.offering.guid)},
		Links: map[string]link{
			"self":             {Href: self},
			"service_offering": {Href: c.base + "/v3/service_offerings/" + p.offering.guid},
			"visibility":       {Href: self + "/visibility"},
		},
	}
	if limit := p.spec.pollingLimit; limit > 0 {
		v.BrokerCatalog.MaximumPollingDuration = &limit
	}
	return v
}

// cost is what a plan is said to cost.
type cost struct {
	Currency string  `json:"currency"`
	Amount   float64 `json:"amount"`
	Unit     string  `json:"unit"`
}

func (p *plan) costs() []cost {
	if !p.paid {
		return []cost{}
	}
	return []cost{{Currency: "USD", Amount: 9.5, Unit: "MONTHLY"}}
}

// visibility is the visibility_type of a plan.
func (p *plan) visibility() string {
	switch {
	case p.orgs == nil:
		return "public"
	case p.secret():
		return "admin"
	}
	return "organization"
}

// secret tells that no organization sees the plan.
func (p *plan) secret() bool { return p.orgs != nil && len(p.orgs) == 0 }

func (p *plan) visibleIn(o *organization) bool {
	return p.orgs == nil || slices.Contains(p.orgs, o.name)
}

func maintenanceOf(version string) maintenanceView {
	if version == "" {
		return maintenanceView{}
	}
	return maintenanceView{Version: version, Description: "Version " + version}
}

// maintenanceOn is the version of an instance: Korifi has one even where there is none.
func maintenanceOn(o Options, version string) any {
	if o.Korifi {
		return map[string]string{"version": version}
	}
	return maintenanceOf(version)
}

func listPlans(c *call) (*answer, error) {
	params := []string{"names", "guids", "broker_catalog_ids", "service_offering_guids", "service_offering_names", "service_broker_guids",
		"service_broker_names", "service_instance_guids", "space_guids", "organization_guids", "available", "include",
		"fields[service_offering.service_broker]", "label_selector", "page", "per_page", "order_by"}
	c.query.allow(c.exceptOnKorifi(params, "broker_catalog_ids", "organization_guids", "label_selector")...)
	extra := includingAroundPlans(c)
	wanted := planFilter(c)
	var found []*plan
	for _, o := range c.database.market.offerings {
		found = append(found, passing(o.plans, func(p *plan) bool { return p.listed() && wanted(p) && c.shown(p) })...)
	}
	return listed(c, found, (*plan).view, extra)
}

func planFilter(c *call) func(*plan) bool {
	q, compared := &c.query, c.database.names
	names, guids, ids := q.wanted("names"), q.wanted("guids"), q.wanted("broker_catalog_ids")
	offeringNames, offeringGUIDs := q.wanted("service_offering_names"), q.wanted("service_offering_guids")
	instances := q.wanted("service_instance_guids")
	available, labels := q.flag("available"), q.selector()
	return func(p *plan) bool {
		return compared.places.passes(names, p.spec.name) && passes(guids, p.guid) && passes(ids, p.catalogID) &&
			compared.places.passes(offeringNames, p.offering.spec.name) && passes(offeringGUIDs, p.offering.guid) &&
			(available == nil || *available == p.active()) && labels.matches(nil) &&
			q.ofBroker() && c.visibleWhere(p) && (instances == nil || c.database.instances.have(instances, p))
	}
}

// have tells whether one of the instances has a plan.
func (t *instanceTable) have(guids []string, p *plan) bool {
	return slices.ContainsFunc(guids, func(guid string) bool {
		i := t.get(guid)
		return i != nil && i.plan == p
	})
}

// shown tells whether the caller sees a plan: everybody those that are public, administrators all. Somebody with a role
// in an organization that has it sees it as well; Korifi hides nothing.
func (c *call) shown(p *plan) bool {
	switch {
	case p.orgs == nil || c.options.Korifi:
		return true
	case c.caller == "":
		return false
	}
	return c.administrator() || !p.secret() && c.readable()
}

// visibleWhere applies the filters by space and organization. Korifi takes the one and does nothing with it.
func (c *call) visibleWhere(p *plan) bool {
	if c.options.Korifi {
		return true
	}
	spaces, orgs := c.query.wanted("space_guids"), c.query.wanted("organization_guids")
	inSpace := func(guid string) bool {
		sp := c.database.spaceByGUID[guid]
		return sp != nil && p.visibleIn(sp.organization)
	}
	inOrg := func(guid string) bool {
		o := c.database.organization(guid)
		return o != nil && p.visibleIn(o)
	}
	return (spaces == nil || slices.ContainsFunc(spaces, inSpace)) && (orgs == nil || slices.ContainsFunc(orgs, inOrg))
}

// includingAroundPlans reads what is to come beside plans.
func includingAroundPlans(c *call) including[*plan] {
	broker := includingBroker[*plan](&c.query, "service_offering.service_broker")
	asked := c.query.includes("'space.organization', 'service_offering'", "space.organization", "service_offering")
	return func(plans []*plan) map[string]any {
		result := map[string]any{}
		if broker != nil {
			result = broker(plans)
		}
		if slices.Contains(asked, "service_offering") {
			result["service_offerings"] = distinct(plans, func(p *plan) *offering { return p.offering }, func(o *offering) offeringView { return o.view(c) })
		}
		if slices.Contains(asked, "space.organization") { // only plans of a space-scoped broker have a place
			result["spaces"], result["organizations"] = []placeView{}, []placeView{}
		}
		return result
	}
}

// plan returns the row of a request that its caller may see.
func (c *call) plan() (*plan, error) {
	p := c.database.market.plans[c.guid]
	if p == nil || !p.listed() || !c.shown(p) {
		return nil, notFound("Service plan")
	}
	return p, nil
}

func getPlan(c *call) (*answer, error) {
	c.query.allow("include", "fields[service_offering.service_broker]")
	if c.options.Korifi {
		c.query.Del("include")
	}
	extra := includingAroundPlans(c)
	if err := c.query.problem(); err != nil {
		return nil, err
	}
	p, err := c.plan()
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, struct {
		planView
		Included map[string]any `json:"included,omitempty"`
	}{p.view(c), extra([]*plan{p})}), nil
}

func getPlanVisibility(c *call) (*answer, error) {
	p, err := c.plan()
	if err != nil {
		return nil, err
	}
	body := map[string]any{"type": p.visibility()}
	if p.orgs != nil && !p.secret() {
		list := []map[string]string{}
		for _, o := range c.database.organizations {
			if p.visibleIn(o) {
				list = append(list, map[string]string{"guid": o.guid, "name": o.name})
			}
		}
		body["organizations"] = list
	}
	return jsonAnswer(http.StatusOK, body), nil
}
