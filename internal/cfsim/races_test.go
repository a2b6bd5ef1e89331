package cfsim

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestR1OneNameIsTakenOnce is race R1 of docs/cf-contract.md: of many creates of one name one is accepted, and the
// others are refused.
func TestR1OneNameIsTakenOnce(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/small", "")
	const senders = 64
	answers := make(chan string, senders)
	var group sync.WaitGroup
	for range senders {
		request := c.request("POST", instances, body)
		group.Go(func() {
			r, err := c.try(request)
			if err != nil {
				t.Error(err)
			}
			answers <- strconv.Itoa(r.status) + r.cfErr()
		})
	}
	group.Wait()
	close(answers)
	count := map[string]int{}
	for answer := range answers {
		count[answer]++
	}
	if want := map[string]int{"202": 1, "422" + textTaken: senders - 1}; !maps.Equal(count, want) {
		t.Errorf("answers %v, want %v", count, want)
	}
	c.asked("it", provision, 1)
}

// TestR2RivalReplacesFirst has a create over a failed one lose against another.
func TestR2RivalReplacesFirst(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	old := c.plant(`,"last_operation":{"type":"create","state":"failed"}`)
	c.conditions(`{"rivals":1}`)
	body := c.instanceBody("it", "postgres/small", "")
	c.answers("POST", instances, body, "500 10001 UnknownError: An unknown error occurred.")
	c.answers("POST", instances, body, textTaken)
	if guid := c.reads(instances+"?names=it", "resources.#=1").str("resources", 0, "guid"); guid == old {
		t.Errorf("the row is the old one")
	}
}

// TestR3CreateDuringDelete has the name taken until the row is gone.
func TestR3CreateDuringDelete(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid, body := c.plant(""), c.instanceBody("it", "postgres/small", "")
	c.workers(true)
	job := c.accepted("DELETE", instances+guid, "")
	c.answers("POST", instances, body, textTaken)
	c.workers(false)
	c.job(job, jobComplete)
	c.answers("POST", instances, body, "202")
}

// TestR4DeleteDuringCreate has the answers that the backing broker can give to a delete while a create is in progress.
// Those that refuse it are in TestRefusedDeletes.
func TestR4DeleteDuringCreate(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]string{
		"done":     "10010 CF-ResourceNotFound: The service instance could not be found: ",
		"accepted": unableToPerform + "create could not be completed: delete in progress",
	}, func(c *cloud, answer, want string) {
		guid, create := c.create("it", "faults/create-stalls")
		c.lastOperation(instances+guid, "create in progress")
		c.instruct(`{"operation":"deprovision","answer":"` + answer + `","polls":"in progress"}`)
		remove := c.accepted("DELETE", instances+guid, "")
		if answer == "done" {
			c.job(remove, jobComplete)
			want += guid + "."
		}
		c.fails(create, want)
	})
}

// TestR5SecondDelete has two deletes before any worker, by each pipeline: nothing can be seen of the first one, and a
// worker decides about the second.
func TestR5SecondDelete(t *testing.T) {
	t.Parallel()
	type second struct {
		options Options
		plan    string
		state   string
	}
	for name, test := range map[string]second{
		"the older way": {quick(), "postgres/small", jobComplete}, "with a cascade": {recursive(), "postgres/small", jobComplete},
		"the older way, and the first one stalls": {quick(), "faults/delete-stalls", jobFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, test.options)
			guid := c.plantAt("ferry/work", "it", test.plan, "")
			c.workers(true)
			first := c.accepted("DELETE", instances+guid, "")
			c.job(first, jobProcessing)
			c.lastOperation(instances+guid, "create succeeded")
			second := c.accepted("DELETE", instances+guid, "")
			if (first == second) != test.options.RecursiveDelete {
				t.Errorf("jobs %s and %s", first, second)
			}
			c.workers(false)
			if test.state == jobFailed {
				c.job(first, jobPolling)
				c.fails(second, "60016 CF-AsyncServiceInstanceOperationInProgress: An operation for service instance it is in progress.")
				return
			}
			c.job(first, jobComplete)
			c.job(second, jobComplete)
			c.asked("it", deprovision, 1)
		})
	}
}

