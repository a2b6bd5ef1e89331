package lifecycle

import (
	"slices"
	"strings"
	"time"
)

// Tick is one step of one operation, with what has been learned so far. A caller
// begins with what it read, and gives the same tick again with one thing more
// whenever the decision's effect asks for it.
type Tick struct {
	// Operation is the one that the caller drives.
	Operation string
	// ReadAt was noted with the read of the record, before any look-up began; open
	// calls are judged at that time.
	ReadAt time.Time
	// Now is the time of this decision.
	Now time.Time
	// SettleAfter is how long a call of unknown fate may still take effect.
	SettleAfter time.Duration
	// TombstoneTTL is how long a tombstone lives.
	TombstoneTTL time.Duration
	// Wait is the pause before the next tick, at the pace of the operation.
	Wait time.Duration
	// Pace is where Wait comes from.
	Pace Pace
	// LookupFailed says that Cloud Foundry did not tell what the tick had asked for: there is
	// nothing to do but to wait. Trouble is what is known of that, in words for users; it
	// goes with a job of unclear state, too.
	LookupFailed   bool
	NoAnswerReason string
	// Driver holds the lease; LeaseUntil is when its work of this tick has ended.
	Driver     string
	LeaseUntil time.Time
	// LivingDrivers is the prefix of all drivers that can be alive, empty when any can: a
	// lease of another one is a dead process's.
	LivingDrivers string

	Instance *InstanceView
	// Bindings is meaningful when BindingsKnown.
	Bindings      []BindingView
	BindingsKnown bool
	Look          *Look
	Job           *JobStatus
	// Place is where the next call would go, when no look-up has told.
	Place *Place

	// over: the deadline has passed.
	over bool
}

// elsewhere reports whether what was seen, or would be called, is another Cloud Foundry or
// org than the one that the record's rows are in: its absences mean nothing.
func (t Tick) elsewhere(r Record) bool {
	at := t.at()
	return at != (Place{}) && r.Place != (Place{}) && at != r.Place
}

// at is where this tick looks and calls; zero when it did not have to know.
func (t Tick) at() Place {
	switch {
	case t.Look != nil:
		return t.Look.Place
	case t.Place != nil:
		return *t.Place
	default:
		return Place{}
	}
}

// settleIn notes, in place, where the rows of the record are, once that is known.
func (r *Record) settleIn(t Tick) {
	if r.Place == (Place{}) {
		r.Place = t.at()
	}
}

const instanceGone = "The service instance is being deleted or does not exist any more. Create the binding again once there is an instance."

func tick(r Record, t Tick) Decision {
	if !r.Running(t.Operation) {
		return Decision{Record: r, Outcome: Stopped}
	}
	t.over = !t.Now.Before(r.Operation.Deadline)
	if !t.over && t.leasedByOther(r.Operation.Lease) {
		return need(r, Effect{Do: Wait}) // no write: it would make the holder lose its note of the answer
	}
	d := drive(r, t)
	if t.over {
		return lastLook(r, t, d)
	}
	return d
}

// lastLook is what a tick past the deadline makes of its decision: what it has seen may
// end the operation, but nothing more is sent, and nothing more is waited for. A PATCH
// that may still move the plan is, for as long as a call may take to settle: what lives
// on is then described by what it is (protocol.md 9).
func lastLook(r Record, t Tick, d Decision) Decision {
	switch d.Effect.Do {
	case ReadInstance, ListBindings, FindByName, FindByGUID, AskJob, FindOrg:
		return d
	default:
	}
	switch {
	case d.Result != nil:
		return d
	case r.Operation.Verb != Create && patching(r, t) && t.Now.Before(r.Operation.Deadline.Add(t.SettleAfter)):
		return wait(r, t)
	default:
		r.GUIDs = d.Record.GUIDs // what was seen, or named by a job, stays ours
		return fail(r, t, overtime(d.Record), "")
	}
}

// patching reports whether a PATCH may still move the plan of what lives on: it may yet
// take effect, or is being carried out.
func patching(r Record, t Tick) bool {
	return r.HasOpenCall(Update, t.ReadAt) || t.Look != nil && slices.ContainsFunc(t.Look.Rows, func(row Row) bool {
		return r.OwnsRow(row.GUID) && row.Last.Verb == Update && busy(row)
	})
}

// drive decides, once it is known whether Cloud Foundry answers.
func drive(r Record, t Tick) Decision {
	switch {
	case t.unheard():
		return unheard(r, t)
	case t.elsewhere(r):
		t.NoAnswerReason = Elsewhere
		return unheard(r, t)
	case t.heard() && cutOff(r.Operation):
		return heardAgain(r, t)
	default:
		return judge(r, t)
	}
}

// judge decides on what the tick has learned, by the kind of the operation.
func judge(r Record, t Tick) Decision {
	switch {
	case r.Operation.Verb == Update:
		return tickUpdate(r, t)
	case r.Operation.Verb == Delete && r.Kind == Binding:
		return tickUnbind(r, t)
	case r.Operation.Verb == Delete:
		return tickDelete(r, t)
	case r.Kind == Binding:
		return tickBind(r, t)
	default:
		return tickCreate(r, t)
	}
}

// leasedByOther saves work when another driver is in the middle of a tick. Nothing
// depends on it.
func (t Tick) leasedByOther(l Lease) bool {
	if l.Holder == "" || l.Holder == t.Driver || !l.Until.After(t.Now) {
		return false
	}
	return t.LivingDrivers == "" || strings.HasPrefix(l.Holder, t.LivingDrivers)
}

