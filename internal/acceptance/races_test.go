package acceptance

import (
	"net/http"
	"testing"
	"time"
)

// TestRace stages the races of the Cloud Controller that its source shows, as far as a
// simulator can: the broker's answers do not depend on who wins.
//
// Not here:
//   - R15, that COMPLETE never comes before the row's end: the simulator writes both
//     at once, as the controller's transaction makes it look from outside. R15a is the
//     side of it that a broker can get wrong: the row's end may be seen first.
//   - R2, that the rival is another program: in the simulator it is a second call of
//     the same request, since no two programs of different marks can be told apart by
//     the answer. R13 for updates and deletes: their time limit is that of the plan,
//     and the one plan that has a short limit limits creates alone.
func TestRace(t *testing.T) {
	t.Parallel()
	for _, r := range append(rowRaces(), jobRaces()...) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.run(start(t, r.tune...))
		})
	}
}

// rowRaces are about who gets a row first.
func rowRaces() []scenario {
	recursive := []func(*settings){func(s *settings) { s.sim.RecursiveDelete = true }}
	return []scenario{
		{name: "R1 two POSTs of one name", run: raceForName},
		{name: "R2 a rival over a failed row", run: rival},
		{name: "R3 a create right after the delete", run: createAfterDelete},
		{name: "R4a a delete while the create runs, done at once", run: func(c tenant) { deleteOverCreate(c, `"times":1,"answer":"done"`, 1) }},
		{name: "R4b a delete while the create runs, taking time", run: func(c tenant) { deleteOverCreate(c, `"times":1,"answer":"accepted"`, 1) }},
		{name: "R4c a delete while the create runs, refused as concurrent", run: func(c tenant) { deleteOverCreate(c, `"times":1,"answer":"concurrency"`, 2) }},
		{name: "R4d a delete while the create runs, failing in the job alone", run: func(c tenant) { deleteOverCreate(c, `"times":1,"answer":"error"`, 2) }},
		{name: "R4 a delete while the create is initial", run: deleteInitial},
		{name: "R5 two DELETEs before a worker comes", run: twoDeletes},
		{name: "R5 two DELETEs get one job", tune: recursive, run: twoDeletes},
		{name: "R6 keys with an instance, asynchronously", run: func(c tenant) { keysWithInstance(c, "postgres/async-bindings", "") }},
		{name: "R6 keys with an instance, one refused", run: func(c tenant) { keysWithInstance(c, "postgres/small", "rejected") }},
		{name: "R6 keys with an instance, in the new pipeline", tune: recursive, run: func(c tenant) { keysWithInstance(c, "postgres/async-bindings", "") }},
		{name: "R6 keys with an instance, one refused in the new pipeline", tune: recursive, run: func(c tenant) { keysWithInstance(c, "postgres/small", "rejected") }},
		{name: "R7 a key between the DELETE and the worker", run: lateKey},
		{name: "R8 an unbind while the bind runs", run: unbindOverBind},
	}
}

func raceForName(c tenant) {
	id := c.id()
	c.succeeds(at(id), sameOperation(c.t, together(6, func(int) answer { return c.put(id, "postgres/small", `{"a":1}`, async) })))
	c.row(id)
	c.askedFor(1, "provision", id, "")
	// Against somebody else there is one winner, whose row stays as it is.
	theirs := c.id()
	body := `{"org":"demo","space":"postgres","name":` + quoted(theirs) + `,"offering":"postgres","plan":"small"}`
	c.halt()
	op := c.put(theirs, "postgres/small", "", async).want(c.t, 202).operation()
	c.eventually("the POST is sent", func() bool { return c.sent("POST "+instances) > 1 })
	c.plantRefused(body)
	c.release()
	c.made(theirs, op)
}

// plantRefused tries to make a row of a name that is taken.
func (c tenant) plantRefused(body string) {
	c.t.Helper()
	if a := c.operator("POST", "/__sim/instances", body); a.status != http.StatusConflict {
		c.t.Errorf("%s: %d %s, want a conflict", a.request, a.status, a.body)
	}
}

func rival(c tenant) {
	// What somebody else failed to make is the one thing that a first POST replaces.
	for _, rivals := range []string{"0", "1"} {
		id := c.id()
		c.control("POST", "/instances", `{"org":"demo","space":"postgres","name":`+quoted(id)+
			`,"offering":"postgres","plan":"small","last_operation":{"type":"create","state":"failed"}}`)
		old := c.row(id)
		c.control("POST", "/conditions", `{"rivals":`+rivals+`}`)
		before := c.sent("POST " + instances)
		op := c.put(id, "postgres/small", `{"a":1}`, async).want(c.t, 202).operation()
		c.succeeds(at(id), op)
		if row := c.row(id); row.GUID == old.GUID || row.Annotations["ferry-operation"] != op {
			c.t.Errorf("Cloud Foundry has %+v, want it made by %s", row, op)
		}
		c.askedFor(1, "provision", id, "")
		c.sentTimes(before+1, "POST "+instances) // the row of the 500 is found by its mark
	}
}

