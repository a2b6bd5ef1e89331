package cfsim

func (s *Simulator) listInstances(c *call) (*answer, error) {
	rules := instanceListFields()
	params := append([]string{"names", "guids", "type", "space_guids", "organization_guids", "service_plan_guids", "service_plan_names",
		"label_selector", "page", "per_page", "order_by"}, rules.params()...)
	if err := c.allow(params...); err != nil {
		return nil, err
	}
	asked, err := c.fields(rules)
	if err != nil {
		return nil, err
	}
	wanted, err := c.instanceFilter()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	var found []*instance
	for _, i := range s.world.instances.candidates(c.wanted("names"), c.wanted("guids")) {
		if wanted(i) {
			found = append(found, i)
		}
	}
	list, err := takePage(c, found, (*instance).sortKeys, c.instanceView, includedByInstances(asked))
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return list.answer()
}

func (c *call) instanceFilter() (func(*instance) bool, error) {
	names, guids, kinds := c.wanted("names"), c.wanted("guids"), c.wanted("type")
	spaces, orgs := c.wanted("space_guids"), c.wanted("organization_guids")
	plans, planNames := c.wanted("service_plan_guids"), c.wanted("service_plan_names")
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if kind != "managed" && kind != "user-provided" {
			return nil, badQuery("Type must be one of 'managed', 'user-provided'")
		}
	}
	return func(i *instance) bool {
		return passes(names, i.name) && passes(guids, i.guid) && passes(kinds, "managed") &&
			passes(spaces, i.space.guid) && passes(orgs, i.space.organization.guid) &&
			passes(plans, i.plan.guid) && passes(planNames, i.plan.spec.name) &&
			labels.matches(i.metadata.Labels)
	}, nil
}
