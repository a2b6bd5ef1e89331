package cfsim

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestQueryIsChecked(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	for path, want := range map[string]string{
		"/v3/organizations?x=1":                                                  "Unknown query parameter(s): 'x'. Valid parameters are: ",
		"/v3/service_instances?y=1&x=1":                                          "Unknown query parameter(s): 'x', 'y'. Valid parameters are: ",
		"/v3/service_instances?include=space":                                    "Unknown query parameter(s): 'include'. Valid parameters are: ",
		"/v3/spaces?per_page=5001":                                               "Per page must be between 1 and 5000",
		"/v3/spaces?per_page=0":                                                  "Per page must be between 1 and 5000",
		"/v3/spaces?page=0":                                                      "Page must be a positive integer",
		"/v3/service_plans?available=maybe":                                      "only accepts values 'true' or 'false'",
		"/v3/service_plans?include=space":                                        "Invalid included resource: 'space'",
		"/v3/service_credential_bindings?include=x":                              "Invalid included resource: 'x'",
		"/v3/service_credential_bindings?type=route":                             "Type must be one of 'app', 'key'",
		"/v3/service_instances?type=x":                                           "Type must be one of 'managed', 'user-provided'",
		"/v3/service_instances?fields[space]=guid,color":                         "Fields valid keys for 'space' are: ",
		"/v3/service_instances?fields[colour]=x":                                 "Unknown query parameter(s): 'fields[colour]'. Valid parameters are: ",
		"/v3/service_instances?order_by=guid":                                    "Order by can only be: ",
		"/v3/service_instances?label_selector=a%20b":                             "Invalid label_selector value",
		"/v3/service_instances?label_selector=" + strings.Repeat("a,", 50) + "a": "Invalid label_selector value: too many requirements (maximum is 50)",
	} {
		got := c.do("GET", path, "").cfErr()
		if prefix := "400 10005 CF-BadQueryParameter: The query parameter is invalid: " + want; !strings.HasPrefix(got, prefix) {
			t.Errorf("%s: %s, want %s", path, got, prefix)
		}
	}
}

func TestPaging(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	first := c.plantAt("ferry/work", "i0", "postgres/small", "")
	for n := range 6 {
		c.plantAt("ferry/work", fmt.Sprintf("i%d", n+1), "postgres/small", "")
	}
	pages := []string{"i0 i1 i2", "i3 i4 i5", "i6"}
	next := instances + "?per_page=3&label_selector=!x"
	for n, want := range pages {
		c.lists(next, want)
		r := c.must(200, "GET", next, "")
		if previous := r.at("pagination", "previous"); (previous == nil) != (n == 0) {
			t.Errorf("page %d has previous %v", n, previous)
		}
		next = r.text("pagination.next.href")
	}
	if next != "" {
		t.Errorf("there is a page behind the last one: %s", next)
	}
	c.lists(instances+"?page=9", "")
	c.lists(instances+"?per_page=1&order_by=-name", "i6")
	c.lists(instances+"?per_page=1&order_by=-created_at", "i6")
	c.must(200, "PATCH", instances+first, `{"metadata":{}}`)
	c.lists(instances+"?order_by=-updated_at&per_page=1", "i0")
	for _, order := range []string{"name", "-created_at", "updated_at"} {
		for _, path := range []string{"service_instances", "service_credential_bindings", "service_plans", "service_offerings", "spaces", "organizations"} {
			c.must(200, "GET", "/v3/"+path+"?order_by="+order, "")
		}
	}
}

