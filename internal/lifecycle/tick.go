package lifecycle

import (
	"slices"
	"strings"
	"time"
)

// Tick is one step of one operation, with what has been learned so far. A caller begins with what it read, and gives
// the same tick again with one thing more whenever the decision's effect asks for it.
type Tick struct {
	// Operation is the one that the caller drives.
	Operation string
	// ReadAt was noted with the read of the record, before any look-up began. Open calls are judged by it.
	ReadAt time.Time
	// Now is the time of this decision.
	Now time.Time
	// SettleAfter is how long a call of unknown fate may still take effect.
	SettleAfter time.Duration
	// TombstoneTTL is how long a tombstone lives.
	TombstoneTTL time.Duration
	// Wait is the pause before the next tick, and Pace where it comes from.
	Wait time.Duration
	Pace Pace
	// Swept says that rounds take up every operation that is due (docs/protocol.md 9). It is due all the time then, but
	// for a pause that Cloud Foundry asked for, and a driver that waits writes nothing.
	Swept bool
	// OneOfMany says that the look-ups of many ticks are one list: looking costs less than asking for the own job.
	OneOfMany bool
	// LookupFailed says that Cloud Foundry, or the store, did not tell what the tick asked for: it can only wait.
	LookupFailed bool
	// NoAnswerReason is why, in words for users; also for a job of unclear state. It may be empty.
	NoAnswerReason string
	// Driver holds the lease, and LeaseUntil is when its work of this tick has ended.
	Driver     string
	LeaseUntil time.Time
	// LivingDrivers is the prefix of all drivers that can be alive; empty when any can. The lease of another one is
	// that of a dead process.
	LivingDrivers string

	// What the effects of earlier decisions have brought; nil for what was not asked for.
	Instance *InstanceView
	Look     *Look
	Job      *JobStatus
	// Place is where the next call would go, when no look-up has told.
	Place *Place
	// Bindings means something only when BindingsKnown.
	Bindings      []BindingView
	BindingsKnown bool

	deadlinePassed bool
}

// place is where this tick looks and calls; zero when it did not have to know.
func (t Tick) place() Place {
	switch {
	case t.Look != nil:
		return t.Look.Place
	case t.Place != nil:
		return *t.Place
	default:
		return Place{}
	}
}

// inOtherPlace reports whether this tick looked, or would call, elsewhere than where the rows of the record are. That
// nothing is there means nothing then.
func (t Tick) inOtherPlace(r Record) bool {
	at := t.place()
	return at != (Place{}) && r.Place != (Place{}) && at != r.Place
}

// gotAnswer reports whether Cloud Foundry has answered something in this tick.
func (t Tick) gotAnswer() bool { return t.Look != nil || t.Job != nil && t.Job.State != JobUnclear }

// gotNoAnswer reports whether what the tick asked first was not answered.
func (t Tick) gotNoAnswer() bool {
	return t.LookupFailed || t.Look == nil && t.Job != nil && t.Job.State == JobUnclear
}

// lookIsRecent reports whether the look-up began after the record was read. A list that serves many operations may be
// older, and that something is not in it then ends nothing (docs/protocol.md 3.9).
func (t Tick) lookIsRecent() bool { return t.Look == nil || !t.Look.Began.Before(t.ReadAt) }

// decideTick decides what the driver of an operation does next.
func decideTick(r Record, t Tick) Decision {
	if !r.Running(t.Operation) {
		return Decision{Record: r, Outcome: Stopped}
	}
	t.deadlinePassed = !t.Now.Before(r.Operation.Deadline)
	if !t.deadlinePassed && t.leasedByOther(r.Operation.Lease) {
		return need(r, Effect{Do: Wait}) // without a write, which would keep the holder from noting its answer
	}
	d := decideByAnswers(r, t)
	if t.deadlinePassed {
		return lastLook(r, t, d)
	}
	return d
}

// leasedByOther reports whether another driver is in the middle of a tick. It saves work, and nothing depends on it.
func (t Tick) leasedByOther(l Lease) bool {
	if l.Holder == "" || l.Holder == t.Driver || !l.Until.After(t.Now) {
		return false
	}
	return t.LivingDrivers == "" || strings.HasPrefix(l.Holder, t.LivingDrivers)
}

// decideByAnswers decides once it is known whether Cloud Foundry answers, and from the right place.
func decideByAnswers(r Record, t Tick) Decision {
	switch {
	case t.gotNoAnswer():
		return waitForAnswer(r, t)
	case t.inOtherPlace(r):
		t.NoAnswerReason = Elsewhere
		return waitForAnswer(r, t)
	case t.gotAnswer() && gotNoAnswerBefore(r.Operation):
		return resumeAfterOutage(r, t)
	default:
		return decideByVerb(r, t)
	}
}

