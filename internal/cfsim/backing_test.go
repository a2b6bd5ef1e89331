package cfsim

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestRefusals has every answer of a backing broker to a create: what the row
// says, and whether the Cloud Controller cleans up (R11).
func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		more, message string
		orphan        bool
	}{
		"rejected":           {`,"description":"no room"`, "Service broker error: no room", false},
		"conflict":           {``, "Resource conflict", false},
		"unauthorized":       {``, "Authentication with the service broker failed. Double-check that the username and password are correct.", false},
		"request-timeout":    {``, "The request to the service broker timed out", false},
		"async-required":     {``, "This service plan requires client support for asynchronous service operations.", false},
		"concurrency":        {``, "The service broker could not perform this operation in parallel with other running operations", false},
		"requires-app":       {``, "This service supports generation of credentials through binding an application only.", false},
		"version-conflict":   {`,"description":"too old"`, "Service broker error: too old", false},
		"unprocessable":      {``, "The service broker returned an invalid response. Status Code: 422 Unprocessable Entity, Body: {}", true},
		"error":              {``, "The service broker returned an invalid response. Status Code: 500 Internal Server Error, Body: {}", true},
		"malformed":          {``, "The service broker returned an invalid response: expected valid JSON object in body, broker returned 'no JSON'", true},
		"unexpected-success": {``, "The service broker returned an invalid response. Status Code: 204 No Content, Body: {}", true},
		"unreachable":        {``, "The service broker could not be reached", false},
		"silent":             {``, "The request to the service broker timed out", true},
		"gone":               {``, "The service broker rejected the request. Status Code: 410 Gone, Body: {}", false},
	}
	for answer, test := range tests {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.instruct(`{"operation":"provision","answer":"` + answer + `"` + test.more + `}`)
			guid, job := c.create("it", "postgres/small")
			if got, want := jobError(c.job(job, jobFailed)), "10009 CF-UnableToPerform: provision could not be completed: "+test.message; got != want {
				t.Errorf("job %q, want %q", got, want)
			}
			row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
			if got := row.str("last_operation", "description"); got != test.message {
				t.Errorf("description %q, want %q", got, test.message)
			}
			if test.orphan {
				eventually(t, "deprovision of the orphan", func() bool { return c.calls("it", deprovision) == 1 })
				return
			}
			// A create that follows is through when the clean-up would have been.
			c.job(c.must(202, "POST", "/v3/service_instances", c.instanceBody("other", "postgres/small", "")).header.Get("Location"), jobComplete)
			if c.calls("it", deprovision) != 0 {
				t.Errorf("a refusal was cleaned up after")
			}
		})
	}
}

func TestRefusedBinds(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	c.instruct(`{"operation":"bind","binding":"a","answer":"error","description":"out of users"}`)
	_, job := c.createKey("a", guid)
	if got, want := jobError(c.job(job, jobFailed)), "10009 CF-UnableToPerform: bind could not be completed: Service broker error: out of users"; got != want {
		t.Errorf("job %q, want %q", got, want)
	}
	eventually(t, "unbind of the orphan", func() bool { return c.calls("it", unbind) == 1 })
	c.readyKey("b", guid)
}

// TestAsynchronousBindThatCannotBeRead is 90001.
func TestAsynchronousBindThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "drain/standard")
	c.instruct(`{"operation":"bind","answer":"accepted"}`)
	key, job := c.createKey("a", guid)
	want := "90001 CF-ServiceBindingInvalid: The service binding is invalid: The broker responded asynchronously but does not support fetching binding data"
	if got := jobError(c.job(job, jobFailed)); got != want {
		t.Errorf("job %q, want %q", got, want)
	}
	c.lastOperation("/v3/service_credential_bindings/"+key, "create failed")
	if c.calls("it", unbind) != 0 {
		t.Errorf("it was cleaned up after")
	}
}

