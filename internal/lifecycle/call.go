package lifecycle

import (
	"slices"
	"time"
)

// intent is the record of the write that comes before a call. That it is made proves that the record has not moved
// since it was read.
func intent(r Record, t Tick) Record {
	n := r.Clone()
	n.notePlace(t)
	n.Operation.Lease = Lease{Holder: t.Driver, Until: t.LeaseUntil}
	if !t.Swept {
		n.Operation.Due = due(r.Operation, t.Now, t.Wait)
	}
	return n
}

// sendCreate sends the create of an instance or binding.
func sendCreate(r Record, t Tick) Decision { return sendOpenCall(r, t, Create, SendCreate) }

// sendUpdate sends the update of the instance in use.
func sendUpdate(r Record, t Tick) Decision { return sendOpenCall(r, t, Update, SendUpdate) }

// sendOpenCall sends a create or update, whose open call is stored before.
func sendOpenCall(r Record, t Tick, verb Verb, do Action) Decision {
	n := intent(r, t)
	n.LastCall++
	n.OpenCalls = append(t.unexpired(n.OpenCalls), OpenCall{
		Number: n.LastCall, Seq: r.Operation.Seq, Verb: verb, Until: t.Now.Add(t.SettleAfter),
	})
	n.Operation.Calls++
	return Decision{Record: n, Write: true, Outcome: Ongoing, Effect: Effect{Do: do, CallNumber: n.LastCall, GUID: r.CFGUID}}
}

// sendDelete deletes a row of the look-up just made, by its GUID.
func sendDelete(r Record, t Tick, guid string) Decision {
	n := intent(r, t)
	n.rememberGUID(guid)
	n.Operation.Job, n.Operation.JobGUID = "", guid
	return Decision{Record: n, Write: true, Outcome: Ongoing, Effect: Effect{Do: SendDelete, GUID: guid}}
}

// sendDeleteLeftover deletes a row that is in the way of a create or bind, by its GUID.
func sendDeleteLeftover(r Record, t Tick, guid string) Decision {
	n := intent(r, t)
	n.rememberGUID(guid)
	n.Operation.Cleanup = Cleanup{GUID: guid}
	return Decision{Record: n, Write: true, Outcome: Ongoing, Effect: Effect{Do: SendDeleteLeftover, GUID: guid}}
}

// Reply is how a call that was sent ended.
type Reply string

// The kinds of replies. All but ReplyUnknown are definite (docs/protocol.md 3.5).
const (
	// ReplyAccepted: a job carries the call out.
	ReplyAccepted Reply = "accepted"
	// ReplyDone: the call has taken effect.
	ReplyDone Reply = "done"
	// ReplyRefused: refused for good; another try cannot help.
	ReplyRefused Reply = "refused"
	// ReplyTaken: the name exists already; a look-up tells whose it is.
	ReplyTaken Reply = "taken"
	// ReplyBusy: refused for now (an operation in progress, a limit); try again later.
	ReplyBusy Reply = "busy"
	// ReplyAbsent: Cloud Foundry's own word that the resource does not exist.
	ReplyAbsent Reply = "absent"
	// ReplyUnknown: the call may or may not have taken effect.
	ReplyUnknown Reply = "unknown"
)

// Answer is the reply to a call, with what it brought.
type Answer struct {
	Reply Reply
	// Job is the job of an accepted call, and GUID the row that it makes, where the answer names one.
	Job  string
	GUID string
	// Description and Code explain a refusal to the user, also one that is only for now (ReplyBusy). Description is fit
	// for users: it has no hosts, URLs or secrets.
	Description string
	Code        string
	// FromBackingBroker is true when the refusal is the backing broker's own answer.
	FromBackingBroker bool
	// StalePlan: refused because the plan's GUID means nothing any more. Another try may help once the marketplace has
	// been read again; with ReplyBusy it has been, and has the plan.
	StalePlan bool
	// RetryAfter is how long Cloud Foundry asked us to stay away; 0 when it did not say.
	RetryAfter time.Duration
}

func (a Answer) definite() bool { return a.Reply != ReplyUnknown }

// carriedOut reports whether Cloud Foundry does, or did, what it was asked for.
func (a Answer) carriedOut() bool { return a.Reply == ReplyAccepted || a.Reply == ReplyDone }

// Replied is the event that a call which a tick sent was answered, or was not.
type Replied struct {
	Operation string
	// Do, CallNumber and GUID are those of the effect that was carried out.
	Do         Action
	CallNumber int
	GUID       string
	// SameRevision is true while the record is still at the revision of the intent.
	SameRevision bool
	Answer       Answer
	// Driver held the lease and gives it back.
	Driver string
	Now    time.Time
	// Wait is how long the driver stays away now, and Pace where that comes from. Swept is as in Tick.
	Wait  time.Duration
	Pace  Pace
	Swept bool
}

