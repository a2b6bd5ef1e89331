package acceptance

import (
	"strings"
	"testing"
)

// TestConformancePoll: the two last_operation endpoints.
func TestConformancePoll(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.hold([]clause{
		{"LOI-01 LOI-02 LOI-03 LOI-11 LOI-17 LOI-18 ASY-15 of an instance from the first moment to the end", instancePolls},
		{"LOI-06 LOI-08 LOI-26 LOB-05 LOB-07 what is not there is 404", nothingToPoll},
		{"LOI-09 LOI-10 LOB-08 LOI-05 LOB-04 hints are never wrong", pollHints},
		{"LOI-04 LOB-03 an id that cannot be one", func(c tenant) {
			long := strings.Repeat("x", 901)
			c.poll(at(long), "").says(c.t, 400, "BadRequest", "900")
			c.poll(bindingAt("i", long), "").says(c.t, 400, "BadRequest", "900")
			c.send("GET", "/v2/service_instances//last_operation", "").want(c.t, 404)
		}},
		{"LOI-12 LOI-14 LOI-16 ORPH-07 a failure is described, and has no field that is not its own", failedPolls},
		{"LOI-13 LOI-15 UPD-26 ERR-04 ERR-06 a refused update that can never work says so", refusedUpdates},
		{"LOI-19 LOI-22 LOB-15 ends are remembered, of older operations too", olderOperations},
		{"LOI-20 LOI-21 LOB-17 no operation, and one that nobody made: the latest", strangeOperations},
		{"LOI-23 a poll of what is ready: succeeded", readyPolled},
		{"LOI-24 CON-32 CON-33 a create that a delete ended is failed", cancelledCreate},
		{"LOI-25 LOI-07 a finished delete: succeeded, and 410 when nobody remembers it", finishedDeletes},
		{"LOB-01 LOB-02 LOB-09 LOB-10 LOB-12 LOB-13 LOB-14 FB-02 of a binding from the first moment to the end", bindingPolls},
		{"LOB-11 LOB-16 ORPH-08 a failed bind is described, without an instance's fields", failedBindingPolls},
		{"LOB-17 LOB-06 a finished unbind: succeeded", finishedUnbinds},
	})
	t.Run("LOI-07 LOB-06 the client that wants 410 for a finished delete gets it", func(t *testing.T) {
		t.Parallel()
		finishedDeleteAsGone(start(t, func(s *settings) { s.config.Clients[0].Quirks.FinishedDelete = 410 }))
	})
}

func instancePolls(c tenant) {
	id := c.id()
	op := c.put(id, "postgres/async", "", async).want(c.t, 202).operation()
	a := c.poll(at(id), op).want(c.t, 200)
	if a.state() == "in progress" && a.header.Get("Retry-After") == "" {
		c.t.Errorf("%s: %s without Retry-After", a.request, a.body)
	}
	c.eventually("the create ends", func() bool {
		a = c.poll(at(id), op).want(c.t, 200)
		if s := a.state(); s != "in progress" && s != "succeeded" {
			c.t.Fatalf("%s: %s", a.request, a.body)
		}
		return a.state() == "succeeded"
	})
	a.same(c.t, c.poll(at(id), op))
	a.same(c.t, c.poll(at(id), ""))
}

func nothingToPoll(c tenant) {
	id := c.one()
	for _, path := range []string{at(c.id()), bindingAt(id, c.id()), bindingAt(c.id(), c.id())} {
		for _, op := range []string{"", "create-x", "update-x", "bind-x", "anything"} {
			c.poll(path, op).says(c.t, 404, "NotFound")
		}
	}
}

func pollHints(c tenant) {
	id, binding := c.bound("postgres/small")
	for _, path := range []string{at(id), bindingAt(id, binding)} {
		for _, query := range []string{"service_id=&plan_id=", "service_id=nope", "plan_id=nope&plan_id=x", "operation=", "operation=%00%ff", "operation=" + strings.Repeat("x", 10001), "colour=red"} {
			c.send("GET", path+"/last_operation?"+query, "").want(c.t, 200).has(c.t, "state", `"succeeded"`)
		}
	}
}

func failedPolls(c tenant) {
	for plan, verb := range map[string]string{"faults/create-fails": "create", "faults/update-fails": "update", "faults/delete-fails": "delete"} {
		s := map[string]func(tenant) subject{"create": createFailed, "update": updateFailed, "delete": deleteFailed}[verb](c)
		a := c.poll(at(s.id), s.operation).want(c.t, 200)
		a.has(c.t, "state", `"failed"`)
		if a.text("description") == "" || s.plan != plan {
			c.t.Errorf("%s of %s: %s", a.request, s.plan, a.body)
		}
		if a.lacks(c.t, "operation"); verb != "update" {
			a.lacks(c.t, "update_repeatable")
		}
		if verb == "create" {
			a.lacks(c.t, "instance_usable")
		}
	}
	id := c.one()
	c.poll(at(id), "").lacks(c.t, "description", "instance_usable", "update_repeatable")
}

