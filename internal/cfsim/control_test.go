package cfsim

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestControlRefusesBadInput(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, path, body string
		status             int
		part               string
	}{
		"no JSON":                  {"POST", "/faults", `{`, 400, "not what this call takes"},
		"an unknown field":         {"POST", "/faults", `{"acton":"drop"}`, 400, "acton"},
		"no action":                {"POST", "/faults", `{}`, 400, "drop, delay or respond"},
		"a strange moment":         {"POST", "/faults", `{"action":"drop","when":"during"}`, 400, "before or after"},
		"a strange method":         {"POST", "/faults", `{"action":"drop","method":"PUSH"}`, 400, "PUSH"},
		"a relative route":         {"POST", "/faults", `{"action":"drop","route":"v3"}`, 400, "pattern"},
		"negative times":           {"POST", "/faults", `{"action":"drop","times":-1}`, 400, "negative"},
		"an impossible status":     {"POST", "/faults", `{"action":"respond","status":1000}`, 400, "between"},
		"an unknown plan":          {"POST", "/marketplace", `{"hide":["postgres/huge"]}`, 400, "postgres/huge"},
		"a strange version":        {"POST", "/marketplace", `{"maintenance":{"postgres/maintained":"two"}}`, 400, "semantic"},
		"an unknown organization":  {"POST", "/instances", `{"org":"x","space":"s","name":"n","offering":"postgres","plan":"small"}`, 400, "organization"},
		"a nameless instance":      {"POST", "/instances", `{"org":"demo","space":"s","offering":"postgres","plan":"small"}`, 400, "needs"},
		"an unknown plan to plant": {"POST", "/instances", `{"org":"demo","space":"s","name":"n","offering":"postgres","plan":"x"}`, 400, "postgres/x"},
		"a strange last operation": {"POST", "/instances", `{"org":"demo","space":"s","name":"n","offering":"postgres","plan":"small","last_operation":{"type":"x","state":"failed"}}`, 400, "type"},
		"two keys of one name":     {"POST", "/instances", `{"org":"demo","space":"s","name":"n","offering":"postgres","plan":"small","keys":[{"name":"k"},{"name":"k"}]}`, 400, "differ"},
		"an unknown instance":      {"PATCH", "/instances/x", `{"job":"gone"}`, 404, "no instance"},
		"an unknown call":          {"GET", "/elsewhere", ``, 404, "does not know"},
		"a wrong method":           {"GET", "/reset", ``, 404, "does not know"},
	}
	c := start(t, quick())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := c.do(test.method, controlPrefix+test.path, test.body)
			if r.status != test.status || !strings.Contains(r.str("error"), test.part) {
				t.Errorf("got %d %s, want %d and %q", r.status, r.body, test.status, test.part)
			}
		})
	}
}

