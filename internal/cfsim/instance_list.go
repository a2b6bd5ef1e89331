package cfsim

import "slices"

func (s *Simulator) listInstances(c *call) (*answer, error) {
	rules := instanceListFields()
	params := slices.Concat([]string{"names", "guids", "type", "space_guids", "organization_guids", "service_plan_guids", "service_plan_names",
		"label_selector", "page", "per_page", "order_by"}, rules.params(), timeParams())
	if err := c.allow(c.without(params, "organization_guids", "service_plan_names")...); err != nil {
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
	return listed(s, func() (*listPage[instanceView], error) {
		found := passing(s.world.instances.candidates(c.wanted("names"), c.wanted("guids")), func(i *instance) bool { return s.readable(c) && wanted(i) })
		return takePage(c, found, (*instance).sortKeys, c.instanceView, includedByInstances(asked))
	})
}

func (c *call) instanceFilter() (func(*instance) bool, error) {
	names, guids, kinds := c.wanted("names"), c.wanted("guids"), c.wanted("type")
	spaces, orgs := c.wanted("space_guids"), c.wanted("organization_guids")
	plans, planNames := c.wanted("service_plan_guids"), c.wanted("service_plan_names")
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	inTime, err := c.timeFilter()
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if kind != "managed" && kind != "user-provided" {
			return nil, badQuery("Type must be one of 'managed', 'user-provided'")
		}
	}
	return func(i *instance) bool {
		return c.names.rows.passes(names, i.name) && passes(guids, i.guid) && passes(kinds, "managed") &&
			i.inPlaces(spaces, orgs) && inTime(i.created, i.updated) &&
			passes(plans, i.plan.guid) && c.names.places.passes(planNames, i.plan.spec.name) &&
			labels.matches(i.metadata.Labels)
	}, nil
}