// TestR15bFetchFails has a bind whose result cannot be fetched: it leaks until
// the key is made anew.
func TestR15bFetchFails(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	c.instruct(`{"operation":"bind","answer":"accepted","polls":"unfetchable","description":"vault is sealed"}`)
	key, job := c.createKey("a", guid)
	if got, want := jobError(c.job(job, jobFailed)), "10009 CF-UnableToPerform: bind could not be completed: Service broker error: vault is sealed"; got != want {
		t.Errorf("job %q, want %q", got, want)
	}
	c.lastOperation("/v3/service_credential_bindings/"+key, "create failed")
	if c.calls("it", unbind) != 0 {
		t.Errorf("it was cleaned up after")
	}
	c.readyKey("a", guid)
	eventually(t, "unbind of the orphan", func() bool { return c.calls("it", unbind) == 1 })
}

// TestR12Polls has what polling may bring.
func TestR12Polls(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ operation, polls, state, job string }{
		"errors do not end a create":     {provision, "error", "create in progress", jobPolling},
		"410 does not end a create":      {provision, "gone", "create in progress", jobPolling},
		"400 fails a create":             {provision, "rejected", "create failed", jobFailed},
		"failed fails a create":          {provision, "failed", "create failed", jobFailed},
		"succeeded ends a create":        {provision, "succeeded", "create succeeded", jobComplete},
		"in progress does not end it":    {provision, "in progress", "create in progress", jobPolling},
		"errors do not end a delete":     {deprovision, "error", "delete in progress", jobPolling},
		"410 is the success of a delete": {deprovision, "gone", "", jobComplete},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.instruct(`{"operation":"` + test.operation + `","answer":"accepted","polls":"` + test.polls + `","description":"said so"}`)
			guid, job := c.create("it", "postgres/small")
			if test.operation == deprovision {
				c.job(job, jobComplete)
				job = c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
			}
			last := c.job(job, test.job)
			if test.job == jobFailed && !strings.HasSuffix(jobError(last), "create managed could not be completed: said so") {
				t.Errorf("job %s", last.body)
			}
			if test.state != "" {
				c.lastOperation("/v3/service_instances/"+guid, test.state)
			}
		})
	}
}

// TestBrokerAsksForPatience has a Retry-After that only ever makes the Cloud
// Controller wait longer.
func TestBrokerAsksForPatience(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.instruct(`{"operation":"provision","answer":"accepted","retry_after":100000}`)
	guid, job := c.create("it", "postgres/small")
	c.job(job, jobPolling)
	c.sim.mu.Lock()
	patience := c.sim.backing.patience(guid)
	c.sim.mu.Unlock()
	if patience != 86400*time.Second {
		t.Errorf("patience %v, want a day at most", patience)
	}
	other := c.ready("other", "postgres/async") // is polled meanwhile
	c.lastOperation("/v3/service_instances/"+guid, "create in progress")
	if other == guid {
		t.Error("the two are one")
	}
}

func TestDashboardOfProvision(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.instruct(`{"operation":"provision","answer":"done","dashboard_url":"https://dashboard.example.org/it"}`)
	guid := c.ready("it", "postgres/small")
	if got := c.must(200, "GET", "/v3/service_instances/"+guid, "").str("dashboard_url"); got != "https://dashboard.example.org/it" {
		t.Errorf("dashboard %q", got)
	}
}

// TestRefusedDeletes has the answers to a deprovision with errors of their own,
// during a create (R4 c and d) and after one.
func TestRefusedDeletes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ last, answer, job, state string }{
		"ConcurrencyError during a create": {"create in progress", "concurrency", "60016 CF-AsyncServiceInstanceOperationInProgress: An operation for service instance it is in progress.", "create in progress"},
		"another error during a create":    {"create in progress", "error", "10009 CF-UnableToPerform: delete could not be completed: Service instance it: " + badResponse, "create in progress"},
		"ConcurrencyError":                 {"create succeeded", "concurrency", "60016 CF-AsyncServiceInstanceOperationInProgress: An operation for service instance it is in progress.", "delete failed"},
		"409":                              {"create succeeded", "conflict", "60011 CF-ServiceInstanceDeprovisionFailed: The service broker reported an error during deprovisioning: Resource conflict", "delete failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			kind, state, _ := strings.Cut(test.last, " ")
			guid := c.plant(`,"last_operation":{"type":"` + kind + `","state":"` + state + `"}`)
			c.instruct(`{"operation":"deprovision","answer":"` + test.answer + `"}`)
			job := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
			if got := jobError(c.job(job, jobFailed)); got != test.job {
				t.Errorf("job %q, want %q", got, test.job)
			}
			c.lastOperation("/v3/service_instances/"+guid, test.state)
			c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
		})
	}
}

