package cfsim

import (
	"strings"
	"testing"
	"time"
)

// TestControlRefusesBadInput has a sentence for everything that makes no sense: the part of it that says what is wrong.
func TestControlRefusesBadInput(t *testing.T) {
	t.Parallel()
	const planted = `/instances {"org":"demo","space":"s","name":"n","offering":"postgres","plan":`
	tests := map[string][]struct{ line, part string }{
		"400": {
			{`POST /faults {`, "not what this call takes"}, {`POST /faults {"acton":"drop"}`, "acton"}, {`POST /faults {}`, "drop, delay or respond"},
			{`POST /faults {"action":"drop","when":"during"}`, "before or after"}, {`POST /faults {"action":"drop","method":"PUSH"}`, "PUSH"},
			{`POST /faults {"action":"drop","route":"v3"}`, "pattern"}, {`POST /faults {"action":"drop","times":-1}`, "negative"},
			{`POST /faults {"action":"respond","status":1000}`, "between"}, {`POST /faults {"page":"gorouter-418"}`, "gorouter-418"},
			{`POST /faults {"page":"gorouter-404","action":"drop"}`, "all that a fault responds with"},
			{`POST /faults {"page":"gorouter-404","body":"and more"}`, "all that a fault responds with"},

			{`POST /broker {}`, "answer"}, {`POST /broker {"answer":"maybe"}`, "maybe"}, {`POST /broker {"answer":"done","operation":"paint"}`, "paint"},
			{`POST /broker {"answer":"accepted","polls":"rarely"}`, "rarely"}, {`POST /broker {"answer":"done","times":-1}`, "negative"},
			{`POST /broker {"answer":"accepted","polls":"unfetchable"}`, "bind"}, {`POST /broker {"operation":"fetch_binding","answer":"accepted"}`, "fetch"},
			{`POST /broker {"operation":"bind","answer":"done","details":[]}`, "details"}, {`POST /broker {"operation":"unbind","answer":"done","details":{}}`, "details"},

			{`POST /conditions {"quota":{"nowhere":{}}}`, "nowhere"}, {`POST /conditions {"suspended":{"nowhere/x":true}}`, "nowhere"},
			{`POST /conditions {"deleting":{"nowhere":true}}`, "nowhere"}, {`POST /conditions {"features_off":{"diego":""}}`, "diego"},
			{`POST /conditions {"permissions":{"me":"admin"}}`, "me"}, {`POST /conditions {"permissions":{"ferry":"king"}}`, "king"},
			{`POST /conditions {"rivals":-1,"broker_busy":true}`, "rivals"}, {`POST /conditions {"quotas":{}}`, "quotas"},
			{`POST /conditions {"quota":{"ferry":{"machines":true}}}`, "machines"},

			{`POST /marketplace {"hide":["postgres/huge"]}`, "postgres/huge"}, {`POST /marketplace {"maintenance":{"postgres/maintained":"two"}}`, "semantic"},
			{`POST /marketplace {"shareable":{"oracle":true}}`, "oracle"},
			{`POST /instances {"org":"x","space":"s","name":"n","offering":"postgres","plan":"small"}`, "organization"},
			{`POST /instances {"org":"demo","space":"s","offering":"postgres","plan":"small"}`, "needs"}, {`POST ` + planted + `"x"}`, "postgres/x"},
			{`POST ` + planted + `"small","last_operation":{"type":"x","state":"failed"}}`, "type"},
			{`POST ` + planted + `"small","last_operation":{"type":"create","state":"x"}}`, "state"},
			{`POST ` + planted + `"small","keys":[{"name":"k"},{"name":"k"}]}`, "differ"},

			{`PATCH /instances/INSTANCE {"name":" "}`, "blank"}, {`PATCH /instances/INSTANCE {"details":{}}`, "details"},
			{`PATCH /instances/INSTANCE {"shared_with":["nowhere/x"]}`, "nowhere/x"}, {`PATCH /instances/INSTANCE {"shared_with":["ferry"]}`, "ORG/SPACE"},
			{`PATCH /keys/KEY {}`, "Neither"}, {`PATCH /keys/KEY {"worker":"tired"}`, "tired"}, {`PATCH /keys/KEY {"job":"LATE"}`, "LATE"},
			{`PATCH /keys/KEY {"shared_with":[]}`, "shared"}, {`PATCH /keys/KEY []`, "not what this call takes"}, {`PATCH /keys/KEY {"dashboard_url":"x"}`, "dashboard"},
			{`PATCH /keys/KEY {"name":""}`, "blank"}, {`PATCH /keys/KEY {"details":[]}`, "details"},
			{`POST /clock {"cleanup":"attic"}`, "attic"}, {`POST /workers {"idle":true}`, "idle"},
			{`POST /limits {"requests":-1}`, "requests"}, {`POST /limits {"window_ms":0}`, "millisecond"}, {`POST /limits {"retry_after":"soon"}`, "soon"},
			{`POST /tokens/expire {"kind":"id"}`, "id"}, {`POST /tokens/expire {"what":1}`, "what"},
		},
		"404": {
			{`PATCH /instances/x {"job":"gone"}`, "no instance"}, {`PATCH /keys/x {"job":"gone"}`, "no key"}, {`DELETE /jobs/x`, "no job"},
			{`DELETE /spaces/ferry/nowhere`, "nowhere"}, {`DELETE /spaces/nowhere/work`, "nowhere"},
			{`GET /elsewhere`, "does not know"}, {`GET /reset`, "does not know"},
		},
		"409": {
			{`POST /instances {"org":"ferry","space":"work","name":"it","offering":"postgres","plan":"small"}`, "already"},
			{`PATCH /instances/INSTANCE {"name":"other"}`, "already"}, {`PATCH /instances/INSTANCE {"shared_with":["ferry/work"]}`, "already"},
			{`PATCH /instances/INSTANCE {"job":"FAILED"}`, "no job"}, {`PATCH /keys/KEY {"worker":"dead"}`, "no job"}, {`PATCH /keys/KEY {"name":"l"}`, "already"},
		},
	}
	c := start(t, quick())
	c.plantAt("ferry/work", "other", "postgres/small", "")
	guid := c.plant(`,"keys":[{"name":"k"},{"name":"l"}]`)
	rows := strings.NewReplacer("INSTANCE", guid, "KEY", c.do("GET", keys, "").str("resources", 0, "guid"))
	for status, lines := range tests {
		for _, test := range lines {
			method, rest, _ := strings.Cut(rows.Replace(test.line), " ")
			path, body, _ := strings.Cut(rest, " ")
			r := c.do(method, controlPrefix+path, body)
			if checkAnswer(t, r, status); !strings.Contains(r.str("error"), test.part) {
				t.Errorf("%s: %s, want %q", test.line, r.body, test.part)
			}
		}
	}
	c.reads("/__sim/conditions", "broker_busy=false") // what is refused changes nothing
}