// TestSecondDeleteWhileDeleting is what a cascade changes in the table of states: a second delete gets the first one's
// job for as long as something comes of that.
func TestSecondDeleteWhileDeleting(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	path, first := c.operate(deprovision, "faults/delete-stalls")
	c.lastOperation(path, "delete in progress")
	if second := c.accepted("DELETE", path, ""); second != first {
		t.Errorf("jobs %s and %s", first, second)
	}
	c.must(200, "PATCH", "/__sim/instances/"+path[len(instances):], `{"worker":"dead"}`)
	c.answers("DELETE", path, "", textDelete)
}

// TestR6DeleteWithKeys has keys in the way of a delete, by each pipeline.
func TestR6DeleteWithKeys(t *testing.T) {
	t.Parallel()
	const refused = "unbind could not be completed: Service broker failed to delete service binding for instance it: Service broker error: in use"
	type ending struct {
		options               Options
		unbind, job, last     string
		deprovisions, unbinds int
	}
	for name, test := range map[string]ending{
		"keys that go at once":                       {quick(), `"answer":"done"`, "", "", 1, 2},
		"keys that go at once, with a cascade":       {recursive(), `"answer":"done"`, "", "", 1, 2},
		"an asynchronous unbind is waited for":       {recursive(), `"answer":"accepted"`, "", "", 1, 2},
		"an asynchronous unbind fails the older way": {quick(), `"answer":"accepted"`, unableToPerform + "delete could not be completed: An operation for a service binding of service instance it is in progress.", "delete failed", 0, 2},
		"a refused unbind fails the older way": {quick(), `"answer":"rejected","description":"in use"`,
			unableToPerform + "delete could not be completed: " + refused[len("unbind could not be completed: "):], "delete failed", 0, 2},
		"a refused unbind leaves the instance as it was, with a cascade": {recursive(), `"answer":"rejected","description":"in use"`,
			"10008 CF-UnprocessableEntity: service_credential_binding KEY: " + refused, "create succeeded", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, test.options)
			path := instances + c.plant(`,"keys":[{"name":"a"},{"name":"b"}]`)
			key := keys + c.do("GET", keys+"?names=a", "").str("resources", 0, "guid")
			c.instruct(`{"operation":"unbind","binding":"a",` + test.unbind + `}`)
			job := c.accepted("DELETE", path, "")
			if test.job == "" {
				c.job(job, jobComplete)
				c.lists(instances, "")
			} else {
				c.fails(job, strings.ReplaceAll(test.job, "KEY", key[len(keys):]))
				c.lastOperation(path, test.last)
			}
			c.asked("it", deprovision, test.deprovisions)
			c.asked("it", unbind, test.unbinds)
			if test.job != "" { // what is left of the keys goes on its own, or at the second try
				if test.unbind == `"answer":"accepted"` {
					c.gone(key)
				}
				c.job(c.accepted("DELETE", path, ""), jobComplete)
			}
		})
	}
}

// TestCascadeReportsEachKey has one error for each key that stays.
func TestCascadeReportsEachKey(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	path := instances + c.plant(`,"keys":[{"name":"a"},{"name":"b"},{"name":"c"}]`)
	for _, name := range []string{"a", "b"} {
		c.instruct(`{"operation":"unbind","binding":"` + name + `","answer":"unreachable"}`)
	}
	listed := c.do("GET", keys, "")
	const why = ": unbind could not be completed: Service broker failed to delete service binding for instance it: " + unreachable
	c.job(c.accepted("DELETE", path, ""), jobFailed).reads(t, "errors.#=2", "errors.0.detail=service_credential_binding "+listed.text("resources.0.guid")+why,
		"errors.1.detail=service_credential_binding "+listed.text("resources.1.guid")+why, "errors.1.title=CF-UnprocessableEntity")
	c.asked("it", deprovision, 0)
}

