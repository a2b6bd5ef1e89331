package osbtest

import "net/http"

// What each request about an instance is answered in each state, with the plans of the simulator. A state is reached
// once: what changes nothing is sent first, with accepts_incomplete many times at once; then what leads back to the
// state; and at last the DELETE that leads to gone from everywhere. bindingstates.go has the same for bindings.

// subject is an instance, or a binding, that was brought into a state.
type subject struct {
	id, binding, plan string
	// parameters are those in force; target those of an update that runs.
	parameters, target string
	// operation is the one that runs, or ended last.
	operation string
}

func (s subject) path() string {
	if s.binding != "" {
		return BindingPath(s.id, s.binding)
	}
	return InstancePath(s.id)
}

// cell is what a request is answered in a state.
type cell struct {
	status int
	// word is the error word of a refusal; "new" or "same" says which operation a 202 names.
	word string
}

// The answers of the tables.
var (
	begun     = cell{http.StatusAccepted, "new"}
	running   = cell{http.StatusAccepted, "same"}
	exists    = cell{http.StatusOK, ""}
	created   = cell{http.StatusCreated, ""}
	missing   = cell{http.StatusNotFound, "NotFound"}
	conflict  = cell{http.StatusConflict, "Conflict"}
	gone      = cell{http.StatusGone, ""}
	needsFlag = cell{http.StatusUnprocessableEntity, "AsyncRequired"}
	busy      = cell{http.StatusUnprocessableEntity, "ConcurrencyError"}
	forbidden = cell{http.StatusUnprocessableEntity, "Unprocessable"}
	tooLate   = cell{http.StatusInternalServerError, "OutOfTime"}
	refused   = cell{http.StatusInternalServerError, "Backend"}
)

// check judges an answer about a subject.
func (want cell) check(a Answer, s subject) {
	a.T.Helper()
	switch {
	case a.Status != want.status:
		a.T.Errorf("%s: %d %.300s, want %d %s", a.Request, a.Status, a.Body, want.status, want.word)
	case want.word == "new" && a.Operation() == s.operation, want.word == "same" && a.Operation() != s.operation:
		a.T.Errorf("%s: the operation %s, want a %s one, the other being %s", a.Request, a.Operation(), want.word, s.operation)
	case a.Status >= http.StatusBadRequest && a.Text("error") != want.word:
		a.T.Errorf("%s: %.300s, want the word %s", a.Request, a.Body, want.word)
	}
}

// event is a request about a subject in a state.
type event struct {
	// name begins with the ids of what it shows.
	name string
	send func(Tenant, subject, ...Change) Answer
	// async is the answer with accepts_incomplete, sync that without it.
	async, sync cell
}

func sameCreate(c Tenant, s subject, changes ...Change) Answer {
	return c.Provision(s.id, s.plan, s.parameters, changes...)
}

func otherCreate(c Tenant, s subject, changes ...Change) Answer {
	return c.Provision(s.id, s.plan, `{"a":3}`, changes...)
}

// update is the one that runs, where one does.
func update(c Tenant, s subject, changes ...Change) Answer {
	target := s.target
	if target == "" {
		target = `{"a":2}`
	}
	return c.Update(s.id, s.plan, `"parameters":`+target, changes...)
}

func otherUpdate(c Tenant, s subject, changes ...Change) Answer {
	return c.Update(s.id, s.plan, `"parameters":{"a":3}`, changes...)
}

// noUpdate names what is in force already.
func noUpdate(c Tenant, s subject, changes ...Change) Answer {
	return c.Update(s.id, s.plan, `"parameters":`+s.parameters, changes...)
}

func deprovision(c Tenant, s subject, changes ...Change) Answer {
	return c.Deprovision(s.id, s.plan, changes...)
}

