package cfsim

import (
	"strings"
	"testing"
)

func (c *cloud) workers(held bool) {
	c.t.Helper()
	word := "false"
	if held {
		word = "true"
	}
	c.must(200, "POST", "/__sim/workers", `{"held":`+word+`}`)
}

// TestR2RivalReplacesFirst has a create over a failed one lose against another.
func TestR2RivalReplacesFirst(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	old := c.plant(`,"last_operation":{"type":"create","state":"failed"}`)
	c.conditions(`{"rivals":1}`)
	body := c.instanceBody("it", "postgres/small", "")
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "500 10001 UnknownError: An unknown error occurred.")
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), textTaken)
	rows := c.must(200, "GET", "/v3/service_instances?names=it", "")
	if guid := rows.str("resources", 0, "guid"); guid == old || rows.at("resources", 1) != nil {
		t.Errorf("rows %s", rows.body)
	}
}

// TestR3CreateDuringDelete has the name taken until the row is gone.
func TestR3CreateDuringDelete(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	body := c.instanceBody("it", "postgres/small", "")
	c.workers(true)
	job := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), textTaken)
	c.workers(false)
	c.job(job, jobComplete)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "202")
}

// TestR5SecondDeleteHeld has two deletes before any worker, by each pipeline.
func TestR5SecondDeleteHeld(t *testing.T) {
	t.Parallel()
	for name, recursive := range map[string]bool{"legacy": false, "recursive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.RecursiveDelete = recursive
			c := start(t, o)
			guid := c.plant("")
			c.workers(true)
			first := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
			second := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
			if (first == second) != recursive {
				t.Errorf("jobs %s and %s", first, second)
			}
			c.workers(false)
			c.job(first, jobComplete)
			c.job(second, jobComplete)
			if n := c.calls("it", deprovision); n != 1 {
				t.Errorf("%d deprovisions", n)
			}
		})
	}
}

// TestR7LateKey has a key come between the DELETE and its worker.
func TestR7LateKey(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	c.workers(true)
	remove := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
	_, bound := c.createKey("a", guid)
	c.workers(false)
	if got := jobError(c.job(remove, jobFailed)); !strings.HasPrefix(got, "10009 CF-UnableToPerform: delete could not be completed: PG::ForeignKeyViolation: ") {
		t.Errorf("delete ended with %q", got)
	}
	c.lastOperation("/v3/service_instances/"+guid, "delete failed")
	c.job(bound, jobComplete)
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
	if c.calls("it", deprovision) != 2 || c.calls("it", unbind) != 1 {
		t.Errorf("calls %+v", c.state().BrokerCalls)
	}
}

// TestR9InitialCleanup has the clock fail a create that a worker is late for:
// it goes on all the same.
func TestR9InitialCleanup(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.workers(true)
	guid, job := c.create("it", "postgres/async")
	if r := c.must(200, "POST", "/__sim/clock", `{"cleanup":"initial"}`); string(r.body) != `{"touched":1}` {
		t.Errorf("clock %s", r.body)
	}
	row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
	if got, want := row.str("last_operation", "description"), `Operation was stuck in "initial" state. Set to "failed" by cleanup job.`; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
	c.job(job, jobProcessing)
	eventually(t, "deprovision of the orphan", func() bool { return c.calls("it", deprovision) == 1 })
	c.workers(false)
	c.lastOperation("/v3/service_instances/"+guid, "create succeeded")
	c.job(job, jobComplete)
}

