package acceptance

import (
	"log/slog"
	"net/http"
)

// updateScenarios are 23 to 29.
func updateScenarios() []scenario {
	const noUpdates = "it takes no parameters and no plan in an update"
	return []scenario{
		{name: "23 another operation is in progress", classic: noUpdates, run: updateBusy},
		{name: "24 an update that is done at once, and one that takes time", classic: noUpdates, run: updateDone},
		{name: "25 the row is one of a failed create", classic: noUpdates, run: updateOfFailedRow},
		{name: "26 plans and versions that cannot be changed", classic: noUpdates, run: updateRefused},
		{name: "27 the answer to the PATCH is lost", classic: noUpdates, run: patchAnswerLost},
		{name: "28 the job failed over a row in progress", classic: noUpdates, run: updateStuck},
		{name: "29 the backing broker refuses the update", classic: noUpdates, run: updateRejected},
	}
}

func updateBusy(c tenant) {
	id := c.one()
	c.disturb(said(409, 60016, "CF-AsyncServiceInstanceOperationInProgress", "An operation for service instance "+id+" is in progress.").on("PATCH", instance, 4))
	op := c.changes(id, "postgres/small")
	c.struck()
	c.succeeds(at(id), op)
	c.sentTimes(5, "PATCH "+instance)
	c.askedFor(1, "update", id, "")
	c.hasParameters(id, `{"a":2}`)
}

// hasParameters checks what the backing broker was given last.
func (c tenant) hasParameters(id, want string) {
	c.t.Helper()
	if got := string(c.row(id).Parameters); got != want {
		c.t.Errorf("the backing broker has the parameters %s of %s, want %s", got, id, want)
	}
}

func updateDone(c tenant) {
	id := c.one()
	c.patch(id, "postgres/small", `"parameters":{"a":1}`, async).bare(c.t, 200)
	c.sentTimes(0, "PATCH "+instance)
	// The controller answers 200 with the row when it has nothing to ask its broker.
	row := c.operator("GET", instances+"/"+c.row(id).GUID, "").want(c.t, 200)
	c.disturb(fault{Method: "PATCH", Route: instance, Times: 1, When: "after", Action: "respond", Status: 200,
		Headers: map[string]string{"Content-Type": "application/json"}, Body: row.body})
	op := c.changes(id, "postgres/small")
	c.succeeds(at(id), op)
	c.sentTimes(1, "PATCH "+instance)
	c.askedFor(1, "update", id, "")
	slow := c.ready("postgres/async", `{"a":1}`)
	op = c.changes(slow, "postgres/async")
	if a := c.patch(slow, "postgres/async", `"parameters":{"a":2}`, async).want(c.t, 202); a.operation() != op {
		c.t.Errorf("%s: %s, want the operation %s", a.request, a.body, op)
	}
	c.succeeds(at(slow), op)
	c.hasParameters(slow, `{"a":2}`)
	if row := c.row(slow); row.Annotations["ferry-update"] != op {
		c.t.Errorf("Cloud Foundry has %+v, want the mark of %s", row, op)
	}
	c.askedFor(1, "update", slow, "")
}

func updateOfFailedRow(c tenant) {
	id := c.one()
	c.forced(c.row(id).GUID, "create", "failed", "an operator's accident", "")
	op := c.changes(id, "postgres/small")
	c.fails(at(id), op)
	c.poll(at(id), op).has(c.t, "instance_usable", "false")
	c.askedFor(0, "update", id, "")
	c.gone(id, "postgres/small")
	c.nothingLeft(id)
}

func updateRefused(c tenant) {
	for _, text := range []string{
		"The service does not support changing plans.",
		"The service plan is invalid: cannot switch to non-bindable plan when service bindings exist",
		"maintenance_info.version requested is invalid. Please ensure the catalog is up to date and you are providing a version supported by this service plan.",
		"The service broker does not support upgrades for service instances created from this plan.",
		"You have exceeded your organization's services limit.",
	} {
		id := c.one()
		before := c.sent("PATCH " + instance)
		c.disturb(unprocessable(text).on("PATCH", instance, 1))
		op := c.patch(id, "postgres/small", `"plan_id":`+quoted(c.plan("postgres/large").plan), async).want(c.t, 202).operation()
		c.fails(at(id), op, text)
		c.sentTimes(before+1, "PATCH "+instance)
		c.askedFor(0, "update", id, "")
		// It goes on with the plan that it has.
		c.send("GET", at(id), "").want(c.t, 200).has(c.t, "plan_id", quoted(c.plan("postgres/small").plan))
		c.poll(at(id), op).lacks(c.t, "instance_usable")
		c.put(id, "postgres/small", `{"a":1}`, async).bare(c.t, 200)
	}
}