// TestCascadeWaits has the job of an instance wait for a key, with a warning: one that the cascade deletes itself, and
// one that somebody is deleting already. Both deletes fail in the end.
func TestCascadeWaits(t *testing.T) {
	t.Parallel()
	each(t, recursive(), map[string]bool{"for its own delete": false, "for somebody else's": true}, func(c *cloud, _ string, joined bool) {
		path := instances + c.plant(`,"keys":[{"name":"a"}]`)
		key := c.do("GET", keys, "").str("resources", 0, "guid")
		c.instruct(`{"operation":"unbind","answer":"accepted","polls":"in progress"}`)
		if joined {
			c.accepted("DELETE", keys+key, "")
			c.lastOperation(keys+key, "delete in progress")
		}
		job := c.accepted("DELETE", path, "")
		c.job(job, jobPolling).reads(c.t, "warnings.0.detail=Waiting for 1 service credential bindings to be deleted")
		c.lastOperation(path, "create succeeded")
		if again := c.accepted("DELETE", path, ""); again != job {
			c.t.Errorf("the second delete got the job %s, want %s", again, job)
		}
		c.must(200, "PATCH", "/__sim/keys/"+key, `{"last_operation":{"type":"delete","state":"failed","description":"given up"}}`)
		c.fails(job, "10008 CF-UnprocessableEntity: service_credential_binding "+key+": unbind could not be completed: given up")
		c.asked("it", unbind, 1)
		c.asked("it", deprovision, 0)
	})
}

// TestCascadeBesideADelete has a key whose delete was asked for, and ends well, before the cascade looks.
func TestCascadeBesideADelete(t *testing.T) {
	t.Parallel()
	c := start(t, recursive())
	guid := c.ready("it", "postgres/async-bindings")
	key := c.readyKey("a", guid)
	c.workers(true)
	c.accepted("DELETE", keys+key, "")
	job := c.accepted("DELETE", instances+guid, "")
	c.workers(false)
	c.job(job, jobComplete)
	c.asked("it", unbind, 1)
}

// TestR7LateKey has a key come between the DELETE and its worker.
func TestR7LateKey(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant("")
	c.workers(true)
	remove := c.accepted("DELETE", instances+guid, "")
	_, bound := c.createKey("a", guid)
	c.workers(false)
	c.fails(remove, unableToPerform+"delete could not be completed: "+lateKey)
	c.lastOperation(instances+guid, "delete failed")
	c.job(bound, jobComplete)
	c.job(c.accepted("DELETE", instances+guid, ""), jobComplete)
	c.asked("it", deprovision, 2)
	c.asked("it", unbind, 1)
}

// TestR8DeleteDuringBind supersedes the create of a key.
func TestR8DeleteDuringBind(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.instruct(`{"operation":"bind","answer":"accepted","polls":"in progress"}`)
	c.instruct(`{"operation":"unbind","answer":"accepted","polls":"in progress"}`)
	path, create := c.operate(bind, "postgres/small")
	c.lastOperation(path, "create in progress")
	c.accepted("DELETE", path, "")
	c.fails(create, unableToPerform+"create could not be completed: delete in progress")
	c.lastOperation(path, "delete in progress")
}

// TestKeysVanishUnderTheirJobs has the rows of keys go while jobs wait, and a second unbind start beside the first.
func TestKeysVanishUnderTheirJobs(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/unbind-stalls")
	stalled, gone := keys+c.readyKey("stalled", guid), keys+c.readyKey("gone", guid)
	c.instruct(`{"operation":"unbind","binding":"gone","answer":"gone"}`)
	c.workers(true)
	c.accepted("DELETE", stalled, "")
	second := c.accepted("DELETE", stalled, "")
	c.accepted("DELETE", gone, "")
	vanished := c.accepted("DELETE", gone, "")
	other := c.plantAt("ferry/work", "other", "postgres/small", "")
	key, late := c.createKey("late", other)
	c.must(204, "DELETE", instances+other+"?purge=true", "")
	c.workers(false)
	c.fails(second, unableToPerform+"unbind could not be completed: There is an operation in progress for the service binding.")
	c.job(vanished, jobComplete)
	c.fails(late, "10010 CF-ResourceNotFound: The binding could not be found: "+key)
}