// TestInstructionsMatch has the wrong call pass, and instructions end.
func TestInstructionsMatch(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.instruct(`{"operation":"provision","org":"ferry","instance":"b","answer":"rejected","times":2}`)
	c.ready("a", "postgres/small")
	for left := 1; left >= 0; left-- {
		_, job := c.create("b", "postgres/small")
		c.job(job, jobFailed)
		list := c.must(200, "GET", "/__sim/broker", "")
		if got := list.at(0) != nil; got != (left > 0) {
			t.Errorf("with %d left: %s", left, list.body)
		}
	}
	c.ready("b", "postgres/small")
	c.instruct(`{"answer":"rejected","times":0}`)
	c.must(200, "DELETE", "/__sim/broker", "")
	c.ready("c", "postgres/small")
	for body, part := range map[string]string{
		`{}`:                                          "answer",
		`{"answer":"maybe"}`:                          "maybe",
		`{"answer":"done","operation":"paint"}`:       "paint",
		`{"answer":"accepted","polls":"rarely"}`:      "rarely",
		`{"answer":"done","times":-1}`:                "negative",
		`{"answer":"accepted","polls":"unfetchable"}`: "bind",
	} {
		if r := c.must(400, "POST", "/__sim/broker", body); !strings.Contains(r.str("error"), part) {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}

// TestFatesOfCreate walks the plans whose create goes wrong: what the job and
// the row say.
func TestFatesOfCreate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ job, description string }{
		"faults/create-rejected": {"10009 CF-UnableToPerform: provision could not be completed: Service broker error: The create is refused by this plan", "Service broker error: The create is refused by this plan"},
		"faults/create-fails":    {"10009 CF-UnableToPerform: create managed could not be completed: The create fails with this plan", "The create fails with this plan"},
	}
	for plan, want := range tests {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid, job := c.create("it", plan)
			if got := jobError(c.job(job, jobFailed)); got != want.job {
				t.Errorf("job %q, want %q", got, want.job)
			}
			row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
			if got := row.str("last_operation", "description"); got != want.description {
				t.Errorf("description %q, want %q", got, want.description)
			}
			if n := c.calls("it", deprovision); n != 0 {
				t.Errorf("a rejection was cleaned up after %d times", n)
			}
		})
	}
}

func TestFatesOfKeys(t *testing.T) {
	t.Parallel()
	const class = "VCAP::CloudController::V3::LastOperationFailedState"
	const unbindPrefix = "Service broker failed to delete service binding for instance it: "
	tests := map[string]struct {
		unbind                  bool
		job, state, description string
	}{
		"faults/bind-rejected":   {false, "bind could not be completed: Service broker error: The bind is refused by this plan", "create failed", "Service broker error: The bind is refused by this plan"},
		"faults/bind-fails":      {false, "create could not be completed: " + class, "create failed", "The bind fails with this plan"},
		"postgres/app-only":      {false, "bind could not be completed: This service supports generation of credentials through binding an application only.", "create failed", "This service supports generation of credentials through binding an application only."},
		"faults/unbind-rejected": {true, "unbind could not be completed: " + unbindPrefix + "Service broker error: The unbind is refused by this plan", "delete failed", unbindPrefix + "Service broker error: The unbind is refused by this plan"},
		"faults/unbind-fails":    {true, "delete could not be completed: " + class, "delete failed", "The unbind fails with this plan"},
	}
	for plan, want := range tests {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid, job := c.createKey("k", c.ready("it", plan))
			if want.unbind {
				c.job(job, jobComplete)
				job = c.must(202, "DELETE", "/v3/service_credential_bindings/"+guid, "").header.Get("Location")
			}
			if got := jobError(c.job(job, jobFailed)); got != "10009 CF-UnableToPerform: "+want.job {
				t.Errorf("job %q, want %q", got, want.job)
			}
			row := c.lastOperation("/v3/service_credential_bindings/"+guid, want.state)
			if got := row.str("last_operation", "description"); got != want.description {
				t.Errorf("description %q, want %q", got, want.description)
			}
		})
	}
}

