package acceptance

import (
	"strings"
	"testing"
)

// TestConformanceFetch: GET of instances and bindings.
func TestConformanceFetch(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.hold([]clause{
		{"FI-01 FI-04 FI-05 FI-09 FI-10 FI-12 CAT-17 what an instance is", fetchedInstance},
		{"FI-02 FI-07 right after the create has ended, and not before", fetchedInTime},
		{"FI-03 FI-06 FI-13 what cannot be fetched is 404", notFetched},
		{"FI-08 FI-13 an instance that is busy: 422 ConcurrencyError", fetchedBusy},
		{"FI-11 FI-14 no dashboard_url that is null", func(c tenant) { c.send("GET", at(c.one()), "").want(c.t, 200).lacks(c.t, "dashboard_url") }},
		{"FB-01 FB-03 FB-04 FB-06 FB-07 FB-09 CAT-18 what a binding is", fetchedBinding},
		{"FB-02 FB-05 FB-11 a binding that is not ready, or no more, is 404", bindingNotThere},
		{"FB-07 parameters of a binding", func(c tenant) {
			id, binding := c.one(), c.id()
			c.bind(id, binding, "postgres/small", `{"a":1.50}`, plain).want(c.t, 201)
			c.send("GET", bindingAt(id, binding), "").want(c.t, 200).has(c.t, "parameters", `{"a":1.50}`)
		}},
		{"FB-12 CAT-18 bindings of an offering that says so cannot be fetched", func(c tenant) {
			id, binding := c.bound("drain/standard")
			c.send("GET", bindingAt(id, binding), "").says(c.t, 404, "NotFound")
		}},
	})
}

func fetchedInstance(c tenant) {
	id := c.ready("postgres/small", `{"a":1,"big":9007199254740993}`)
	p := c.plan("postgres/small")
	for _, query := range []string{"", "?service_id=nope&plan_id=nope", "?service_id=&plan_id="} {
		a := c.send("GET", at(id)+query, "").want(c.t, 200)
		a.has(c.t, "service_id", quoted(p.service))
		a.has(c.t, "plan_id", quoted(p.plan))
		a.has(c.t, "parameters", `{"a":1,"big":9007199254740993}`)
		a.lacks(c.t, "operation", "maintenance_info")
	}
	c.changed(id, "postgres/small", `"parameters":{"b":2},"plan_id":`+quoted(c.plan("postgres/large").plan))
	a := c.send("GET", at(id), "").want(c.t, 200)
	a.has(c.t, "plan_id", quoted(c.plan("postgres/large").plan))
	a.has(c.t, "parameters", `{"b":2}`)
}

func fetchedInTime(c tenant) {
	id := c.id()
	op := c.put(id, "postgres/async", "", async).want(c.t, 202).operation()
	if a := c.send("GET", at(id), ""); a.status != 404 && c.poll(at(id), op).state() != "succeeded" {
		c.t.Errorf("%s: %d %s while it is being created", a.request, a.status, a.body)
	}
	c.succeeds(at(id), op)
	c.send("GET", at(id), "").want(c.t, 200)
	s := creating(c)
	c.send("GET", at(s.id), "").says(c.t, 404, "NotFound")
}

func notFetched(c tenant) {
	c.send("GET", at(c.id()), "").says(c.t, 404, "NotFound")
	c.send("GET", at(c.ready("queue/standard", "")), "").says(c.t, 404, "NotFound") // instances_retrievable false
	c.send("GET", at(createFailed(c).id), "").says(c.t, 404, "NotFound")
	id := c.one()
	c.gone(id, "postgres/small")
	c.send("GET", at(id), "").says(c.t, 404, "NotFound")
}

func fetchedBusy(c tenant) {
	for _, s := range []subject{updating(c), deleting(c)} {
		c.send("GET", at(s.id), "").says(c.t, 422, "ConcurrencyError")
	}
	for _, s := range []subject{updateFailed(c), deleteFailed(c)} { // they still are what they were
		c.send("GET", at(s.id), "").want(c.t, 200)
	}
}

func fetchedBinding(c tenant) {
	const plan = "postgres/async-bindings"
	id, binding := c.ready(plan, ""), c.id()
	c.succeeds(bindingAt(id, binding), c.bind(id, binding, plan, `{"a":1}`, async).want(c.t, 202).operation())
	for _, query := range []string{"", "?service_id=nope&plan_id=nope"} {
		a := c.send("GET", bindingAt(id, binding)+query, "").want(c.t, 200)
		a.has(c.t, "parameters", `{"a":1}`)
		if a.lacks(c.t, "operation"); !strings.Contains(a.credentials(), `"big":9007199254740993`) {
			c.t.Errorf("%s: %s", a.request, a.body)
		}
	}
	again := c.bind(id, binding, plan, `{"a":1}`, plain).want(c.t, 200)
	if fetched := c.send("GET", bindingAt(id, binding), ""); fetched.credentials() != again.credentials() {
		c.t.Errorf("fetched %s, bound %s", fetched.credentials(), again.credentials())
	}
}

func bindingNotThere(c tenant) {
	for _, s := range []subject{
		absentBinding(c), bindingOn("faults/bind-stalls", false, "in progress")(c), bindingOn("faults/bind-fails", false, "failed")(c),
		bindingOn("faults/unbind-stalls", true, "in progress")(c), bindingOn("postgres/small", true, "succeeded")(c),
	} {
		c.send("GET", bindingAt(s.id, s.binding), "").says(c.t, 404, "NotFound")
	}
	c.send("GET", bindingAt(c.id(), c.id()), "").says(c.t, 404, "NotFound")
}
