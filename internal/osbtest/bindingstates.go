package osbtest

import (
	"net/http"
)

// bindingRow is a state of a binding. Two bindings of one instance are brought there: one for requests with
// accepts_incomplete, and one for those that are held.
type bindingRow struct {
	state, plan string
	bring       func(c Tenant, id, plan string) subject
	// fetch is what GET is answered; poll is the state of the subject's own operation, which is the latest one, ""
	// where there is nothing to poll.
	fetch  cell
	poll   string
	events []event
	// removal is the unbind that leads to gone, before is what it needs first.
	removal event
	before  func(Tenant, subject)
}

func sameBind(c Tenant, s subject, changes ...Change) Answer {
	return c.Bind(s.id, s.binding, s.plan, s.parameters, changes...)
}

func otherBind(c Tenant, s subject, changes ...Change) Answer {
	return c.Bind(s.id, s.binding, s.plan, `{"a":3}`, changes...)
}

func unbind(c Tenant, s subject, changes ...Change) Answer {
	return c.Unbind(s.id, s.binding, s.plan, changes...)
}

// bindingRows is the table for bindings.
var bindingRows = []bindingRow{
	{
		state: "absent", plan: "postgres/async-bindings", bring: absentBinding, fetch: missing,
		events: []event{
			{"CON-52 UNB-08 UNB-12 an unbind", unbind, gone, gone},
			{"CON-40 BIND-13 BIND-24 BIND-46 ASY-01 ASY-04 ASY-05 ASY-07 a bind", sameBind, begun, created},
		},
		removal: event{"CON-58 UNB-01 an unbind", unbind, begun, exists},
	},
	{
		state: "creating", plan: "faults/bind-stalls", bring: runningBind, fetch: missing, poll: "in progress",
		events: []event{
			{"CON-41 CON-42 BIND-15 BIND-16 BIND-17 BIND-40 BIND-46 LIM-03 ASY-11 the same bind", sameBind, running, tooLate},
			{"CON-43 another bind", otherBind, conflict, conflict},
		},
		removal: event{"CON-53 CON-54 CON-55 CON-56 CON-57 UNB-10 ORPH-02 ORPH-04 ORPH-06 an unbind ends the bind", unbind, begun, exists},
	},
	{
		state: "ready", plan: "postgres/async-bindings", bring: readyBinding, fetch: exists, poll: "succeeded",
		events: []event{
			{"CON-44 BIND-14 BIND-23 the same bind", sameBind, exists, exists},
			{"CON-45 BIND-18 another bind", otherBind, conflict, conflict},
		},
		removal: event{"CON-58 UNB-01 UNB-05 UNB-09 UNB-11 UNB-14 LIM-04 an unbind", unbind, begun, exists},
	},
	{
		state: "deleting", plan: "postgres/async-bindings", bring: runningUnbind, fetch: missing, poll: "in progress",
		events: []event{
			{"CON-47 a bind", sameBind, busy, busy},
			{"CON-47 another bind", otherBind, busy, busy},
			{"CON-59 UNB-06 UNB-07 the same unbind", unbind, running, tooLate},
		},
		before: func(c Tenant, s subject) {
			c.ForceKey(c.KeyComes(s.id, s.binding, "delete", "in progress").GUID, "delete", "failed", "FAILED")
			c.Fails(s.path(), s.operation, "forced")
		},
		removal: event{"CON-60 an unbind after this one has failed", unbind, begun, exists},
	},
	{
		state: "create failed", plan: "faults/bind-fails", bring: failedBind, fetch: missing, poll: "failed",
		events: []event{
			{"CON-48 BIND-20 ERR-13 ORPH-01 the same bind", sameBind, begun, refused},
			{"CON-48 another bind", otherBind, conflict, conflict},
		},
		removal: event{"ORPH-08 an unbind takes what is left", unbind, begun, exists},
	},
	{
		state: "delete failed", plan: "postgres/async-bindings", bring: failedUnbind, fetch: missing, poll: "failed",
		events: []event{
			{"CON-60 a bind", sameBind, conflict, conflict},
			{"CON-60 another bind", otherBind, conflict, conflict},
		},
		removal: event{"CON-60 UNB-15 an unbind may be sent again", unbind, begun, exists},
	},
	{
		state: "gone", plan: "postgres/async-bindings", bring: goneBinding, fetch: missing, poll: "succeeded",
		events: []event{
			{"CON-52 UNB-08 LOB-06 an unbind", unbind, gone, gone},
			{"CON-62 a bind", sameBind, begun, created},
		},
		removal: event{"CON-58 UNB-01 an unbind", unbind, begun, exists},
	},
}

func absentBinding(c Tenant, id, plan string) subject {
	return subject{id: id, binding: c.NewID(), plan: plan, parameters: `{"a":1}`}
}

func startedBind(c Tenant, id, plan string) subject {
	c.T.Helper()
	s := absentBinding(c, id, plan)
	s.operation = sameBind(c, s, Async).Want(http.StatusAccepted).Operation()
	return s
}

func runningBind(c Tenant, id, plan string) subject {
	s := startedBind(c, id, plan)
	c.Works("bind", s.id, s.binding)
	return s
}

func failedBind(c Tenant, id, plan string) subject {
	s := startedBind(c, id, plan)
	c.Fails(s.path(), s.operation, "The bind fails with this plan")
	return s
}

