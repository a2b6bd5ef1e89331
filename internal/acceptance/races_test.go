package acceptance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// TestRace stages the races of the Cloud Controller that its source shows, as far as a simulator can: the broker's
// answers do not depend on who wins.
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
		{name: "R4a a delete while the create runs, done at once", run: func(c tenant) { deleteOverCreate(c, `"times":1,"answer":"done"`, 1) }},
		{name: "R4b a delete while the create runs, taking time", run: func(c tenant) { deleteOverCreate(c, `"times":1,"answer":"accepted"`, 1) }},
		{name: "R4d a delete while the create runs, failing in the job alone", run: func(c tenant) { deleteOverCreate(c, `"times":1,"answer":"error"`, 2) }},
		{name: "R4 a delete while the create is initial", run: deleteInitial},
		{name: "R5 two DELETEs before a worker comes", run: twoDeletes},
		{name: "R5 two DELETEs get one job", tune: recursive, run: twoDeletes},
		{name: "R6 keys with an instance, asynchronously", run: func(c tenant) { keysWithInstance(c, "postgres/async-bindings", "") }},
		{name: "R6 keys with an instance, one refused", run: func(c tenant) { keysWithInstance(c, "postgres/small", "rejected") }},
		{name: "R6 keys with an instance, in the new pipeline", tune: recursive, run: func(c tenant) { keysWithInstance(c, "postgres/async-bindings", "") }},
		{name: "R6 keys with an instance, one refused in the new pipeline", tune: recursive, run: func(c tenant) { keysWithInstance(c, "postgres/small", "rejected") }},
		{name: "R7 a key between the DELETE and the worker", run: lateKey},
	}
}

// raceForName: against somebody else there is one winner, whose row stays as it is.
func raceForName(c tenant) {
	theirs := c.NewID()
	body := `{"org":"demo","space":"postgres","name":` + osbtest.Quoted(theirs) + `,"offering":"postgres","plan":"small"}`
	c.halt()
	op := c.Provision(theirs, "postgres/small", "").Want(202).Operation()
	c.Eventually("the POST is sent", func() bool { return c.sent("POST "+instances) > 0 })
	c.plantRefused(body)
	c.release()
	c.made(theirs, op)
}

// plantRefused tries to make a row of a name that is taken.
func (c tenant) plantRefused(body string) {
	c.t.Helper()
	if a := c.Operator("POST", "/__sim/instances", body); a.Status != http.StatusConflict {
		c.t.Errorf("%s: %d %s, want a conflict", a.Request, a.Status, a.Body)
	}
}

func rival(c tenant) {
	// What somebody else failed to make is the one thing that a first POST replaces.
	for _, rivals := range []string{"0", "1"} {
		id := c.NewID()
		c.Control("POST", "/instances", `{"org":"demo","space":"postgres","name":`+osbtest.Quoted(id)+
			`,"offering":"postgres","plan":"small","last_operation":{"type":"create","state":"failed"}}`)
		old := c.Row(id)
		c.Control("POST", "/conditions", `{"rivals":`+rivals+`}`)
		before := c.sent("POST " + instances)
		op := c.Provision(id, "postgres/small", `{"a":1}`).Want(202).Operation()
		c.Succeeds(at(id), op)
		if row := c.Row(id); row.GUID == old.GUID || row.Annotations["ferry-operation"] != op {
			c.t.Errorf("Cloud Foundry has %+v, want it made by %s", row, op)
		}
		c.AskedFor(1, "provision", id, "")
		c.sentTimes(before+1, "POST "+instances) // the row of the 500 is found by its mark
	}
}

