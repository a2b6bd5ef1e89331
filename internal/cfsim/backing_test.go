package cfsim

import (
	"strings"
	"testing"
	"time"
)

const unableToPerform = "10009 CF-UnableToPerform: "

// TestFates walks the plans whose operations go wrong: what the job and the row say, and how often the backing broker
// is asked to remove the instance (R11).
func TestFates(t *testing.T) {
	t.Parallel()
	const (
		refused   = "Service broker error: The "
		byPlan    = " is refused by this plan"
		class     = "VCAP::CloudController::V3::LastOperationFailedState"
		unbinding = "Service broker failed to delete service binding for instance it: "
		app       = "This service supports generation of credentials through binding an application only."
	)
	type ending struct {
		operation, job, state, description string
		deprovisions                       int
	}
	each(t, quick(), map[string]ending{
		"faults/create-rejected":  {provision, "provision could not be completed: " + refused + "create" + byPlan, "create failed", refused + "create" + byPlan, 0},
		"faults/create-fails":     {provision, "create managed could not be completed: The create fails with this plan", "create failed", "The create fails with this plan", 0},
		"faults/create-times-out": {provision, "provision could not be completed: " + timedOutMessage, "create failed", timedOutMessage, 1},
		"faults/update-rejected":  {update, "update could not be completed: " + refused + "update" + byPlan, "update failed", refused + "update" + byPlan, 0},
		"faults/update-fails":     {update, "update could not be completed: The update fails with this plan", "update failed", "The update fails with this plan", 0},
		"faults/delete-rejected": {deprovision, "delete could not be completed: Service instance it: " + refused + "delete" + byPlan, "delete failed",
			"Service instance it: " + refused + "delete" + byPlan, 1},
		"faults/delete-fails":    {deprovision, "delete could not be completed: The delete fails with this plan", "delete failed", "The delete fails with this plan", 1},
		"faults/bind-rejected":   {bind, "bind could not be completed: " + refused + "bind" + byPlan, "create failed", refused + "bind" + byPlan, 0},
		"faults/bind-fails":      {bind, "create could not be completed: " + class, "create failed", "The bind fails with this plan", 0},
		"postgres/app-only":      {bind, "bind could not be completed: " + app, "create failed", app, 0},
		"faults/unbind-rejected": {unbind, "unbind could not be completed: " + unbinding + refused + "unbind" + byPlan, "delete failed", unbinding + refused + "unbind" + byPlan, 0},
		"faults/unbind-fails":    {unbind, "delete could not be completed: " + class, "delete failed", "The unbind fails with this plan", 0},
	}, func(c *cloud, plan string, want ending) {
		path, job := c.operate(want.operation, plan)
		c.fails(job, unableToPerform+want.job)
		c.described(path, want.state, want.description)
		c.asked("it", deprovision, want.deprovisions)
	})
}

// TestRefusals has every answer of a backing broker to a create: what the row says, and whether the Cloud Controller
// cleans up (R11).
func TestRefusals(t *testing.T) {
	t.Parallel()
	type refused struct {
		more, message string
		orphan        bool
	}
	each(t, quick(), map[string]refused{
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
	}, func(c *cloud, answer string, test refused) {
		c.instruct(`{"operation":"provision","answer":"` + answer + `"` + test.more + `}`)
		path, job := c.operate(provision, "postgres/small")
		c.fails(job, unableToPerform+"provision could not be completed: "+test.message)
		c.described(path, "create failed", test.message)
		if test.orphan {
			c.asked("it", deprovision, 1)
			return
		}
		c.ready("other", "postgres/small") // it is through when the clean-up would have been
		c.asked("it", deprovision, 0)
	})
}

// TestRefusedBinds has binds that are cleaned up after, and two that are not: an asynchronous one of an offering whose
// bindings cannot be fetched (90001), and one that cannot be fetched in the end (R15b), which leaks until the key is
// made anew.
func TestRefusedBinds(t *testing.T) {
	t.Parallel()
	const broker = unableToPerform + "bind could not be completed: Service broker error: "
	type refused struct {
		plan, job string
		cleanUps  int
	}
	each(t, quick(), map[string]refused{
		`"answer":"error","description":"out of users"`: {"postgres/small", broker + "out of users", 1},
		`"answer":"accepted"`: {"drain/standard", "90001 CF-ServiceBindingInvalid: The service binding is invalid: " +
			"The broker responded asynchronously but does not support fetching binding data", 0},
		`"answer":"accepted","polls":"unfetchable","description":"vault is sealed"`: {"postgres/small", broker + "vault is sealed", 0},
	}, func(c *cloud, answer string, test refused) {
		c.instruct(`{"operation":"bind",` + answer + `}`)
		path, job := c.operate(bind, test.plan)
		c.fails(job, test.job)
		row := c.lastOperation(path, "create failed")
		c.asked("it", unbind, test.cleanUps)
		c.readyKey("k", row.text("relationships.service_instance.data.guid"))
		c.asked("it", unbind, test.cleanUps+1)
	})
}