// need asks the caller for one thing more.
func need(r Record, e Effect) Decision {
	return Decision{Record: r, Outcome: Ongoing, Effect: e}
}

// wait changes nothing but the time at which the operation counts as overdue, and
// that only when it comes near: a tick that learned nothing costs no write.
func wait(r Record, t Tick) Decision {
	d := Decision{Record: r, Outcome: Ongoing, Effect: Effect{Do: Wait}}
	if r.Operation.Due.Before(t.Now.Add(t.Wait + overdueMargin)) {
		d.Record.Operation.Due = due(r.Operation, t.Now, t.Wait)
		d.Write = true
	}
	return d
}

// due is when a driver that comes back after wait, or twice that, counts as dead. One
// that waits for the deadline counts as dead soon after it.
func due(op Operation, now time.Time, wait time.Duration) time.Time {
	end := op.Deadline
	if next := now.Add(wait); next.After(end) {
		end = next
	}
	if usual := now.Add(2 * wait); usual.Before(end) {
		end = usual
	}
	return end.Add(overdueMargin)
}

// overdueMargin is how late a driver may be before the janitor takes it for dead.
const overdueMargin = 2 * time.Minute

// end writes the result of the operation. It is made directly after the look-up
// that shows it, on the revision read before that.
func end(r Record, t Tick, state State, f Finished) Decision {
	n := r.Clone()
	f.ID, f.Verb, f.EndedAt = r.Operation.ID, r.Operation.Verb, t.Now
	n.State = state
	n.Operation.Lease, n.Operation.Cleanup = Lease{}, Cleanup{}
	n.Operation.TemporaryRefusal, n.Operation.NoAnswer = "", ""
	n.OpenCalls = t.unexpired(n.OpenCalls)
	n.settleIn(t)
	n = n.finish(f, t.Now)
	return Decision{Record: n, Write: true, Outcome: Ended, Result: &f, ForgetParameters: true}
}

// unexpired drops, in place, the calls that can take no effect any more; without
// that a record would grow while Cloud Foundry does not answer.
func (t Tick) unexpired(calls []OpenCall) []OpenCall {
	return slices.DeleteFunc(calls, func(c OpenCall) bool { return !c.Until.After(t.ReadAt) })
}

// judged adds to the result of a failed update what OSB lets a broker say of it.
func (d Decision) judged(as Finished) Decision {
	if d.Result == nil {
		return d
	}
	last := &d.Record.Finished[len(d.Record.Finished)-1]
	last.InstanceUnusable, last.UpdateNotRepeatable = as.InstanceUnusable, as.UpdateNotRepeatable
	d.Result = last
	return d
}

func succeed(r Record, t Tick, guid string) Decision {
	d := end(r, t, Ready, Finished{Succeeded: true})
	d.Record.CFGUID = guid
	d.Record.remember(guid)
	return d
}

func fail(r Record, t Tick, description, code string) Decision {
	if description == "" {
		description = "Cloud Foundry reported a failure and gave no reason."
	}
	failed := map[Verb]State{Create: CreateFailed, Update: UpdateFailed, Delete: DeleteFailed}
	return end(r, t, failed[r.Operation.Verb], Finished{Description: description, Code: code})
}

// gone ends a delete: the id is free again, its counters stay.
func gone(r Record, t Tick) Decision {
	if !t.fresh() {
		return wait(r, t)
	}
	d := end(r, t, Gone, Finished{Succeeded: true})
	d.Record.Life++
	d.Record.GUIDs = nil // each was looked for, and is no more
	d.Record.ExpiresAt = t.Now.Add(t.TombstoneTTL)
	return d
}

// failSettled reports a failure only when no call of the record can still take
// effect: a late one could make a living row behind the report.
func failSettled(r Record, t Tick, description, code string) Decision {
	if r.HasOpenCall("", t.ReadAt) { // safeguard: failed waits for open calls
		return wait(r, t)
	}
	if !t.fresh() {
		return wait(r, t)
	}
	return fail(r, t, description, code)
}

// fresh reports whether the look-up began after the read: a list that serves many
// operations may be older, and its absences then end nothing (protocol.md 3.9).
func (t Tick) fresh() bool { return t.Look == nil || !t.Look.Began.Before(t.ReadAt) }

// call is the intent to POST or PATCH: the open call is stored before it is sent.
func call(r Record, t Tick, verb Verb, do Action) Decision {
	n := r.Clone()
	n.settleIn(t)
	n.LastCall++
	n.OpenCalls = append(t.unexpired(n.OpenCalls), OpenCall{
		Number: n.LastCall, Seq: r.Operation.Seq, Verb: verb, Until: t.Now.Add(t.SettleAfter),
	})
	n.Operation.Calls++
	n.Operation.Lease = Lease{Holder: t.Driver, Until: t.LeaseUntil}
	n.Operation.Due = due(r.Operation, t.Now, t.Wait)
	return Decision{Record: n, Write: true, Outcome: Ongoing, Effect: Effect{Do: do, CallNumber: n.LastCall, GUID: r.CFGUID}}
}

// deletion is the intent to DELETE the row of the look-up just made, by its GUID.
// The write proves that the record has not moved since it was read.
func deletion(r Record, t Tick, guid string) Decision {
	n := r.Clone()
	n.settleIn(t)
	n.remember(guid)
	n.Operation.Job, n.Operation.JobGUID = "", guid
	n.Operation.Lease = Lease{Holder: t.Driver, Until: t.LeaseUntil}
	n.Operation.Due = due(r.Operation, t.Now, t.Wait)
	return Decision{Record: n, Write: true, Outcome: Ongoing, Effect: Effect{Do: SendDelete, GUID: guid}}
}