// instanceRow is a state of an instance.
type instanceRow struct {
	state string
	bring func(Tenant) subject
	// fetch is what GET is answered; poll is the state of the subject's own operation, which is the latest one, ""
	// where there is nothing to poll.
	fetch  cell
	poll   string
	events []event
	// removal holds the ids of the DELETE that leads to gone; before and after are what it needs around it.
	removal       string
	before, after func(Tenant, subject)
}

// instanceRows is the table for instances.
var instanceRows = []instanceRow{
	{
		state: "absent", bring: func(c Tenant) subject { return subject{id: c.NewID(), plan: "postgres/small", parameters: `{"a":1}`} }, fetch: missing,
		events: []event{
			{"CON-06 PROV-01 PROV-02 PROV-18 PROV-23 ASY-02 a create", sameCreate, begun, needsFlag},
			{"CON-18 UPD-01 an update", update, missing, missing},
			{"CON-28 DEP-10 DEP-16 LOI-06 LOI-08 FI-06 a delete", deprovision, gone, needsFlag},
		},
	},
	{
		state: "creating", bring: creating, fetch: missing, poll: "in progress",
		events: []event{
			{"CON-07 CON-08 PROV-19 PROV-20 ASY-03 the same create", sameCreate, running, needsFlag},
			{"CON-09 FI-07 another create", otherCreate, conflict, conflict},
			{"CON-19 UPD-16 ERR-09 an update", update, busy, busy},
			{"CON-02 CON-03 CON-04 another update", otherUpdate, busy, busy},
		},
		removal: "CON-29 CON-30 CON-32 CON-33 LOI-24 DEP-12 ASY-17 a delete cancels the create",
	},
	{
		state: "ready", bring: func(c Tenant) subject { return readyOn(c, "postgres/small") }, fetch: exists, poll: "succeeded",
		events: []event{
			{"CON-10 PROV-21 ASY-06 the same create", sameCreate, exists, exists},
			{"CON-11 another create", otherCreate, conflict, conflict},
			{"CON-21 UPD-18 UPD-19 an update to what is in force", noUpdate, exists, needsFlag},
			{"CON-20 UPD-20 UPD-23 ASY-09 an update", update, begun, needsFlag},
		},
		removal: "CON-34 DEP-01 DEP-07 DEP-08 DEP-11 DEP-14 ASY-05 a delete",
	},
	{
		state: "updating", bring: updating, fetch: busy, poll: "in progress",
		events: []event{
			{"CON-12 a create", sameCreate, busy, busy},
			{"CON-22 UPD-21 UPD-22 the same update", update, running, needsFlag},
			{"CON-23 UPD-16 FI-08 another update", otherUpdate, busy, busy},
			{"CON-23 an update to what is in force", noUpdate, busy, busy},
		},
		removal: "CON-36 DEP-12 a delete waits for the update",
		after:   func(c Tenant, s subject) { c.Force(c.Row(s.id).GUID, "update", "succeeded", "COMPLETE") },
	},
	{
		state: "deleting", bring: deleting, fetch: busy, poll: "in progress",
		events: []event{
			{"CON-13 a create", sameCreate, busy, busy},
			{"CON-26 FI-13 an update", update, busy, busy},
			{"CON-35 DEP-08 DEP-09 the same delete", deprovision, running, needsFlag},
		},
		removal: "CON-38 a delete after this one has failed",
		before: func(c Tenant, s subject) {
			c.Force(c.Row(s.id).GUID, "delete", "failed", "FAILED")
			c.Fails(s.path(), s.operation, "forced")
		},
	},
	{
		state: "create failed", bring: createFailed, fetch: missing, poll: "failed",
		events: []event{
			{"CON-14 LOI-19 LOI-22 the same create", sameCreate, begun, needsFlag},
			{"CON-15 another create", otherCreate, conflict, conflict},
			{"CON-27 UPD-16 FI-13 an update", update, forbidden, forbidden},
		},
		removal: "CON-37 ORPH-05 ORPH-07 a delete takes what is left",
	},
	{
		state: "update failed", bring: updateFailed, fetch: exists, poll: "failed",
		events: []event{
			{"UPD-25 UPD-26 ORPH-09 a create of what is still in force", sameCreate, exists, exists},
			{"CON-11 another create", otherCreate, conflict, conflict},
			{"CON-25 the same update", update, begun, needsFlag},
			{"UPD-27 another update", otherUpdate, begun, needsFlag},
			{"UPD-27 an update back to what is in force", noUpdate, begun, needsFlag},
		},
		removal: "CON-34 a delete",
	},
	{
		state: "delete failed", bring: deleteFailed, fetch: exists, poll: "failed",
		events: []event{
			{"CON-16 a create", sameCreate, conflict, conflict},
			{"CON-16 another create", otherCreate, conflict, conflict},
			{"CON-27 UPD-16 an update", update, forbidden, forbidden},
		},
		removal: "CON-38 DEP-13 ERR-04 ERR-05 a delete may be sent again",
	},
	{
		state: "gone", bring: goneInstance, fetch: missing, poll: "succeeded",
		events: []event{
			{"CON-18 an update", update, missing, missing},
			{"CON-28 DEP-10 LOI-25 LOI-26 a delete", deprovision, gone, needsFlag},
			{"CON-17 PROV-03 PROV-04 PROV-31 ORPH-12 a create", sameCreate, begun, needsFlag},
		},
	},
}

