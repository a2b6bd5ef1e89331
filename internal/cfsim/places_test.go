package cfsim

import (
	"strings"
	"testing"
)

func TestPlacesAreMade(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	ferry := c.org("ferry")
	made := c.must(201, "POST", "/v3/spaces", spaceBody("s", ferry))
	made.reads(t, "relationships.organization.data.guid="+ferry)
	for _, test := range []struct{ path, body, want string }{
		{"/v3/spaces", spaceBody("S", ferry), unprocessableText + "Name must be unique per organization"},
		{"/v3/spaces", spaceBody("s", "nowhere"), unprocessableText + "Invalid organization. Ensure the organization exists and you have access to it."},
		{"/v3/spaces", spaceBody(strings.Repeat("x", 256), ferry), unprocessableText + "Name is too long (maximum is 255 characters)"},
		{"/v3/spaces", spaceBody("s", c.org("demo")), "201"},
		{"/v3/organizations", `{"name":"FERRY"}`, unprocessableText + "Organization 'FERRY' already exists."},
		{"/v3/organizations", `{"name":"new"}`, "201"},
	} {
		c.answers("POST", test.path, test.body, test.want)
	}
	c.lists("/v3/organizations?names=ferry,ferry-b,demo", "ferry ferry-b demo")
	c.reads("/v3/spaces?include=organization&guids="+made.str("guid"), "included.organizations.0.name=ferry")
}

// TestNamesOfPlacesIgnoreCase holds for organizations, spaces, offerings and plans on every database.
func TestNamesOfPlacesIgnoreCase(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.space("QUEUE")
	for query, want := range map[string]string{
		"organizations?names=Ferry": "ferry", "spaces?names=queue": "QUEUE", "service_offerings?names=Postgres": "postgres",
		"service_plans?names=SMALL&service_offering_names=POSTGRES": "small",
	} {
		c.lists("/v3/"+query, want)
	}
}

// TestPlacesAreRenamed has spaces and organizations change names: what is in them, and what operators said about them,
// stays.
func TestPlacesAreRenamed(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/small", "")
	ferry, work := "/v3/organizations/"+c.org("ferry"), "/v3/spaces/"+c.space("work")
	c.conditions(`{"quota":{"ferry/work":{"instances":0}},"suspended":{"ferry":true}}`)
	c.market(`{"visible_in":{"postgres/large":["ferry"]}}`)
	c.answers("PATCH", work, `{"name":"x"}`, "403 10017 CF-OrgSuspended: The organization is suspended")
	c.must(200, "PATCH", ferry, `{"name":"ship","suspended":false,"metadata":{"labels":{"a":"b"}}}`)
	c.must(200, "PATCH", work, `{"name":"deck","metadata":{"labels":{"c":"d"}}}`).reads(t, "guid="+c.reads(work).str("guid"), "name=deck", "metadata.labels.c=d")
	for query, want := range map[string]string{
		"organizations?names=ferry": "", "organizations?names=ship&label_selector=a=b": "ship", "spaces?names=work": "", "spaces?names=deck": "deck",
		"service_plans?names=large&organization_guids=" + c.org("ferry"): "large",
	} {
		c.lists("/v3/"+query, want)
	}
	c.answers("POST", instances, body, unprocessableText+"You have exceeded your space's services limit.")
	if second := c.space("work"); strings.HasSuffix(work, second) {
		t.Errorf("the new space has the GUID of the old one: %s", second)
	}
	if again := c.must(201, "POST", "/v3/organizations", `{"name":"ferry"}`); again.str("guid") == c.org("ferry") {
		t.Errorf("the new organization has the GUID of the old one: %s", again.body)
	}
	c.answers("PATCH", work, `{"name":"WORK"}`, unprocessableText+"Name must be unique per organization")
	c.answers("PATCH", ferry, `{"name":"Demo"}`, unprocessableText+"Name must be unique")
	c.answers("PATCH", work, `{"name":"DECK"}`, "200")
	c.answers("PATCH", "/v3/spaces/nowhere", `{"name":"x"}`, "404 10010 CF-ResourceNotFound: Space not found")
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	c.answers("PATCH", work, `{"name":"x"}`, textForbidden)
	c.answers("PATCH", ferry, `{"name":"x"}`, textForbidden)
}

// TestSpaceIsDeleted removes what is in a space at once, with its keys, roles and shares.
func TestSpaceIsDeleted(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	work, elsewhere := "/v3/spaces/"+c.space("work"), c.plant("")
	guid := c.plantAt("demo/play", "it", "postgres/small", `,"keys":[{"name":"k"}]`)
	guids := c.do("GET", "/v3/spaces?names=play", "").str("resources", 0, "guid")
	play := "/v3/spaces/" + guids
	c.force("instances/"+elsewhere, `{"name":"other","shared_with":["demo/play"]}`)
	c.must(201, "POST", "/v3/roles", rolePost(roleDeveloper, "space", guids, `{"guid":"ferry"}`))
	c.workers(true)
	job := c.accepted("DELETE", play, "")
	c.job(job, jobProcessing).reads(t, "operation=space.delete", "links.space.href="+c.url+play)
	c.must(200, "GET", play, "")
	c.workers(false)
	c.job(job, jobComplete)
	c.answers("GET", play, "", "404 10010 CF-ResourceNotFound: Space not found")
	c.answers("GET", instances+guid, "", textNotFound)
	c.asked("it", deprovision, 1)
	c.asked("it", unbind, 1)
	c.reads(instances+elsewhere+"/relationships/shared_spaces", "data.#=0")
	c.reads("/v3/roles?user_guids=ferry", "resources.#=0")
	c.answers("DELETE", play, "", "404 10010 CF-ResourceNotFound: Space not found")
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	c.answers("DELETE", work, "", textForbidden)
}

// TestSpaceIsNotEmpty keeps a space whose instances do not go at once: the job says why, and what was begun goes on.
func TestSpaceIsNotEmpty(t *testing.T) {
	t.Parallel()
	const busy = "An operation for service instance it is in progress."
	each(t, quick(), map[string]string{
		"postgres/async": busy, "faults/delete-rejected": "Service broker error: The delete is refused by this plan", "faults/update-stalls": busy,
	}, func(c *cloud, plan, want string) {
		guid := c.plantAt("ferry/work", "it", plan, "")
		if strings.HasSuffix(plan, "stalls") {
			c.job(c.accepted("PATCH", instances+guid, `{"parameters":{}}`), jobPolling)
		}
		space := "/v3/spaces/" + c.space("work")
		c.fails(c.accepted("DELETE", space, ""),
			"290008 CF-SpaceDeletionFailed: Deletion of space work failed because one or more resources within could not be deleted.\n\n\t"+want)
		if plan == "postgres/async" {
			c.gone(instances + guid)
			c.job(c.accepted("DELETE", space, ""), jobComplete)
		}
	})
}