func createAfterDelete(c tenant) {
	id := c.one()
	c.halt()
	op := c.removes(id, "postgres/small")
	c.eventually("the DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 0 })
	posts := c.sent("POST " + instances)
	for range 3 {
		c.put(id, "postgres/small", `{"a":1}`, async).says(c.t, 422, "ConcurrencyError")
		c.looked(1)
	}
	c.sentTimes(posts, "POST "+instances)
	c.release()
	c.goneFor(id, op)
	again := c.put(id, "postgres/small", `{"a":1}`, async).want(c.t, 202).operation()
	c.succeeds(at(id), again)
	c.row(id)
	c.askedFor(2, "provision", id, "")
	c.askedFor(1, "deprovision", id, "")
}

// deleteOverCreate deletes while the create is in progress; what the backing broker
// says of it at first is told.
func deleteOverCreate(c tenant, first string, asked int) {
	const plan = "faults/create-stalls"
	id, create := c.starts(plan)
	c.works("provision", id, "")
	c.instruct(`{"operation":"deprovision","instance":%q,%s}`, id, first)
	op := c.removes(id, plan)
	c.fails(at(id), create, "cancelled")
	c.goneFor(id, op)
	c.fails(at(id), create, "cancelled")
	c.askedFor(1, "provision", id, "")
	c.askedFor(asked, "deprovision", id, "")
	c.sentTimes(1, "POST "+instances)
}

func deleteInitial(c tenant) {
	c.halt()
	id, create := c.starts("postgres/small")
	c.comes(id, "create", "initial")
	op := c.removes(id, "postgres/small")
	c.eventually("the DELETE was refused", func() bool { return c.sent("DELETE "+instance) > 1 })
	c.runs(at(id), op)
	c.askedFor(0, "deprovision", id, "")
	c.release()
	c.goneFor(id, op)
	c.fails(at(id), create, "cancelled")
	c.askedFor(1, "provision", id, "")
	c.askedFor(1, "deprovision", id, "")
}

func twoDeletes(c tenant) {
	id := c.one()
	c.halt()
	op := c.removes(id, "postgres/small")
	c.eventually("the DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 0 })
	c.operator("DELETE", instances+"/"+c.row(id).GUID, "").want(c.t, 202)
	c.release()
	c.goneFor(id, op)
	c.askedFor(1, "deprovision", id, "")
	// The other way round: somebody was first.
	id = c.one()
	c.halt()
	c.operator("DELETE", instances+"/"+c.row(id).GUID, "").want(c.t, 202)
	op = c.removes(id, "postgres/small")
	c.looked(3)
	c.release()
	c.goneFor(id, op)
	c.askedFor(1, "deprovision", id, "")
}

// keysWithInstance removes an instance with our key and with one of somebody else,
// which only Cloud Foundry unbinds.
func keysWithInstance(c tenant, plan, first string) {
	id, binding := c.bound(plan)
	c.stranger(id, "theirs")
	unbinds := 1
	if first != "" {
		c.instruct(`{"operation":"unbind","instance":%q,"binding":"theirs","times":1,"answer":%q,"description":"not now"}`, id, first)
		unbinds = 2
	}
	c.goneFor(id, c.removes(id, plan))
	c.askedFor(1, "unbind", id, binding)
	c.askedFor(unbinds, "unbind", id, "theirs")
	c.askedFor(1, "deprovision", id, "")
	c.unbind(id, binding, plan, plain).bare(c.t, http.StatusGone)
}

// lateKey: the instance's row cannot go because a key came after the DELETE; the job
// fails with words of the database, and a second DELETE heals it.
func lateKey(c tenant) {
	id := c.one()
	c.halt()
	op := c.removes(id, "postgres/small")
	c.eventually("the DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 0 })
	c.strangerSends(id, "late")
	c.release()
	c.goneFor(id, op)
	if n := c.asked("deprovision", id, ""); n < 2 {
		c.t.Errorf("the backing broker was asked %d times to deprovision, though the first time the row must stay", n)
	}
	if n := c.sent("DELETE " + instance); n < 2 {
		c.t.Errorf("%d DELETEs, want a second one", n)
	}
}

func unbindOverBind(c tenant) {
	const plan = "faults/bind-stalls"
	id, binding := c.ready(plan, ""), c.id()
	bind := c.bind(id, binding, plan, "", async).want(c.t, 202).operation()
	c.works("bind", id, binding)
	unbind := c.unbind(id, binding, plan, async).want(c.t, 202).operation()
	c.fails(bindingAt(id, binding), bind, "cancelled")
	c.succeeds(bindingAt(id, binding), unbind)
	c.askedFor(1, "bind", id, binding)
	c.askedFor(1, "unbind", id, binding)
	if row := c.row(id); len(row.Keys) != 0 {
		c.t.Errorf("Cloud Foundry has %+v", row.Keys)
	}
}

// timeout is how long the Cloud Controller waits for its backing broker.
func timeout(d time.Duration) func(*settings) {
	return func(s *settings) { s.sim.BrokerTimeout = d }
}