func decideByVerb(r Record, t Tick) Decision {
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

// lastLook is what a tick past the deadline makes of its decision. What it has seen may end the operation, but nothing
// more is sent, and nothing more is waited for: except for an update that may still move the plan, for as long as a
// call may take to settle, since what lives on is then described by what it is (docs/protocol.md 9).
func lastLook(r Record, t Tick, d Decision) Decision {
	switch {
	case d.Effect.Do.Asks(), d.Result != nil:
		return d
	case r.Operation.Verb != Create && planMayMove(r, t) && t.Now.Before(r.Operation.Deadline.Add(t.SettleAfter)):
		return wait(r, t)
	default:
		r.GUIDs = d.Record.GUIDs // what was seen, or named by a job, stays ours
		return fail(r, t, Finished{Description: reasonOfDeadline(d.Record)})
	}
}

// planMayMove reports whether an update may still move the plan of what lives on: it may yet take effect, or is being
// carried out.
func planMayMove(r Record, t Tick) bool {
	return r.HasOpenCall(Update, t.ReadAt) || t.Look != nil && slices.ContainsFunc(t.Look.Rows, func(row Row) bool {
		return r.OwnsRow(row.GUID) && row.Last.Verb == Update && row.busy()
	})
}

// need asks the caller for one thing more.
func need(r Record, e Effect) Decision {
	return Decision{Record: r, Outcome: Ongoing, Effect: e}
}

// wait changes nothing but the time at which the operation counts as overdue, and that only when it comes near: a tick
// that learned nothing costs no write.
func wait(r Record, t Tick) Decision {
	d := need(r, Effect{Do: Wait})
	if !t.Swept && r.Operation.Due.Before(t.Now.Add(t.Wait+overdueMargin)) {
		d.Record.Operation.Due = due(r.Operation, t.Now, t.Wait)
		d.Write = true
	}
	return d
}

// due is when a driver that comes back after wait counts as dead: after twice that. One that waits for the deadline
// counts as dead soon after it.
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

// end writes the result of the operation. It is made directly after the look-up that shows it, on the revision that was
// read before that.
func end(r Record, t Tick, state State, f Finished) Decision {
	n := r.Clone()
	f.ID, f.Verb, f.EndedAt = r.Operation.ID, r.Operation.Verb, t.Now
	n.State = state
	n.Operation.Lease, n.Operation.Cleanup = Lease{}, Cleanup{}
	n.Operation.TemporaryRefusal, n.Operation.NoAnswer = "", ""
	n.OpenCalls = t.unexpired(n.OpenCalls)
	n.notePlace(t)
	n = n.withResult(f, t.Now)
	return Decision{Record: n, Write: true, Outcome: Ended, Result: &f, ForgetParameters: true}
}

// unexpired drops, in place, the calls that can take no effect any more. Without that a record would grow while Cloud
// Foundry does not answer.
func (t Tick) unexpired(calls []OpenCall) []OpenCall {
	return slices.DeleteFunc(calls, func(c OpenCall) bool { return !c.Until.After(t.ReadAt) })
}

// notePlace notes, in place, where the rows of the record are, once that is known.
func (r *Record) notePlace(t Tick) {
	if r.Place == (Place{}) {
		r.Place = t.place()
	}
}

func succeed(r Record, t Tick, guid string) Decision {
	d := end(r, t, Ready, Finished{Succeeded: true})
	d.Record.CFGUID = guid
	d.Record.rememberGUID(guid)
	return d
}

var failedStates = map[Verb]State{Create: CreateFailed, Update: UpdateFailed, Delete: DeleteFailed}

func fail(r Record, t Tick, why Finished) Decision {
	why.Description = firstOf(why.Description, noReason)
	return end(r, t, failedStates[r.Operation.Verb], why)
}

// failWhenSettled reports a failure once no call of the record can take effect any more: a late one could make a living
// row behind the report.
func failWhenSettled(r Record, t Tick, why Finished) Decision {
	if r.HasOpenCall("", t.ReadAt) { // safeguard: failed waits for open calls
		return wait(r, t)
	}
	if !t.lookIsRecent() {
		return wait(r, t)
	}
	return fail(r, t, why)
}

// gone ends a delete: the id is free again, and its counters stay.
func gone(r Record, t Tick) Decision {
	if !t.lookIsRecent() {
		return wait(r, t)
	}
	d := end(r, t, Gone, Finished{Succeeded: true})
	d.Record.Life++
	d.Record.GUIDs = nil // each was looked for, and is no more
	d.Record.ExpiresAt = t.Now.Add(t.TombstoneTTL)
	return d
}
