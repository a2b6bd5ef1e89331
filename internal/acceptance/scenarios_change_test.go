package acceptance

import (
	"net/http"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// updateScenarios are 23 to 29; 28, a job that failed over a row in progress, is TestHourOfAStuckUpdate.
func updateScenarios() []scenario {
	const noUpdates = "it takes no parameters and no plan in an update"
	return []scenario{
		{name: "23 another operation is in progress", classic: noUpdates, run: updateBusy},
		{name: "24 an update that is done at once", classic: noUpdates, run: updateDone},
		{name: "25 the row is one of a failed create", classic: noUpdates, run: updateOfFailedRow},
		{name: "26 plans and versions that cannot be changed", classic: noUpdates, run: updateRefused},
		{name: "27 the answer to the PATCH is lost", classic: noUpdates, run: patchAnswerLost},
		{name: "29 the backing broker refuses the update", classic: noUpdates, run: updateRejected},
	}
}

func updateBusy(c tenant) {
	id := c.Ready("postgres/small", `{"a":1}`)
	c.Disturb(said(409, 60016, "CF-AsyncServiceInstanceOperationInProgress", "An operation for service instance "+id+" is in progress.").On("PATCH", instance, 4))
	op := c.changes(id, "postgres/small")
	c.struck()
	c.Succeeds(at(id), op)
	c.sentTimes(5, "PATCH "+instance)
	c.AskedFor(1, "update", id, "")
	c.HasParameters(id, `{"a":2}`)
}

func updateDone(c tenant) {
	id := c.Ready("postgres/small", `{"a":1}`)
	c.Update(id, "postgres/small", `"parameters":{"a":1}`).Bare(200)
	c.sentTimes(0, "PATCH "+instance)
	// The controller answers 200 with the row when it has nothing to ask its broker.
	row := c.Operator("GET", instances+"/"+c.Row(id).GUID, "").Want(200)
	c.Disturb(fault{Method: "PATCH", Route: instance, Times: 1, When: "after", Action: "respond", Status: 200,
		Headers: map[string]string{"Content-Type": "application/json"}, Body: row.Body})
	op := c.changes(id, "postgres/small")
	c.Succeeds(at(id), op)
	c.sentTimes(1, "PATCH "+instance)
	c.AskedFor(1, "update", id, "")
	if row := c.Row(id); row.Annotations["ferry-update"] != op {
		c.t.Errorf("Cloud Foundry has %+v, want the mark of %s", row, op)
	}
}

func updateOfFailedRow(c tenant) {
	id := c.Ready("postgres/small", `{"a":1}`)
	c.Forced(c.Row(id).GUID, "create", "failed", "an operator's accident", "")
	op := c.changes(id, "postgres/small")
	c.Fails(at(id), op)
	c.Poll(at(id), op).Has("instance_usable", "false")
	c.AskedFor(0, "update", id, "")
	c.Deleted(id, "postgres/small")
	c.NothingLeft(id)
}

// updateRefused: an update that Cloud Foundry refuses changes nothing and will be refused again (LOI-13, LOI-14,
// LOI-15, UPD-26, ERR-04, ERR-06).
func updateRefused(c tenant) {
	for _, text := range []string{
		"The service does not support changing plans.",
		"The service plan is invalid: cannot switch to non-bindable plan when service bindings exist",
		"maintenance_info.version requested is invalid. Please ensure the catalog is up to date and you are providing a version supported by this service plan.",
		"The service broker does not support upgrades for service instances created from this plan.",
		"You have exceeded your organization's services limit.",
	} {
		id := c.Ready("postgres/small", `{"a":1}`)
		before := c.sent("PATCH " + instance)
		c.Disturb(unprocessable(text).On("PATCH", instance, 1))
		op := c.Update(id, "postgres/small", `"plan_id":`+osbtest.Quoted(c.Plan("postgres/large").PlanID)).Want(202).Operation()
		c.Fails(at(id), op, text)
		c.sentTimes(before+1, "PATCH "+instance)
		c.AskedFor(0, "update", id, "")
		c.Poll(at(id), op).Has("update_repeatable", "false")
		// It goes on with the plan that it has.
		c.Send("GET", at(id), "").Want(200).Has("plan_id", osbtest.Quoted(c.Plan("postgres/small").PlanID))
		c.Poll(at(id), op).Lacks("instance_usable")
		c.Provision(id, "postgres/small", `{"a":1}`).Bare(200)
	}
}

func patchAnswerLost(c tenant) {
	for i, f := range []fault{dropped().After(), dropped(), html(502), html(502).After()} {
		id := c.Ready("postgres/async", `{"a":1}`)
		before := c.sent("PATCH " + instance)
		c.Disturb(f.On("PATCH", instance, 1))
		op := c.changes(id, "postgres/async")
		c.Succeeds(at(id), op)
		c.AskedFor(1, "update", id, "")
		c.HasParameters(id, `{"a":2}`)
		want := 2
		if f.When == "after" {
			want = 1 // the row tells that the one whose answer was lost took effect
		}
		if got := c.sent("PATCH "+instance) - before; got != want {
			c.t.Errorf("disturbance %d: %d PATCHes, want %d", i, got, want)
		}
	}
}

func updateRejected(c tenant) {
	const plan = "faults/update-rejected"
	id := c.Ready(plan, `{"a":1}`)
	op := c.changes(id, plan)
	c.Fails(at(id), op, "The update is refused by this plan")
	c.Poll(at(id), op).Lacks("instance_usable", "update_repeatable")
	c.Comes(id, "update", "failed")
	c.Provision(id, plan, `{"a":1}`).Bare(200)
	again := c.changes(id, plan)
	c.Fails(at(id), again, "The update is refused by this plan")
	if again == op {
		c.t.Errorf("the second try has the operation %s of the first", op)
	}
	c.AskedFor(2, "update", id, "")
	c.Deleted(id, plan)
}

// deleteScenarios are 30 to 36; 34, a key that is still being deleted, is R6.
func deleteScenarios() []scenario {
	return []scenario{
		{name: "30 a delete that nothing shows at first", classic: "it shows a delete at once", run: deleteUnseen},
		{name: "31 the instance is gone, or only the way to it", tune: []func(*settings){warnings}, run: deleteOfNothing},
		{name: "32 a delete while an operation runs", run: deleteBusy},
		{name: "33 the delete of a create that still runs fails", classic: "its delete waits by itself", run: deleteOfCreateFails},
		{name: "35 an old failure is visible after a new DELETE", classic: "a failed delete is tried by itself there", run: deleteOverFailed},
		{name: "36 the backing broker refuses the delete", classic: "a failed delete is tried by itself there", run: deleteRefused},
	}
}

func deleteUnseen(c tenant) {
	id := c.Ready("postgres/small", `{"a":1}`)
	c.halt()
	op := c.removes(id, "postgres/small")
	c.Eventually("the DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 0 })
	c.runs(at(id), op)
	if row := c.Row(id); row.LastOperation.Type != "create" || row.LastOperation.State != "succeeded" {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
	c.AskedFor(0, "deprovision", id, "")
	c.release()
	c.goneFor(id, op)
	c.AskedFor(1, "deprovision", id, "")
	c.sentTimes(1, "DELETE "+instance)
}

func deleteOfNothing(c tenant) {
	c.Deprovision(c.NewID(), "postgres/small").Bare(http.StatusGone)
	id := c.Ready("postgres/small", `{"a":1}`)
	c.Operator("DELETE", instances+"/"+c.Row(id).GUID, "").Want(202)
	c.Eventually("it is gone", func() bool { return len(c.Rows(id)) == 0 })
	if !c.isKorifi() { // which has no updates
		update := c.changes(id, "postgres/small")
		c.Fails(at(id), update, "does not exist any more")
		c.Poll(at(id), update).Has("instance_usable", "false")
		c.Poll(at(id), update).Has("update_repeatable", "false")
	}
	c.goneFor(id, c.removes(id, "postgres/small"))
	c.AskedFor(1, "deprovision", id, "")
	// A 404 of a router is no word of Cloud Foundry's.
	id = c.Ready("postgres/small", `{"a":1}`)
	if !c.isKorifi() { // which has no updates
		c.Disturb(noRoute().On("GET", instance, 3))
		c.Succeeds(at(id), c.changes(id, "postgres/small"))
		c.struck()
		c.AskedFor(1, "update", id, "")
	}
	c.Disturb(noRoute().On("*", "*", 0))
	op := c.removes(id, "postgres/small")
	for range 3 {
		if a := c.Poll(at(id), op); a.Want(200).State() != "in progress" {
			c.t.Errorf("%s: %s, want in progress while nothing is known", a.Request, a.Body)
		}
		c.Eventually("Cloud Foundry is asked in vain", c.hit())
	}
	c.Row(id)
	c.heal()
	c.goneFor(id, op)
	c.AskedFor(1, "deprovision", id, "")
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
		c.Control("GET", "/faults", "").Decode(&list)
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
	id := c.Ready("postgres/small", `{"a":1}`)
	c.Disturb(unprocessable("There is an operation in progress for the service instance.").On("DELETE", instance, 3))
	op := c.removes(id, "postgres/small")
	if a := c.Deprovision(id, "postgres/small").Want(202); a.Operation() != op {
		c.t.Errorf("%s: %s, want the operation %s", a.Request, a.Body, op)
	}
	c.struck()
	c.goneFor(id, op)
	c.sentTimes(4, "DELETE "+instance)
	c.AskedFor(1, "deprovision", id, "")
}

// A delete that the backing broker does not want to do beside the create shows in the job alone; it is sent again, and
// never reported as a success before it is one.
func deleteOfCreateFails(c tenant) {
	const plan = "faults/create-stalls"
	id, create := c.starts(plan)
	c.Works("provision", id, "")
	guid := c.Row(id).GUID
	c.Instruct(`{"operation":"deprovision","instance":%q,"times":2,"answer":"concurrency"}`, id)
	op := c.removes(id, plan)
	c.Fails(at(id), create, "cancelled")
	c.Eventually("the DELETE was sent again", func() bool { return c.sent("DELETE "+instance) > 1 })
	c.goneFor(id, op)
	c.AskedFor(3, "deprovision", id, "")
	if rows := c.Rows(id); len(rows) > 0 && rows[0].GUID != guid {
		c.t.Errorf("Cloud Foundry has %+v", rows)
	}
}

func deleteOverFailed(c tenant) {
	const plan = "faults/delete-fails-once"
	id := c.Ready(plan, "")
	first := c.removes(id, plan)
	c.Fails(at(id), first, "The delete fails with this plan")
	c.Comes(id, "delete", "failed")
	c.halt()
	second := c.removes(id, plan)
	c.Eventually("the second DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 1 })
	c.runs(at(id), second)
	c.Comes(id, "delete", "failed")
	c.release()
	c.goneFor(id, second)
	c.AskedFor(2, "deprovision", id, "")
	c.sentTimes(2, "DELETE "+instance)
}

func deleteRefused(c tenant) {
	const plan = "faults/delete-rejected"
	id := c.Ready(plan, "")
	first := c.removes(id, plan)
	c.Fails(at(id), first, "The delete is refused by this plan")
	c.Comes(id, "delete", "failed")
	c.Send("GET", at(id), "").Want(200)
	second := c.removes(id, plan)
	c.Fails(at(id), second, "The delete is refused by this plan")
	if second == first {
		c.t.Errorf("the second delete has the operation %s of the first", first)
	}
	c.AskedFor(2, "deprovision", id, "")
	// A delete whose worker died: the row says in progress for ever, the job failed.
	id = c.Ready("postgres/small", `{"a":1}`)
	guid := c.Row(id).GUID
	c.Forced(guid, "delete", "in progress", "", "FAILED")
	op := c.removes(id, "postgres/small")
	c.Eventually("the DELETE was refused", func() bool { return c.sent("DELETE "+instance) > 3 })
	c.runs(at(id), op)
	c.Forced(guid, "delete", "failed", "repaired", "")
	c.goneFor(id, op)
	c.AskedFor(1, "deprovision", id, "")
}
