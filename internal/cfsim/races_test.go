package cfsim

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestR1OneNameIsTakenOnce is race R1 of the contract: of many creates of one
// name one is accepted, and the others are refused.
func TestR1OneNameIsTakenOnce(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/small", "")
	const senders = 64
	statuses := make(chan int, senders)
	var group sync.WaitGroup
	for range senders {
		request := c.request("POST", "/v3/service_instances", body)
		group.Go(func() {
			r, err := c.try(request)
			if err == nil && r.status == 422 && r.cfErr() != textTaken {
				err = fmt.Errorf("refused with %s", r.body)
			}
			if err != nil {
				t.Error(err)
			}
			statuses <- r.status
		})
	}
	group.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if count[202] != 1 || count[422] != senders-1 {
		t.Errorf("answers %v, want one 202 and %d 422", count, senders-1)
	}
	eventually(t, "provision", func() bool { return c.calls("it", provision) > 0 })
	if n := c.calls("it", provision); n != 1 {
		t.Errorf("%d provisions, want 1", n)
	}
}

// TestR4DeleteDuringCreate has the three answers that the backing broker can
// give to a delete while a create is in progress.
func TestR4DeleteDuringCreate(t *testing.T) {
	t.Parallel()
	t.Run("done at once: the create finds no row", func(t *testing.T) {
		t.Parallel()
		c := start(t, quick())
		guid, create := c.create("it", "faults/create-stalls")
		c.lastOperation("/v3/service_instances/"+guid, "create in progress")
		c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
		if got, want := jobError(c.job(create, jobFailed)), "10010 CF-ResourceNotFound: The service instance could not be found: "+guid+"."; got != want {
			t.Errorf("create ended with %q, want %q", got, want)
		}
	})
	t.Run("accepted: the create is superseded", func(t *testing.T) {
		t.Parallel()
		o := quick()
		o.BrokerDelay = time.Second
		c := start(t, o)
		guid, create := c.create("it", "postgres/async")
		c.lastOperation("/v3/service_instances/"+guid, "create in progress")
		remove := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
		if got, want := jobError(c.job(create, jobFailed)), "10009 CF-UnableToPerform: create could not be completed: delete in progress"; got != want {
			t.Errorf("create ended with %q, want %q", got, want)
		}
		c.job(remove, jobComplete)
	})
	t.Run("refused: only the job tells", func(t *testing.T) {
		t.Parallel()
		c := start(t, quick())
		guid := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"faults","plan":"delete-rejected",
			"last_operation":{"type":"create","state":"in progress"}}`).str("guid")
		remove := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
		if got := jobError(c.job(remove, jobFailed)); !strings.HasPrefix(got, "10009 CF-UnableToPerform: delete could not be completed: Service instance it: Service broker error: ") {
			t.Errorf("delete ended with %q", got)
		}
		c.lastOperation("/v3/service_instances/"+guid, "create in progress")
	})
}

// TestDeleteShowsNothing is fact 3: a delete that no worker has taken up, and
// R5: a second one is accepted then.
func TestDeleteShowsNothing(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	guid := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"postgres","plan":"small"}`).str("guid")
	first := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
	c.lastOperation("/v3/service_instances/"+guid, "create succeeded")
	second := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
	if first == second || c.do("GET", first, "").str("state") != jobProcessing {
		t.Errorf("jobs %s and %s", first, second)
	}
}

func TestR5SecondDelete(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]string{
		"postgres/small":       jobComplete,
		"faults/delete-stalls": "60016 CF-AsyncServiceInstanceOperationInProgress: An operation for service instance it is in progress.",
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.JobDelay = 300 * time.Millisecond
			c := start(t, o)
			guid := c.ready("it", plan)
			c.must(202, "DELETE", "/v3/service_instances/"+guid, "")
			second := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
			if want == jobComplete {
				c.job(second, jobComplete)
				return
			}
			if got := jobError(c.job(second, jobFailed)); got != want {
				t.Errorf("second delete ended with %q, want %q", got, want)
			}
		})
	}
}

