package cfsim

import (
	"strconv"
	"strings"
	"testing"
)

func TestOfferings(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.lists("/v3/service_offerings", "postgres faults queue drain")
	const all = "allow_context_updates:true bindable:true bindings_retrievable:true instances_retrievable:true plan_updateable:true"
	none := strings.ReplaceAll(all, "true", "false")
	for name, features := range map[string]string{"postgres": all, "faults": all, "queue": none, "drain": strings.Replace(none, "bindable:false", "bindable:true", 1)} {
		r := c.reads("/v3/service_offerings?names="+name, "resources.0.broker_catalog.features=map["+features+"]")
		if id := r.text("resources.0.broker_catalog.id"); id == "" || id == r.text("resources.0.guid") {
			t.Errorf("%s: catalog id %q, and %s", name, id, r.body)
		}
	}
	c.reads("/v3/service_offerings?names=drain", "resources.0.requires=[syslog_drain volume_mount]")
	c.reads("/v3/service_offerings?fields[service_broker]=name", "included.service_brokers=[map[name:backing-broker]]")
}

func TestPlans(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	for offering, plans := range map[string]string{
		"postgres": "small large async async-bindings schema maintained no-bindings app-only",
		"faults": "create-rejected update-rejected delete-rejected bind-rejected unbind-rejected create-fails update-fails delete-fails bind-fails unbind-fails " +
			"create-stalls update-stalls delete-stalls bind-stalls unbind-stalls hurried create-times-out delete-fails-once",
		"queue": "standard priority", "drain": "standard",
	} {
		c.lists("/v3/service_plans?service_offering_names="+offering, plans)
	}
	const json = ".parameters.$schema=http://json-schema.org/draft-04/schema#"
	for plan, values := range map[string][]string{
		"postgres/maintained": {"maintenance_info.version=2.1.0"}, "faults/hurried": {"broker_catalog.maximum_polling_duration=3"},
		"postgres/small": {"broker_catalog.maximum_polling_duration=", "broker_catalog.features.bindable=true"}, "postgres/no-bindings": {"broker_catalog.features.bindable=false"},
		"postgres/schema": {
			"schemas.service_instance.create" + json, "schemas.service_instance.update" + json, "schemas.service_binding.create" + json,
			"schemas.service_instance.create.parameters.additionalProperties=false", "schemas.service_instance.update.parameters.additionalProperties=false",
			"schemas.service_binding.create.parameters.additionalProperties=false", "schemas.service_instance.create.parameters.required=[size]",
			"schemas.service_instance.update.parameters.required=",
		},
	} {
		c.reads("/v3/service_plans/"+c.planGUID(plan), values...)
	}
}

func TestPlanFilters(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	instance, sp := c.plantAt("ferry/work", "it", "postgres/large", ""), c.space("work")
	postgres := c.do("GET", "/v3/service_offerings?names=postgres", "").str("resources", 0, "guid")
	for query, want := range map[string]int{
		"names=small,large": 2, "names=standard": 2, "names=": 0,
		"service_offering_names=queue":                                      2,
		"service_offering_guids=" + postgres:                                8,
		"service_instance_guids=" + instance:                                1,
		"space_guids=" + sp + "&available=true":                             29,
		"space_guids=nowhere":                                               0,
		"available=false":                                                   0,
		"service_broker_names=backing-broker":                               29,
		"service_broker_names=other":                                        0,
		"broker_catalog_ids=" + fixedGUID("catalog plan", "postgres/small"): 1,
		"organization_guids=" + c.org("demo"):                               29,
		"fields[service_offering.service_broker]=guid,name&names=small":     1,
		"include=service_offering,space.organization&names=small&page=1":    1,
		"label_selector=a":                                                  0,
		"label_selector=!a":                                                 29,
	} {
		c.reads("/v3/service_plans?"+query, "pagination.total_results="+strconv.Itoa(want))
	}
}

// TestMarketplaceChanges has a plan leave the catalog, come back, and all of them get new GUIDs.
func TestMarketplaceChanges(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	const plans = "/v3/service_plans?names=large"
	before := c.do("GET", plans, "")
	guid, id := before.text("resources.0.guid"), before.text("resources.0.broker_catalog.id")
	c.market(`{"hide":["postgres/large"]}`)
	c.lists(plans, "")
	c.market(`{"show":["postgres/large"]}`)
	it := instances + c.ready("it", "postgres/large")
	c.market(`{"hide":["postgres/large"]}`)
	c.reads(plans, "resources.0.available=false") // it has an instance
	body := strings.Replace(c.instanceBody("other", "postgres/small", ""), c.planGUID("postgres/small"), guid, 1)
	c.answers("POST", instances, body, unprocessableText+"Invalid service plan. The service plan 'large' with guid '"+guid+
		"' has been removed from the service broker's catalog. It is not possible to create new service instances using this plan.")
	c.market(`{"show":["postgres/large"],"reregister":true}`)
	again := c.reads(plans+"&available=true", "resources.#=1", "resources.0.broker_catalog.id="+id).text("resources.0.guid")
	if again == guid {
		t.Errorf("the GUID is the old one")
	}
	c.reads(it, "relationships.service_plan.data.guid="+again)
	c.answers("POST", instances, body, unprocessableText+"Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
}

// TestVisibility has plans that only some organizations see.
func TestVisibility(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	sp, guid := c.space("work"), c.planGUID("postgres/large")
	body := c.instanceBody("it", "postgres/large", "")
	const unknown = unprocessableText + "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it."
	elsewhere := unprocessableText + "Invalid service plan. This could be due to a space-scoped broker which is offering the service plan 'large' with guid '" + guid +
		"' in another space or that the plan is not enabled in this organization. Ensure that the service plan is visible in your current space 'work' with guid '" + sp + "'."
	anonymous := &cloud{t: t, sim: c.sim, url: c.url, http: c.http}
	for _, test := range []struct{ orgs, kind, want, listed, inSpace, public string }{
		{`["demo"]`, "organization", elsewhere, "large", "", ""},
		{`["demo","ferry"]`, "organization", "202", "large", "large", ""},
		{`[]`, "admin", unknown, "large", "", ""},
		{`null`, "public", textTaken, "large", "large", "large"},
	} {
		c.market(`{"visible_in":{"postgres/large":` + test.orgs + `}}`)
		c.answers("POST", instances, body, test.want)
		c.reads("/v3/service_plans/"+guid+"/visibility", "type="+test.kind)
		c.lists("/v3/service_plans?names=large", test.listed)
		c.lists("/v3/service_plans?names=large&space_guids="+sp, test.inSpace)
		c.lists("/v3/service_plans?names=large&organization_guids="+c.org("ferry"), test.inSpace)
		anonymous.lists("/v3/service_plans?names=large", test.public)
	}
}