func provisioned(c Tenant, plan string) subject {
	c.T.Helper()
	s := subject{id: c.NewID(), plan: plan, parameters: `{"a":1}`}
	s.operation = sameCreate(c, s).Want(http.StatusAccepted).Operation()
	return s
}

func creating(c Tenant) subject {
	s := provisioned(c, "faults/create-stalls")
	c.Works("provision", s.id, "")
	return s
}

func readyOn(c Tenant, plan string) subject {
	c.T.Helper()
	s := provisioned(c, plan)
	c.Succeeds(s.path(), s.operation)
	return s
}

func changing(c Tenant, plan string) subject {
	c.T.Helper()
	s := readyOn(c, plan)
	s.target = `{"a":2}`
	s.operation = update(c, s).Want(http.StatusAccepted).Operation()
	return s
}

func updating(c Tenant) subject {
	s := changing(c, "faults/update-stalls")
	c.Works("update", s.id, "")
	return s
}

// deleting stalls once: what comes after it works.
func deleting(c Tenant) subject {
	s := readyOn(c, "postgres/small")
	c.Instruct(`{"operation":"deprovision","org":%q,"instance":%q,"times":1,"answer":"accepted","polls":"in progress"}`, c.Org, s.id)
	s.operation = deprovision(c, s).Want(http.StatusAccepted).Operation()
	c.Works("deprovision", s.id, "")
	return s
}

func createFailed(c Tenant) subject {
	s := provisioned(c, "faults/create-fails")
	c.Fails(s.path(), s.operation, "The create fails with this plan")
	return s
}

func updateFailed(c Tenant) subject {
	s := changing(c, "faults/update-fails")
	c.Fails(s.path(), s.operation, "The update fails with this plan")
	return s
}

func deleteFailed(c Tenant) subject {
	s := readyOn(c, "faults/delete-fails-once")
	s.operation = deprovision(c, s).Want(http.StatusAccepted).Operation()
	c.Fails(s.path(), s.operation, "The delete fails with this plan")
	return s
}

func goneInstance(c Tenant) subject {
	s := readyOn(c, "postgres/small")
	s.operation = deprovision(c, s).Want(http.StatusAccepted).Operation()
	c.Succeeds(s.path(), s.operation)
	return s
}