func TestStateTellsWhatHappened(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/maintained", `,"parameters":{"big":9007199254740993},"metadata":{"labels":{"l":"1"},"annotations":{"a":"2"}}`)
	c.job(c.accepted("POST", instances, body), jobComplete)
	guid := c.do("GET", instances, "").str("resources", 0, "guid")
	c.readyKey("key", guid)
	c.do("GET", "/v3/elsewhere/"+guid, "")
	c.reads("/__sim/state", "instances.0.guid="+guid, "instances.0.name=it", "instances.0.org=ferry", "instances.0.space=work", "instances.0.offering=postgres",
		"instances.0.plan=maintained", "instances.0.maintenance_version=2.1.0", "instances.0.labels.l=1", "instances.0.annotations.a=2",
		"instances.0.parameters.big=9007199254740993", "instances.0.last_operation.type=create", "instances.0.last_operation.state=succeeded",
		"instances.0.keys.#=1", "instances.0.keys.0.name=key", "requests.POST /v3/service_instances=1", "requests.POST /uaa/oauth/token=1",
		"requests.GET /v3/elsewhere/:guid=1", "broker_calls.#=2", "broker_calls.0.operation=provision", "broker_calls.1.binding=key", "broker_calls.1.org=ferry")
	for line := range c.state().Requests {
		if strings.Contains(line, controlPrefix) {
			t.Errorf("the control is counted: %s", line)
		}
	}
}