func patchAnswerLost(c tenant) {
	for i, f := range []fault{dropped().after(), dropped(), html(502), html(502).after()} {
		id := c.ready("postgres/async", `{"a":1}`)
		before := c.sent("PATCH " + instance)
		c.disturb(f.on("PATCH", instance, 1))
		op := c.changes(id, "postgres/async")
		c.succeeds(at(id), op)
		c.askedFor(1, "update", id, "")
		c.hasParameters(id, `{"a":2}`)
		want := 2
		if f.When == "after" {
			want = 1 // the row tells that the one whose answer was lost took effect
		}
		if got := c.sent("PATCH "+instance) - before; got != want {
			c.t.Errorf("disturbance %d: %d PATCHes, want %d", i, got, want)
		}
	}
}

// The job is believed over the row. A delete waits then, since Cloud Foundry refuses
// it until somebody repairs the row.
func updateStuck(c tenant) {
	s := updating(c)
	guid := c.row(s.id).GUID
	c.control("PATCH", "/instances/"+guid, `{"job":"FAILED"}`)
	c.fails(at(s.id), s.operation)
	c.poll(at(s.id), s.operation).lacks(c.t, "instance_usable")
	c.eventually("the log tells that it failed", func() bool { return len(c.journal.find(slog.LevelInfo, "operation ended", s.operation, "failed")) > 0 })
	op := c.removes(s.id, s.plan)
	c.eventually("the DELETE was refused", func() bool { return c.sent("DELETE "+instance) > 1 })
	c.runs(at(s.id), op)
	c.askedFor(0, "deprovision", s.id, "")
	c.forced(guid, "update", "failed", "repaired", "")
	c.goneFor(s.id, op)
	c.askedFor(1, "deprovision", s.id, "")
}

func updateRejected(c tenant) {
	s := readyOn(c, "faults/update-rejected")
	op := c.changes(s.id, s.plan)
	c.fails(at(s.id), op, "The update is refused by this plan")
	c.poll(at(s.id), op).lacks(c.t, "instance_usable", "update_repeatable")
	c.comes(s.id, "update", "failed")
	c.put(s.id, s.plan, s.parameters, async).bare(c.t, 200)
	again := c.changes(s.id, s.plan)
	c.fails(at(s.id), again, "The update is refused by this plan")
	if again == op {
		c.t.Errorf("the second try has the operation %s of the first", op)
	}
	c.askedFor(2, "update", s.id, "")
	c.gone(s.id, s.plan)
}

// deleteScenarios are 30 to 36.
func deleteScenarios() []scenario {
	const cascade = "it unbinds first and never fails a delete because of a key"
	return []scenario{
		{name: "30 a delete that nothing shows at first", classic: "it shows a delete at once", run: deleteUnseen},
		{name: "31 the instance is gone, or only the way to it", tune: []func(*settings){warnings}, run: deleteOfNothing},
		{name: "32 a delete while an operation runs", run: deleteBusy},
		{name: "33 the delete of a create that still runs fails", classic: "its delete waits by itself", run: deleteOfCreateFails},
		{name: "34 a key is still being deleted", classic: cascade, run: deleteWithAsyncKeys},
		{name: "35 an old failure is visible after a new DELETE", classic: "a failed delete is tried by itself there", run: deleteOverFailed},
		{name: "36 the backing broker refuses the delete", classic: "a failed delete is tried by itself there", run: deleteRefused},
	}
}

