package cfsim

import (
	"strings"
	"testing"
)

// TestPlacesAreRenamed has spaces and organizations change names: what is in
// them, and what operators said about them, stays.
func TestPlacesAreRenamed(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	work := c.space("work")
	c.must(200, "POST", "/__sim/conditions", `{"quota":{"ferry/work":{"instances":0}},"suspended":{"ferry":true}}`)
	c.must(200, "POST", "/__sim/marketplace", `{"visible_in":{"postgres/large":["ferry"]}}`)
	checkAnswer(t, c.do("PATCH", "/v3/spaces/"+work, `{"name":"x"}`), "403 10017 CF-OrgSuspended: The organization is suspended")
	c.must(200, "PATCH", "/v3/organizations/"+c.org("ferry"), `{"name":"ship","suspended":false,"metadata":{"labels":{"a":"b"}}}`)
	r := c.must(200, "PATCH", "/v3/spaces/"+work, `{"name":"deck","metadata":{"labels":{"c":"d"}}}`)
	if r.str("guid") != work || r.str("name") != "deck" || r.str("metadata", "labels", "c") != "d" {
		t.Errorf("space %s", r.body)
	}
	for query, want := range map[string]string{
		"organizations?names=ferry": "", "organizations?names=ship&label_selector=a=b": "ship", "spaces?names=work": "", "spaces?names=deck": "deck",
		"service_plans?names=large&organization_guids=" + c.org("ferry"): "large",
	} {
		if got := strings.Join(c.do("GET", "/v3/"+query, "").names(), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	body := strings.Replace(c.instanceBodyIn(work, "it", "postgres/small"), "work", "deck", 1)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), unprocessableText+"You have exceeded your space's services limit.")
	second := c.must(201, "POST", "/v3/spaces", `{"name":"work","relationships":{"organization":{"data":{"guid":"`+c.org("ferry")+`"}}}}`)
	if second.str("guid") == work {
		t.Errorf("the new space has the GUID of the old one: %s", second.body)
	}
	checkAnswer(t, c.do("PATCH", "/v3/spaces/"+work, `{"name":"WORK"}`), unprocessableText+"Name must be unique per organization")
	checkAnswer(t, c.do("PATCH", "/v3/organizations/"+c.org("ferry"), `{"name":"Demo"}`), unprocessableText+"Name must be unique")
	c.must(200, "PATCH", "/v3/spaces/"+work, `{"name":"DECK"}`)
	if again := c.must(201, "POST", "/v3/organizations", `{"name":"ferry"}`); again.str("guid") == c.org("ferry") {
		t.Errorf("the new organization has the GUID of the old one: %s", again.body)
	}
	c.must(200, "POST", "/__sim/conditions", `{"permissions":{"ferry":"space_developer"}}`)
	checkAnswer(t, c.do("PATCH", "/v3/spaces/"+work, `{"name":"x"}`), "403 10003 CF-NotAuthorized: You are not authorized to perform the requested action")
	checkAnswer(t, c.do("PATCH", "/v3/organizations/"+c.org("ferry"), `{"name":"x"}`), "403 10003 CF-NotAuthorized: You are not authorized to perform the requested action")
	checkAnswer(t, c.do("PATCH", "/v3/spaces/nowhere", `{"name":"x"}`), "404 10010 CF-ResourceNotFound: Space not found")
}