// TestResetForgets has a reset end everything that a test set up, and the workers that were about to come.
func TestResetForgets(t *testing.T) {
	t.Parallel()
	o := quick()
	o.JobDelay = 20 * time.Millisecond
	o.Now, o.RateLimit = new(clock).now, 8 // the time stands: one window is all there is
	c := start(t, o)
	body := c.instanceBody("it", "postgres/small", "")
	job := c.accepted("POST", instances, body)
	c.workers(true)
	c.fault(`{"action":"drop","route":"/nowhere"}`)
	c.instruct(`{"answer":"rejected","times":0}`)
	c.conditions(`{"broker_busy":true}`)
	for c.do("GET", "/v3/spaces", "").status == 200 {
	}
	c.must(200, "POST", "/__sim/reset", "")
	c.reads("/__sim/state", "instances.#=0", "broker_calls.#=0", "requests=map[]")
	c.reads("/__sim/faults", "#=0")
	c.answers("GET", job, "", textNoJob)
	job = c.accepted("POST", instances, body)
	c.asked("it", provision, 1)
	c.job(job, jobComplete)
}

func TestPlantedInstance(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plantAt("ferry-b/theirs", "it", "postgres/maintained", `,"labels":{"l":"1"},"annotations":{"a":"2"},"maintenance_version":"2.0.0",
		"last_operation":{"type":"update","state":"failed"},"keys":[{"name":"k"}]`)
	c.reads(instances+guid, "maintenance_info.version=2.0.0", "upgrade_available=true", "metadata.labels.l=1", "last_operation.type=update")
	key := c.do("GET", keys+"?service_instance_guids="+guid, "").str("resources", 0, "guid")
	c.must(200, "GET", keys+key+"/details", "")
	c.reads("/__sim/state", "broker_calls.#=0")
}

// TestForcedStates has the control put rows and jobs into states in which they stay.
func TestForcedStates(t *testing.T) {
	t.Parallel()
	o := quick()
	o.BrokerDelay = 50 * time.Millisecond
	each(t, o, map[string]func(c *cloud){
		"a failed row under a running job": func(c *cloud) {
			guid, job := c.create("it", "postgres/async")
			c.force("instances/"+guid, `{"last_operation":{"type":"create","state":"failed","description":"stuck"},"job":"PROCESSING"}`)
			c.ready("other", "postgres/async") // takes as long as the worker of the first one
			c.described(instances+guid, "create failed", "stuck")
			c.job(job, jobProcessing)
		},
		"a job that vanished leaves the row to its worker": func(c *cloud) {
			guid, job := c.create("it", "postgres/async")
			c.force("instances/"+guid, `{"job":"gone"}`)
			c.answers("GET", job, "", textNoJob)
			c.lastOperation(instances+guid, "create succeeded")
			c.answers("GET", job, "", textNoJob)
		},
		"a failed job leaves an update in progress for ever": func(c *cloud) {
			path, job := c.operate(update, "faults/update-stalls")
			c.force("instances/"+path[len(instances):], `{"job":"FAILED"}`)
			c.job(job, jobFailed)
			c.lastOperation(path, "update in progress")
			c.answers("DELETE", path, "", textDelete)
		},
		"a key that failed": func(c *cloud) {
			path, job := c.operate(bind, "faults/bind-stalls")
			c.lastOperation(path, "create in progress")
			c.force("keys/"+path[len(keys):], `{"last_operation":{"type":"create","state":"failed","description":"lost"},"job":"FAILED"}`)
			c.described(path, "create failed", "lost")
			c.fails(job, unableToPerform+"bind could not be completed: lost")
			c.force("keys/"+path[len(keys):], `{"job":"gone"}`)
			c.answers("GET", job, "", textNoJob)
		},
		"an old row, which never had a last operation": func(c *cloud) {
			guid := c.plant(`,"last_operation":{"type":"","state":""}`)
			c.reads(instances+guid, "last_operation=map[]")
			c.readyKey("a", guid)
			c.job(c.accepted("DELETE", instances+guid, ""), jobComplete)
		},
	}, func(c *cloud, _ string, run func(*cloud)) { run(c) })
}

// TestForcedVerbs has every kind of job made to fail without a reason.
func TestForcedVerbs(t *testing.T) {
	t.Parallel()
	each(t, idle(), map[string]string{provision: "provision", update: "update", deprovision: "delete", bind: "bind", unbind: "unbind"}, func(c *cloud, operation, verb string) {
		path, job := c.operate(operation, "postgres/small")
		row := strings.NewReplacer(instances, "instances/", keys, "keys/").Replace(path)
		c.force(row, `{"job":"FAILED"}`)
		c.fails(job, unableToPerform+verb+" could not be completed: The job was made to fail.")
	})
}

