package acceptance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/osbtest"
)

// spent are the calls that Cloud Foundry counted and the steps of the workflow.
type spent struct {
	calls map[string]int
	ticks int
}

// spends measures.
func (h hours) spends(what func()) spent {
	h.t.Helper()
	before, ticks := h.State().Requests, h.ticks.Load()
	what()
	s := spent{calls: map[string]int{}, ticks: int(h.ticks.Load() - ticks)}
	for call, n := range h.State().Requests {
		if n > before[call] {
			s.calls[call] = n - before[call]
		}
	}
	return s
}

// String is a line of the table.
func (s spent) String() string {
	text := fmt.Sprintf("%2d steps", s.ticks)
	for _, call := range slices.Sorted(maps.Keys(s.calls)) {
		text += fmt.Sprintf(", %d %s", s.calls[call], strings.ReplaceAll(call, "service_credential_bindings", "keys"))
	}
	return text
}

// The calls as Cloud Foundry counts them.
const (
	postInstance = "POST " + instances
	lookInstance = "GET " + instances
	patch        = "PATCH " + instance
	rowByGUID    = "GET " + instance
	dropInstance = "DELETE " + instance
	postKey      = "POST " + keys
	lookKeys     = "GET " + keys
	dropKey      = "DELETE " + key
	details      = "GET " + key + "/details"
	job          = "GET /v3/jobs/:guid"
	seeSpaces    = "GET /v3/spaces"
)

// TestCallBudget counts what an operation costs in Cloud Foundry once login, org, space and plan are known: one call
// that changes something, and one a step until it is done.
func TestCallBudget(t *testing.T) {
	t.Parallel()
	underClock(t, nil, func(h hours) {
		const plan = "postgres/small"
		ready := h.prepared(plan)
		h.Bind(ready, "first", plan, "").Want(201)
		prices := h.budgets(ready)
		h.pass(lateStart)
		for _, b := range prices {
			s := h.spends(b.what)
			t.Logf("%-36s %s", b.name, s)
			if want := b.want(s.ticks); !maps.Equal(s.calls, want) {
				t.Errorf("%s cost %s, want %v", b.name, s, want)
			}
		}
	})
}

// lateStart is when the workflow of a held bind looks whether anything is left to do.
const lateStart = 30 * time.Second

// priced is something that platforms do, and what it may cost in so many steps.
type priced struct {
	name string
	what func()
	want func(ticks int) map[string]int
}

// budgets are the prices. Where a look finds nothing of the name any more, the recorded GUID is looked for, and one
// call more makes sure that the login can still see its spaces: Cloud Foundry shows what may not be read as if it were
// not there.
func (h hours) budgets(ready string) []priced {
	const plan, stalls = "postgres/small", "faults/create-stalls"
	h.prepared("faults/update-stalls") // its space is known from now on
	doomed := h.prepared(plan)
	idle := func(int) map[string]int { return map[string]int{} }
	created := func(n int) map[string]int { return map[string]int{postInstance: 1, lookInstance: n - 1} }
	return []priced{
		{"create", func() { h.prepared(plan) }, created},
		{"create that takes a while", func() { h.slowCreate(stalls) }, created},
		{"create sent ten times", func() { h.crowd() }, created},
		{"duplicate of a finished create", func() { h.Provision(ready, plan, `{"a":1}`).Bare(200) }, idle},
		{"update", func() { h.Succeeds(at(ready), h.changes(ready, plan)) }, func(n int) map[string]int {
			// The row, before the PATCH and at each step after it.
			return map[string]int{patch: 1, rowByGUID: n}
		}},
		{"bind", func() {
			h.Succeeds(bindingAt(ready, "a"), h.Bind(ready, "a", plan, "", osbtest.Async).Want(202).Operation())
		}, func(n int) map[string]int { return map[string]int{postKey: 1, lookKeys: n - 1} }},
		{"duplicate of a finished bind", func() { h.Bind(ready, "a", plan, "", osbtest.Async).Want(200) }, func(int) map[string]int { return map[string]int{details: 1} }},
		{"bind that is held", func() {
			h.Bind(ready, "b", plan, "").Want(201)
			h.pass(lateStart)
		}, func(int) map[string]int {
			return map[string]int{postKey: 1, lookKeys: 1, details: 1}
		}},
		{"polls", func() {
			for range 30 {
				h.Poll(at(ready), "").Want(200)
				h.Poll(bindingAt(ready, "a"), "").Want(200)
			}
		}, idle},
		{"unbind", func() {
			h.Succeeds(bindingAt(ready, "a"), h.Unbind(ready, "a", plan, osbtest.Async).Want(202).Operation())
		}, func(n int) map[string]int {
			return map[string]int{lookKeys: n + 1, dropKey: 1, seeSpaces: 1}
		}},
		{"delete", func() { h.Succeeds(at(doomed), h.removes(doomed, plan)) }, func(n int) map[string]int {
			return map[string]int{lookInstance: n + 1, lookKeys: 1, dropInstance: 1, seeSpaces: 1}
		}},
	}
}