// TestRefusedDeletes has the answers to a deprovision with errors of their own, during a create (R4 c and d) and after
// one.
func TestRefusedDeletes(t *testing.T) {
	t.Parallel()
	const busy = "60016 CF-AsyncServiceInstanceOperationInProgress: An operation for service instance it is in progress."
	each(t, quick(), map[string]struct{ last, answer, job, state string }{
		"ConcurrencyError during a create": {`"in progress"`, "concurrency", busy, "create in progress"},
		"another error during a create":    {`"in progress"`, "error", unableToPerform + "delete could not be completed: Service instance it: " + badResponse, "create in progress"},
		"ConcurrencyError":                 {`"succeeded"`, "concurrency", busy, "delete failed"},
		"409": {`"succeeded"`, "conflict", "60011 CF-ServiceInstanceDeprovisionFailed: The service broker reported an error during deprovisioning: Resource conflict",
			"delete failed"},
	}, func(c *cloud, _ string, test struct{ last, answer, job, state string }) {
		path := instances + c.plant(`,"last_operation":{"type":"create","state":`+test.last+`}`)
		c.instruct(`{"operation":"deprovision","answer":"` + test.answer + `"}`)
		c.fails(c.accepted("DELETE", path, ""), test.job)
		c.lastOperation(path, test.state)
		c.job(c.accepted("DELETE", path, ""), jobComplete)
	})
}

// TestR12Polls has what polling may bring.
func TestR12Polls(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]struct{ operation, polls, state, job string }{
		"errors do not end a create":     {provision, "error", "create in progress", jobPolling},
		"410 does not end a create":      {provision, "gone", "create in progress", jobPolling},
		"400 fails a create":             {provision, "rejected", "create failed", jobFailed},
		"failed fails a create":          {provision, "failed", "create failed", jobFailed},
		"succeeded ends a create":        {provision, "succeeded", "create succeeded", jobComplete},
		"in progress does not end it":    {provision, "in progress", "create in progress", jobPolling},
		"errors do not end a delete":     {deprovision, "error", "delete in progress", jobPolling},
		"410 is the success of a delete": {deprovision, "gone", "", jobComplete},
	}, func(c *cloud, _ string, test struct{ operation, polls, state, job string }) {
		c.instruct(`{"operation":"` + test.operation + `","answer":"accepted","polls":"` + test.polls + `","description":"said so"}`)
		path, job := c.operate(test.operation, "postgres/small")
		last := c.job(job, test.job)
		if test.job == jobFailed && !strings.HasSuffix(jobError(last), "create managed could not be completed: said so") {
			c.t.Errorf("job %s", last.body)
		}
		if test.state != "" {
			c.lastOperation(path, test.state)
		}
	})
}

// TestR13PollingTakesTooLong has each kind of operation given up after the three seconds that the plan allows, before
// the first poll.
func TestR13PollingTakesTooLong(t *testing.T) {
	t.Parallel()
	o := quick()
	o.PollInterval = time.Hour
	each(t, o, map[string]struct{ last, word, cleanUp string }{
		provision:   {"create failed", "provision", deprovision},
		update:      {"update failed", "update", ""},
		deprovision: {"delete failed", "deprovision", ""},
		bind:        {"create failed", "bind", unbind},
		unbind:      {"delete failed", "unbind", ""},
	}, func(c *cloud, operation string, test struct{ last, word, cleanUp string }) {
		c.instruct(`{"operation":"` + operation + `","answer":"accepted","polls":"in progress"}`)
		path, job := c.operate(operation, "faults/hurried")
		c.fails(job, "290006 CF-JobTimeout: The job execution has timed out.")
		c.described(path, test.last, "Service Broker failed to "+test.word+" within the required time.")
		if test.cleanUp != "" {
			c.asked("it", test.cleanUp, 1)
		}
	})
}

