package acceptance

import (
	"fmt"
	"net/http"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// createScenarios are those of the request that makes an instance, 1 to 16.
func createScenarios() []scenario {
	const forcing = "the failed row with its running job is the classic controller's"
	return []scenario{
		{name: "01 a create that goes well", run: goesWell},
		{name: "02 the answer to the POST is lost", run: postAnswerLost},
		{name: "03 a router answers 502 503 504", tune: []func(*settings){warnings}, run: routerAnswers},
		{name: "04 the create is sent again", run: createAgain},
		{name: "05 two creates at once", run: createsAtOnce},
		{name: "06 the same id for another service", run: otherService},
		{name: "07 a create over a failed one", classic: forcing, run: func(c tenant) { overFailed(c, nil) }},
		{name: "08 500 UnknownError over a failed one", classic: forcing, run: func(c tenant) {
			f := said(500, 10001, "UnknownError", "An unknown error occurred.").On("POST", instances, 1)
			overFailed(c, &f)
		}},
		{name: "09 quotas", run: func(c tenant) {
			quotaReached(c, `{"quota":{"demo":{"instances":0}}}`, `{"quota":{"demo":null}}`, "You have exceeded your organization's services limit.")
			quotaReached(c, `{"quota":{"demo/postgres":{"instances":0}}}`, `{"quota":{"demo/postgres":null}}`, "You have exceeded your space's services limit.")
			finalRefusals(c, unprocessable("You have exceeded your organization's services limit."), unprocessable("You have exceeded your space's services limit."))
		}},
		{name: "10 paid plans", run: func(c tenant) {
			const text = "The service instance cannot be created because paid service plans are not allowed"
			finalRefusals(c, unprocessable(text+"."), unprocessable(text+" for your space."))
		}},
		{name: "11 a plan that was removed or hidden", classic: "its developers go on seeing hidden plans", run: hiddenPlan},
		{name: "12 the backing broker is being read", run: brokerBusy},
		{name: "13 features, roles and suspensions", tune: []func(*settings){warnings}, run: func(c tenant) {
			waitsFor(c, `{"features_off":{"service_instance_creation":""}}`, `{"features_off":{"service_instance_creation":null}}`)
			waitsFor(c, `{"suspended":{"demo/postgres":true}}`, `{"suspended":{"demo/postgres":false}}`)
			quotaReached(c, `{"deleting":{"demo":true}}`, `{"deleting":{"demo":false}}`, "being deleted")
			forbidden(c)
		}},
		{name: "14 parameters and metadata that are refused", run: func(c tenant) {
			finalRefusals(c, unprocessable("Parameters must be an object"), unprocessable("Metadata label key error: label keys are too long"))
		}},
		{name: "15 somebody makes the same space", run: spaceRace},
		{name: "16 the space is deleted meanwhile", run: spaceDeleted},
	}
}

func goesWell(c tenant) {
	id, op := c.starts("postgres/small")
	if a := c.Poll(at(id), op); a.Want(200).State() != "in progress" && a.State() != "succeeded" {
		c.t.Errorf("%s: %s", a.Request, a.Body)
	}
	row := c.made(id, op)
	if row.Space != "postgres" || row.Plan != "small" || string(row.Parameters) != `{"a":1}` || row.Labels["ferry-client"] != c.Name {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
	c.sentTimes(1, "POST "+instances)
}

// The row of the lost answer is found by its mark, so that no second POST is needed.
func postAnswerLost(c tenant) {
	c.Disturb(dropped().After().On("POST", instances, 1))
	id, op := c.starts("postgres/async")
	c.made(id, op)
	c.sentTimes(1, "POST "+instances)
	c.Provision(id, "postgres/async", `{"a":1}`).Bare(http.StatusOK)
}

func routerAnswers(c tenant) {
	for _, status := range []int{502, 503, 504} {
		c.Disturb(html(status).On("POST", instances, 1))
	}
	id, op := c.starts("postgres/async")
	c.struck()
	c.made(id, op)
	c.sentTimes(4, "POST "+instances)
	// With the answer lost as well, the row is found.
	c.Disturb(html(502).After().On("POST", instances, 1))
	id, op = c.starts("postgres/async")
	c.made(id, op)
	c.sentTimes(5, "POST "+instances)
}

func createAgain(c tenant) {
	const plan = "faults/create-stalls"
	id, op := c.starts(plan)
	c.Works("provision", id, "")
	for range 3 {
		if a := c.Provision(id, plan, `{"a":1}`).Want(202); a.Operation() != op {
			c.t.Errorf("%s: %s, want the operation %s", a.Request, a.Body, op)
		}
		c.Provision(id, plan, `{"a":2}`).Says(409, "Conflict")
	}
	c.sentTimes(1, "POST "+instances)
	c.AskedFor(1, "provision", id, "")
	done, op := c.starts("postgres/small")
	c.made(done, op)
	before := c.State().Requests
	c.Provision(done, "postgres/small", `{"a":1}`).Bare(200)
	c.Provision(done, "postgres/small", `{"a":2}`).Says(409, "Conflict")
	if after := c.State().Requests; after["POST "+instances] != before["POST "+instances] || after["DELETE "+instance] != 0 {
		c.t.Errorf("duplicates reached Cloud Foundry: %v, before %v", after, before)
	}
}

func createsAtOnce(c tenant) {
	id := c.NewID()
	c.made(id, osbtest.OneOperation(c.t, 200, osbtest.Together(8, func(int) answer { return c.Provision(id, "postgres/async", `{"a":1}`) })...))
	c.sentTimes(1, "POST "+instances)
}

func otherService(c tenant) {
	id, op := c.starts("postgres/small")
	c.Provision(id, "queue/standard", `{"a":1}`).Says(409, "Conflict")
	c.made(id, op)
	c.Provision(id, "queue/standard", `{"a":1}`).Says(409, "Conflict")
	c.sentTimes(1, "POST "+instances)
	if row := c.Row(id); row.Space != "postgres" {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
}

// overFailed creates over a create that failed; the row of the first one goes, and the second one gets a GUID of its
// own.
func overFailed(c tenant, disturbance *fault) {
	const plan = "faults/create-stalls"
	id, first := c.starts(plan)
	c.Works("provision", id, "")
	old := c.Row(id)
	c.Force(old.GUID, "create", "failed", "FAILED")
	c.Fails(at(id), first, "forced")
	if disturbance != nil {
		c.Disturb(*disturbance)
	}
	second := c.Provision(id, plan, `{"a":1}`).Want(202).Operation()
	row := c.Comes(id, "create", "in progress")
	if second == first || row.GUID == old.GUID || row.Annotations["ferry-operation"] != second {
		c.t.Errorf("operation %s after %s made %+v, before it was %s", second, first, row, old.GUID)
	}
	c.Force(row.GUID, "create", "succeeded", "COMPLETE")
	c.Succeeds(at(id), second)
	c.Fails(at(id), first, "not kept any more")
	c.Row(id)
	c.AskedFor(2, "provision", id, "")
	c.Deleted(id, plan)
	c.NothingLeft(id)
}

// quotaReached sets a condition in Cloud Foundry under which creates are refused, and takes it away again.
func quotaReached(c tenant, on, off, text string) {
	c.t.Helper()
	if c.isKorifi() {
		return // it knows no such conditions
	}
	before := c.sent("POST " + instances)
	c.Control("POST", "/conditions", on)
	id, op := c.starts("postgres/small")
	c.Fails(at(id), op, text)
	c.sentTimes(before+1, "POST "+instances)
	c.NothingLeft(id)
	c.AskedFor(0, "provision", id, "")
	c.Control("POST", "/conditions", off)
	again := c.Provision(id, "postgres/small", `{"a":1}`).Want(202).Operation()
	c.made(id, again)
}

// waitsFor sets a condition that an operator of Cloud Foundry takes away again: the create goes on then, with the same
// operation.
func waitsFor(c tenant, on, off string) {
	c.t.Helper()
	if c.isKorifi() {
		return // it knows no such conditions
	}
	before := c.sent("POST " + instances)
	c.Control("POST", "/conditions", on)
	id, op := c.starts("postgres/small")
	c.Eventually("the create is tried twice", func() bool { return c.sent("POST "+instances) >= before+2 })
	c.Poll(at(id), op).Has("state", `"in progress"`)
	c.AskedFor(0, "provision", id, "")
	c.Control("POST", "/conditions", off)
	c.made(id, op)
}

// finalRefusals end an operation with their text, after one call and without a trace.
func finalRefusals(c tenant, texts ...fault) {
	for _, f := range texts {
		before := c.sent("POST " + instances)
		c.Disturb(f.On("POST", instances, 1))
		id, op := c.starts("postgres/small")
		c.Fails(at(id), op, c.detailOf(f))
		c.sentTimes(before+1, "POST "+instances)
		c.NothingLeft(id)
		c.AskedFor(0, "provision", id, "")
		c.Send("GET", at(id), "").Says(404, "NotFound")
		c.Deleted(id, "postgres/small")
		// The id is free: what was refused once may be asked for again.
		again := c.Provision(id, "postgres/small", `{"a":1}`).Want(202).Operation()
		c.made(id, again)
	}
}

func hiddenPlan(c tenant) {
	const stale = "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it."
	// It is gone: the operation fails with the text.
	c.Control("POST", "/marketplace", `{"hide":["postgres/large"]}`)
	id, op := c.starts("postgres/large")
	c.Fails(at(id), op, "Invalid service plan")
	c.AskedFor(0, "provision", id, "")
	c.NothingLeft(id)
	c.Provision(c.NewID(), "postgres/large", "").Says(400, "BadRequest")
	// It is there, with the GUID that was refused: one more try is made.
	posts := c.sent("POST " + instances)
	c.Disturb(unprocessable(stale).On("POST", instances, 0))
	id, op = c.starts("postgres/small")
	c.Fails(at(id), op, stale)
	c.sentTimes(posts+2, "POST "+instances)
	c.heal()
}

func brokerBusy(c tenant) {
	c.Disturb(unprocessable("The service instance cannot be created because there is an operation in progress for the service broker.").On("POST", instances, 3))
	id, op := c.starts("postgres/small")
	c.struck()
	c.made(id, op)
	c.sentTimes(4, "POST "+instances)
}

func forbidden(c tenant) {
	finalRefusals(c, said(422, 10020, "CF-ResourceBeingDeleted", "The organization is being deleted"))
	// What an operator there puts right ends nothing.
	for _, f := range []fault{
		said(403, 330002, "CF-FeatureDisabled", "Feature Disabled: service_instance_creation"),
		said(403, 10017, "CF-OrgSuspended", "The organization is suspended"),
		said(403, 10019, "CF-SpaceSuspended", "The space is suspended"),
	} {
		c.Disturb(f.On("POST", instances, 2))
		id, op := c.starts("postgres/small")
		c.struck()
		c.made(id, op)
	}
	// A login without its role in the space gives it to itself; where that does not help, the operation waits for who
	// can.
	noRole := said(403, 10003, "CF-NotAuthorized", "You are not authorized to perform the requested action")
	c.Disturb(noRole.On("POST", instances, 1))
	id, op := c.starts("postgres/small")
	c.made(id, op)
	c.Disturb(noRole.On("POST", instances, 3))
	id, op = c.starts("postgres/small")
	c.struck()
	c.made(id, op)
	// A space that goes is made again once it is gone.
	c.Disturb(said(422, 10020, "CF-ResourceBeingDeleted", "The space is being deleted").On("POST", instances, 2))
	id, op = c.starts("postgres/small")
	c.struck()
	c.made(id, op)
}

func spaceRace(c tenant) {
	c.Disturb(unprocessable("Name must be unique per organization").After().On("POST", "/v3/spaces", 1))
	id, op := c.starts("postgres/small")
	c.made(id, op)
	c.sentTimes(1, "POST /v3/spaces")
	a := c.Operator("GET", "/v3/spaces?names=postgres", "")
	var list struct{ Resources []struct{ Name string } }
	if a.Decode(&list); len(list.Resources) != 1 {
		c.t.Errorf("%s: %s, want one space", a.Request, a.Body)
	}
}

func spaceDeleted(c tenant) {
	first, op := c.starts("postgres/small")
	c.made(first, op)
	before := c.sent("GET /v3/spaces")
	c.Disturb(unprocessable("Invalid space. Ensure that the space exists and you have access to it.").On("POST", instances, 1))
	id, op := c.starts("postgres/small")
	c.made(id, op)
	if c.sent("GET /v3/spaces") == before {
		c.t.Error("the space was not looked up again")
	}
	// It is really gone, with all that was in it.
	c.Control("DELETE", "/spaces/demo/postgres", "")
	third, op := c.starts("postgres/small")
	c.made(third, op)
	c.goneFor(first, c.removes(first, "postgres/small"))
	c.AskedFor(0, "deprovision", first, "")
}

// createdScenarios are those of a create that was accepted, 17 to 22; 21, a job that polls for long, is
// TestHourOfPolling.
func createdScenarios() []scenario {
	const ownJobs = "its jobs are derived from the row and no controller marks rows behind their backs"
	return []scenario{
		{name: "17 the backing broker refuses", run: brokerRefuses},
		{name: "18 the job execution has timed out", classic: ownJobs, run: jobTimedOut},
		{name: "19 the initial cleanup while the job runs", classic: ownJobs, run: initialCleanup},
		{name: "20 the job cannot be found", classic: ownJobs, run: jobMissing},
		{name: "22 the instance vanishes while it is created", classic: "a create whose row went has no job there", run: vanishes},
	}
}

func brokerRefuses(c tenant) {
	id, op := c.starts("faults/create-rejected")
	if c.isKorifi() {
		c.Fails(at(id), op) // it has no words for a refusal
	} else {
		c.Fails(at(id), op, "The create is refused by this plan")
		c.Comes(id, "create", "failed")
	}
	c.AskedFor(1, "provision", id, "")
	c.sentTimes(1, "POST "+instances)
	c.Deleted(id, "faults/create-rejected")
	c.NothingLeft(id)
}

func jobTimedOut(c tenant) {
	const text = "Service Broker failed to provision within the required time."
	id, op := c.starts("faults/create-stalls")
	c.Works("provision", id, "")
	c.Disturb(jobFault(290006, "CF-JobTimeout", "The job execution has timed out."))
	c.Forced(c.Row(id).GUID, "create", "failed", text, "FAILED")
	c.Fails(at(id), op, text)
	c.AskedFor(1, "provision", id, "")
	c.heal()
	c.Deleted(id, "faults/create-stalls")
}

// jobFault has every job fail with an error.
func jobFault(code int, title, detail string) fault {
	return fault{Method: "GET", Route: "/v3/jobs/:guid", When: "before", Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "application/json"},
		Body: fmt.Sprintf(`{"guid":"j","operation":"service_instance.create","state":"FAILED","errors":[{"code":%d,"title":%q,"detail":%q}],"warnings":[]}`, code, title, detail)}
}

// The row is marked as failed while its create is well: only the job's end counts.
func initialCleanup(c tenant) {
	const text = `Operation was stuck in "initial" state. Set to "failed" by cleanup job.`
	id, op := c.starts("faults/create-stalls")
	c.Works("provision", id, "")
	row := c.Row(id)
	c.Forced(row.GUID, "create", "failed", text, "PROCESSING")
	c.runs(at(id), op)
	c.Forced(row.GUID, "create", "in progress", "", "POLLING")
	c.runs(at(id), op)
	c.Force(row.GUID, "create", "succeeded", "COMPLETE")
	c.made(id, op)
	// The other end: the job fails as well, and the row's words are the reason.
	id, op = c.starts("faults/create-stalls")
	c.Works("provision", id, "")
	row = c.Row(id)
	c.Forced(row.GUID, "create", "failed", text, "PROCESSING")
	c.runs(at(id), op)
	c.Forced(row.GUID, "create", "failed", text, "FAILED")
	c.Fails(at(id), op, "stuck in")
	c.Deleted(id, "faults/create-stalls")
	c.NothingLeft(id)
}

// Without a job the row alone tells; its failure once nothing can come any more.
func jobMissing(c tenant) {
	for _, end := range []string{"succeeded", "failed"} {
		id, op := c.starts("faults/create-stalls")
		c.Works("provision", id, "")
		guid := c.Row(id).GUID
		c.Control("PATCH", "/instances/"+guid, `{"job":"gone"}`)
		c.runs(at(id), op)
		c.Forced(guid, "create", end, "because of the disk", "")
		if end == "succeeded" {
			c.made(id, op)
			continue
		}
		c.Fails(at(id), op, "because of the disk")
	}
}

func vanishes(c tenant) {
	const plan = "faults/create-stalls"
	id, op := c.starts(plan)
	c.Works("provision", id, "")
	c.Operator("DELETE", instances+"/"+c.Row(id).GUID, "").Want(202)
	c.Fails(at(id), op, "vanished")
	c.AskedFor(1, "provision", id, "")
	c.sentTimes(1, "POST "+instances) // it was accepted once and is not made again
	c.Deleted(id, plan)
	c.NothingLeft(id)
}