// TestNamesOfPlacesIgnoreCase holds for organizations, spaces, offerings and
// plans on every database.
func TestNamesOfPlacesIgnoreCase(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.space("QUEUE")
	checkAnswer(t, c.do("POST", "/v3/spaces", `{"name":"queue","relationships":{"organization":{"data":{"guid":"`+c.org("ferry")+`"}}}}`),
		unprocessableText+"Name must be unique per organization")
	checkAnswer(t, c.do("POST", "/v3/organizations", `{"name":"FERRY"}`), unprocessableText+"Organization 'FERRY' already exists.")
	for query, want := range map[string]string{
		"organizations?names=Ferry": "ferry", "spaces?names=queue": "QUEUE", "service_offerings?names=Postgres": "postgres",
		"service_plans?names=SMALL&service_offering_names=POSTGRES": "small",
	} {
		if got := strings.Join(c.do("GET", "/v3/"+query, "").names(), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestSpaceIsDeleted removes what is in a space at once, with its keys, roles
// and shares; one of that name that comes later has another GUID.
func TestSpaceIsDeleted(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	work, elsewhere := c.space("work"), c.plant("")
	guid := c.must(200, "POST", "/__sim/instances", `{"org":"demo","space":"play","name":"it","offering":"postgres","plan":"small","keys":[{"name":"k"}]}`).str("guid")
	play := c.must(200, "GET", "/v3/spaces?names=play", "").str("resources", 0, "guid")
	c.must(200, "PATCH", "/__sim/instances/"+elsewhere, `{"name":"other","shared_with":["demo/play"]}`)
	c.must(201, "POST", "/v3/roles", rolePost(roleDeveloper, "space", play, `{"guid":"ferry"}`))
	c.workers(true)
	job := c.must(202, "DELETE", "/v3/spaces/"+play, "").header.Get("Location")
	if got := c.job(job, jobProcessing); got.str("operation") != "space.delete" || got.str("links", "space", "href") != c.url+"/v3/spaces/"+play {
		t.Errorf("job %s", got.body)
	}
	c.must(200, "GET", "/v3/spaces/"+play, "")
	c.workers(false)
	c.job(job, jobComplete)
	for path, want := range map[string]string{"spaces/" + play: "Space", "service_instances/" + guid: "Service instance"} {
		checkAnswer(t, c.do("GET", "/v3/"+path, ""), "404 10010 CF-ResourceNotFound: "+want+" not found")
	}
	if c.calls("it", deprovision) != 1 || c.calls("it", unbind) != 1 {
		t.Errorf("calls %+v", c.state().BrokerCalls)
	}
	if r := c.must(200, "GET", "/v3/service_instances/"+elsewhere+"/relationships/shared_spaces", ""); r.at("data", 0) != nil {
		t.Errorf("still shared: %s", r.body)
	}
	if r := c.must(200, "GET", "/v3/roles?user_guids=ferry", ""); r.at("resources", 0) != nil {
		t.Errorf("roles %s", r.body)
	}
	checkAnswer(t, c.do("DELETE", "/v3/spaces/"+play, ""), "404 10010 CF-ResourceNotFound: Space not found")
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	checkAnswer(t, c.do("DELETE", "/v3/spaces/"+work, ""), "403 10003 CF-NotAuthorized: You are not authorized to perform the requested action")
}

// TestSpaceIsNotEmpty keeps a space whose instances do not go at once: the job
// tells why, and what was begun goes on.
func TestSpaceIsNotEmpty(t *testing.T) {
	t.Parallel()
	const failed = "290008 CF-SpaceDeletionFailed: Deletion of space work failed because one or more resources within could not be deleted.\n\n\t"
	const busy = "An operation for service instance it is in progress."
	for plan, want := range map[string]string{
		"postgres/async": busy, "faults/delete-rejected": "Service broker error: The delete is refused by this plan", "faults/update-stalls": busy,
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid := c.ready("it", plan)
			if strings.HasSuffix(plan, "stalls") {
				c.job(c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"parameters":{}}`).header.Get("Location"), jobPolling)
			}
			job := c.must(202, "DELETE", "/v3/spaces/"+c.space("work"), "").header.Get("Location")
			if got := jobError(c.job(job, jobFailed)); got != failed+want {
				t.Errorf("job %q, want %q", got, failed+want)
			}
			if plan == "postgres/async" {
				eventually(t, "the delete that was begun", func() bool { return c.do("GET", "/v3/service_instances/"+guid, "").status == 404 })
				c.job(c.must(202, "DELETE", "/v3/spaces/"+c.space("work"), "").header.Get("Location"), jobComplete)
			}
		})
	}
}

func TestSpacesAndRoles(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	create := func(name, org string) result {
		return c.do("POST", "/v3/spaces", `{"name":"`+name+`","relationships":{"organization":{"data":{"guid":"`+org+`"}}}}`)
	}
	sp := create("s", c.org("ferry"))
	if sp.status != 201 || sp.str("relationships", "organization", "data", "guid") != c.org("ferry") {
		t.Fatalf("space: %d %s", sp.status, sp.body)
	}
	checkAnswer(t, create("s", c.org("ferry")), unprocessableText+"Name must be unique per organization")
	checkAnswer(t, create("s", "nowhere"), unprocessableText+"Invalid organization. Ensure the organization exists and you have access to it.")
	checkAnswer(t, create(strings.Repeat("x", 256), c.org("ferry")), unprocessableText+"Name is too long (maximum is 255 characters)")
	if r := create("s", c.org("demo")); r.status != 201 {
		t.Errorf("the name in another organization: %d", r.status)
	}
	role := `{"type":"space_developer","relationships":{"user":{"data":{"guid":"me"}},"space":{"data":{"guid":"` + sp.str("guid") + `"}}}}`
	checkAnswer(t, c.do("POST", "/v3/roles", role), unprocessableText+"Users cannot be assigned roles in a space if they do not have a role in that space's organization.")
	c.must(201, "POST", "/v3/roles", `{"type":"organization_user","relationships":{"user":{"data":{"guid":"me"}},"organization":{"data":{"guid":"`+c.org("ferry")+`"}}}}`)
	if r := c.do("POST", "/v3/roles", role); r.status != 201 || r.str("type") != "space_developer" {
		t.Errorf("role: %d %s", r.status, r.body)
	}
	checkAnswer(t, c.do("POST", "/v3/roles", role), unprocessableText+"User 'me' already has 'space_developer' role in space 's'.")
	checkAnswer(t, c.do("POST", "/v3/organizations", `{"name":"ferry"}`), unprocessableText+"Organization 'ferry' already exists.")
	if r := c.do("POST", "/v3/organizations", `{"name":"new"}`); r.status != 201 {
		t.Errorf("organization: %d %s", r.status, r.body)
	}
	orgs := c.do("GET", "/v3/organizations?names=ferry,ferry-b,demo", "")
	if got := strings.Join(orgs.names(), " "); got != "ferry ferry-b demo" {
		t.Errorf("organizations %q", got)
	}
	spaces := c.do("GET", "/v3/spaces?include=organization&guids="+sp.str("guid"), "")
	if spaces.str("included", "organizations", 0, "name") != "ferry" {
		t.Errorf("included %v", spaces.at("included"))
	}
}
