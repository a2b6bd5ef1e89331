package cfsim

import (
	"strings"
	"testing"
)

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
