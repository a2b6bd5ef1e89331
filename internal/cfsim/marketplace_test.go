package cfsim

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMarketplaceIsTheSameAfterARestart compares two simulators, apart from
// their addresses.
func TestMarketplaceIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	bodies := func() []string {
		c := start(t, quick())
		c.space("work")
		var all []string
		for _, path := range []string{"/v3/organizations", "/v3/spaces", "/v3/service_offerings", "/v3/service_plans?include=service_offering"} {
			body := c.must(200, "GET", path, "").body
			body = regexp.MustCompile(regexp.QuoteMeta(c.url)).ReplaceAll(body, nil)
			all = append(all, regexp.MustCompile(`"(created|updated)_at":"[^"]*"`).ReplaceAllString(string(body), ""))
		}
		return all
	}
	if diff := cmp.Diff(bodies(), bodies()); diff != "" {
		t.Errorf("differs (-first +second):\n%s", diff)
	}
}

// TestRandomnessHasASeed makes the GUIDs of rows repeatable too.
func TestRandomnessHasASeed(t *testing.T) {
	t.Parallel()
	first := func(seed string) string {
		o := idle()
		o.Random = strings.NewReader(seed)
		guid, _ := start(t, o).create("it", "postgres/small")
		return guid
	}
	seed := strings.Repeat("s", 32)
	if a, b := first(seed), first(seed); a != b || a == "" {
		t.Errorf("GUIDs %q and %q of one seed", a, b)
	}
	if a, b := first(seed), first(strings.Repeat("t", 32)); a == b {
		t.Errorf("GUID %q of two seeds", a)
	}
}

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

func mustEncode(t *testing.T, v any) []byte {
	t.Helper()
	body, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
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
