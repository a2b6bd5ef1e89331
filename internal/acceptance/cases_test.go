package acceptance

import (
	"net/http"
	"testing"
	"time"
)

// TestCloudFoundryCase has the public bug reports about Cloud Foundry clients that
// TestCase leaves out; every other one of them is there.
func TestCloudFoundryCase(t *testing.T) {
	t.Parallel()
	c := start(t, warnings, budget(10*time.Second), slow(30*time.Millisecond))
	c.hold([]clause{
		{"CFC-02 lists whose next page is null, missing, or the same", strangePages},
		{"CFC-08 a key over a failed one", keyOverFailed},
		{"CFC-08 a key over one that goes, or could not go", keyOverDeleted},
		{"CFC-08 a key of an instance whose update or delete failed", keyAfterFailure},
		{"CFC-08 a key that is not finished", keyUnfinished},
	})
}

// strangePages: all pages are read, each once, and what has no end is no list.
func strangePages(c tenant) {
	const plan = "faults/create-stalls"
	for name, next := range map[string]string{"null": `null`, "missing": "", "same": `{"href":` + quoted(c.sim+instances+"?page=1") + `}`} {
		id := "pages-" + name
		op := c.put(id, plan, `{"a":1}`, async).want(c.t, http.StatusAccepted).operation()
		c.works("provision", id, "")
		row := c.operator("GET", instances+"/"+c.row(id).GUID, "").want(c.t, http.StatusOK)
		c.disturb(fault{Method: "GET", Route: instances, Match: id, When: "before", Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "application/json"},
			Body: `{"pagination":` + edited(`{"total_results":1,"total_pages":1}`, "next", next) + `,"resources":[` + row.body + `]}`})
		c.eventually("the list is read", c.hit())
		c.runs(at(id), op)
		c.heal()
		c.force(c.row(id).GUID, "create", "succeeded", "COMPLETE")
		c.made(id, op)
	}
}

func keyOverFailed(c tenant) {
	const plan = "postgres/async-bindings"
	id, path := c.ready(plan, ""), ""
	path = bindingAt(id, "b")
	c.instruct(`{"operation":"bind","instance":%q,"answer":"accepted","polls":"failed","description":"not today"}`, id)
	first := c.bind(id, "b", plan, "", async).want(c.t, 202).operation()
	c.fails(path, first, "not today")
	old := c.row(id).Keys[0].GUID
	second := c.bind(id, "b", plan, "", async).want(c.t, 202).operation()
	c.succeeds(path, second)
	if row := c.row(id); len(row.Keys) != 1 || row.Keys[0].GUID == old || second == first {
		c.t.Errorf("Cloud Foundry has the keys %+v, before %s", row.Keys, old)
	}
	c.send("GET", path, "").want(c.t, 200)
}

func keyOverDeleted(c tenant) {
	for _, s := range []struct {
		plan, state, word string
		status            int
	}{
		{"faults/unbind-stalls", "in progress", "ConcurrencyError", 422},
		{"faults/unbind-fails", "failed", "Conflict", 409},
	} {
		id, binding := c.bound(s.plan)
		c.unbind(id, binding, s.plan, async).want(c.t, 202)
		c.keyComes(id, binding, "delete", s.state)
		if s.state == "failed" {
			c.fails(bindingAt(id, binding), "")
		}
		for _, m := range []mode{async, plain} {
			c.bind(id, binding, s.plan, "", m).says(c.t, s.status, s.word)
		}
		c.askedFor(1, "bind", id, binding)
	}
}

func keyAfterFailure(c tenant) {
	for _, s := range []subject{updateFailed(c), deleteFailed(c)} {
		binding := c.id()
		c.bind(s.id, binding, s.plan, "", plain).want(c.t, 201)
		c.askedFor(1, "bind", s.id, binding)
	}
}

func keyUnfinished(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.ready(plan, "")
	held := later(func() answer { return c.bind(id, "held", plan, "", plain) })
	op := c.bind(id, "b", plan, "", async).want(c.t, 202).operation()
	if a := c.send("GET", bindingAt(id, "b"), ""); a.status != 404 && a.status != 200 {
		c.t.Errorf("%s: %d %s, want 404 until it is there", a.request, a.status, a.body)
	}
	c.succeeds(bindingAt(id, "b"), op)
	c.send("GET", bindingAt(id, "b"), "").want(c.t, 200)
	(<-held).want(c.t, 201)
}