func TestStateTellsWhatHappened(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/maintained", `,"parameters":{"big":9007199254740993},"metadata":{"labels":{"l":"1"},"annotations":{"a":"2"}}`)
	c.job(c.must(202, "POST", "/v3/service_instances", body).header.Get("Location"), jobComplete)
	guid := c.do("GET", "/v3/service_instances", "").str("resources", 0, "guid")
	c.readyKey("key", guid)
	c.do("GET", "/v3/elsewhere/"+guid, "")
	state := c.state()
	i := state.Instances[0]
	if i.GUID != guid || i.Name != "it" || i.Org != "ferry" || i.Space != "work" || i.Offering != "postgres" || i.Plan != "maintained" ||
		i.MaintenanceVersion != "2.1.0" || i.Labels["l"] != "1" || i.Annotations["a"] != "2" || string(i.Parameters) != `{"big":9007199254740993}` ||
		i.LastOperation.Type != "create" || i.LastOperation.State != "succeeded" || len(i.Keys) != 1 || i.Keys[0].Name != "key" {
		t.Errorf("instance %+v", i)
	}
	for line, want := range map[string]int{"POST /v3/service_instances": 1, "POST /uaa/oauth/token": 1, "GET /v3/elsewhere/:guid": 1} {
		if got := state.Requests[line]; got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
	for line := range state.Requests {
		if strings.Contains(line, controlPrefix) {
			t.Errorf("the control is counted: %s", line)
		}
	}
	if len(state.BrokerCalls) != 2 || state.BrokerCalls[0].Operation != "provision" || state.BrokerCalls[1].Binding != "key" || state.BrokerCalls[1].Org != "ferry" {
		t.Errorf("broker calls %+v", state.BrokerCalls)
	}
}

func TestResetForgets(t *testing.T) {
	t.Parallel()
	o := quick()
	o.JobDelay = 20 * time.Millisecond
	c := start(t, o)
	_, job := c.create("it", "postgres/small")
	c.fault(`{"action":"drop","route":"/nowhere"}`)
	c.must(200, "POST", "/__sim/reset", "")
	state := c.state()
	if len(state.Instances)+len(state.Requests)+len(state.BrokerCalls) != 0 || string(c.do("GET", "/__sim/faults", "").body) != "[]" {
		t.Errorf("something is left: %+v", state)
	}
	checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
	// The worker of before must not come; the one of now must.
	c.ready("it", "postgres/small")
	if n := c.calls("it", provision); n != 1 {
		t.Errorf("%d provisions, want 1", n)
	}
}

func TestPlantedInstance(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := `{"org":"ferry-b","space":"theirs","name":"it","offering":"postgres","plan":"maintained","labels":{"l":"1"},"annotations":{"a":"2"},
		"maintenance_version":"2.0.0","last_operation":{"type":"update","state":"failed"},"keys":[{"name":"k"}]}`
	guid := c.must(200, "POST", "/__sim/instances", body).str("guid")
	row := c.must(200, "GET", "/v3/service_instances/"+guid, "")
	if row.str("maintenance_info", "version") != "2.0.0" || row.at("upgrade_available") != true || row.str("metadata", "labels", "l") != "1" || row.str("last_operation", "type") != "update" {
		t.Errorf("planted %s", row.body)
	}
	key := c.do("GET", "/v3/service_credential_bindings?service_instance_guids="+guid, "").str("resources", 0, "guid")
	c.must(200, "GET", "/v3/service_credential_bindings/"+key+"/details", "")
	if n := len(c.state().BrokerCalls); n != 0 {
		t.Errorf("planting asked the backing broker %d times", n)
	}
	c.must(http.StatusConflict, "POST", "/__sim/instances", body)
}

func TestForcedStates(t *testing.T) {
	t.Parallel()
	t.Run("a failed row under a running job stays so", func(t *testing.T) {
		t.Parallel()
		o := quick()
		o.BrokerDelay = 50 * time.Millisecond
		c := start(t, o)
		guid, job := c.create("it", "postgres/async")
		c.lastOperation("/v3/service_instances/"+guid, "create in progress")
		c.must(200, "PATCH", "/__sim/instances/"+guid, `{"last_operation":{"type":"create","state":"failed","description":"stuck"},"job":"PROCESSING"}`)
		c.ready("other", "postgres/async") // takes as long as the worker of the first one
		row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
		if row.str("last_operation", "description") != "stuck" {
			t.Errorf("row %s", row.body)
		}
		c.job(job, jobProcessing)
	})
	t.Run("a job that vanished leaves the row to its worker", func(t *testing.T) {
		t.Parallel()
		o := quick()
		o.BrokerDelay = 50 * time.Millisecond
		c := start(t, o)
		guid, job := c.create("it", "postgres/async")
		c.must(200, "PATCH", "/__sim/instances/"+guid, `{"job":"gone"}`)
		checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
		c.lastOperation("/v3/service_instances/"+guid, "create succeeded")
		checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
		c.must(http.StatusConflict, "PATCH", "/__sim/instances/"+guid, `{"job":"FAILED"}`)
	})
	t.Run("a failed job leaves an update in progress for ever", func(t *testing.T) {
		t.Parallel()
		c := start(t, quick())
		guid := c.ready("it", "faults/update-stalls")
		job := c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"parameters":{}}`).header.Get("Location")
		c.must(200, "PATCH", "/__sim/instances/"+guid, `{"job":"FAILED"}`)
		if got := jobError(c.job(job, jobFailed)); !strings.HasPrefix(got, "10009 CF-UnableToPerform: update could not be completed: ") {
			t.Errorf("job error %q", got)
		}
		c.lastOperation("/v3/service_instances/"+guid, "update in progress")
		checkAnswer(t, c.do("DELETE", "/v3/service_instances/"+guid, ""), textDelete)
	})
}

// TestForcedVerbs has every kind of job made to fail without a reason.
func TestForcedVerbs(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.workers(true)
	guid := c.plant(`,"keys":[{"name":"a"}]`)
	key := c.do("GET", "/v3/service_credential_bindings", "").str("resources", 0, "guid")
	_, bound := c.createKey("b", guid)
	fail := func(path, job, verb string) {
		t.Helper()
		c.must(200, "PATCH", "/__sim/"+path, `{"job":"FAILED"}`)
		if got, want := jobError(c.job(job, jobFailed)), "10009 CF-UnableToPerform: "+verb+" could not be completed: The job was made to fail."; got != want {
			t.Errorf("job %q, want %q", got, want)
		}
	}
	b := c.do("GET", "/v3/service_credential_bindings?names=b", "").str("resources", 0, "guid")
	fail("keys/"+b, bound, "bind")
	fail("keys/"+key, c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "").header.Get("Location"), "unbind")
	fail("instances/"+guid, c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), "delete")
	fail("instances/"+guid, c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"parameters":{}}`).header.Get("Location"), "update")
	other, job := c.create("other", "postgres/small")
	fail("instances/"+other, job, "provision")
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

// TestResetForgetsWhatWasStaged has a reset end everything that a test set up.
func TestResetForgetsWhatWasStaged(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Now, o.RateLimit = new(clock).now, 4 // the time stands: one window is all there is
	c := start(t, o)
	c.workers(true)
	c.instruct(`{"answer":"rejected","times":0}`)
	c.conditions(`{"broker_busy":true}`)
	for c.do("GET", "/v3/spaces", "").status == 200 {
	}
	c.must(200, "POST", "/__sim/reset", "")
	body := c.instanceBody("it", "postgres/small", "")
	c.must(200, "POST", "/__sim/reset", "")
	job := c.must(202, "POST", "/v3/service_instances", body).header.Get("Location")
	eventually(t, "provision", func() bool { return c.calls("it", provision) == 1 })
	c.job(job, jobComplete)
}

// TestStuckUpdateIsCleanedUp has the clock of a newer Cloud Controller fail an
// update whose worker has died; the backing broker is asked for nothing.
func TestStuckUpdateIsCleanedUp(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	const tick = `{"cleanup":"stuck-updates","instance":"it"}`
	guid := c.ready("it", "faults/update-stalls")
	path := "/v3/service_instances/" + guid
	job := c.must(202, "PATCH", path, `{"parameters":{}}`).header.Get("Location")
	c.job(job, jobPolling)
	c.touched(tick, "0")
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"worker":"dead"}`)
	c.touched(tick, "1")
	if got, want := c.lastOperation(path, "update failed").str("last_operation", "description"), "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job."; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
	c.job(job, jobFailed)
	c.touched(tick, "0")
	if n := c.calls("it", deprovision); n != 0 {
		t.Errorf("%d deprovisions", n)
	}
}

// TestStuckDeletesAreTakenUpAgain has the clock of a newer Cloud Controller go
// on with deletes whose workers have died, under the same jobs.
func TestStuckDeletesAreTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, recursive := range map[string]bool{"the older way": false, "with a cascade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.RecursiveDelete = recursive
			c := start(t, o)
			const tick = `{"cleanup":"stuck-deletes"}`
			guid := c.ready("it", "postgres/small")
			key := c.readyKey("k", guid)
			c.diesDeleting("unbind", "keys/"+key, "/v3/service_credential_bindings/"+key, tick)
			c.diesDeleting("deprovision", "instances/"+guid, "/v3/service_instances/"+guid, tick)
			if c.calls("it", unbind) != 1 || c.calls("it", deprovision) != 1 {
				t.Errorf("calls %+v", c.state().BrokerCalls)
			}
		})
	}
}

// diesDeleting deletes a resource, whose worker dies while it polls, and has the
// clock bring another.
func (c *cloud) diesDeleting(operation, resource, path, tick string) {
	c.t.Helper()
	c.must(200, "POST", "/__sim/broker", `{"operation":"`+operation+`","answer":"accepted","polls":"in progress"}`)
	job := c.must(202, "DELETE", path, "").header.Get("Location")
	c.lastOperation(path, "delete in progress")
	c.touched(tick, "0")
	// The forced operation has the backing broker done with it.
	c.must(200, "PATCH", "/__sim/"+resource, `{"last_operation":{"type":"delete","state":"in progress"},"job":"FAILED"}`)
	c.job(job, jobFailed)
	c.touched(tick, "1")
	eventually(c.t, "the end of the delete", func() bool { return c.do("GET", path, "").status == 404 })
	c.job(job, jobComplete)
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