// TestSpaceVanishes has a space go and come back under another GUID.
func TestSpaceVanishes(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid, body, old := c.plant(""), c.instanceBody("it", "postgres/small", ""), c.space("work")
	c.must(200, "DELETE", "/__sim/spaces/ferry/work", "")
	c.answers("POST", instances, body, unprocessableText+"Invalid space. Ensure that the space exists and you have access to it.")
	c.answers("GET", instances+guid, "", textNotFound)
	if again := c.space("work"); again == old {
		t.Errorf("the new space has the GUID of the old one")
	}
	c.ready("it", "postgres/small")
}

// TestJobsAreCollected has all jobs vanish while their work goes on, and one.
func TestJobsAreCollected(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.workers(true)
	guid, job := c.create("it", "postgres/small")
	c.touched("jobs", 1)
	c.answers("GET", job, "", textNoJob)
	c.workers(false)
	c.lastOperation(instances+guid, "create succeeded")
	_, job = c.createKey("a", guid)
	c.job(job, jobComplete)
	c.must(200, "DELETE", "/__sim/jobs"+job[strings.LastIndexByte(job, '/'):], "")
	c.answers("GET", job, "", textNoJob)
}

// TestR9InitialCleanup has the clock fail a create that a worker is late for: it goes on all the same.
func TestR9InitialCleanup(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.workers(true)
	guid, job := c.create("it", "postgres/async")
	c.touched("initial", 1)
	c.described(instances+guid, "create failed", `Operation was stuck in "initial" state. Set to "failed" by cleanup job.`)
	c.job(job, jobProcessing)
	c.asked("it", deprovision, 1)
	c.workers(false)
	c.lastOperation(instances+guid, "create succeeded")
	c.job(job, jobComplete)
}

// TestR10StuckCleanup has a worker die over a create and an update: the clock ends the create, a newer clock the
// update, for which the backing broker is asked for nothing.
func TestR10StuckCleanup(t *testing.T) {
	t.Parallel()
	const create = "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job; orphan mitigation triggered."
	type stuck struct {
		cleanup, other, last, description string
		deprovisions                      int
	}
	each(t, quick(), map[string]stuck{
		provision: {"stuck", "stuck-updates", "create", create, 1},
		update:    {"stuck-updates", "stuck", "update", "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job.", 0},
	}, func(c *cloud, operation string, test stuck) {
		path, job := c.operate(operation, "faults/"+test.last+"-stalls")
		c.job(job, jobPolling)
		c.touched(test.cleanup, 0)
		c.force("instances/"+path[len(instances):], `{"worker":"dead"}`)
		c.touched(test.other, 0)
		c.answers("PATCH", path, `{"tags":[]}`, textBusy)
		c.touched(test.cleanup, 1)
		c.described(path, test.last+" failed", test.description)
		c.job(job, jobFailed)
		c.touched(test.cleanup, 0)
		c.asked("it", deprovision, test.deprovisions)
	})
}

// TestStuckDeletesAreTakenUpAgain has the clock of a newer Cloud Controller go on with deletes whose workers have died,
// under the same jobs.
func TestStuckDeletesAreTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"the older way": quick(), "with a cascade": recursive()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, o)
			guid := c.plant(`,"keys":[{"name":"k"}]`)
			key := c.do("GET", keys, "").str("resources", 0, "guid")
			for _, row := range []struct{ path, forced, operation string }{{keys + key, "keys/" + key, unbind}, {instances + guid, "instances/" + guid, deprovision}} {
				c.instruct(`{"operation":"` + row.operation + `","answer":"accepted","polls":"in progress"}`)
				job := c.accepted("DELETE", row.path, "")
				c.lastOperation(row.path, "delete in progress")
				c.touched("stuck-deletes", 0)
				// The forced operation has the backing broker done with it.
				c.force(row.forced, `{"last_operation":{"type":"delete","state":"in progress"},"job":"FAILED"}`)
				c.job(job, jobFailed)
				c.touched("stuck-deletes", 1)
				c.gone(row.path)
				c.job(job, jobComplete)
				c.asked("it", row.operation, 1)
			}
		})
	}
}