// TestR6DeleteCascades has keys in the way of a delete.
func TestR6DeleteCascades(t *testing.T) {
	t.Parallel()
	t.Run("keys that go at once", func(t *testing.T) {
		t.Parallel()
		c := start(t, quick())
		guid := c.ready("it", "postgres/small")
		c.readyKey("a", guid)
		c.readyKey("b", guid)
		c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
		if c.calls("it", unbind) != 2 || c.calls("it", deprovision) != 1 || len(c.state().Instances) != 0 {
			t.Errorf("state after the delete: %+v", c.state())
		}
	})
	t.Run("an asynchronous unbind fails the job and goes on", func(t *testing.T) {
		t.Parallel()
		c := start(t, quick())
		guid := c.ready("it", "postgres/async-bindings")
		key := c.readyKey("a", guid)
		remove := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
		want := "10009 CF-UnableToPerform: delete could not be completed: An operation for a service binding of service instance it is in progress."
		if got := jobError(c.job(remove, jobFailed)); got != want {
			t.Errorf("delete ended with %q, want %q", got, want)
		}
		c.lastOperation("/v3/service_instances/"+guid, "delete failed")
		eventually(t, "unbind in the background", func() bool { return c.do("GET", "/v3/service_credential_bindings/"+key, "").status == 404 })
		c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
	})
	t.Run("a refused unbind fails both", func(t *testing.T) {
		t.Parallel()
		c := start(t, quick())
		guid := c.ready("it", "faults/unbind-rejected")
		key := c.readyKey("a", guid)
		remove := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
		want := "10009 CF-UnableToPerform: delete could not be completed: Service broker failed to delete service binding for instance it: Service broker error: "
		if got := jobError(c.job(remove, jobFailed)); !strings.HasPrefix(got, want) {
			t.Errorf("delete ended with %q, want %q", got, want)
		}
		c.lastOperation("/v3/service_credential_bindings/"+key, "delete failed")
		if c.calls("it", deprovision) != 0 {
			t.Errorf("the instance was deprovisioned under its key")
		}
	})
}

// TestR8DeleteDuringBind supersedes the create of a key.
func TestR8DeleteDuringBind(t *testing.T) {
	t.Parallel()
	o := quick()
	o.BrokerDelay = time.Second
	c := start(t, o)
	guid := c.ready("it", "postgres/async-bindings")
	key, create := c.createKey("key", guid)
	c.lastOperation("/v3/service_credential_bindings/"+key, "create in progress")
	remove := c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "").header.Get("Location")
	if got, want := jobError(c.job(create, jobFailed)), "10009 CF-UnableToPerform: create could not be completed: delete in progress"; got != want {
		t.Errorf("create ended with %q, want %q", got, want)
	}
	c.job(remove, jobComplete)
}

// TestR11NoAnswer has the Cloud Controller give up and clean up.
func TestR11NoAnswer(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid, job := c.create("it", "faults/create-times-out")
	want := "10009 CF-UnableToPerform: provision could not be completed: The request to the service broker timed out"
	if got := jobError(c.job(job, jobFailed)); got != want {
		t.Errorf("create ended with %q, want %q", got, want)
	}
	row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
	if got := row.str("last_operation", "description"); got != timedOutMessage {
		t.Errorf("description %q", got)
	}
	eventually(t, "deprovision of the orphan", func() bool { return c.calls("it", deprovision) == 1 })
}

