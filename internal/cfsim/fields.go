package cfsim

import (
	"slices"
	"strings"
)

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
