package cfsim

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQueryIsChecked(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	tests := map[string]string{
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
		"/v3/service_instances?order_by=guid":                                    "Order by can only be: ",
		"/v3/service_instances?label_selector=a%20b":                             "Invalid label_selector value",
		"/v3/service_instances?label_selector=" + strings.Repeat("a,", 50) + "a": "Invalid label_selector value: too many",
	}
	for path, want := range tests {
		t.Run(path[:min(len(path), 60)], func(t *testing.T) {
			got := c.do("GET", path, "").cfErr()
			if prefix := "400 10005 CF-BadQueryParameter: The query parameter is invalid: " + want; !strings.HasPrefix(got, prefix) {
				t.Errorf("got %s, want %s", got, prefix)
			}
		})
	}
}

func TestRelationshipFieldsAreForListsOnly(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	query := "?fields[space]=guid,relationships.organization&fields[service_plan.service_offering]=name"
	list := c.must(200, "GET", "/v3/service_instances"+query, "")
	if list.str("included", "spaces", 0, "relationships", "organization", "data", "guid") != c.org("ferry") || list.str("included", "service_offerings", 0, "name") != "postgres" {
		t.Errorf("included %v", list.at("included"))
	}
	c.must(400, "GET", "/v3/service_instances/"+guid+query, "")
	one := c.must(200, "GET", "/v3/service_instances/"+guid+"?fields[space]=name", "")
	if one.str("included", "spaces", 0, "name") != "work" {
		t.Errorf("included %v", one.at("included"))
	}
}

