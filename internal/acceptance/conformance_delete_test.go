package acceptance

import "testing"

// TestConformanceDelete: deprovision, unbind, and what platforms do to clean up. What they are
// answered in each state stands in TestTable and TestTableOfBindings.
func TestConformanceDelete(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.hold([]clause{
		{"DEP-01 DEP-08 DEP-14 LIM-02 CON-34 CON-39 DEP-03 DEP-04 all that was made is removed, bindings too", removesAll},
		{"DEP-02 DEP-05 DEP-06 DEP-15 service_id and plan_id are asked for first", mandatoryOfDelete},
		{"DEP-09 CON-35 repeated: 202 with the same operation", repeatedDelete},
		{"DEP-10 CON-28 what is not there, or no more: 410", func(c tenant) {
			c.delete(c.id(), "postgres/small", async).bare(c.t, 410)
			id := c.one()
			c.gone(id, "postgres/small")
			c.delete(id, "postgres/small", async).bare(c.t, 410)
		}},
		{"DEP-11 DEP-16 ASY-09 AsyncRequired, of what is not there too", func(c tenant) {
			id := c.one()
			c.traceless(c.t, id, "", func() answer { return c.delete(id, "postgres/small", plain) }).says(c.t, 422, "AsyncRequired")
			c.delete(c.id(), "postgres/small", plain).says(c.t, 422, "AsyncRequired")
		}},
		{"DEP-13 CON-38 ERR-04 ERR-05 a failed delete says whether the instance still works, and may be sent again", failedDelete},
		{"DEP-17 other service_id and plan_id than its own delete it all the same", func(c tenant) {
			id := c.one()
			c.succeeds(at(id), c.send("DELETE", at(id)+"?service_id=x&plan_id=y&accepts_incomplete=true", "").want(c.t, 202).operation())
		}},
		{"DEP-07 ASY-05 there is no synchronous deprovision: 202 ends as succeeded, then 410", func(c tenant) {
			id := c.one()
			op := c.delete(id, "postgres/small", async).want(c.t, 202).operation()
			c.succeeds(at(id), op)
			c.delete(id, "postgres/small", async).bare(c.t, 410)
		}},
		{"DEP-12 CON-29 CON-30 CON-36 ASY-17 accepted while something runs", deleteDuring},
		{"CON-37 ORPH-05 ORPH-07 leftovers of a failed create are removed", func(c tenant) {
			s := createFailed(c)
			c.gone(s.id, s.plan)
			c.nothingLeft(s.id)
		}},
		{"UNB-01 UNB-05 ASY-05 CON-58 200 {} when the binding is gone", unbound},
		{"UNB-02 UNB-03 UNB-04 UNB-12 mandatory, unless there is nothing to delete", mandatoryOfUnbind},
		{"UNB-06 UNB-07 UNB-11 UNB-14 LIM-04 CON-59 202 with one operation until it is done", unboundLater},
		{"UNB-08 CON-52 CON-61 what is not there, or no more: 410", func(c tenant) {
			id, binding := c.bound("postgres/small")
			c.unbind(id, binding, "postgres/small", plain).want(c.t, 200)
			for _, m := range []mode{plain, async} {
				c.unbind(id, binding, "postgres/small", m).bare(c.t, 410)
				c.unbind(id, c.id(), "postgres/small", m).bare(c.t, 410)
				c.unbind(c.id(), c.id(), "postgres/small", m).bare(c.t, 410)
			}
		}},
		{"UNB-13 other service_id and plan_id than its own delete it all the same", func(c tenant) {
			id, binding := c.bound("postgres/small")
			c.send("DELETE", bindingAt(id, binding)+"?service_id=x&plan_id=y", "").bare(c.t, 200)
		}},
		{"UNB-09 an unbind never needs the flag: it is held", func(c tenant) {
			id, binding := c.bound("postgres/async-bindings")
			c.unbind(id, binding, "postgres/async-bindings", plain).bare(c.t, 200)
		}},
		{"UNB-10 CON-53 CON-54 CON-55 CON-56 CON-57 a bind that runs is ended by an unbind", unbindDuringBind},
		{"UNB-15 CON-60 a failed unbind may be sent again", func(c tenant) {
			s := bindingOn("faults/unbind-fails", true, "failed")(c)
			again := c.unbind(s.id, s.binding, s.plan, async).want(c.t, 202)
			if again.operation() == s.operation {
				c.t.Errorf("%s: the operation that failed", again.request)
			}
			c.fails(bindingAt(s.id, s.binding), again.operation(), "The unbind fails with this plan")
		}},
		{"CON-62 an unbound id may be used again", func(c tenant) {
			id, binding := c.bound("postgres/small")
			c.unbind(id, binding, "postgres/small", plain).want(c.t, 200)
			c.bind(id, binding, "postgres/small", `{"other":1}`, plain).want(c.t, 201)
		}},
		{"ORPH-02 ORPH-04 ORPH-06 ORPH-08 ORPH-13 a bind that a platform gave up is cleaned up", abandonedBind},
		{"ORPH-01 a failed bind's leftovers are removed without being asked", func(c tenant) {
			id, binding := c.ready("faults/bind-fails", ""), c.id()
			c.bind(id, binding, "faults/bind-fails", "", plain).want(c.t, 500)
			c.eventually("the key is gone", func() bool { return len(c.row(id).Keys) == 0 })
		}},
		{"ORPH-12 a create after a delete of nothing is a new one", func(c tenant) {
			id := c.id()
			c.delete(id, "postgres/small", async).bare(c.t, 410)
			c.succeeds(at(id), c.put(id, "postgres/small", "", async).want(c.t, 202).operation())
			c.askedFor(1, "provision", id, "")
		}},
	})
}