// check walks one state of an instance; so many send the same at once.
func (r instanceRow) check(c Tenant, repeats int) {
	s := r.bring(c)
	c.Traceless(s.id, "", func() {
		looks(c, s, r.fetch, r.poll)
		for _, e := range r.events {
			e.sync.check(e.send(c, s, Sync), s)
			if e.async != begun {
				for _, a := range Together(repeats, func(int) Answer { return e.send(c, s) }) {
					e.async.check(a, s)
				}
			}
		}
	})
	for _, e := range r.events {
		if e.async == begun {
			s = r.begins(c, e, s)
		}
	}
	if r.removal == "" {
		c.Gone(s.id, s.plan)
		return
	}
	if r.before != nil {
		r.before(c, s)
	}
	r.leads(c, s, repeats)
}

// looks checks what a subject in a state shows to GET and to polls, whatever they name (FI-03, FI-04, LOI-01, LOI-02,
// LOI-03, LOI-09, LOI-10, LOI-20, LOI-21, LOI-23, FB-02, FB-05, FB-11, LOB-05, LOB-07, LOB-08, LOB-15, LOB-17).
func looks(c Tenant, s subject, fetch cell, poll string) {
	c.T.Helper()
	fetch.check(c.Fetch(s.path()+"?service_id=nope&plan_id="), s)
	if poll == "" {
		for _, operation := range []string{"", "create-x", "update-x", "bind-x", "anything"} {
			missing.check(c.Poll(s.path(), operation), s)
		}
		return
	}
	own := c.Poll(s.path(), s.operation).Want(http.StatusOK)
	own.Has("state", Quoted(poll))
	for _, query := range []string{"", "?operation=nobody%27s", "?operation=create-0123&service_id=&plan_id=nope", "?operation=delete-%C3%BC%00"} {
		own.Same(c.Fetch(s.path() + "/last_operation" + query))
	}
}

// begins sends what is accepted, waits for its end, and returns the subject after it. The operation of before has still
// ended as it did (LOI-19, LOI-22, LOB-15), and what was made can be fetched at once (FI-02).
func (r instanceRow) begins(c Tenant, e event, s subject) subject {
	c.T.Helper()
	a := e.send(c, s)
	e.async.check(a, s)
	last := c.Ends(s.path(), a.Operation())
	if last.State() == "succeeded" {
		exists.check(c.Fetch(s.path()), s)
	}
	if r.poll != "" {
		c.Poll(s.path(), s.operation).Has("state", Quoted(r.poll))
		if r.poll == "failed" {
			last.Has("state", `"failed"`)
		}
	}
	s.operation = a.Operation()
	return s
}

// leads sends the DELETE of a state many times at once: there is one operation, which ends well and ends what ran
// before it, and nothing is left.
func (r instanceRow) leads(c Tenant, s subject, repeats int) {
	c.T.Helper()
	operation := OneOperation(c.T, http.StatusGone, Together(repeats, func(int) Answer { return deprovision(c, s) })...)
	if operation == s.operation {
		c.T.Errorf("the DELETE has the operation %s of before", operation)
	}
	if r.after != nil {
		c.Poll(s.path(), operation).Has("state", `"in progress"`)
		r.after(c, s)
	}
	c.Succeeds(s.path(), operation)
	ended(c, s, r.poll, operation)
	deprovision(c, s).Bare(http.StatusGone)
	c.NothingLeft(s.id)
}

// ended checks what is seen of a subject that a DELETE has removed. What it cancelled counts as failed (LOI-24, CON-32,
// CON-56); any other operation ended as it did.
func ended(c Tenant, s subject, before, operation string) {
	c.T.Helper()
	a := c.Poll(s.path(), s.operation).Want(http.StatusOK)
	if before == "in progress" && s.operation != operation {
		a.Has("state", `"failed"`)
	} else if before != "succeeded" && before != "" {
		a.Has("state", Quoted(before))
	}
	for _, name := range []string{operation, "", "nobody's"} {
		for range 2 { // nothing is forgotten by being asked
			c.Poll(s.path(), name).Want(http.StatusOK).Has("state", `"succeeded"`)
		}
	}
	missing.check(c.Fetch(s.path()), s)
}
