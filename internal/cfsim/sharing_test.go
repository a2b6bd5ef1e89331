package cfsim

import (
	"strings"
	"testing"
)

// TestSharedInstance has an instance found, and its name taken, in a space that it is shared with.
func TestSharedInstance(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant("")
	path := instances + guid
	c.force("instances/"+guid, `{"shared_with":["demo/other"]}`)
	other := c.reads("/v3/spaces?names=other", "resources.#=1").str("resources", 0, "guid")
	c.reads(path+"/relationships/shared_spaces", "data.0.guid="+other)
	for _, query := range []string{"space_guids=" + other, "organization_guids=" + c.org("demo"), "space_guids=" + c.space("work")} {
		c.lists(instances+"?"+query, "it")
	}
	body := strings.Replace(c.instanceBody("it", "postgres/small", ""), c.space("work"), other, 1)
	c.answers("POST", instances, body, textTaken)
	c.answers("PATCH", path, `{"name":"new"}`, unprocessableText+"Service instances that have been shared cannot be renamed")
	c.answers("PATCH", path, `{"name":"it","tags":["a"]}`, "202")
	c.lastOperation(path, "update succeeded")
	c.force("instances/"+guid, `{"shared_with":[]}`)
	c.answers("POST", instances, body, "202")
	c.must(409, "PATCH", "/__sim/instances/"+guid, `{"shared_with":["demo/other"]}`)
}

// TestSharingThroughTheAPI needs a feature flag, a shareable offering, and spaces that can have the instance.
func TestSharingThroughTheAPI(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid, work := c.plant(""), c.space("work")
	other := c.must(201, "POST", "/v3/spaces", spaceBody("other", c.org("demo"))).str("guid")
	path := instances + guid + "/relationships/shared_spaces"
	share := func(space, want string) {
		t.Helper()
		c.answers("POST", path, `{"data":[{"guid":"`+space+`"}]}`, want)
	}

	share(other, "403 330002 CF-FeatureDisabled: Feature Disabled: service_instance_sharing")
	c.reads("/v3/feature_flags/service_instance_sharing", "enabled=false", "name=service_instance_sharing")
	c.must(200, "PATCH", "/v3/feature_flags/service_instance_sharing", `{"enabled":true}`)
	share(other, unprocessableText+"The postgres service does not support service instance sharing.")
	c.market(`{"shareable":{"postgres":true}}`)
	c.reads("/v3/service_offerings?names=postgres", "resources.0.shareable=true")
	share("nowhere", unprocessableText+"Unable to share service instance it with spaces ['nowhere']. Ensure the spaces exist and that you have access to them.")
	share(work, unprocessableText+"Unable to share service instance 'it' with space '"+work+"'. Service instances cannot be shared into the space where they were created.")
	c.answers("POST", path, `{}`, unprocessableText+"Data must be an array")

	c.market(`{"visible_in":{"postgres/small":["ferry"]}}`)
	share(other, unprocessableText+"Access to service postgres and plan small is not enabled in demo/other.")
	c.market(`{"visible_in":{"postgres/small":null},"hide":["postgres/small"]}`)
	share(other, unprocessableText+"The service instance could not be shared as the small plan is inactive.")
	c.market(`{"show":["postgres/small"]}`)

	namesake := c.plantAt("demo/other", "it", "postgres/small", "")
	share(other, unprocessableText+"A service instance called it already exists in other.")
	c.must(204, "DELETE", instances+namesake+"?purge=true", "")
	for _, state := range []struct{ operation, want string }{
		{`"create","state":"failed"`, textMissing},
		{`"create","state":"in progress"`, unprocessableText + "Service instance is currently being created. It can be shared after its creation succeeded."},
		{`"delete","state":"in progress"`, unprocessableText + "The service instance is getting deleted."},
		{`"update","state":"in progress"`, "200"},
	} {
		c.force("instances/"+guid, `{"last_operation":{"type":`+state.operation+`}}`)
		share(other, state.want)
	}
	c.reads(path+"?fields[space]=guid,name,relationships.organization&fields[space.organization]=guid,name",
		"data.0.guid="+other, "included.spaces.0.name=other", "included.organizations.0.name=demo")
	c.reads(path+"/usage_summary", "usage_summary.0.space.guid="+other)
	c.answers("DELETE", path+"/nowhere", "", unprocessableText+"Unable to unshare service instance from space nowhere. Ensure the space exists.")
	c.must(204, "DELETE", path+"/"+other, "")
	c.reads(path, "data.#=0")
}