func readyBinding(c Tenant, id, plan string) subject {
	s := startedBind(c, id, plan)
	c.Succeeds(s.path(), s.operation)
	return s
}

// startedUnbind removes a binding; what polls say is what the backing broker does this once.
func startedUnbind(c Tenant, id, plan, polls string) subject {
	c.T.Helper()
	s := readyBinding(c, id, plan)
	c.Instruct(`{"operation":"unbind","org":%q,"instance":%q,"binding":%q,"times":1,"answer":"accepted","polls":%q,"description":"not today"}`,
		c.Org, s.id, s.binding, polls)
	s.operation = unbind(c, s, Async).Want(http.StatusAccepted).Operation()
	return s
}

func runningUnbind(c Tenant, id, plan string) subject {
	s := startedUnbind(c, id, plan, "in progress")
	c.Works("unbind", s.id, s.binding)
	return s
}

func failedUnbind(c Tenant, id, plan string) subject {
	s := startedUnbind(c, id, plan, "failed")
	c.Fails(s.path(), s.operation, "not today")
	return s
}

func goneBinding(c Tenant, id, plan string) subject {
	s := startedUnbind(c, id, plan, "succeeded")
	c.Succeeds(s.path(), s.operation)
	return s
}

// check walks one state of a binding; so many send the same at once.
func (r bindingRow) check(c Tenant, repeats int) {
	id := c.Ready(r.plan, "")
	one, two := r.bring(c, id, r.plan), r.bring(c, id, r.plan)
	c.Traceless(id, one.binding, func() {
		looks(c, one, r.fetch, r.poll)
		r.changesNothing(c, one, repeats)
	})
	for _, e := range r.events {
		if e.async == begun {
			one, two = r.begins(c, e, one), r.isHeld(c, e, two)
		}
	}
	r.leads(c, one, two, repeats)
	c.Gone(id, r.plan)
}

// changesNothing sends what may leave no trace. Those that are held to the end of the time that a request has are held
// together.
func (r bindingRow) changesNothing(c Tenant, s subject, repeats int) {
	c.T.Helper()
	var held []<-chan Answer
	for _, e := range r.events {
		if e.sync == tooLate {
			held = append(held, Later(func() Answer { return e.send(c, s) }))
		} else if e.async != begun {
			r.same(c, s, e.sync, e.send(c, s))
		}
	}
	for _, e := range r.events {
		if e.async != begun {
			r.same(c, s, e.async, Together(repeats, func(int) Answer { return e.send(c, s, Async) })...)
		}
	}
	for _, answer := range held {
		tooLate.check(<-answer, s)
	}
}

// same checks answers to requests that change nothing; a binding that is told again has the same credentials.
func (r bindingRow) same(c Tenant, s subject, want cell, answers ...Answer) {
	c.T.Helper()
	credentials := ""
	if want == exists {
		credentials = c.Fetch(s.path()).Credentials()
	}
	for _, a := range answers {
		if want.check(a, s); a.Credentials() != credentials {
			c.T.Errorf("%s: credentials %s, want %s", a.Request, a.Credentials(), credentials)
		}
	}
}

// begins sends a bind that is accepted, and waits for its end (LOB-12, FB-02, FB-06).
func (r bindingRow) begins(c Tenant, e event, s subject) subject {
	c.T.Helper()
	a := e.send(c, s, Async)
	e.async.check(a, s)
	if r.poll == "failed" {
		c.Fails(s.path(), a.Operation())
		c.Poll(s.path(), s.operation).Has("state", `"failed"`)
	} else if c.Succeeds(s.path(), a.Operation()); c.Fetch(s.path()).Want(http.StatusOK).Credentials() == "" {
		c.T.Errorf("%s has no credentials", s.path())
	}
	s.operation = a.Operation()
	return s
}

// isHeld sends the same without accepts_incomplete.
func (r bindingRow) isHeld(c Tenant, e event, s subject) subject {
	c.T.Helper()
	a := e.send(c, s)
	e.sync.check(a, s)
	if e.sync == created && (a.Credentials() == "" || a.Credentials() != c.Fetch(s.path()).Credentials()) {
		c.T.Errorf("%s: credentials %s, want those that are fetched", a.Request, a.Credentials())
	}
	return s
}

// leads unbinds both, many times at once, until nothing is left of either.
func (r bindingRow) leads(c Tenant, one, two subject, repeats int) {
	c.T.Helper()
	if r.before != nil {
		r.before(c, one)
		r.before(c, two)
	}
	operation := OneOperation(c.T, http.StatusGone, Together(repeats, func(int) Answer { return unbind(c, one, Async) })...)
	if operation == one.operation {
		c.T.Errorf("the unbind has the operation %s of before", operation)
	}
	done := 0
	for _, a := range Together(repeats, func(int) Answer { return unbind(c, two) }) {
		if a.Status == http.StatusOK {
			done++
		} else if a.Status != http.StatusGone {
			c.T.Errorf("%s: %d %.300s, want 200 or 410", a.Request, a.Status, a.Body)
		}
	}
	if done == 0 {
		c.T.Errorf("no unbind of %s was told that it is done", two.path())
	}
	c.Succeeds(one.path(), operation)
	ended(c, one, r.poll, operation)
	for _, s := range []subject{one, two} {
		unbind(c, s).Bare(http.StatusGone)
		unbind(c, s, Async).Bare(http.StatusGone)
	}
	c.HasKeys(one.id)
}
