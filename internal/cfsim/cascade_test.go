package cfsim

import "testing"

func recursive() Options {
	o := quick()
	o.RecursiveDelete = true
	return o
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
