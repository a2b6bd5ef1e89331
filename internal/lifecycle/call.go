package lifecycle

import (
	"slices"
	"time"
)

// Replied is the answer to a call that a tick sent.
type Replied struct {
	Operation string
	// Do, Call and GUID are those of the effect that was carried out.
	Do         Action
	CallNumber int
	GUID       string
	// SameRevision is true while the record is still at the revision of the intent.
	SameRevision bool
	Answer       Answer
	// Driver gave the lease and takes it back.
	Driver string
	Now    time.Time
	// Wait is how long the driver stays away now, and Pace where that comes from.
	Wait time.Duration
	Pace Pace
}

// replied notes what a call's answer settled. When the record has moved since the
// intent, an actor may still remove its own open call, and nothing else.
func replied(r Record, e Replied) Decision {
	d := Decision{Record: r.Clone(), Outcome: Ongoing, Effect: Effect{Do: Wait}}
	definite := e.Answer.Reply != ReplyUnknown
	if definite && e.CallNumber != 0 {
		d.Write = d.Record.dropCall(e.CallNumber)
	}
	if !e.SameRevision || !r.Running(e.Operation) {
		d.Outcome = Stopped
		return d
	}
	op := &d.Record.Operation
	if definite {
		d.Write = true
		op.Lease, op.NoAnswer = Lease{}, ""
		if e.CallNumber != 0 {
			op.Answered++
		}
		d.ForgetParameters = e.CallNumber != 0 && (e.Answer.Reply == ReplyAccepted || e.Answer.Reply == ReplyDone)
		if took(e.Answer) && op.TemporaryRefusal != "" && op.FailedDeletes == 0 && resume(op, e.Pace, e.Now, e.Wait) {
			d.Wait = e.Pace.Wait(0)
			e.Wait = d.Wait
		}
		if e.Do == SendCreate {
			d.Record.remember(e.Answer.GUID)
		}
		note(op, e)
		if e.Answer.Reply == ReplyBusy && e.Answer.StalePlan {
			op.MarketplaceReread = true
		}
	}
	// Who is asked to stay away for long is not dead meanwhile.
	if late := e.Now.Add(e.Wait + overdueMargin); op.Due.Before(late) {
		op.Due, d.Write = late, true
	}
	return d
}

// took reports whether Cloud Foundry does, or did, what it was asked for.
func took(a Answer) bool { return a.Reply == ReplyAccepted || a.Reply == ReplyDone }

// note keeps what the operation needs of a definite answer.
func note(op *Operation, e Replied) {
	noteTrouble(op, e)
	switch e.Do {
	case SendDeleteLeftover:
		op.Cleanup.Job = e.Answer.Job
		return
	case SendDelete:
		op.Job = e.Answer.Job
		return
	default:
	}
	switch e.Answer.Reply {
	case ReplyTaken:
		op.NameTaken++
	case ReplyAccepted:
		op.Job = e.Answer.Job
		op.JobGUID = e.GUID
	case ReplyDone:
		op.CreatedWithoutJob = e.Do == SendCreate
	case ReplyRefused:
		op.FinalRefusal = firstOf(e.Answer.Description, refusedIt)
		op.Code = e.Answer.Code
	case ReplyAbsent:
		if e.Do == SendUpdate {
			op.InstanceMissing = true
			op.FinalRefusal = "The service instance does not exist in Cloud Foundry, or its create failed there. Delete it and create it again."
		}
	default: // busy: the next look-up tells
	}
}

// noteTrouble keeps why the call is to be sent again. For a DELETE no refusal is for
// good, and one of the backing broker counts.
func noteTrouble(op *Operation, e Replied) {
	removes := e.Do == SendDelete || e.Do == SendDeleteLeftover
	text := firstOf(e.Answer.Description, notNow)
	switch {
	case took(e.Answer) && (!removes || op.FailedDeletes == 0):
		op.TemporaryRefusal = ""
	case removes && e.Answer.FromBackingBroker:
		op.turnedDown(text, true, e.Now, e.Pace)
	case e.Answer.Reply == ReplyBusy, removes && e.Answer.Reply == ReplyRefused:
		op.TemporaryRefusal = text
	case e.Answer.Reply == ReplyRefused:
		op.TemporaryRefusal = "" // op.Refused says why
	default: // the next look-up tells
	}
}

func (r *Record) dropCall(n int) bool {
	before := len(r.OpenCalls)
	r.OpenCalls = slices.DeleteFunc(r.OpenCalls, func(c OpenCall) bool { return c.Number == n })
	return len(r.OpenCalls) != before
}