func (h hours) slowCreate(plan string) {
	h.t.Helper()
	id, op := h.starts(plan)
	for range 10 {
		h.pass(5 * time.Second)
		h.Poll(at(id), op).Has("state", `"in progress"`)
	}
	h.Force(h.Row(id).GUID, "create", "succeeded", "COMPLETE")
	h.Succeeds(at(id), op)
}

func (h hours) crowd() {
	h.t.Helper()
	id := h.NewID()
	answers := osbtest.Together(10, func(int) answer { return h.Provision(id, "postgres/small", `{"a":1}`) })
	h.Succeeds(at(id), answers[0].Operation())
}

// TestRetryAfter: whichever call a limiter refuses, the next one of that operation comes no sooner than it said.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, call := range []string{postInstance, lookInstance, patch, rowByGUID, dropInstance, job, postKey, lookKeys, dropKey} {
		t.Run(strings.ReplaceAll(call, "/", "_"), func(t *testing.T) {
			t.Parallel()
			underClock(t, nil, func(h hours) { h.obeys(call, 150*time.Second) })
		})
	}
}

// obeys walks the life of an instance and a binding while one call of it is limited, twice in a row.
func (h hours) obeys(call string, wait time.Duration) {
	h.t.Helper()
	const plan, failing = "postgres/small", "faults/update-fails"
	id, fails := h.prepared(plan), h.prepared(failing)
	h.Bind(id, "first", plan, "").Want(201)
	h.Unbind(id, "first", plan).Bare(200)
	method, route, _ := strings.Cut(call, " ")
	h.Control("POST", "/faults", `{"method":`+osbtest.Quoted(method)+`,"route":`+osbtest.Quoted(route)+`,"times":2,"when":"before","action":"respond","status":429,`+
		`"headers":{"Retry-After":`+osbtest.Quoted(strconv.Itoa(int(wait.Seconds())))+`,"Content-Type":"text/plain"},"body":`+osbtest.Quoted(rateLimited)+`}`)
	var refused, next []time.Time
	h.watch(func(now time.Time, path string, status int) {
		if strings.Contains(path, "/service_plans") || strings.Contains(path, "/service_offerings") {
			return // the catalog is refreshed whatever an operation waits for
		}
		if len(refused) > len(next) {
			next = append(next, now)
		}
		if status == http.StatusTooManyRequests {
			refused = append(refused, now)
		}
	})
	for _, step := range []func() (string, string){
		func() (string, string) { return at(id), h.changes(id, plan) },
		func() (string, string) {
			return bindingAt(id, "b"), h.Bind(id, "b", plan, "", osbtest.Async).Want(202).Operation()
		},
		func() (string, string) {
			return bindingAt(id, "b"), h.Unbind(id, "b", plan, osbtest.Async).Want(202).Operation()
		},
		func() (string, string) {
			other, op := h.starts(plan)
			return at(other), op
		},
		func() (string, string) { return at(id), h.removes(id, plan) },
	} {
		path, op := step()
		h.Succeeds(path, op)
	}
	h.Fails(at(fails), h.changes(fails, failing)) // whose job is asked why
	h.waited(refused, next, wait)
}

const rateLimited = `{"errors":[{"code":10013,"title":"CF-RateLimitExceeded","detail":"Rate Limit Exceeded"}]}`

func (h hours) waited(refused, next []time.Time, wait time.Duration) {
	h.t.Helper()
	if len(refused) != 2 || len(next) != 2 {
		h.t.Fatalf("%d calls were refused and %d came after them, want two", len(refused), len(next))
	}
	for i := range refused {
		// Not much later either, though not all operations come back at one moment.
		if pause := next[i].Sub(refused[i]); pause < wait || pause > 2*wait+time.Minute {
			h.t.Errorf("the next call came after %s, want it after %s", pause, wait)
		}
	}
}

// TestLimiter has many operations in flight while Cloud Foundry takes ten calls a second: all of them end, and each is
// done once.
func TestLimiter(t *testing.T) {
	t.Parallel()
	limit := func(o *cfsim.Options) { o.RateLimit, o.RateWindow = 10, time.Second }
	underClock(t, limit, func(h hours) {
		const plan, many = "postgres/small", 64
		began := h.now()
		ids := make([]string, many)
		operations := map[string]string{}
		for i := range ids {
			id, op := h.starts(plan)
			ids[i], operations[id] = id, op
		}
		h.allSucceed(operations)
		for _, id := range ids {
			h.Row(id)
			h.AskedFor(1, "provision", id, "")
			operations[id] = h.removes(id, plan)
		}
		h.allSucceed(operations)
		for _, id := range ids {
			h.NothingLeft(id)
			h.AskedFor(1, "deprovision", id, "")
		}
		t.Logf("%d creates and deletes took %s, %d calls were refused", many, h.now().Sub(began), h.limited.Load())
		if h.limited.Load() == 0 {
			t.Error("the limiter refused nothing")
		}
	})
}

func (h hours) allSucceed(operations map[string]string) {
	h.t.Helper()
	for id, op := range operations {
		h.Succeeds(at(id), op)
	}
}
