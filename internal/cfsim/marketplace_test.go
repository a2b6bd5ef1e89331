package cfsim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOfferings(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	type features struct {
		PlanUpdateable       bool `json:"plan_updateable"`
		Bindable             bool `json:"bindable"`
		InstancesRetrievable bool `json:"instances_retrievable"`
		BindingsRetrievable  bool `json:"bindings_retrievable"`
		AllowContextUpdates  bool `json:"allow_context_updates"`
	}
	var list struct {
		Resources []struct {
			GUID, Name    string
			Requires      []string
			BrokerCatalog struct {
				ID       string
				Features features
			} `json:"broker_catalog"`
		}
	}
	c.must(200, "GET", "/v3/service_offerings", "").into(&list)
	got := map[string]features{}
	for _, o := range list.Resources {
		got[o.Name] = o.BrokerCatalog.Features
		if o.GUID == o.BrokerCatalog.ID || o.BrokerCatalog.ID == "" {
			t.Errorf("%s: guid %q, catalog id %q", o.Name, o.GUID, o.BrokerCatalog.ID)
		}
	}
	want := map[string]features{
		"postgres": {true, true, true, true, true}, "faults": {true, true, true, true, true}, "queue": {},
		"drain": {Bindable: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("features (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"syslog_drain", "volume_mount"}, list.Resources[3].Requires); diff != "" {
		t.Errorf("requires (-want +got):\n%s", diff)
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	byOffering := map[string][]string{}
	var list struct {
		Resources []struct {
			Name          string
			Relationships struct {
				Offering struct{ Data struct{ GUID string } } `json:"service_offering"`
			}
		}
		Included struct {
			Offerings []struct{ GUID, Name string } `json:"service_offerings"`
		}
	}
	c.must(200, "GET", "/v3/service_plans?include=service_offering&per_page=100", "").into(&list)
	names := map[string]string{}
	for _, o := range list.Included.Offerings {
		names[o.GUID] = o.Name
	}
	for _, p := range list.Resources {
		name := names[p.Relationships.Offering.Data.GUID]
		byOffering[name] = append(byOffering[name], p.Name)
	}
	want := map[string][]string{
		"postgres": {"small", "large", "async", "async-bindings", "schema", "maintained", "no-bindings", "app-only"},
		"faults": {
			"create-rejected", "update-rejected", "delete-rejected", "bind-rejected", "unbind-rejected",
			"create-fails", "update-fails", "delete-fails", "bind-fails", "unbind-fails",
			"create-stalls", "update-stalls", "delete-stalls", "bind-stalls", "unbind-stalls",
			"hurried", "create-times-out", "delete-fails-once",
		},
		"queue": {"standard", "priority"}, "drain": {"standard"},
	}
	if diff := cmp.Diff(want, byOffering); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	plan := func(name string) result { return c.do("GET", "/v3/service_plans/"+c.planGUID(name), "") }
	if got := plan("postgres/maintained").str("maintenance_info", "version"); got != "2.1.0" {
		t.Errorf("maintained has version %q", got)
	}
	if got := plan("faults/hurried"); string(mustEncode(t, got.at("broker_catalog", "maximum_polling_duration"))) != "3" {
		t.Errorf("hurried: %s", got.body)
	}
	if got := plan("postgres/small"); got.at("broker_catalog", "maximum_polling_duration") != nil || got.at("broker_catalog", "features", "bindable") != true {
		t.Errorf("small: %s", got.body)
	}
	if got := plan("postgres/no-bindings").at("broker_catalog", "features", "bindable"); got != false {
		t.Errorf("no-bindings is bindable: %v", got)
	}
	schema := plan("postgres/schema")
	for _, path := range [][]any{{"schemas", "service_instance", "create"}, {"schemas", "service_instance", "update"}, {"schemas", "service_binding", "create"}} {
		if got := schema.str(append(path, "parameters", "$schema")...); got != "http://json-schema.org/draft-04/schema#" {
			t.Errorf("%v: $schema %q", path, got)
		}
		if got := schema.at(append(path, "parameters", "additionalProperties")...); got != false {
			t.Errorf("%v: additionalProperties %v", path, got)
		}
	}
}

func TestPlanFilters(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	instance, sp := c.ready("it", "postgres/large"), c.space("work")
	postgres := c.do("GET", "/v3/service_offerings?names=postgres", "")
	tests := map[string]int{
		"names=small,large": 2, "names=standard": 2, "names=": 0,
		"service_offering_names=queue":                                      2,
		"service_offering_guids=" + postgres.str("resources", 0, "guid"):    8,
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
	}
	for query, want := range tests {
		t.Run(query, func(t *testing.T) {
			r := c.must(200, "GET", "/v3/service_plans?"+query, "")
			if got := string(mustEncode(t, r.at("pagination", "total_results"))); got != string(mustEncode(t, want)) {
				t.Errorf("%s plans, want %d", got, want)
			}
		})
	}
	r := c.do("GET", "/v3/service_offerings?fields[service_broker]=name", "")
	if r.str("included", "service_brokers", 0, "name") != "backing-broker" || r.at("included", "service_brokers", 0, "guid") != nil {
		t.Errorf("included %v", r.at("included"))
	}
}

func TestMarketplaceChanges(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	change := func(json string) { c.must(200, "POST", "/__sim/marketplace", json) }
	large := func() result { return c.do("GET", "/v3/service_plans?names=large", "") }
	guid := large().str("resources", 0, "guid")
	id := large().str("resources", 0, "broker_catalog", "id")

	change(`{"hide":["postgres/large"]}`)
	if got := large().at("resources", 0); got != nil {
		t.Errorf("a hidden plan is listed: %v", got)
	}
	change(`{"show":["postgres/large"]}`)
	c.ready("it", "postgres/large")
	change(`{"hide":["postgres/large"]}`)
	if got := large().at("resources", 0, "available"); got != false {
		t.Errorf("a hidden plan with an instance: available %v, want false", got)
	}
	body := strings.Replace(c.instanceBody("other", "postgres/small", ""), c.planGUID("postgres/small"), guid, 1)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "422 10008 CF-UnprocessableEntity: Invalid service plan. The service plan 'large' with guid '"+guid+
		"' has been removed from the service broker's catalog. It is not possible to create new service instances using this plan.")
	change(`{"show":["postgres/large"],"reregister":true}`)
	again := c.do("GET", "/v3/service_plans?names=large&available=true", "")
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "422 10008 CF-UnprocessableEntity: Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
	it := c.do("GET", "/v3/service_instances?names=it", "").str("resources", 0, "relationships", "service_plan", "data", "guid")
	if it == guid || it != again.str("resources", 0, "guid") {
		t.Errorf("the instance has the plan %s", it)
	}
	if again.str("resources", 0, "guid") == guid || again.str("resources", 0, "broker_catalog", "id") != id || again.at("resources", 1) != nil {
		t.Errorf("after registering again: %s", again.body)
	}
	change(`{"maintenance":{"postgres/maintained":"2.2.0"}}`)
	if got := c.do("GET", "/v3/service_plans?names=maintained", "").str("resources", 0, "maintenance_info", "version"); got != "2.2.0" {
		t.Errorf("version %q, want 2.2.0", got)
	}
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
	tests := []struct{ orgs, kind, want, listed, inSpace string }{
		{`["demo"]`, "organization", elsewhere, "large", ""},
		{`["demo","ferry"]`, "organization", "202", "large", "large"},
		{`[]`, "admin", unknown, "large", ""},
		{`null`, "public", textTaken, "large", "large"},
	}
	for _, test := range tests {
		c.must(200, "POST", "/__sim/marketplace", `{"visible_in":{"postgres/large":`+test.orgs+`}}`)
		checkAnswer(t, c.do("POST", "/v3/service_instances", body), test.want)
		if got := c.must(200, "GET", "/v3/service_plans/"+guid+"/visibility", "").str("type"); got != test.kind {
			t.Errorf("%s: visibility %q, want %q", test.orgs, got, test.kind)
		}
		for query, want := range map[string]string{"": test.listed, "&space_guids=" + sp: test.inSpace, "&organization_guids=" + c.org("ferry"): test.inSpace} {
			if got := strings.Join(c.do("GET", "/v3/service_plans?names=large"+query, "").names(), " "); got != want {
				t.Errorf("%s, %q: listed %q, want %q", test.orgs, query, got, want)
			}
		}
		anonymous := &cloud{t: t, sim: c.sim, url: c.url, http: c.http}
		if got := len(anonymous.do("GET", "/v3/service_plans?names=large", "").names()); (got == 1) != (test.kind == "public") {
			t.Errorf("%s: %d plans without a token", test.orgs, got)
		}
	}
}