// TestR10StuckCleanup has a worker die over a create, an update and a delete:
// the clock ends only the create.
func TestR10StuckCleanup(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	const tick = `{"cleanup":"stuck","instance":"it"}`
	guid, job := c.create("it", "faults/create-stalls")
	path := "/v3/service_instances/" + guid
	c.lastOperation(path, "create in progress")
	if r := c.must(200, "POST", "/__sim/clock", tick); string(r.body) != `{"touched":0}` {
		t.Errorf("a worker lives, and the clock touched %s", r.body)
	}
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"worker":"dead"}`)
	c.job(job, jobPolling)
	c.must(200, "POST", "/__sim/clock", tick)
	want := "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job; orphan mitigation triggered."
	if got := c.lastOperation(path, "create failed").str("last_operation", "description"); got != want {
		t.Errorf("description %q, want %q", got, want)
	}
	if got := jobError(c.job(job, jobFailed)); !strings.HasSuffix(got, want) {
		t.Errorf("job %q", got)
	}
	eventually(t, "deprovision of the orphan", func() bool { return c.calls("it", deprovision) == 1 })
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"last_operation":{"type":"update","state":"in progress"}}`)
	if r := c.must(200, "POST", "/__sim/clock", tick); string(r.body) != `{"touched":0}` {
		t.Errorf("an update was cleaned up: %s", r.body)
	}
	checkAnswer(t, c.do("DELETE", path, ""), textDelete)
	c.must(204, "DELETE", path+"?purge=true", "")
}

// TestJobsAreCollected has all jobs vanish while their work goes on, and one.
func TestJobsAreCollected(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.workers(true)
	guid, job := c.create("it", "postgres/small")
	c.must(200, "POST", "/__sim/clock", `{"cleanup":"jobs"}`)
	checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
	c.workers(false)
	c.lastOperation("/v3/service_instances/"+guid, "create succeeded")
	_, job = c.createKey("a", guid)
	c.job(job, jobComplete)
	one := job[strings.LastIndexByte(job, '/')+1:]
	c.must(200, "DELETE", "/__sim/jobs/"+one, "")
	checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
	c.must(404, "DELETE", "/__sim/jobs/"+one, "")
	c.must(400, "POST", "/__sim/clock", `{"cleanup":"attic"}`)
}

// TestSpaceVanishes has a space go and come back under another GUID.
func TestSpaceVanishes(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	body, old := c.instanceBody("it", "postgres/small", ""), c.space("work")
	c.must(200, "DELETE", "/__sim/spaces/ferry/work", "")
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), unprocessableText+"Invalid space. Ensure that the space exists and you have access to it.")
	checkAnswer(t, c.do("GET", "/v3/service_instances/"+guid, ""), textNotFound)
	if again := c.space("work"); again == old {
		t.Errorf("the new space has the GUID of the old one")
	}
	c.ready("it", "postgres/small")
	c.must(404, "DELETE", "/__sim/spaces/ferry/nowhere", "")
	c.must(404, "DELETE", "/__sim/spaces/nowhere/work", "")
}

// TestForcedKeys puts keys into states that no request leads to.
func TestForcedKeys(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/bind-stalls")
	key, job := c.createKey("a", guid)
	path := "/v3/service_credential_bindings/" + key
	c.lastOperation(path, "create in progress")
	c.must(200, "PATCH", "/__sim/keys/"+key, `{"last_operation":{"type":"create","state":"failed","description":"lost"},"job":"FAILED"}`)
	if got := c.lastOperation(path, "create failed").str("last_operation", "description"); got != "lost" {
		t.Errorf("description %q", got)
	}
	if got := jobError(c.job(job, jobFailed)); got != "10009 CF-UnableToPerform: bind could not be completed: lost" {
		t.Errorf("job %q", got)
	}
	c.must(200, "PATCH", "/__sim/keys/"+key, `{"job":"gone"}`)
	checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
	for body, status := range map[string]int{`{}`: 400, `{"job":"COMPLETE"}`: 409, `{"worker":"dead"}`: 409, `{"worker":"tired"}`: 400, `{"shared_with":[]}`: 400, `[]`: 400} {
		c.must(status, "PATCH", "/__sim/keys/"+key, body)
	}
	c.must(404, "PATCH", "/__sim/keys/nowhere", `{"job":"gone"}`)
}

// TestNoLastOperation has rows of old, which never had one.
func TestNoLastOperation(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant(`,"last_operation":{"type":"","state":""}`)
	r := c.must(200, "GET", "/v3/service_instances/"+guid, "")
	if got, _ := r.at("last_operation").(map[string]any); got == nil || len(got) != 0 {
		t.Errorf("last operation %v", r.at("last_operation"))
	}
	c.readyKey("a", guid)
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
}
