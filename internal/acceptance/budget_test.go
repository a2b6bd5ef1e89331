package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// spent are the calls that Cloud Foundry counted and the steps of the workflow.
type spent struct {
	calls map[string]int
	ticks int
}

// spends measures.
func (h hours) spends(what func()) spent {
	h.t.Helper()
	before, ticks := h.cf().Requests, h.ticks.Load()
	what()
	s := spent{calls: map[string]int{}, ticks: int(h.ticks.Load() - ticks)}
	for call, n := range h.cf().Requests {
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

// TestCallBudget counts what an operation costs in Cloud Foundry once login, org, space
// and plan are known: one call that changes something, and one a step until it is done.
func TestCallBudget(t *testing.T) {
	t.Parallel()
	underClock(t, nil, func(h hours) {
		const plan = "postgres/small"
		ready := h.prepared(plan)
		h.bind(ready, "first", plan, "", plain).want(t, 201)
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

// budgets are the prices. Where a look finds nothing of the name any more, the recorded
// GUID is looked for, and one call more makes sure that the login can still see its
// spaces: Cloud Foundry shows what may not be read as if it were not there.
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
		{"duplicate of a finished create", func() { h.put(ready, plan, `{"a":1}`, async).bare(h.t, 200) }, idle},
		{"update", func() { h.succeeds(at(ready), h.changes(ready, plan)) }, func(n int) map[string]int {
			// The row, before the PATCH and at each step after it, and the job.
			return map[string]int{patch: 1, rowByGUID: n}
		}},
		{"bind", func() {
			h.succeeds(bindingAt(ready, "a"), h.bind(ready, "a", plan, "", async).want(h.t, 202).operation())
		}, func(n int) map[string]int { return map[string]int{postKey: 1, lookKeys: n - 1} }},
		{"duplicate of a finished bind", func() { h.bind(ready, "a", plan, "", async).want(h.t, 200) }, func(int) map[string]int { return map[string]int{details: 1} }},
		{"bind that is held", func() {
			h.bind(ready, "b", plan, "", plain).want(h.t, 201)
			h.pass(lateStart)
		}, func(int) map[string]int {
			return map[string]int{postKey: 1, lookKeys: 1, details: 1}
		}},
		{"polls", func() {
			for range 30 {
				h.poll(at(ready), "").want(h.t, 200)
				h.poll(bindingAt(ready, "a"), "").want(h.t, 200)
			}
		}, idle},
		{"unbind", func() {
			h.succeeds(bindingAt(ready, "a"), h.unbind(ready, "a", plan, async).want(h.t, 202).operation())
		}, func(n int) map[string]int {
			return map[string]int{lookKeys: 3, dropKey: 1, job: n - 1, seeSpaces: 1}
		}},
		{"delete", func() { h.succeeds(at(doomed), h.removes(doomed, plan)) }, func(n int) map[string]int {
			return map[string]int{lookInstance: 3, lookKeys: 1, dropInstance: 1, job: n - 1, seeSpaces: 1}
		}},
	}
}

func (h hours) slowCreate(plan string) {
	h.t.Helper()
	id, op := h.starts(plan)
	for range 10 {
		h.pass(5 * time.Second)
		h.poll(at(id), op).has(h.t, "state", `"in progress"`)
	}
	h.force(h.row(id).GUID, "create", "succeeded", "COMPLETE")
	h.succeeds(at(id), op)
}

func (h hours) crowd() {
	h.t.Helper()
	id := h.id()
	answers := together(10, func(int) answer { return h.put(id, "postgres/small", `{"a":1}`, async) })
	h.succeeds(at(id), answers[0].operation())
}
