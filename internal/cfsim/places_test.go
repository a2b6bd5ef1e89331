package cfsim

import (
	"strings"
	"testing"
)

// TestRenamedByHand has somebody rename an instance and its key past the API:
// GUIDs, space and marks stay, and the old names are free.
func TestRenamedByHand(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant(`,"labels":{"a":"b"},"keys":[{"name":"k"}]`)
	path, keys := "/v3/service_instances/"+guid, "/v3/service_credential_bindings?names="
	key := c.do("GET", keys+"k", "").str("resources", 0, "guid")
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"name":"moved","dashboard_url":"https://d.example.org"}`)
	c.must(200, "PATCH", "/__sim/keys/"+key, `{"name":"other"}`)
	row := c.must(200, "GET", path, "")
	if row.str("name") != "moved" || row.str("metadata", "labels", "a") != "b" || row.str("dashboard_url") != "https://d.example.org" ||
		row.str("last_operation", "type") != "create" || row.str("relationships", "space", "data", "guid") != c.space("work") {
		t.Errorf("row %s", row.body)
	}
	for query, want := range map[string]string{
		"/v3/service_instances?names=it": "", "/v3/service_instances?names=moved": "moved", keys + "k": "", keys + "other": "other",
		"/v3/service_credential_bindings?service_instance_names=moved": "other",
	} {
		if got := strings.Join(c.do("GET", query, "").names(), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"dashboard_url":""}`)
	if got := c.do("GET", path, "").at("dashboard_url"); got != nil {
		t.Errorf("dashboard %v", got)
	}
	c.plant("")
	c.must(409, "PATCH", "/__sim/instances/"+guid, `{"name":"it"}`)
	c.must(400, "PATCH", "/__sim/instances/"+guid, `{"name":" "}`)
	c.must(400, "PATCH", "/__sim/instances/"+guid, `{"details":{}}`)
	c.must(400, "PATCH", "/__sim/keys/"+key, `{"dashboard_url":"x"}`)
	c.must(400, "PATCH", "/__sim/keys/"+key, `{"name":""}`)
}

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

// instanceBodyIn is a create in a space.
func (c *cloud) instanceBodyIn(space, name, plan string) string {
	c.t.Helper()
	return `{"type":"managed","name":"` + name + `","relationships":{"space":{"data":{"guid":"` + space + `"}},"service_plan":{"data":{"guid":"` + c.planGUID(plan) + `"}}}}`
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

// TestNamesOfRows has a database that ignores case in names of instances and
// keys, and one that does not.
func TestNamesOfRows(t *testing.T) {
	t.Parallel()
	ignoring := quick()
	ignoring.NamesIgnoreCase = true
	for name, test := range map[string]struct {
		options     Options
		taken, key  string
		found, keys string
		renamed     int
	}{
		"ignoring case": {ignoring, unprocessableText + "The service instance name is taken: IT.",
			unprocessableText + "The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with name 'K'.", "it", "k", 409},
		"telling case apart": {quick(), "202", "202", "", "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, test.options)
			guid := c.plant(`,"keys":[{"name":"k"}]`)
			for query, want := range map[string]string{
				"/v3/service_instances?names=IT": test.found, "/v3/service_credential_bindings?names=K": test.keys,
				"/v3/service_credential_bindings?service_instance_names=IT": test.keys,
			} {
				if got := strings.Join(c.do("GET", query, "").names(), " "); got != want {
					t.Errorf("%s: %q, want %q", query, got, want)
				}
			}
			second := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"b","offering":"postgres","plan":"small"}`).str("guid")
			c.must(test.renamed, "PATCH", "/__sim/instances/"+second, `{"name":"It"}`)
			c.must(200, "PATCH", "/__sim/instances/"+second, `{"name":"b"}`)
			checkAnswer(t, c.do("POST", "/v3/service_instances", c.instanceBody("IT", "postgres/small", "")), test.taken)
			checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", keyBody("K", guid, "")), test.key)
		})
	}
}

// TestCaseOfANameChanges has an instance renamed to its own name in another
// case, on a database where the two are one.
func TestCaseOfANameChanges(t *testing.T) {
	t.Parallel()
	o := quick()
	o.NamesIgnoreCase = true
	c := start(t, o)
	guid := c.plant("")
	c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"name":"IT"}`)
	if got := c.lastOperation("/v3/service_instances/"+guid, "update succeeded").str("name"); got != "IT" {
		t.Errorf("name %q", got)
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