// deleteOverCreate deletes while the create is in progress; what the backing broker says of it at first is told.
func deleteOverCreate(c tenant, first string, asked int) {
	const plan = "faults/create-stalls"
	id, create := c.starts(plan)
	c.Works("provision", id, "")
	c.Instruct(`{"operation":"deprovision","instance":%q,%s}`, id, first)
	op := c.removes(id, plan)
	c.Fails(at(id), create, "cancelled")
	c.goneFor(id, op)
	c.Fails(at(id), create, "cancelled")
	c.AskedFor(1, "provision", id, "")
	c.AskedFor(asked, "deprovision", id, "")
	c.sentTimes(1, "POST "+instances)
}

func deleteInitial(c tenant) {
	c.halt()
	id, create := c.starts("postgres/small")
	c.Comes(id, "create", "initial")
	op := c.removes(id, "postgres/small")
	c.Eventually("the DELETE was refused", func() bool { return c.sent("DELETE "+instance) > 1 })
	c.runs(at(id), op)
	c.AskedFor(0, "deprovision", id, "")
	c.release()
	c.goneFor(id, op)
	c.Fails(at(id), create, "cancelled")
	c.AskedFor(1, "provision", id, "")
	c.AskedFor(1, "deprovision", id, "")
}

func twoDeletes(c tenant) {
	id := c.Ready("postgres/small", `{"a":1}`)
	c.halt()
	op := c.removes(id, "postgres/small")
	c.Eventually("the DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 0 })
	c.Operator("DELETE", instances+"/"+c.Row(id).GUID, "").Want(202)
	c.release()
	c.goneFor(id, op)
	c.AskedFor(1, "deprovision", id, "")
	// The other way round: somebody was first.
	id = c.Ready("postgres/small", `{"a":1}`)
	c.halt()
	c.Operator("DELETE", instances+"/"+c.Row(id).GUID, "").Want(202)
	op = c.removes(id, "postgres/small")
	c.looked(3)
	c.release()
	c.goneFor(id, op)
	c.AskedFor(1, "deprovision", id, "")
}

// keysWithInstance removes an instance with our key and with one of somebody else, which only Cloud Foundry unbinds.
func keysWithInstance(c tenant, plan, first string) {
	id, binding := c.Bound(plan)
	c.Stranger(id, "theirs")
	unbinds := 1
	if first != "" {
		c.Instruct(`{"operation":"unbind","instance":%q,"binding":"theirs","times":1,"answer":%q,"description":"not now"}`, id, first)
		unbinds = 2
	}
	c.goneFor(id, c.removes(id, plan))
	c.AskedFor(1, "unbind", id, binding)
	c.AskedFor(unbinds, "unbind", id, "theirs")
	c.AskedFor(1, "deprovision", id, "")
	c.Unbind(id, binding, plan).Bare(http.StatusGone)
}

// lateKey: the instance's row cannot go because a key came after the DELETE; the job fails with words of the database,
// and a second DELETE heals it.
func lateKey(c tenant) {
	id := c.Ready("postgres/small", `{"a":1}`)
	c.halt()
	op := c.removes(id, "postgres/small")
	c.Eventually("the DELETE is sent", func() bool { return c.sent("DELETE "+instance) > 0 })
	c.strangerSends(id, "late")
	c.release()
	c.goneFor(id, op)
	if n := c.Asked("deprovision", id, ""); n < 2 {
		c.t.Errorf("the backing broker was asked %d times to deprovision, though the first time the row must stay", n)
	}
	if n := c.sent("DELETE " + instance); n < 2 {
		c.t.Errorf("%d DELETEs, want a second one", n)
	}
}

// timeout is how long the Cloud Controller waits for its backing broker.
func timeout(d time.Duration) func(*settings) {
	return func(s *settings) { s.sim.BrokerTimeout = d }
}

// jobRaces are about jobs and rows that do not tell the same.
func jobRaces() []scenario {
	return []scenario{
		{name: "R10 a create whose worker died", run: cleanedStuck},
		{name: "R11 a backing broker that does not answer", tune: []func(*settings){timeout(200 * time.Millisecond)}, run: brokerSilent},
		{name: "R12 polls of the backing broker fail", run: pollsFail},
		{name: "R13 the time for polling is over", tune: []func(*settings){warnings}, run: pollingOver},
		{name: "R14 an update without a job", run: lockLeaked},
		{name: "R15a the row has ended before its job", run: rowFirst},
		{name: "R15b a bind whose key cannot be read", run: unfetchable},
		{name: "R16 the space is made by somebody else", run: spaceRaced},
		{name: "R17 plans with new GUIDs", run: newPlans},
	}
}

func cleanedStuck(c tenant) {
	const plan = "faults/create-stalls"
	id, op := c.starts(plan)
	c.Works("provision", id, "")
	c.Control("PATCH", "/instances/"+c.Row(id).GUID, `{"job":"FAILED"}`)
	c.runs(at(id), op) // the row says that it runs
	c.Control("POST", "/clock", `{"cleanup":"stuck"}`)
	c.Fails(at(id), op, "stuck in 'in progress' state")
	c.Deleted(id, plan)
	c.NothingLeft(id)
	c.AskedFor(1, "provision", id, "")
}

func brokerSilent(c tenant) {
	const plan = "faults/create-times-out"
	id, op := c.starts(plan)
	c.Fails(at(id), op, "The request to the service broker timed out")
	c.AskedFor(1, "provision", id, "")
	c.Eventually("Cloud Foundry cleans up behind it", func() bool { return c.Asked("deprovision", id, "") > 0 })
	c.Deleted(id, plan)
	c.NothingLeft(id)
	// The same for a 5xx, and no clean-up after a refusal.
	for answer, cleaned := range map[string]bool{"error": true, "malformed": true, "rejected": false, "unreachable": false, "concurrency": false} {
		id := c.NewID()
		c.Instruct(`{"operation":"provision","instance":%q,"times":1,"answer":%q}`, id, answer)
		op := c.Provision(id, "postgres/small", "").Want(202).Operation()
		c.Fails(at(id), op)
		if cleaned {
			c.Eventually("Cloud Foundry cleans up behind it", func() bool { return c.Asked("deprovision", id, "") > 0 })
		}
		before := c.Asked("deprovision", id, "")
		c.Deleted(id, "postgres/small")
		if n := c.Asked("deprovision", id, ""); n != before+1 {
			c.t.Errorf("%s: %d deprovisions, before the delete %d", answer, n, before)
		}
		c.NothingLeft(id)
	}
}

func pollsFail(c tenant) {
	id := c.NewID()
	c.Instruct(`{"operation":"provision","instance":%q,"answer":"accepted","polls":"error"}`, id)
	op := c.Provision(id, "postgres/async", `{"a":1}`).Want(202).Operation()
	c.Works("provision", id, "")
	c.runs(at(id), op)
	c.Force(c.Row(id).GUID, "create", "succeeded", "COMPLETE")
	c.made(id, op)
	// 400 is an end, 410 is one of a delete.
	id = c.NewID()
	c.Instruct(`{"operation":"provision","instance":%q,"answer":"accepted","polls":"rejected","description":"no more disks"}`, id)
	c.Fails(at(id), c.Provision(id, "postgres/async", "").Want(202).Operation(), "no more disks")
	id = c.Ready("postgres/async", "")
	c.Instruct(`{"operation":"deprovision","instance":%q,"answer":"accepted","polls":"gone"}`, id)
	c.goneFor(id, c.removes(id, "postgres/async"))
	c.AskedFor(1, "deprovision", id, "")
}

func pollingOver(c tenant) {
	const plan = "faults/hurried"
	id, op := c.starts(plan)
	c.Fails(at(id), op, "within")
	c.Comes(id, "create", "failed")
	c.Deleted(id, plan)
	c.NothingLeft(id)
}

// lockLeaked: the controller died between lock and unlock. Nobody can do anything with the row until somebody repairs
// it, and nothing is reported as failed.
func lockLeaked(c tenant) {
	id := c.Ready("postgres/small", `{"a":1}`)
	guid := c.Row(id).GUID
	c.Forced(guid, "update", "in progress", "", "gone")
	op := c.changes(id, "postgres/small")
	c.runs(at(id), op)
	c.AskedFor(0, "update", id, "")
	bind := c.Bind(id, "waits", "postgres/small", "", osbtest.Async).Want(202).Operation()
	c.Forced(guid, "update", "succeeded", "", "")
	c.Succeeds(at(id), op)
	c.Succeeds(bindingAt(id, "waits"), bind)
	c.HasParameters(id, `{"a":2}`)
	c.AskedFor(1, "update", id, "")
	c.AskedFor(1, "bind", id, "waits")
}

// rowFirst: the row says succeeded while the job is PROCESSING for a moment.
func rowFirst(c tenant) {
	const plan = "faults/create-stalls"
	id, op := c.starts(plan)
	c.Works("provision", id, "")
	c.Force(c.Row(id).GUID, "create", "succeeded", "PROCESSING")
	c.made(id, op)
	c.Send("GET", at(id), "").Want(200)
	c.Bind(id, "b", plan, "").Want(201)
	c.HasKeys(id, "b")
	c.AskedFor(1, "bind", id, "b")
}

func unfetchable(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.Ready(plan, "")
	c.Instruct(`{"operation":"bind","instance":%q,"answer":"accepted","polls":"unfetchable","description":"it cannot be read"}`, id)
	op := c.Bind(id, "b", plan, "", osbtest.Async).Want(202).Operation()
	c.Fails(bindingAt(id, "b"), op, "it cannot be read")
	c.Send("GET", bindingAt(id, "b"), "").Says(404, "NotFound")
	c.AskedFor(1, "bind", id, "b")
	// The unbind takes what is left behind the failed key.
	c.Succeeds(bindingAt(id, "b"), c.Unbind(id, "b", plan, osbtest.Async).Want(202).Operation())
	c.AskedFor(1, "unbind", id, "b")
	c.Bind(id, "b", plan, "").Want(201)
}

func newPlans(c tenant) {
	posts := c.sent("POST " + instances)
	c.Control("POST", "/marketplace", `{"reregister":true}`)
	ids := []string{c.NewID(), c.NewID(), c.NewID()}
	for i, a := range osbtest.Together(len(ids), func(i int) answer { return c.Provision(ids[i], "postgres/small", `{"a":1}`) }) {
		c.made(ids[i], a.Want(202).Operation())
	}
	if n := c.sent("POST "+instances) - posts; n > 2*len(ids) {
		c.t.Errorf("%d POSTs for %d instances, want one repetition each", n, len(ids))
	}
	// An update of the plan finds the new one as well.
	op := c.Update(ids[0], "postgres/small", `"plan_id":`+osbtest.Quoted(c.Plan("postgres/large").PlanID)).Want(202).Operation()
	c.Succeeds(at(ids[0]), op)
	if row := c.Row(ids[0]); row.Plan != "large" {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
}

// spaceRaced: somebody makes the space between our look and our POST.
func spaceRaced(c tenant) {
	const spaces = "/v3/spaces"
	var orgs struct{ Resources []struct{ GUID string } }
	c.Operator("GET", "/v3/organizations?names=demo", "").Decode(&orgs)
	c.Disturb(fault{Method: "POST", Route: spaces, Times: 1, When: "before", Action: "delay", DelayMS: 300})
	id, op := c.starts("queue/standard")
	c.struck()
	c.Operator("POST", spaces, `{"name":"queue","relationships":{"organization":{"data":{"guid":`+osbtest.Quoted(orgs.Resources[0].GUID)+`}}}}`).Want(http.StatusCreated)
	c.made(id, op)
	a := c.Operator("GET", spaces+"?names=queue", "").Want(http.StatusOK)
	if n := strings.Count(a.Body, `"name":"queue"`); n != 1 {
		c.t.Errorf("%d spaces: %s", n, a.Body)
	}
}
