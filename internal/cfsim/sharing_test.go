package cfsim

import (
	"strings"
	"testing"
)

// TestSharedInstance has an instance found, and its name taken, in a space that
// it is shared with.
func TestSharedInstance(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant("")
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"shared_with":["demo/other"]}`)
	path := "/v3/service_instances/" + guid
	other := c.must(200, "GET", "/v3/spaces?names=other", "").str("resources", 0, "guid")
	shared := c.must(200, "GET", path+"/relationships/shared_spaces", "")
	if got := shared.str("data", 0, "guid"); got != other || got == "" {
		t.Errorf("shared with %s", shared.body)
	}
	for _, query := range []string{"space_guids=" + other, "organization_guids=" + c.org("demo"), "space_guids=" + c.space("work")} {
		if got := strings.Join(c.do("GET", "/v3/service_instances?"+query, "").names(), " "); got != "it" {
			t.Errorf("%s: %q", query, got)
		}
	}
	body := strings.Replace(c.instanceBody("it", "postgres/small", ""), c.space("work"), other, 1)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), textTaken)
	checkAnswer(t, c.do("PATCH", path, `{"name":"new"}`), unprocessableText+"Service instances that have been shared cannot be renamed")
	checkAnswer(t, c.do("PATCH", path, `{"name":"it","tags":["a"]}`), "202")
	c.lastOperation(path, "update succeeded")
	for body, status := range map[string]int{`{"shared_with":["nowhere/x"]}`: 400, `{"shared_with":["ferry"]}`: 400, `{"shared_with":["ferry/work"]}`: 409} {
		c.must(status, "PATCH", "/__sim/instances/"+guid, body)
	}
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"shared_with":[]}`)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "202")
	c.must(409, "PATCH", "/__sim/instances/"+guid, `{"shared_with":["demo/other"]}`)
}

// TestSharingThroughTheAPI needs a feature flag, a shareable offering, and
// spaces that can have the instance.
func TestSharingThroughTheAPI(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid, work := c.plant(""), c.space("work")
	other := c.must(201, "POST", "/v3/spaces", `{"name":"other","relationships":{"organization":{"data":{"guid":"`+c.org("demo")+`"}}}}`).str("guid")
	path := "/v3/service_instances/" + guid + "/relationships/shared_spaces"
	with := func(space string) string { return `{"data":[{"guid":"` + space + `"}]}` }
	share := func(space, want string) { t.Helper(); checkAnswer(t, c.do("POST", path, with(space)), want) }

	share(other, "403 330002 CF-FeatureDisabled: Feature Disabled: service_instance_sharing")
	if r := c.must(200, "GET", "/v3/feature_flags/service_instance_sharing", ""); r.at("enabled") != false || r.str("name") != "service_instance_sharing" {
		t.Errorf("flag %s", r.body)
	}
	c.must(200, "PATCH", "/v3/feature_flags/service_instance_sharing", `{"enabled":true}`)
	share(other, unprocessableText+"The postgres service does not support service instance sharing.")
	c.must(200, "POST", "/__sim/marketplace", `{"shareable":{"postgres":true}}`)
	if r := c.must(200, "GET", "/v3/service_offerings?names=postgres", ""); r.at("resources", 0, "shareable") != true {
		t.Errorf("offering %s", r.body)
	}
	share("nowhere", unprocessableText+"Unable to share service instance it with spaces ['nowhere']. Ensure the spaces exist and that you have access to them.")
	share(work, unprocessableText+"Unable to share service instance 'it' with space '"+work+"'. Service instances cannot be shared into the space where they were created.")
	checkAnswer(t, c.do("POST", path, `{}`), unprocessableText+"Data must be an array")

	c.must(200, "POST", "/__sim/marketplace", `{"visible_in":{"postgres/small":["ferry"]}}`)
	share(other, unprocessableText+"Access to service postgres and plan small is not enabled in demo/other.")
	c.must(200, "POST", "/__sim/marketplace", `{"visible_in":{"postgres/small":null},"hide":["postgres/small"]}`)
	share(other, unprocessableText+"The service instance could not be shared as the small plan is inactive.")
	c.must(200, "POST", "/__sim/marketplace", `{"show":["postgres/small"]}`)

	namesake := c.must(200, "POST", "/__sim/instances", `{"org":"demo","space":"other","name":"it","offering":"postgres","plan":"small"}`).str("guid")
	share(other, unprocessableText+"A service instance called it already exists in other.")
	c.must(204, "DELETE", "/v3/service_instances/"+namesake+"?purge=true", "")
	for _, state := range []struct{ operation, want string }{
		{`"create","state":"failed"`, "404 60004 CF-ServiceInstanceNotFound: The service instance could not be found: it"},
		{`"create","state":"in progress"`, unprocessableText + "Service instance is currently being created. It can be shared after its creation succeeded."},
		{`"delete","state":"in progress"`, unprocessableText + "The service instance is getting deleted."},
		{`"update","state":"in progress"`, "200"},
	} {
		c.must(200, "PATCH", "/__sim/instances/"+guid, `{"last_operation":{"type":`+state.operation+`}}`)
		share(other, state.want)
	}
	r := c.must(200, "GET", path+"?fields[space]=guid,name,relationships.organization&fields[space.organization]=guid,name", "")
	if r.str("data", 0, "guid") != other || r.str("included", "spaces", 0, "name") != "other" || r.str("included", "organizations", 0, "name") != "demo" {
		t.Errorf("shared spaces %s", r.body)
	}
	if r := c.must(200, "GET", path+"/usage_summary", ""); r.str("usage_summary", 0, "space", "guid") != other {
		t.Errorf("usage %s", r.body)
	}
	checkAnswer(t, c.do("DELETE", path+"/nowhere", ""), unprocessableText+"Unable to unshare service instance from space nowhere. Ensure the space exists.")
	c.must(204, "DELETE", path+"/"+other, "")
	if r := c.must(200, "GET", path, ""); r.at("data", 0) != nil {
		t.Errorf("still shared: %s", r.body)
	}
}
