package cfsim

import (
	"cmp"
	"slices"
)

func (s *Simulator) listKeys(c *call) (*answer, error) {
	params := []string{"names", "guids", "type", "service_instance_guids", "service_instance_names", "service_plan_guids", "service_plan_names",
		"service_offering_guids", "service_offering_names", "app_guids", "app_names", "label_selector", "include", "page", "per_page", "order_by"}
	if err := c.allow(slices.Concat(params, timeParams())...); err != nil {
		return nil, err
	}
	extra, err := c.includedInstances()
	if err != nil {
		return nil, err
	}
	wanted, err := c.keyFilter()
	if err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[keyView], error) {
		found := passing(s.world.keyCandidates(c.wanted("guids"), c.wanted("service_instance_guids"), c.wanted("service_instance_names")), func(k *key) bool { return s.readable(c) && wanted(k) })
		return takePage(c, found, (*key).sortKeys, c.keyView, extra)
	})
}

// keyCandidates narrows a search down without a scan where it can; the result
// is in order of creation.
func (w *world) keyCandidates(guids, instances, instanceNames []string) []*key {
	var found []*key
	switch {
	case guids != nil:
		for _, guid := range guids {
			if k := w.keys[guid]; k != nil {
				found = append(found, k)
			}
		}
	default:
		for _, i := range w.instances.candidates(instanceNames, instances) {
			found = append(found, i.keys...)
		}
	}
	slices.SortFunc(found, func(a, b *key) int { return cmp.Compare(a.sequence, b.sequence) })
	return slices.Compact(found)
}

func (c *call) keyFilter() (func(*key) bool, error) {
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	inTime, err := c.timeFilter()
	if err != nil {
		return nil, err
	}
	names, guids, kinds := c.wanted("names"), c.wanted("guids"), c.wanted("type")
	instances, instanceNames := c.wanted("service_instance_guids"), c.wanted("service_instance_names")
	plans, planNames := c.wanted("service_plan_guids"), c.wanted("service_plan_names")
	offerings, offeringNames := c.wanted("service_offering_guids"), c.wanted("service_offering_names")
	apps := c.query.Has("app_guids") || c.query.Has("app_names")
	for _, kind := range kinds {
		if kind != "key" && kind != "app" {
			return nil, badQuery("Type must be one of 'app', 'key'")
		}
	}
	return func(k *key) bool {
		p := k.instance.plan
		return !apps && c.names.rows.passes(names, k.name) && passes(guids, k.guid) && passes(kinds, "key") &&
			passes(instances, k.instance.guid) && c.names.rows.passes(instanceNames, k.instance.name) &&
			passes(plans, p.guid) && c.names.places.passes(planNames, p.spec.name) &&
			passes(offerings, p.offering.guid) && c.names.places.passes(offeringNames, p.offering.spec.name) &&
			inTime(k.created, k.updated) && labels.matches(k.metadata.Labels)
	}, nil
}

// includedInstances reads the include parameter of keys; the result is nil
// when it is not set.
func (c *call) includedInstances() (func([]*key) map[string]included, error) {
	if c.korifi {
		return nil, nil
	}
	instances, apps := false, false
	for _, name := range c.wanted("include") {
		switch name {
		case "service_instance":
			instances = true
		case "app":
			apps = true
		default:
			return nil, badQuery("Invalid included resource: '" + name + "'. Valid included resources are: 'app', 'service_instance'")
		}
	}
	if !instances && !apps {
		return nil, nil
	}
	return func(keys []*key) map[string]included {
		result := map[string]included{}
		if instances {
			result["service_instances"] = distinct(keys, func(k *key) *instance { return k.instance }, c.instanceView)
		}
		if apps {
			result["apps"] = []struct{}{} // keys have none
		}
		return result
	}, nil
}