// TestR13PollingTakesTooLong needs the three seconds of the plan.
func TestR13PollingTakesTooLong(t *testing.T) {
	t.Parallel()
	o := quick()
	o.PollInterval = time.Hour // the limit is reached before the first poll
	c := start(t, o)
	guid, job := c.create("it", "faults/hurried")
	if got, want := jobError(c.job(job, jobFailed)), "290006 CF-JobTimeout: The job execution has timed out."; got != want {
		t.Errorf("create ended with %q, want %q", got, want)
	}
	row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
	if got, want := row.str("last_operation", "description"), "Service Broker failed to provision within the required time."; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
	eventually(t, "deprovision of the orphan", func() bool { return c.calls("it", deprovision) == 1 })
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

// TestCascadeWaitsForKeys is R6 by the newer pipeline: an asynchronous unbind
// is waited for, and shown as a warning.
func TestCascadeWaitsForKeys(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	guid := c.ready("it", "postgres/small")
	a, b := c.readyKey("a", guid), c.readyKey("b", guid)
	c.instruct(`{"operation":"unbind","binding":"a","answer":"accepted","polls":"in progress"}`)
	path := "/v3/service_instances/" + guid
	job := c.must(202, "DELETE", path, "").header.Get("Location")
	waiting := c.job(job, jobPolling)
	if got := waiting.str("warnings", 0, "detail"); got != "Waiting for 1 service credential bindings to be deleted" {
		t.Errorf("warning %q", got)
	}
	c.lastOperation(path, "create succeeded")
	if again := c.must(202, "DELETE", path, "").header.Get("Location"); again != job {
		t.Errorf("the second delete got the job %s, want %s", again, job)
	}
	if r := c.do("GET", "/v3/service_credential_bindings/"+b, ""); r.status != 404 {
		t.Errorf("the other key: %d", r.status)
	}
	c.must(200, "PATCH", "/__sim/keys/"+a, `{"last_operation":{"type":"delete","state":"failed","description":"given up"}}`)
	want := "10008 CF-UnprocessableEntity: service_credential_binding " + a + ": unbind could not be completed: given up"
	if got := jobError(c.job(job, jobFailed)); got != want {
		t.Errorf("job %q, want %q", got, want)
	}
	if got := c.calls("it", deprovision); got != 0 {
		t.Errorf("%d deprovisions under a key", got)
	}
}

func TestCascadeGoesThrough(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	guid := c.ready("it", "postgres/async-bindings")
	c.readyKey("a", guid)
	c.readyKey("b", guid)
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
	if c.calls("it", unbind) != 2 || c.calls("it", deprovision) != 1 || len(c.state().Instances) != 0 {
		t.Errorf("state after the delete: %+v", c.state())
	}
}

// TestCascadeReportsEachKey has one error for each key that stays, and the
// instance's last operation untouched.
func TestCascadeReportsEachKey(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	guid := c.ready("it", "postgres/small")
	a, b := c.readyKey("a", guid), c.readyKey("b", guid)
	c.readyKey("c", guid)
	for _, name := range []string{"a", "b"} {
		c.instruct(`{"operation":"unbind","binding":"` + name + `","answer":"rejected","description":"` + name + ` is in use"}`)
	}
	path := "/v3/service_instances/" + guid
	last := c.job(c.must(202, "DELETE", path, "").header.Get("Location"), jobFailed)
	for at, key := range []string{a, b} {
		want := "service_credential_binding " + key + ": unbind could not be completed: Service broker failed to delete service binding for instance it: Service broker error: " +
			[]string{"a", "b"}[at] + " is in use"
		if got := last.str("errors", at, "detail"); got != want || last.str("errors", at, "title") != "CF-UnprocessableEntity" {
			t.Errorf("error %q, want %q", got, want)
		}
	}
	if last.at("errors", 2) != nil {
		t.Errorf("errors %v", last.at("errors"))
	}
	c.lastOperation(path, "create succeeded")
	if c.calls("it", deprovision) != 0 {
		t.Errorf("the instance was deprovisioned under its keys")
	}
	c.job(c.must(202, "DELETE", path, "").header.Get("Location"), jobComplete)
}

// TestCascadeJoinsADelete has a key that somebody is deleting already.
func TestCascadeJoinsADelete(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	guid := c.ready("it", "postgres/small")
	key := c.readyKey("a", guid)
	c.instruct(`{"operation":"unbind","binding":"a","answer":"accepted","polls":"in progress"}`)
	c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "")
	c.lastOperation("/v3/service_credential_bindings/"+key, "delete in progress")
	job := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
	c.job(job, jobPolling)
	c.must(200, "PATCH", "/__sim/keys/"+key, `{"last_operation":{"type":"delete","state":"failed","description":"given up"}}`)
	want := "10008 CF-UnprocessableEntity: service_credential_binding " + key + ": unbind could not be completed: given up"
	if got := jobError(c.job(job, jobFailed)); got != want {
		t.Errorf("job %q, want %q", got, want)
	}
	if n := c.calls("it", unbind); n != 1 {
		t.Errorf("%d unbinds", n)
	}
}