func removesAll(c tenant) {
	id, binding := c.bound("postgres/async-bindings")
	c.bind(id, c.id(), "postgres/async-bindings", "", plain).want(c.t, 201)
	a := c.delete(id, "postgres/async-bindings", async).want(c.t, 202)
	if n := len(a.operation()); n == 0 || n > 64 {
		c.t.Errorf("%s: an operation of %d characters", a.request, n)
	}
	c.succeeds(at(id), a.operation())
	c.nothingLeft(id)
	c.send("GET", bindingAt(id, binding), "").want(c.t, 404)
	c.unbind(id, binding, "postgres/async-bindings", plain).bare(c.t, 410)
}

func mandatoryOfDelete(c tenant) {
	for _, id := range []string{c.one(), c.id()} {
		for _, query := range []string{"", "&service_id=s", "&plan_id=p", "&service_id=&plan_id=p", "&service_id=s&plan_id="} {
			for _, flag := range []string{"?accepts_incomplete=true", "?accepts_incomplete=false"} {
				c.traceless(c.t, id, "", func() answer { return c.send("DELETE", at(id)+flag+query, "") }).says(c.t, 400, "BadRequest")
			}
		}
	}
}

func repeatedDelete(c tenant) {
	s := deleting(c)
	for range 3 {
		if a := c.delete(s.id, s.plan, async).want(c.t, 202); a.operation() != s.operation || a.header.Get("Retry-After") == "" {
			c.t.Errorf("%s: %s, want the operation %s", a.request, a.body, s.operation)
		}
	}
	c.askedFor(1, "deprovision", s.id, "")
}

func failedDelete(c tenant) {
	s := readyOn(c, "faults/delete-fails-once")
	op := c.delete(s.id, s.plan, async).want(c.t, 202).operation()
	c.fails(at(s.id), op, "The delete fails with this plan")
	c.poll(at(s.id), op).lacks(c.t, "update_repeatable")
	c.send("GET", at(s.id), "").want(c.t, 200)
	again := c.delete(s.id, s.plan, async).want(c.t, 202).operation()
	if again == op {
		c.t.Errorf("the second delete has the operation of the first")
	}
	c.succeeds(at(s.id), again)
	c.nothingLeft(s.id)
}