func TestPaging(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	want := []string{}
	for n := range 7 {
		name := fmt.Sprintf("i%d", n)
		c.create(name, "postgres/small")
		want = append(want, name)
	}
	got := []string{}
	pages := 0
	next := "/v3/service_instances?per_page=3&label_selector=!x"
	for next != "" {
		r := c.must(200, "GET", next, "")
		got = append(got, r.names()...)
		pages++
		next = r.str("pagination", "next", "href")
		if previous := r.at("pagination", "previous"); (previous == nil) != (pages == 1) {
			t.Errorf("page %d has previous %v", pages, previous)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
		t.Errorf("%d pages (-want +got):\n%s", pages, diff)
	}
	if r := c.must(200, "GET", "/v3/service_instances?page=9", ""); len(r.names()) != 0 {
		t.Errorf("behind the last page: %s", r.body)
	}
	for _, by := range []string{"-name", "-created_at"} {
		if diff := cmp.Diff([]string{"i6"}, c.do("GET", "/v3/service_instances?per_page=1&order_by="+by, "").names()); diff != "" {
			t.Error(diff)
		}
	}
	c.must(200, "PATCH", "/v3/service_instances/"+c.do("GET", "/v3/service_instances?names=i0", "").str("resources", 0, "guid"), `{"metadata":{}}`)
	if diff := cmp.Diff([]string{"i0"}, c.do("GET", "/v3/service_instances?order_by=-updated_at&per_page=1", "").names()); diff != "" {
		t.Error(diff)
	}
}

func TestInstanceFilters(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	plant := func(org, space, name, labels string) string {
		return c.must(200, "POST", "/__sim/instances", `{"org":"`+org+`","space":"`+space+`","name":"`+name+`","offering":"postgres","plan":"small","labels":`+labels+`}`).str("guid")
	}
	a := plant("ferry", "one", "a", `{"tier":"gold","client":"x"}`)
	plant("ferry", "two", "a", `{"tier":"silver"}`)
	plant("ferry-b", "one", "b,c", `{}`)
	small := c.planGUID("postgres/small")
	one := c.do("GET", "/v3/spaces?names=one&organization_guids="+c.org("ferry"), "").str("resources", 0, "guid")
	tests := map[string][]string{
		"names=a": {"a", "a"},
		"names=a&organization_guids=" + c.org("ferry-b"):              {},
		"names=" + url.QueryEscape("b%2Cc"):                           {"b,c"},
		"names=b,c":                                                   {},
		"guids=" + a + "," + a:                                        {"a"},
		"guids=" + a + "&names=b":                                     {},
		"space_guids=" + one:                                          {"a"},
		"organization_guids=" + c.org("ferry-b"):                      {"b,c"},
		"service_plan_guids=" + small:                                 {"a", "a", "b,c"},
		"service_plan_names=large":                                    {},
		"type=user-provided":                                          {},
		"label_selector=tier=gold":                                    {"a"},
		"label_selector=tier==gold,client=x":                          {"a"},
		"label_selector=tier!=gold":                                   {"a", "b,c"},
		"label_selector=" + url.QueryEscape("tier in (gold,silver)"):  {"a", "a"},
		"label_selector=" + url.QueryEscape("tier notin (gold),tier"): {"a"},
		"label_selector=client":                                       {"a"},
		"label_selector=!tier":                                        {"b,c"},
	}
	for query, want := range tests {
		t.Run(query, func(t *testing.T) {
			if diff := cmp.Diff(want, c.must(200, "GET", "/v3/service_instances?"+query, "").names()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKeyFilters(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	first, second := c.ready("first", "postgres/small"), c.ready("second", "postgres/large")
	k := c.readyKey("k", first)
	c.readyKey("l", first)
	c.readyKey("k", second)
	tests := map[string][]string{
		"":        {"k", "l", "k"},
		"names=k": {"k", "k"},
		"names=k&service_instance_guids=" + first: {"k"},
		"service_instance_names=second&type=key":  {"k"},
		"guids=" + k:                              {"k"},
		"service_plan_names=large":                {"k"},
		"service_offering_names=queue":            {},
		"app_guids=x":                             {},
		"include=service_instance&names=l":        {"l"},
		"label_selector=a":                        {},
	}
	for query, want := range tests {
		t.Run(query, func(t *testing.T) {
			if diff := cmp.Diff(want, c.must(200, "GET", "/v3/service_credential_bindings?"+query, "").names()); diff != "" {
				t.Error(diff)
			}
		})
	}
	r := c.do("GET", "/v3/service_credential_bindings?include=service_instance", "")
	if r.str("included", "service_instances", 1, "name") != "second" || r.at("included", "service_instances", 2) != nil {
		t.Errorf("included %v", r.at("included"))
	}
}

// TestFieldsOfInstances has every field of the list, and those of one instance
// refused where they are not allowed.
func TestFieldsOfInstances(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant("")
	query := "?fields[space]=guid,name,relationships.organization&fields[space.organization]=name,guid&fields[service_plan]=guid,name,relationships.service_offering" +
		"&fields[service_plan.service_offering]=name,guid,description,documentation_url,tags,relationships.service_broker&fields[service_plan.service_offering.service_broker]=name,guid"
	r := c.must(200, "GET", "/v3/service_instances"+query, "")
	got := []string{
		r.str("included", "spaces", 0, "relationships", "organization", "data", "guid"), r.str("included", "organizations", 0, "name"),
		r.str("included", "service_plans", 0, "name"), r.str("included", "service_offerings", 0, "name"), r.str("included", "service_brokers", 0, "name"),
	}
	if want := c.org("ferry") + " ferry small postgres backing-broker"; strings.Join(got, " ") != want {
		t.Errorf("included %q, want %q", got, want)
	}
	checkAnswer(t, c.do("GET", "/v3/service_instances/"+guid+"?fields[space]=relationships.organization", ""),
		"400 10005 CF-BadQueryParameter: The query parameter is invalid: Fields valid keys for 'space' are: 'guid', 'name'")
	const unknown = "400 10005 CF-BadQueryParameter: The query parameter is invalid: Unknown query parameter(s): 'fields[colour]'. Valid parameters are: "
	if got := c.do("GET", "/v3/service_instances?fields[colour]=x", "").cfErr(); !strings.HasPrefix(got, unknown) {
		t.Errorf("an unknown field: %s", got)
	}
	for _, order := range []string{"name", "-created_at", "updated_at"} {
		for _, path := range []string{"service_instances", "service_credential_bindings", "service_plans", "service_offerings", "spaces", "organizations"} {
			c.must(200, "GET", "/v3/"+path+"?order_by="+order, "")
		}
	}
}

// TestTimeFilters has instances and keys made at three moments.
func TestTimeFilters(t *testing.T) {
	t.Parallel()
	var at clock
	o := idle()
	o.Now = at.now
	c := start(t, o)
	for _, name := range []string{"a", "b", "c"} {
		c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"`+name+`","offering":"postgres","plan":"small","keys":[{"name":"`+name+`"}]}`)
		at.move(1e9)
	}
	tests := map[string]string{
		"created_ats[lt]=2026-03-10T15:49:30Z":                                      "a",
		"created_ats[lte]=2026-03-10T15:49:30Z":                                     "a b",
		"created_ats[gt]=2026-03-10T15:49:30Z":                                      "c",
		"updated_ats[gte]=2026-03-10T15:49:30Z":                                     "b c",
		"created_ats=2026-03-10T15:49:29Z,2026-03-10T15:49:31Z":                     "a c",
		"created_ats[gt]=2026-03-10T15:49:29Z&updated_ats[lt]=2026-03-10T15:49:31Z": "b",
	}
	for query, want := range tests {
		for _, path := range []string{"/v3/service_instances?", "/v3/service_credential_bindings?"} {
			if got := strings.Join(c.must(200, "GET", path+query, "").names(), " "); got != want {
				t.Errorf("%s%s: %q, want %q", path, query, got, want)
			}
		}
	}
	checkAnswer(t, c.do("GET", "/v3/service_instances?updated_ats[lt]="+url.QueryEscape("today"), ""),
		"400 10005 CF-BadQueryParameter: The query parameter is invalid: Updated ats has an invalid timestamp format. Timestamps should be formatted as 'YYYY-MM-DDThh:mm:ssZ'")
}