// TestCascadeBesideADelete is the same with a delete that ends well, before or after the
// cascade looks.
func TestCascadeBesideADelete(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	guid := c.ready("it", "postgres/async-bindings")
	key := c.readyKey("a", guid)
	c.workers(true)
	c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "")
	job := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
	c.workers(false)
	c.job(job, jobComplete)
	if n := c.calls("it", unbind); n != 1 {
		t.Errorf("%d unbinds", n)
	}
}

// TestDeleteWhileDeletingByPipeline is the cell of table 3.1 that the flag
// changes.
func TestDeleteWhileDeletingByPipeline(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	guid := c.ready("it", "faults/delete-stalls")
	path := "/v3/service_instances/" + guid
	first := c.must(202, "DELETE", path, "").header.Get("Location")
	c.lastOperation(path, "delete in progress")
	if second := c.must(202, "DELETE", path, "").header.Get("Location"); second != first {
		t.Errorf("jobs %s and %s", first, second)
	}
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"worker":"dead"}`)
	checkAnswer(t, c.do("DELETE", path, ""), textDelete)
}

// TestR6AsynchronousUnbindOfAnyPlan stages the older pipeline's failure without
// a plan for it.
func TestR6AsynchronousUnbindOfAnyPlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	key := c.readyKey("a", guid)
	c.instruct(`{"operation":"unbind","answer":"accepted"}`)
	job := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
	want := "10009 CF-UnableToPerform: delete could not be completed: An operation for a service binding of service instance it is in progress."
	if got := jobError(c.job(job, jobFailed)); got != want {
		t.Errorf("delete ended with %q, want %q", got, want)
	}
	c.lastOperation("/v3/service_instances/"+guid, "delete failed")
	eventually(t, "unbind in the background", func() bool { return c.do("GET", "/v3/service_credential_bindings/"+key, "").status == 404 })
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
}

// TestKeysVanishUnderTheirJobs has the rows of keys go while jobs wait, and a
// second unbind start beside the first.
func TestKeysVanishUnderTheirJobs(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/unbind-stalls")
	stalled, gone := c.readyKey("stalled", guid), c.readyKey("gone", guid)
	c.workers(true)
	unbindTwice := func(key string) (first, second string) {
		path := "/v3/service_credential_bindings/" + key
		return c.must(202, "DELETE", path, "").header.Get("Location"), c.must(202, "DELETE", path, "").header.Get("Location")
	}
	c.instruct(`{"operation":"unbind","binding":"gone","answer":"gone"}`)
	_, second := unbindTwice(stalled)
	_, vanished := unbindTwice(gone)
	c.workers(false)
	if got, want := jobError(c.job(second, jobFailed)), "10009 CF-UnableToPerform: unbind could not be completed: There is an operation in progress for the service binding."; got != want {
		t.Errorf("job %q, want %q", got, want)
	}
	c.job(vanished, jobComplete)

	c.workers(true)
	other := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"other","offering":"postgres","plan":"small"}`).str("guid")
	key, job := c.createKey("late", other)
	c.must(204, "DELETE", "/v3/service_instances/"+other+"?purge=true", "")
	c.workers(false)
	if got, want := jobError(c.job(job, jobFailed)), "10010 CF-ResourceNotFound: The binding could not be found: "+key; got != want {
		t.Errorf("job %q, want %q", got, want)
	}
}