// refusedUpdates: an update that Cloud Foundry refuses changes nothing; one whose
// instance somebody removed meanwhile leaves nothing that works.
func refusedUpdates(c tenant) {
	id := c.one()
	c.disturb(fault{Method: "PATCH", Route: instance, Match: c.row(id).GUID, Times: 1, When: "before", Action: "respond", Status: 422,
		Body: `{"errors":[{"code":10008,"title":"CF-UnprocessableEntity","detail":"no such luck"}]}`})
	op := c.patch(id, "postgres/small", `"parameters":{"a":2}`, async).want(c.t, 202).operation()
	c.fails(at(id), op, "no such luck")
	a := c.poll(at(id), op)
	a.has(c.t, "update_repeatable", "false")
	a.lacks(c.t, "instance_usable")
	c.send("GET", at(id), "").want(c.t, 200)
	gone := updating(c)
	c.disturb(fault{Method: "GET", Route: instance, Match: c.row(gone.id).GUID, When: "before", Action: "respond", Status: 404,
		Body: `{"errors":[{"code":10010,"title":"CF-ResourceNotFound","detail":"Service instance not found"}]}`})
	c.fails(at(gone.id), gone.operation)
	a = c.poll(at(gone.id), gone.operation)
	a.has(c.t, "instance_usable", "false")
	a.has(c.t, "update_repeatable", "false")
}

func olderOperations(c tenant) {
	s := createFailed(c)
	second := c.put(s.id, s.plan, s.parameters, async).want(c.t, 202).operation()
	c.fails(at(s.id), second)
	remove := c.delete(s.id, s.plan, async).want(c.t, 202).operation()
	c.succeeds(at(s.id), remove)
	for op, state := range map[string]string{s.operation: `"failed"`, second: `"failed"`, remove: `"succeeded"`} {
		for range 2 {
			c.poll(at(s.id), op).want(c.t, 200).has(c.t, "state", state)
		}
	}
}

func strangeOperations(c tenant) {
	s := createFailed(c)
	b := bindingOn("faults/bind-fails", false, "failed")(c)
	for path, own := range map[string]string{at(s.id): s.operation, bindingAt(b.id, b.binding): b.operation} {
		latest := c.poll(path, own).want(c.t, 200)
		for _, op := range []string{"", "nobody's", "create-0123", "delete-0123", "unbind-x", "ü"} {
			latest.same(c.t, c.poll(path, op))
		}
	}
}

func readyPolled(c tenant) {
	id, binding := c.bound("postgres/small")
	c.poll(at(id), "").want(c.t, 200).has(c.t, "state", `"succeeded"`)
	c.poll(bindingAt(id, binding), "").want(c.t, 200).has(c.t, "state", `"succeeded"`)
}

func cancelledCreate(c tenant) {
	s := creating(c)
	remove := c.delete(s.id, s.plan, async).want(c.t, 202).operation()
	a := c.poll(at(s.id), s.operation).want(c.t, 200)
	a.has(c.t, "state", `"failed"`)
	if a.text("description") == "" {
		c.t.Errorf("%s does not say why", a.body)
	}
	c.succeeds(at(s.id), remove)
	c.poll(at(s.id), "").has(c.t, "state", `"succeeded"`)
	c.poll(at(s.id), s.operation).has(c.t, "state", `"failed"`)
}

func finishedDeletes(c tenant) {
	id := c.one()
	op := c.delete(id, "postgres/small", async).want(c.t, 202).operation()
	c.succeeds(at(id), op)
	for _, name := range []string{op, "", "nobody's"} {
		for range 3 {
			c.poll(at(id), name).want(c.t, 200).has(c.t, "state", `"succeeded"`)
		}
	}
	c.poll(at(c.id()), "delete-of-long-ago").bare(c.t, 410)
	c.poll(bindingAt(c.id(), "b"), "unbind-of-long-ago").bare(c.t, 410)
}

func finishedDeleteAsGone(c tenant) {
	id, binding := c.bound("postgres/small")
	unbind := c.unbind(id, binding, "postgres/small", async).want(c.t, 202).operation()
	c.eventually("the unbind ends", func() bool { return c.poll(bindingAt(id, binding), unbind).status == 410 })
	remove := c.delete(id, "postgres/small", async).want(c.t, 202).operation()
	c.eventually("the delete ends", func() bool { return c.poll(at(id), remove).status == 410 })
	c.poll(at(id), remove).bare(c.t, 410)
	o := c.other()
	id = o.one()
	o.gone(id, "postgres/small")
}

func bindingPolls(c tenant) {
	const plan = "postgres/async-bindings"
	id, binding := c.ready(plan, ""), c.id()
	path := bindingAt(id, binding)
	op := c.bind(id, binding, plan, "", async).want(c.t, 202).operation()
	a := c.poll(path, op).want(c.t, 200)
	if a.state() == "in progress" && a.header.Get("Retry-After") == "" {
		c.t.Errorf("%s: %s without Retry-After", a.request, a.body)
	}
	c.succeeds(path, op)
	c.send("GET", path, "").want(c.t, 200)
	unbind := c.unbind(id, binding, plan, async).want(c.t, 202).operation()
	c.succeeds(path, unbind)
	c.poll(path, op).want(c.t, 200).has(c.t, "state", `"succeeded"`)
}

func failedBindingPolls(c tenant) {
	s := bindingOn("faults/bind-fails", false, "failed")(c)
	a := c.poll(bindingAt(s.id, s.binding), s.operation).want(c.t, 200)
	a.lacks(c.t, "instance_usable", "update_repeatable", "credentials")
	if !strings.Contains(a.text("description"), "The bind fails with this plan") {
		c.t.Errorf("%s: %s", a.request, a.body)
	}
	u := bindingOn("faults/unbind-fails", true, "failed")(c)
	c.poll(bindingAt(u.id, u.binding), u.operation).want(c.t, 200).lacks(c.t, "instance_usable", "update_repeatable")
}

func finishedUnbinds(c tenant) {
	s := bindingOn("postgres/async-bindings", true, "succeeded")(c)
	for _, op := range []string{s.operation, "", "nobody's"} {
		c.poll(bindingAt(s.id, s.binding), op).want(c.t, 200).has(c.t, "state", `"succeeded"`)
	}
}