func (e Replied) deletes() bool { return e.Do == SendDelete || e.Do == SendDeleteLeftover }

// decideReply notes what the answer to a call has settled. When the record has moved since the intent, an actor may
// still remove its own open call, and nothing else.
func decideReply(r Record, e Replied) Decision {
	d := Decision{Record: r.Clone(), Outcome: Ongoing, Effect: Effect{Do: Wait}}
	if e.Answer.definite() {
		d.Write = d.Record.closeCall(e.CallNumber)
	}
	if !e.SameRevision || !r.Running(e.Operation) {
		d.Outcome = Stopped
		return d
	}
	op := &d.Record.Operation
	if e.Answer.definite() {
		d.Write = true
		d.ForgetParameters = e.CallNumber != 0 && e.Answer.carriedOut()
		if e.Answer.carriedOut() && op.TemporaryRefusal != "" && op.FailedDeletes == 0 && resetPace(op, e.Pace, e.Now, e.Wait) {
			d.Wait = e.Pace.Wait(0)
			e.Wait = d.Wait
		}
		d.Record.noteAnswer(e)
	}
	if late, put := e.nextDue(*op); put {
		op.Due, d.Write = late, true
	}
	return d
}

// nextDue returns when an operation is due whose driver stays away now, and whether that is news. Who is asked to stay
// away for long is not dead meanwhile.
func (e Replied) nextDue(op Operation) (at time.Time, news bool) {
	if !e.Swept {
		at = e.Now.Add(e.Wait + overdueMargin)
		return at, op.Due.Before(at)
	}
	at = e.Now.Add(e.Wait)
	return at, e.Answer.RetryAfter > 0 && op.Due.Before(at)
}

// closeCall removes an open call, in place, and reports whether it was there.
func (r *Record) closeCall(number int) bool {
	before := len(r.OpenCalls)
	r.OpenCalls = slices.DeleteFunc(r.OpenCalls, func(c OpenCall) bool { return c.Number == number })
	return len(r.OpenCalls) != before
}

// noteAnswer keeps, in place, what the operation needs of a definite answer.
func (r *Record) noteAnswer(e Replied) {
	op := &r.Operation
	op.Lease, op.NoAnswer = Lease{}, ""
	if e.CallNumber != 0 {
		op.Answered++
	}
	op.noteTemporaryRefusal(e)
	switch e.Do {
	case SendDelete:
		op.Job = e.Answer.Job
	case SendDeleteLeftover:
		op.Cleanup.Job = e.Answer.Job
	case SendCreate:
		r.rememberGUID(e.Answer.GUID)
		op.noteOpenCallAnswer(e)
	default:
		op.noteOpenCallAnswer(e)
	}
	if e.Answer.Reply == ReplyBusy && e.Answer.StalePlan {
		op.MarketplaceReread = true
	}
}

func (op *Operation) noteOpenCallAnswer(e Replied) {
	switch e.Answer.Reply {
	case ReplyTaken:
		op.NameTaken++
	case ReplyAccepted:
		op.Job, op.JobGUID = e.Answer.Job, e.GUID
	case ReplyDone:
		op.CreatedWithoutJob = e.Do == SendCreate
	case ReplyRefused:
		op.FinalRefusal, op.Code = firstOf(e.Answer.Description, refusedNoReason), e.Answer.Code
	case ReplyAbsent:
		if e.Do == SendUpdate {
			op.InstanceMissing, op.FinalRefusal = true, instanceMissing
		}
	default: // busy: the next look-up tells
	}
}

// noteTemporaryRefusal keeps why the call is to be sent again. No refusal of a delete is for good, and one of the
// backing broker counts.
func (op *Operation) noteTemporaryRefusal(e Replied) {
	text := firstOf(e.Answer.Description, notNow)
	switch {
	case e.Answer.carriedOut() && (!e.deletes() || op.FailedDeletes == 0):
		op.TemporaryRefusal = ""
	case e.deletes() && e.Answer.FromBackingBroker:
		op.countFailedDelete(text, true, e.Now, e.Pace)
	case e.Answer.Reply == ReplyBusy, e.deletes() && e.Answer.Reply == ReplyRefused:
		op.TemporaryRefusal = text
	case e.Answer.Reply == ReplyRefused:
		op.TemporaryRefusal = "" // FinalRefusal says why
	default: // the next look-up tells
	}
}