func TestInstanceFilters(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	a := c.plantAt("ferry/one", "a", "postgres/small", `,"labels":{"tier":"gold","client":"x"}`)
	c.plantAt("ferry/two", "a", "postgres/small", `,"labels":{"tier":"silver"}`)
	c.plantAt("ferry-b/one", "b,c", "postgres/small", "")
	small := c.planGUID("postgres/small")
	one := c.do("GET", "/v3/spaces?names=one&organization_guids="+c.org("ferry"), "").str("resources", 0, "guid")
	for query, want := range map[string]string{
		"names=a": "a a",
		"names=a&organization_guids=" + c.org("ferry-b"):              "",
		"names=" + url.QueryEscape("b%2Cc"):                           "b,c",
		"names=b,c":                                                   "",
		"guids=" + a + "," + a:                                        "a",
		"guids=" + a + "&names=b":                                     "",
		"space_guids=" + one:                                          "a",
		"organization_guids=" + c.org("ferry-b"):                      "b,c",
		"service_plan_guids=" + small:                                 "a a b,c",
		"service_plan_names=large":                                    "",
		"type=user-provided":                                          "",
		"label_selector=tier=gold":                                    "a",
		"label_selector=tier==gold,client=x":                          "a",
		"label_selector=tier!=gold":                                   "a b,c",
		"label_selector=" + url.QueryEscape("tier in (gold,silver)"):  "a a",
		"label_selector=" + url.QueryEscape("tier notin (gold),tier"): "a",
		"label_selector=client":                                       "a",
		"label_selector=!tier":                                        "b,c",
	} {
		c.lists(instances+"?"+query, want)
	}
}

func TestKeyFilters(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	first := c.plantAt("ferry/work", "first", "postgres/small", `,"keys":[{"name":"k"},{"name":"l"}]`)
	c.plantAt("ferry/work", "second", "postgres/large", `,"keys":[{"name":"k"}]`)
	k := c.do("GET", keys, "").str("resources", 0, "guid")
	for query, want := range map[string]string{
		"":        "k l k",
		"names=k": "k k",
		"names=k&service_instance_guids=" + first: "k",
		"service_instance_names=second&type=key":  "k",
		"guids=" + k:                              "k",
		"service_plan_names=large":                "k",
		"service_offering_names=queue":            "",
		"app_guids=x":                             "",
		"include=service_instance&names=l":        "l",
		"label_selector=a":                        "",
	} {
		c.lists(keys+"?"+query, want)
	}
	c.reads(keys+"?include=service_instance", "included.service_instances.#=2", "included.service_instances.1.name=second")
}

// TestFieldsOfInstances has every field of the list, and those of one instance refused where they are not allowed.
func TestFieldsOfInstances(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	path := instances + c.plant("")
	c.reads(instances+"?fields[space]=guid,name,relationships.organization&fields[space.organization]=name,guid&fields[service_plan]=guid,name,relationships.service_offering"+
		"&fields[service_plan.service_offering]=name,guid,description,documentation_url,tags,relationships.service_broker&fields[service_plan.service_offering.service_broker]=name,guid",
		"included.spaces.0.relationships.organization.data.guid="+c.org("ferry"), "included.organizations.0.name=ferry", "included.service_plans.0.name=small",
		"included.service_offerings.0.name=postgres", "included.service_brokers.0.name=backing-broker")
	c.reads(path+"?fields[space]=name", "included.spaces.0.name=work")
	c.answers("GET", path+"?fields[space]=relationships.organization", "",
		"400 10005 CF-BadQueryParameter: The query parameter is invalid: Fields valid keys for 'space' are: 'guid', 'name'")
}

// TestTimeFilters has instances and keys made at three moments.
func TestTimeFilters(t *testing.T) {
	t.Parallel()
	var at clock
	o := idle()
	o.Now = at.now
	c := start(t, o)
	for _, name := range []string{"a", "b", "c"} {
		c.plantAt("ferry/work", name, "postgres/small", `,"keys":[{"name":"`+name+`"}]`)
		at.move(1e9)
	}
	for query, want := range map[string]string{
		"created_ats[lt]=2026-03-10T15:49:30Z":                                      "a",
		"created_ats[lte]=2026-03-10T15:49:30Z":                                     "a b",
		"created_ats[gt]=2026-03-10T15:49:30Z":                                      "c",
		"updated_ats[gte]=2026-03-10T15:49:30Z":                                     "b c",
		"created_ats=2026-03-10T15:49:29Z,2026-03-10T15:49:31Z":                     "a c",
		"created_ats[gt]=2026-03-10T15:49:29Z&updated_ats[lt]=2026-03-10T15:49:31Z": "b",
	} {
		c.lists(instances+"?"+query, want)
		c.lists(keys+"?"+query, want)
	}
	c.answers("GET", instances+"?updated_ats[lt]=today", "",
		"400 10005 CF-BadQueryParameter: The query parameter is invalid: Updated ats has an invalid timestamp format. Timestamps should be formatted as 'YYYY-MM-DDThh:mm:ssZ'")
}
