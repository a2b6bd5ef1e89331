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

func (s *Simulator) planView(c *call) func(*plan) planView {
	created := timestamp(s.world.started)
	return func(p *plan) planView {
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
}

// maintenanceOf is the version of an instance: Korifi has one even where there
// is none.
func (c *call) maintenanceOf(version string) any {
	if c.korifi {
		return map[string]string{"version": version}
	}
	return maintenanceOf(version)
}

func maintenanceOf(version string) maintenanceView {
	if version == "" {
		return maintenanceView{}
	}
	return maintenanceView{Version: version, Description: "Version " + version}
}

func (s *Simulator) listPlans(c *call) (*answer, error) {
	params := []string{"names", "guids", "broker_catalog_ids", "service_offering_guids", "service_offering_names", "service_broker_guids",
		"service_broker_names", "service_instance_guids", "space_guids", "organization_guids", "available", "include",
		"fields[service_offering.service_broker]", "label_selector", "page", "per_page", "order_by"}
	if err := c.allow(c.without(params, "broker_catalog_ids", "organization_guids", "label_selector")...); err != nil {
		return nil, err
	}
	extra, err := s.includedByPlans(c)
	if err != nil {
		return nil, err
	}
	wanted, err := s.planFilter(c)
	if err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[planView], error) {
		var found []*plan
		for _, o := range s.world.market.offerings {
			found = append(found, passing(o.plans, func(p *plan) bool { return p.listed() && wanted(p) && s.shown(c, p) })...)
		}
		return takePage(c, found, (*plan).sortKeys, s.planView(c), extra)
	})
}

func (s *Simulator) planFilter(c *call) (func(*plan) bool, error) {
	names, guids, ids := c.wanted("names"), c.wanted("guids"), c.wanted("broker_catalog_ids")
	offeringNames, offeringGUIDs := c.wanted("service_offering_names"), c.wanted("service_offering_guids")
	instances := c.wanted("service_instance_guids")
	available, err := c.flag("available")
	if err != nil {
		return nil, err
	}
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	return func(p *plan) bool {
		return c.names.places.passes(names, p.spec.name) && passes(guids, p.guid) && passes(ids, p.catalogID) &&
			c.names.places.passes(offeringNames, p.offering.spec.name) && passes(offeringGUIDs, p.offering.guid) &&
			(available == nil || *available == p.active()) && labels.matches(nil) &&
			c.ofBroker() && s.visibleWhere(c, p) && (instances == nil || s.hasPlan(instances, p))
	}, nil
}

func (s *Simulator) hasPlan(instances []string, p *plan) bool {
	return slices.ContainsFunc(instances, func(guid string) bool {
		inst := s.world.instances.get(guid)
		return inst != nil && inst.plan == p
	})
}

// includedByPlans reads what is to come beside a list of plans.
func (s *Simulator) includedByPlans(c *call) (func([]*plan) map[string]included, error) {
	broker, err := includedBroker[*plan](c, "service_offering.service_broker")
	if err != nil {
		return nil, err
	}
	withOfferings, withPlaces := false, false
	for _, name := range c.wanted("include") {
		switch name {
		case "service_offering":
			withOfferings = true
		case "space.organization":
			withPlaces = true
		default:
			return nil, badQuery("Invalid included resource: '" + name + "'. Valid included resources are: 'space.organization', 'service_offering'")
		}
	}
	return func(plans []*plan) map[string]included {
		result := map[string]included{}
		if broker != nil {
			result = broker(plans)
		}
		if withOfferings {
			result["service_offerings"] = distinct(plans, func(p *plan) *offering { return p.offering }, s.offeringView(c))
		}
		if withPlaces { // only plans of a space-scoped broker have a place
			result["spaces"], result["organizations"] = []spaceView{}, []organizationView{}
		}
		return result
	}, nil
}

func (s *Simulator) getPlan(c *call) (*answer, error) {
	if err := c.allow("include", "fields[service_offering.service_broker]"); err != nil {
		return nil, err
	}
	if c.korifi {
		c.query.Del("include")
	}
	extra, err := s.includedByPlans(c)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.world.market.plans[c.guid]
	if p == nil || !p.listed() || !s.shown(c, p) {
		return nil, notFound("Service plan")
	}
	return jsonAnswer(http.StatusOK, struct {
		planView
		Included map[string]included `json:"included,omitempty"`
	}{s.planView(c)(p), extra([]*plan{p})})
}

func (s *Simulator) getPlanVisibility(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.world.market.plans[c.guid]
	if p == nil || !p.listed() || !s.shown(c, p) {
		return nil, notFound("Service plan")
	}
	body := map[string]any{"type": p.visibility()}
	if p.orgs != nil && !p.secret() {
		list := []map[string]string{}
		for _, o := range s.world.organizations {
			if p.visibleIn(o) {
				list = append(list, map[string]string{"guid": o.guid, "name": o.name})
			}
		}
		body["organizations"] = list
	}
	return jsonAnswer(http.StatusOK, body)
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

// shown tells whether the caller sees a plan: everybody those that are public,
// administrators all. Somebody with a role in an organization that has it sees
// it as well; Korifi hides nothing.
func (s *Simulator) shown(c *call, p *plan) bool {
	switch {
	case p.orgs == nil || s.options.Korifi:
		return true
	case c.caller == "":
		return false
	}
	return s.administrator(c) || !p.secret() && s.readable(c)
}

// visibleWhere applies the filters by space and organization. Korifi takes the
// one and does nothing with it.
func (s *Simulator) visibleWhere(c *call, p *plan) bool {
	if c.korifi {
		return true
	}
	spaces, orgs := c.wanted("space_guids"), c.wanted("organization_guids")
	inSpace := func(guid string) bool {
		sp := s.world.spaceByGUID[guid]
		return sp != nil && p.visibleIn(sp.organization)
	}
	inOrg := func(guid string) bool {
		o := s.world.organization(guid)
		return o != nil && p.visibleIn(o)
	}
	return (spaces == nil || slices.ContainsFunc(spaces, inSpace)) && (orgs == nil || slices.ContainsFunc(orgs, inOrg))
}
