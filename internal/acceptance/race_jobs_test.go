package acceptance

import (
	"net/http"
	"strings"
	"time"
)

// jobRaces are about jobs and rows that do not tell the same.
func jobRaces() []scenario {
	return []scenario{
		{name: "R9 the cleanup of initial rows", run: cleanedInitial},
		{name: "R10 a create whose worker died", run: cleanedStuck},
		{name: "R11 a backing broker that does not answer", tune: []func(*settings){timeout(200 * time.Millisecond)}, run: brokerSilent},
		{name: "R12 polls of the backing broker fail", run: pollsFail},
		{name: "R13 the time for polling is over", tune: []func(*settings){warnings}, run: pollingOver},
		{name: "R14 an update without a job", run: lockLeaked},
		{name: "R15a the row has ended before its job", run: rowFirst},
		{name: "R15b a bind whose key cannot be read", run: unfetchable},
		{name: "R16 the space is made by somebody else", run: spaceRaced},
		{name: "R17 plans with new GUIDs", run: newPlans},
		{name: "R18 the backing broker is being read", run: brokerRead},
	}
}

// A healthy create is marked as failed and goes on; in the meantime the backing broker
// is asked to remove it, so that only the job's end tells.
func cleanedInitial(c tenant) {
	c.halt()
	id, op := c.starts("postgres/async")
	c.comes(id, "create", "initial")
	c.control("POST", "/clock", `{"cleanup":"initial"}`)
	c.comes(id, "create", "failed")
	c.runs(at(id), op)
	c.release()
	c.succeeds(at(id), op)
	if row := c.row(id); row.LastOperation.State != "succeeded" || row.Annotations["ferry-operation"] != op {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
	c.askedFor(1, "provision", id, "")
	c.sentTimes(1, "POST "+instances)
}

func cleanedStuck(c tenant) {
	const plan = "faults/create-stalls"
	id, op := c.starts(plan)
	c.works("provision", id, "")
	c.control("PATCH", "/instances/"+c.row(id).GUID, `{"job":"FAILED"}`)
	c.runs(at(id), op) // the row says that it runs
	c.control("POST", "/clock", `{"cleanup":"stuck"}`)
	c.fails(at(id), op, "stuck in 'in progress' state")
	c.gone(id, plan)
	c.nothingLeft(id)
	c.askedFor(1, "provision", id, "")
}

func brokerSilent(c tenant) {
	const plan = "faults/create-times-out"
	id, op := c.starts(plan)
	c.fails(at(id), op, "The request to the service broker timed out")
	c.askedFor(1, "provision", id, "")
	c.eventually("Cloud Foundry cleans up behind it", func() bool { return c.asked("deprovision", id, "") > 0 })
	c.gone(id, plan)
	c.nothingLeft(id)
	// The same for a 5xx, and no clean-up after a refusal.
	for answer, cleaned := range map[string]bool{"error": true, "malformed": true, "rejected": false, "unreachable": false, "concurrency": false} {
		id := c.id()
		c.instruct(`{"operation":"provision","instance":%q,"times":1,"answer":%q}`, id, answer)
		op := c.put(id, "postgres/small", "", async).want(c.t, 202).operation()
		c.fails(at(id), op)
		if cleaned {
			c.eventually("Cloud Foundry cleans up behind it", func() bool { return c.asked("deprovision", id, "") > 0 })
		}
		before := c.asked("deprovision", id, "")
		c.gone(id, "postgres/small")
		if n := c.asked("deprovision", id, ""); n != before+1 {
			c.t.Errorf("%s: %d deprovisions, before the delete %d", answer, n, before)
		}
		c.nothingLeft(id)
	}
}

func pollsFail(c tenant) {
	id := c.id()
	c.instruct(`{"operation":"provision","instance":%q,"answer":"accepted","polls":"error"}`, id)
	op := c.put(id, "postgres/async", `{"a":1}`, async).want(c.t, 202).operation()
	c.works("provision", id, "")
	c.runs(at(id), op)
	c.force(c.row(id).GUID, "create", "succeeded", "COMPLETE")
	c.made(id, op)
	// 400 is an end, 410 is one of a delete.
	id = c.id()
	c.instruct(`{"operation":"provision","instance":%q,"answer":"accepted","polls":"rejected","description":"no more disks"}`, id)
	c.fails(at(id), c.put(id, "postgres/async", "", async).want(c.t, 202).operation(), "no more disks")
	id = c.ready("postgres/async", "")
	c.instruct(`{"operation":"deprovision","instance":%q,"answer":"accepted","polls":"gone"}`, id)
	c.goneFor(id, c.removes(id, "postgres/async"))
	c.askedFor(1, "deprovision", id, "")
}

func pollingOver(c tenant) {
	const plan = "faults/hurried"
	id, op := c.starts(plan)
	c.fails(at(id), op, "within")
	c.comes(id, "create", "failed")
	c.gone(id, plan)
	c.nothingLeft(id)
}

// lockLeaked: the controller died between lock and unlock. Nobody can do anything with
// the row until somebody repairs it, and nothing is reported as failed.
func lockLeaked(c tenant) {
	id := c.one()
	guid := c.row(id).GUID
	c.forced(guid, "update", "in progress", "", "gone")
	op := c.changes(id, "postgres/small")
	c.runs(at(id), op)
	c.askedFor(0, "update", id, "")
	bind := c.bind(id, "waits", "postgres/small", "", async).want(c.t, 202).operation()
	c.forced(guid, "update", "succeeded", "", "")
	c.succeeds(at(id), op)
	c.succeeds(bindingAt(id, "waits"), bind)
	c.hasParameters(id, `{"a":2}`)
	c.askedFor(1, "update", id, "")
	c.askedForKey(1, "bind", id, "waits")
}

// rowFirst: the row says succeeded while the job is PROCESSING for a moment.
func rowFirst(c tenant) {
	const plan = "faults/create-stalls"
	id, op := c.starts(plan)
	c.works("provision", id, "")
	c.force(c.row(id).GUID, "create", "succeeded", "PROCESSING")
	c.made(id, op)
	c.send("GET", at(id), "").want(c.t, 200)
	c.bind(id, "b", plan, "", plain).want(c.t, 201)
	oneKey(c, id, "b")
}

func unfetchable(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.ready(plan, "")
	c.instruct(`{"operation":"bind","instance":%q,"answer":"accepted","polls":"unfetchable","description":"it cannot be read"}`, id)
	op := c.bind(id, "b", plan, "", async).want(c.t, 202).operation()
	c.fails(bindingAt(id, "b"), op, "it cannot be read")
	c.send("GET", bindingAt(id, "b"), "").says(c.t, 404, "NotFound")
	c.askedFor(1, "bind", id, "b")
	// The unbind takes what is left behind the failed key.
	c.succeeds(bindingAt(id, "b"), c.unbind(id, "b", plan, async).want(c.t, 202).operation())
	c.askedFor(1, "unbind", id, "b")
	c.bind(id, "b", plan, "", plain).want(c.t, 201)
}

func newPlans(c tenant) {
	posts := c.sent("POST " + instances)
	c.control("POST", "/marketplace", `{"reregister":true}`)
	ids := []string{c.id(), c.id(), c.id()}
	for i, a := range together(len(ids), func(i int) answer { return c.put(ids[i], "postgres/small", `{"a":1}`, async) }) {
		c.made(ids[i], a.want(c.t, 202).operation())
	}
	if n := c.sent("POST "+instances) - posts; n > 2*len(ids) {
		c.t.Errorf("%d POSTs for %d instances, want one repetition each", n, len(ids))
	}
	// An update of the plan finds the new one as well.
	op := c.patch(ids[0], "postgres/small", `"plan_id":`+quoted(c.plan("postgres/large").plan), async).want(c.t, 202).operation()
	c.succeeds(at(ids[0]), op)
	if row := c.row(ids[0]); row.Plan != "large" {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
}

func brokerRead(c tenant) {
	c.control("POST", "/conditions", `{"broker_busy":true}`)
	id, op := c.starts("postgres/small")
	c.eventually("the POST was refused", func() bool { return c.sent("POST "+instances) > 2 })
	c.runs(at(id), op)
	c.control("POST", "/conditions", `{"broker_busy":false}`)
	c.made(id, op)
}

// spaceRaced: somebody makes the space between our look and our POST.
func spaceRaced(c tenant) {
	const spaces = "/v3/spaces"
	var orgs struct{ Resources []struct{ GUID string } }
	c.operator("GET", "/v3/organizations?names=demo", "").decode(c.t, &orgs)
	c.disturb(fault{Method: "POST", Route: spaces, Times: 1, When: "before", Action: "delay", DelayMS: 300})
	id, op := c.starts("queue/standard")
	c.struck()
	c.operator("POST", spaces, `{"name":"queue","relationships":{"organization":{"data":{"guid":`+quoted(orgs.Resources[0].GUID)+`}}}}`).want(c.t, http.StatusCreated)
	c.made(id, op)
	a := c.operator("GET", spaces+"?names=queue", "").want(c.t, http.StatusOK)
	if n := strings.Count(a.body, `"name":"queue"`); n != 1 {
		c.t.Errorf("%d spaces: %s", n, a.body)
	}
}