func TestStalledOperationsStayPolling(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	_, job := c.create("it", "faults/create-stalls")
	c.job(job, jobPolling).reads(t, "operation=service_instance.create", "errors.#=0", "warnings.#=0")
	key, job := c.createKey("k", c.ready("bound", "faults/bind-stalls"))
	c.job(job, jobPolling).reads(t, "operation=service_keys.create", "links.service_credential_binding.href="+c.url+keys+key)
}

// TestUpdateFateIsOfTheTargetPlan leaves a plan whose updates are rejected.
func TestUpdateFateIsOfTheTargetPlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/update-rejected")
	c.job(c.accepted("PATCH", instances+guid, c.planPatch("PLAN(faults/create-fails)")), jobComplete)
}

func TestDeleteFailsOnce(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	path := instances + c.ready("it", "faults/delete-fails-once")
	c.job(c.accepted("DELETE", path, ""), jobFailed)
	c.job(c.accepted("DELETE", path, ""), jobComplete)
	c.asked("it", deprovision, 2)
}

// TestBrokerAsksForPatience has a Retry-After that only ever makes the Cloud Controller wait longer.
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
	c.ready("other", "postgres/async") // is polled meanwhile
	c.lastOperation(instances+guid, "create in progress")
}

// TestDashboard has the backing broker give a dashboard, and move it.
func TestDashboard(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]bool{"done": true, "accepted": true}, func(c *cloud, answer string, _ bool) {
		c.instruct(`{"operation":"provision","answer":"done","dashboard_url":"https://one.example.org"}`)
		c.instruct(`{"operation":"update","answer":"` + answer + `","dashboard_url":"https://two.example.org"}`)
		path := instances + c.ready("it", "postgres/small")
		c.reads(path, "dashboard_url=https://one.example.org")
		for range 2 { // the second update brings none, which changes nothing
			c.job(c.accepted("PATCH", path, `{"parameters":{}}`), jobComplete)
			c.reads(path, "dashboard_url=https://two.example.org")
		}
	})
}

// TestInstructionsMatch has the wrong call pass, and instructions end.
func TestInstructionsMatch(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.instruct(`{"operation":"provision","org":"ferry","instance":"b","answer":"rejected","times":2}`)
	c.ready("a", "postgres/small")
	for _, left := range []string{"#=1", "#=0"} {
		_, job := c.create("b", "postgres/small")
		c.job(job, jobFailed)
		c.reads("/__sim/broker", left)
	}
	c.ready("b", "postgres/small")
	c.instruct(`{"answer":"rejected","times":0}`)
	c.must(200, "DELETE", "/__sim/broker", "")
	c.ready("c", "postgres/small")
}

// TestFetchTakesNoOtherInstruction leaves what is meant for changes alone, and counts no broker call.
func TestFetchTakesNoOtherInstruction(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant("")
	c.instruct(`{"answer":"rejected"}`)
	c.must(200, "GET", instances+guid+"/parameters", "")
	c.reads("/__sim/broker", "0.hits=0")
	c.reads("/__sim/state", "broker_calls.#=0")
}

// TestParametersAreKeptBack has the backing broker refuse to say parameters while all else works.
func TestParametersAreKeptBack(t *testing.T) {
	t.Parallel()
	const bad = "502 10001 CF-ServiceBroker"
	each(t, quick(), map[string]string{
		"rejected": bad + "RequestRejected: Service broker error: ours", "error": bad + "BadResponse: Service broker error: ours",
		"gone":         bad + "RequestRejected: The service broker rejected the request. Status Code: 410 Gone, Body: {}",
		"malformed":    bad + "ResponseMalformed: " + malformedResponse,
		"unauthorized": bad + "ApiAuthenticationFailed: " + refusedLogin, "unreachable": bad + "ApiUnreachable: " + unreachable,
		"request-timeout": "504 10001 CF-ServiceBrokerApiTimeout: " + timedOutMessage, "silent": "504 10001 CF-HttpClientTimeout: " + timedOutMessage,
		"done": "200",
	}, func(c *cloud, answer, want string) {
		guid := c.plant(`,"keys":[{"name":"k"}]`)
		key := keys + c.do("GET", keys, "").str("resources", 0, "guid")
		for operation, path := range map[string]string{fetchInstance: instances + guid, fetchBinding: key} {
			c.instruct(`{"operation":"` + operation + `","answer":"` + answer + `","description":"ours"}`)
			c.answers("GET", path+"/parameters", "", want)
			c.answers("GET", path+"/parameters", "", "200")
		}
		c.must(200, "GET", key+"/details", "")
	})
}