func deleteDuring(c tenant) {
	creating := creating(c)
	c.succeeds(at(creating.id), c.delete(creating.id, creating.plan, async).want(c.t, 202).operation())
	c.nothingLeft(creating.id)
	c.poll(at(creating.id), creating.operation).has(c.t, "state", `"failed"`)
	id := c.ready("postgres/async", "")
	update := c.patch(id, "postgres/async", `"parameters":{"a":2}`, async).want(c.t, 202).operation()
	c.succeeds(at(id), c.delete(id, "postgres/async", async).want(c.t, 202).operation())
	if state := c.poll(at(id), update).state(); state == "in progress" {
		c.t.Error("the update outlived its instance")
	}
	bound := c.ready("postgres/async-bindings", "")
	bind := c.bind(bound, "b", "postgres/async-bindings", "", async).want(c.t, 202).operation()
	c.succeeds(at(bound), c.delete(bound, "postgres/async-bindings", async).want(c.t, 202).operation())
	c.nothingLeft(bound)
	if a := c.poll(bindingAt(bound, "b"), bind); a.state() == "in progress" {
		c.t.Errorf("%s: %s", a.request, a.body)
	}
}

func unbound(c tenant) {
	id, binding := c.bound("postgres/async-bindings")
	c.unbind(id, binding, "postgres/async-bindings", plain).bare(c.t, 200)
	if row := c.row(id); len(row.Keys) != 0 {
		c.t.Errorf("Cloud Foundry has %+v", row.Keys)
	}
	c.askedFor(1, "unbind", id, binding)
}

func mandatoryOfUnbind(c tenant) {
	id, binding := c.bound("postgres/small")
	for _, query := range []string{"", "?service_id=s", "?plan_id=p", "?service_id=&plan_id=p", "?accepts_incomplete=true"} {
		c.traceless(c.t, id, binding, func() answer { return c.send("DELETE", bindingAt(id, binding)+query, "") }).says(c.t, 400, "BadRequest")
		c.send("DELETE", bindingAt(id, "none")+query, "").bare(c.t, 410)
	}
}

func unboundLater(c tenant) {
	s := bindingOn("faults/unbind-stalls", true, "in progress")(c)
	for range 3 {
		a := c.unbind(s.id, s.binding, s.plan, async).want(c.t, 202)
		if a.operation() != s.operation || a.operation() == "" || len(a.operation()) > 64 {
			c.t.Errorf("%s: %s, want the operation %s", a.request, a.body, s.operation)
		}
	}
	c.askedFor(1, "unbind", s.id, s.binding)
}

func unbindDuringBind(c tenant) {
	s := bindingOn("faults/bind-stalls", false, "in progress")(c)
	path := bindingAt(s.id, s.binding)
	op := c.unbind(s.id, s.binding, s.plan, async).want(c.t, 202).operation()
	c.poll(path, s.operation).has(c.t, "state", `"failed"`)
	c.succeeds(path, op)
	c.poll(path, "").has(c.t, "state", `"succeeded"`)
	if row := c.row(s.id); len(row.Keys) != 0 {
		c.t.Errorf("Cloud Foundry has %+v", row.Keys)
	}
	held := bindingOn("faults/bind-stalls", false, "in progress")(c) // the same without the flag
	c.unbind(held.id, held.binding, held.plan, plain).bare(c.t, 200)
	c.poll(bindingAt(held.id, held.binding), held.operation).has(c.t, "state", `"failed"`)
}

// abandonedBind: the answer never reached the platform, which then deletes by id.
func abandonedBind(c tenant) {
	s := bindingOn("faults/bind-stalls", false, "in progress")(c)
	if row := c.row(s.id); row.Name != s.id || row.Keys[0].Name != s.binding || row.Labels["ferry-client"] != c.name {
		c.t.Errorf("Cloud Foundry's rows do not bear the ids: %+v", row)
	}
	c.unbind(s.id, s.binding, s.plan, plain).bare(c.t, 200)
	c.gone(s.id, s.plan)
	c.nothingLeft(s.id)
}
