package cfsim

import "net/http"

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

func (c *call) instanceView(i *instance) instanceView {
	self := c.base + "/v3/service_instances/" + i.guid
	v := instanceView{
		GUID: i.guid, CreatedAt: timestamp(i.created), UpdatedAt: timestamp(i.updated),
		Name: i.name, Tags: orNone(i.tags), LastOperation: c.lastOperation(i.last), Type: "managed",
		MaintenanceInfo:  c.maintenanceOf(i.maintenance),
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
	if !c.korifi {
		v.DashboardURL = i.dashboard
	}
	return v
}

func (s *Simulator) getInstance(c *call) (*answer, error) {
	rules := instanceFields()
	if err := c.allow(rules.params()...); err != nil {
		return nil, err
	}
	asked, err := c.fields(rules)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.instance(c)
	if err != nil {
		return nil, err
	}
	body := struct {
		instanceView
		Included map[string]included `json:"included,omitempty"`
	}{instanceView: c.instanceView(i)}
	if extra := includedByInstances(asked); extra != nil {
		body.Included = extra([]*instance{i})
	}
	return jsonAnswer(http.StatusOK, body)
}

// getInstanceParameters asks the backing broker while the caller waits.
func (s *Simulator) getInstanceParameters(c *call) (*answer, error) {
	f, err := s.instanceFetch(c)
	if err != nil {
		return nil, err
	}
	return s.fetched(f)
}

func (s *Simulator) instanceFetch(c *call) (*fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.instance(c)
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
	return s.newFetch(i.call(fetchInstance), i.applied), nil
}
