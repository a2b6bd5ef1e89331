package cfsim

import (
	"fmt"
	"net/http"
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

// jobError renders the first error of a job.
func jobError(r result) string {
	return fmt.Sprint(r.at("errors", 0, "code")) + " " + r.str("errors", 0, "title") + ": " + r.str("errors", 0, "detail")
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

// TestCloseStopsWorkers also shows that closing twice is allowed.
func TestCloseStopsWorkers(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	guid, _ := c.create("it", "postgres/small")
	c.sim.Close()
	c.sim.Close()
	if n := len(c.sim.workers.timers) + len(c.sim.workers.waiting); n != 0 {
		t.Errorf("%d timers and jobs are left", n)
	}
	c.must(202, "POST", "/v3/service_instances", c.instanceBody("later", "postgres/small", ""))
	if n := len(c.sim.workers.timers) + len(c.sim.workers.waiting); n != 0 {
		t.Errorf("%d timers and jobs are new", n)
	}
	c.lastOperation("/v3/service_instances/"+guid, "create initial")
	if r := c.do(http.MethodDelete, "/v3/service_instances/"+guid, ""); r.status != 422 {
		t.Errorf("delete: %d, want 422", r.status)
	}
}
