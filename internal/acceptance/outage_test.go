package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// TestBadDays lets Cloud Foundry answer badly for a while: operations still end well (law 8), each having been carried
// out once.
func TestBadDays(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"502 HTML":             html(http.StatusBadGateway),
		"500":                  said(500, 10001, "UnknownError", "An unknown error occurred."),
		"429 with Retry-After": limited(said(429, 10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")),
		"401":                  said(401, 1000, "CF-InvalidAuthToken", "Invalid Auth Token"),
		"404 of a router":      noRoute(),
		"connections dropped":  dropped(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			badDay(start(t, warnings), f)
		})
	}
}

func badDay(c tenant, f fault) {
	const plan = "postgres/async"
	c.Disturb(f.On("*", "*", 6))
	id, op := c.starts(plan)
	c.Succeeds(at(id), op)
	c.struck()
	c.Disturb(f.On("*", "*", 3))
	c.Succeeds(at(id), c.changes(id, plan))
	c.struck()
	c.Disturb(f.On("*", "*", 3))
	c.Bind(id, "b", plan, "").Want(http.StatusCreated)
	c.struck()
	c.Control("POST", "/tokens/expire", "")
	c.Disturb(f.On("*", "*", 3))
	c.goneFor(id, c.removes(id, plan))
	c.struck()
	for _, word := range []string{"provision", "update", "deprovision"} {
		c.AskedFor(1, word, id, "")
	}
	c.AskedFor(1, "bind", id, "b")
	c.AskedFor(1, "unbind", id, "b")
}

// TestOutage shows law 10: while nothing useful comes from Cloud Foundry, platforms work on, and everything gets done
// afterwards.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{"HTML": html(503), "nothing": dropped()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage(start(t, warnings, budget(4*time.Second)), f)
		})
	}
}

func outage(c tenant, f fault) {
	const plan, parameters = "postgres/small", `{"a":1}`
	updated, doomed := c.Ready(plan, parameters), c.Ready(plan, parameters)
	bound, binding := c.Bound(plan)
	ready, readyBinding := c.Bound(plan)
	running, create := c.starts("postgres/async")
	c.Disturb(f.On("*", "*", 0))
	fresh, first := c.starts(plan)
	again := map[string]func() answer{
		at(fresh):                 func() answer { return c.Provision(fresh, plan, parameters) },
		at(running):               func() answer { return c.Provision(running, "postgres/async", parameters) },
		at(updated):               func() answer { return c.Update(updated, plan, `"parameters":{"a":2}`) },
		at(doomed):                func() answer { return c.Deprovision(doomed, plan) },
		bindingAt(bound, "later"): func() answer { return c.Bind(bound, "later", plan, "", osbtest.Async) },
		bindingAt(bound, binding): func() answer { return c.Unbind(bound, binding, plan, osbtest.Async) },
	}
	operations := map[string]string{at(fresh): first, at(running): create}
	for range 3 {
		c.Fetch("/v2/catalog").Want(http.StatusOK)
		for path, send := range again {
			a := send().Want(http.StatusAccepted)
			if before, found := operations[path]; found && before != a.Operation() {
				c.t.Errorf("%s: operation %s, before it was %s", a.Request, a.Operation(), before)
			}
			operations[path] = a.Operation()
			c.Poll(path, a.Operation()).Want(http.StatusOK).Has("state", `"in progress"`)
		}
		c.Provision(fresh, plan, `{"a":3}`).Says(http.StatusConflict, "Conflict")
		c.Poll(at(ready), "").Has("state", `"succeeded"`)
		c.Poll(bindingAt(ready, readyBinding), "").Has("state", `"succeeded"`)
	}
	c.Send("GET", "/readyz", "").Want(http.StatusOK)
	c.heal()
	for path, operation := range operations {
		c.Succeeds(path, operation)
	}
	c.NothingLeft(doomed)
	for _, id := range []string{fresh, running, updated} {
		c.AskedFor(1, "provision", id, "")
	}
	c.HasKeys(bound, "later")
}

// TestABacklogConcernsNobodyElse: law 10. While Cloud Foundry makes no key, a platform's binds may fill what its
// requests may hold, and the rest are turned away without a trace: catalogs, polls and duplicates are answered all the
// same, to everybody.
func TestABacklogConcernsNobodyElse(t *testing.T) {
	t.Parallel()
	const many, plan = 12, "postgres/small"
	// Eight requests may wait: four, shared, beside two of each platform.
	const held = 6
	c := start(t, warnings, func(s *settings) { s.config.Limits.ConcurrentRequests = 16 })
	id := c.Ready(plan, "")
	running := c.NewID()
	op := c.Provision(running, "faults/create-stalls", "").Want(http.StatusAccepted).Operation()
	c.Disturb(fault{Action: "respond", Status: http.StatusServiceUnavailable, Body: "{}"}.On("POST", keys, 0))
	bind := func(i int) answer { return c.Bind(id, fmt.Sprint("b", i), plan, "") }
	type numbered struct {
		i int
		answer
	}
	answers := make(chan numbered, many)
	for i := range many {
		go func() { answers <- numbered{i, bind(i)} }()
	}
	var refused []int
	for range many - held {
		a := <-answers
		a.Says(http.StatusServiceUnavailable, "TooManyRequests", "nothing of this one was carried out")
		refused = append(refused, a.i)
	}
	for _, platform := range []osbtest.Tenant{c.Tenant, c.other} {
		for range held {
			platform.Fetch("/v2/catalog").Want(http.StatusOK)
		}
	}
	c.Poll(at(running), op).Want(http.StatusOK)
	c.Provision(running, "faults/create-stalls", "").Want(http.StatusAccepted)
	c.Bind(id, "later", plan, "", osbtest.Async).Want(http.StatusAccepted)
	c.Poll(bindingAt(id, fmt.Sprint("b", refused[0])), "").Want(http.StatusNotFound)
	c.other.Ready(plan, "")
	c.heal()
	for range held {
		a := <-answers
		a.Want(http.StatusCreated)
	}
	for _, i := range refused {
		bind(i).Want(http.StatusCreated)
	}
}