func TestStalledOperationsStayPolling(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	_, job := c.create("it", "faults/create-stalls")
	r := c.job(job, jobPolling)
	if r.str("operation") != "service_instance.create" || r.at("errors", 0) != nil || r.at("warnings") == nil {
		t.Errorf("job %s", r.body)
	}
	key, job := c.createKey("k", c.ready("bound", "faults/bind-stalls"))
	if r := c.job(job, jobPolling); r.str("operation") != "service_keys.create" || !strings.HasSuffix(r.str("links", "service_credential_binding", "href"), key) {
		t.Errorf("job %s", r.body)
	}
}

// TestUpdateFateIsOfTheTargetPlan leaves a plan whose updates are rejected.
func TestUpdateFateIsOfTheTargetPlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/update-rejected")
	c.job(c.must(202, "PATCH", "/v3/service_instances/"+guid, c.planPatch("PLAN(faults/create-fails)")).header.Get("Location"), jobComplete)
}

func TestDeleteFailsOnce(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/delete-fails-once")
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobFailed)
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
	if n := c.calls("it", deprovision); n != 2 {
		t.Errorf("%d deprovisions, want 2", n)
	}
}

// TestR13EveryOperationTakesTooLong has the description of each kind of
// operation that is given up. The plan allows three seconds.
func TestR13EveryOperationTakesTooLong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ method, last, word string }{
		update:      {"PATCH", "update failed", "update"},
		deprovision: {"DELETE", "delete failed", "deprovision"},
		bind:        {"POST", "create failed", "bind"},
		unbind:      {"DELETE", "delete failed", "unbind"},
	}
	for operation, test := range tests {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.PollInterval = time.Hour // the limit is reached before the first poll
			c := start(t, o)
			guid := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"faults","plan":"hurried","keys":[{"name":"a"}]}`).str("guid")
			key := c.do("GET", "/v3/service_credential_bindings", "").str("resources", 0, "guid")
			c.instruct(`{"operation":"` + operation + `","answer":"accepted","polls":"in progress"}`)
			path, job := "/v3/service_instances/"+guid, ""
			switch operation {
			case bind:
				key, job = c.createKey("b", guid)
				path = "/v3/service_credential_bindings/" + key
			case unbind:
				path = "/v3/service_credential_bindings/" + key
				job = c.must(202, test.method, path, "").header.Get("Location")
			case deprovision:
				c.job(c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "").header.Get("Location"), jobComplete)
				job = c.must(202, test.method, path, "").header.Get("Location")
			default:
				job = c.must(202, test.method, path, `{"parameters":{}}`).header.Get("Location")
			}
			if got, want := jobError(c.job(job, jobFailed)), "290006 CF-JobTimeout: The job execution has timed out."; got != want {
				t.Errorf("job %q, want %q", got, want)
			}
			row := c.lastOperation(path, test.last)
			if got, want := row.str("last_operation", "description"), "Service Broker failed to "+test.word+" within the required time."; got != want {
				t.Errorf("description %q, want %q", got, want)
			}
			if operation == bind {
				eventually(t, "unbind of the orphan", func() bool { return c.calls("it", unbind) == 1 })
			}
		})
	}
}

// TestDashboardOfAnUpdate has the backing broker move the dashboard.
func TestDashboardOfAnUpdate(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"done", "accepted"} {
		c := start(t, quick())
		c.must(200, "POST", "/__sim/broker", `{"operation":"provision","answer":"done","dashboard_url":"https://one.example.org"}`)
		c.must(200, "POST", "/__sim/broker", `{"operation":"update","answer":"`+answer+`","dashboard_url":"https://two.example.org"}`)
		guid := c.ready("it", "postgres/small")
		path := "/v3/service_instances/" + guid
		if got := c.must(200, "GET", path, "").str("dashboard_url"); got != "https://one.example.org" {
			t.Errorf("dashboard of the create %q", got)
		}
		for range 2 { // the second update brings none, which changes nothing
			c.job(c.must(202, "PATCH", path, `{"parameters":{}}`).header.Get("Location"), jobComplete)
			if got := c.must(200, "GET", path, "").str("dashboard_url"); got != "https://two.example.org" {
				t.Errorf("%s: dashboard of the update %q", answer, got)
			}
		}
	}
}

// TestFetchTakesNoOtherInstruction leaves what is meant for changes alone, and
// counts no broker call.
func TestFetchTakesNoOtherInstruction(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	c.must(200, "POST", "/__sim/broker", `{"answer":"rejected"}`)
	c.must(200, "GET", "/v3/service_instances/"+guid+"/parameters", "")
	c.must(400, "POST", "/__sim/broker", `{"operation":"fetch_binding","answer":"accepted"}`)
	for _, call := range c.state().BrokerCalls {
		if strings.HasPrefix(call.Operation, "fetch") {
			t.Errorf("call %+v", call)
		}
	}
	if r := c.must(200, "GET", "/__sim/broker", ""); r.at(0, "hits") != json.Number("0") {
		t.Errorf("instructions %s", r.body)
	}
}

// TestParametersAreNotTold has the backing broker keep parameters back while
// all else works.
func TestParametersAreNotTold(t *testing.T) {
	t.Parallel()
	const bad = "502 10001 CF-ServiceBroker"
	for answer, want := range map[string]string{
		"rejected": bad + "RequestRejected: Service broker error: ours", "error": bad + "BadResponse: Service broker error: ours",
		"gone":         bad + "RequestRejected: The service broker rejected the request. Status Code: 410 Gone, Body: {}",
		"malformed":    bad + "ResponseMalformed: " + malformedResponse,
		"unauthorized": bad + "ApiAuthenticationFailed: " + refusedLogin, "unreachable": bad + "ApiUnreachable: " + unreachable,
		"request-timeout": "504 10001 CF-ServiceBrokerApiTimeout: " + timedOutMessage, "silent": "504 10001 CF-HttpClientTimeout: " + timedOutMessage,
		"done": "200",
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid := c.ready("it", "postgres/small")
			key := c.readyKey("k", guid)
			paths := map[string]string{fetchInstance: "/v3/service_instances/" + guid, fetchBinding: "/v3/service_credential_bindings/" + key}
			for operation, path := range paths {
				c.must(200, "POST", "/__sim/broker", `{"operation":"`+operation+`","answer":"`+answer+`","description":"ours"}`)
				checkAnswer(t, c.do("GET", path+"/parameters", ""), want)
				checkAnswer(t, c.do("GET", path+"/parameters", ""), "200")
			}
			c.must(200, "GET", paths[fetchBinding]+"/details", "")
		})
	}
}

func TestFatesOfUpdateAndDelete(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ method, job, state, description string }{
		"faults/update-rejected": {"PATCH", "update could not be completed: Service broker error: The update is refused by this plan", "update failed", "Service broker error: The update is refused by this plan"},
		"faults/update-fails":    {"PATCH", "update could not be completed: The update fails with this plan", "update failed", "The update fails with this plan"},
		"faults/delete-rejected": {"DELETE", "delete could not be completed: Service instance it: Service broker error: The delete is refused by this plan", "delete failed", "Service instance it: Service broker error: The delete is refused by this plan"},
		"faults/delete-fails":    {"DELETE", "delete could not be completed: The delete fails with this plan", "delete failed", "The delete fails with this plan"},
	}
	for plan, want := range tests {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid := c.ready("it", plan)
			job := c.must(202, want.method, "/v3/service_instances/"+guid, `{"parameters":{}}`).header.Get("Location")
			if got := jobError(c.job(job, jobFailed)); got != "10009 CF-UnableToPerform: "+want.job {
				t.Errorf("job %q, want %q", got, want.job)
			}
			row := c.lastOperation("/v3/service_instances/"+guid, want.state)
			if got := row.str("last_operation", "description"); got != want.description {
				t.Errorf("description %q, want %q", got, want.description)
			}
		})
	}
}