func deleteUnseen(c tenant) {
	id := c.one()
	c.halt()
	op := c.removes(id, "postgres/small")
	c.eventually("the DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 0 })
	c.runs(at(id), op)
	if row := c.row(id); row.LastOperation.Type != "create" || row.LastOperation.State != "succeeded" {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
	c.askedFor(0, "deprovision", id, "")
	c.release()
	c.goneFor(id, op)
	c.askedFor(1, "deprovision", id, "")
	c.sentTimes(1, "DELETE "+instance)
}

func deleteOfNothing(c tenant) {
	c.delete(c.id(), "postgres/small", async).bare(c.t, http.StatusGone)
	id := c.one()
	c.operator("DELETE", instances+"/"+c.row(id).GUID, "").want(c.t, 202)
	c.eventually("it is gone", func() bool { return len(c.rows(id)) == 0 })
	c.goneFor(id, c.removes(id, "postgres/small"))
	c.askedFor(1, "deprovision", id, "")
	// A 404 of a router is no word of Cloud Foundry's.
	id = c.one()
	if !c.isKorifi() { // which has no updates
		c.disturb(noRoute().on("GET", instance, 3))
		c.succeeds(at(id), c.changes(id, "postgres/small"))
		c.struck()
		c.askedFor(1, "update", id, "")
	}
	c.disturb(noRoute().on("*", "*", 0))
	op := c.removes(id, "postgres/small")
	for range 3 {
		if a := c.poll(at(id), op); a.want(c.t, 200).state() != "in progress" {
			c.t.Errorf("%s: %s, want in progress while nothing is known", a.request, a.body)
		}
		c.eventually("Cloud Foundry is asked in vain", c.hit())
	}
	c.row(id)
	c.heal()
	c.goneFor(id, op)
	c.askedFor(1, "deprovision", id, "")
}

// noRoute is what a router says while the API is away.
func noRoute() fault {
	return fault{Action: "respond", Status: 404, Headers: map[string]string{"Content-Type": "text/plain", "X-Cf-Routererror": "unknown_route"},
		Body: "404 Not Found: Requested route ('api.x') does not exist."}
}

// hit is a condition: the disturbance has struck once more.
func (c tenant) hit() func() bool {
	count := func() int {
		var list []struct{ Hits int }
		c.control("GET", "/faults", "").decode(c.t, &list)
		sum := 0
		for _, f := range list {
			sum += f.Hits
		}
		return sum
	}
	before := count()
	return func() bool { return count() > before }
}

func deleteBusy(c tenant) {
	id := c.one()
	c.disturb(unprocessable("There is an operation in progress for the service instance.").on("DELETE", instance, 3))
	op := c.removes(id, "postgres/small")
	if a := c.delete(id, "postgres/small", async).want(c.t, 202); a.operation() != op {
		c.t.Errorf("%s: %s, want the operation %s", a.request, a.body, op)
	}
	c.struck()
	c.goneFor(id, op)
	c.sentTimes(4, "DELETE "+instance)
	c.askedFor(1, "deprovision", id, "")
}

// A delete that the backing broker does not want to do beside the create shows in the
// job alone; it is sent again, and never reported as a success before it is one.
func deleteOfCreateFails(c tenant) {
	const plan = "faults/create-stalls"
	id, create := c.starts(plan)
	c.works("provision", id, "")
	guid := c.row(id).GUID
	c.instruct(`{"operation":"deprovision","instance":%q,"times":2,"answer":"concurrency"}`, id)
	op := c.removes(id, plan)
	c.fails(at(id), create, "cancelled")
	c.eventually("the DELETE was sent again", func() bool { return c.sent("DELETE "+instance) > 1 })
	c.goneFor(id, op)
	c.askedFor(3, "deprovision", id, "")
	if rows := c.rows(id); len(rows) > 0 && rows[0].GUID != guid {
		c.t.Errorf("Cloud Foundry has %+v", rows)
	}
}

func deleteWithAsyncKeys(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.ready(plan, "")
	c.stranger(id, "theirs")
	op := c.removes(id, plan)
	c.goneFor(id, op)
	c.askedFor(1, "unbind", id, "theirs")
	c.askedFor(1, "deprovision", id, "")
	if n := c.sent("DELETE " + instance); n < 2 {
		c.t.Errorf("%d DELETEs, though the first job must fail because of the key", n)
	}
}

func deleteOverFailed(c tenant) {
	const plan = "faults/delete-fails-once"
	id := c.ready(plan, "")
	first := c.removes(id, plan)
	c.fails(at(id), first, "The delete fails with this plan")
	c.comes(id, "delete", "failed")
	c.halt()
	second := c.removes(id, plan)
	c.eventually("the second DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 1 })
	c.runs(at(id), second)
	c.comes(id, "delete", "failed")
	c.release()
	c.goneFor(id, second)
	c.askedFor(2, "deprovision", id, "")
	c.sentTimes(2, "DELETE "+instance)
}

func deleteRefused(c tenant) {
	const plan = "faults/delete-rejected"
	id := c.ready(plan, "")
	first := c.removes(id, plan)
	c.fails(at(id), first, "The delete is refused by this plan")
	c.comes(id, "delete", "failed")
	c.send("GET", at(id), "").want(c.t, 200)
	second := c.removes(id, plan)
	c.fails(at(id), second, "The delete is refused by this plan")
	if second == first {
		c.t.Errorf("the second delete has the operation %s of the first", first)
	}
	c.askedFor(2, "deprovision", id, "")
	// A delete whose worker died: the row says in progress for ever, the job failed.
	id = c.one()
	guid := c.row(id).GUID
	c.forced(guid, "delete", "in progress", "", "FAILED")
	op := c.removes(id, "postgres/small")
	c.eventually("the DELETE was refused", func() bool { return c.sent("DELETE "+instance) > 3 })
	c.runs(at(id), op)
	c.forced(guid, "delete", "failed", "repaired", "")
	c.goneFor(id, op)
	c.askedFor(1, "deprovision", id, "")
}
