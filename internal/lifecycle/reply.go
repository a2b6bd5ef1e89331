package lifecycle

import (
	"slices"
	"time"
)

// Replied is the answer to a call that a tick sent.
type Replied struct {
	Operation string
	// Do, Call and GUID are those of the effect that was carried out.
	Do   Do
	Call int
	GUID string
	// Own is true while the record is still at the revision of the intent.
	Own    bool
	Answer Answer
	// Driver gave the lease and takes it back.
	Driver string
	Now    time.Time
	// Wait is how long the driver stays away now.
	Wait time.Duration
}

// replied notes what a call's answer settled. When the record has moved since the
// intent, an actor may still remove its own open call, and nothing else.
func replied(r Record, e Replied) Decision {
	d := Decision{Record: r.Clone(), Outcome: Ongoing, Effect: Effect{Do: Wait}}
	definite := e.Answer.Reply != ReplyUnknown
	if definite && e.Call != 0 {
		d.Write = d.Record.dropCall(e.Call)
	}
	if !e.Own || !r.Running(e.Operation) {
		d.Outcome = Stopped
		return d
	}
	// Who is asked to stay away for long is not dead meanwhile.
	if late := e.Now.Add(e.Wait + overdueMargin); r.Operation.Due.Before(late) {
		d.Record.Operation.Due, d.Write = late, true
	}
	if !definite {
		return d
	}
	d.Write = true
	d.Record.Operation.Lease = Lease{}
	if e.Call != 0 {
		d.Record.Operation.Answered++
	}
	d.Settled = e.Call != 0 && (e.Answer.Reply == ReplyAccepted || e.Answer.Reply == ReplyDone)
	if e.Do == Post {
		d.Record.remember(e.Answer.GUID)
	}
	note(&d.Record.Operation, e)
	return d
}

// note keeps what the operation needs of a definite answer.
func note(op *Operation, e Replied) {
	switch e.Do {
	case RemoveLeftover:
		op.Cleanup.Job = e.Answer.Job
		return
	case Remove:
		op.Job = e.Answer.Job
		return
	default:
	}
	switch e.Answer.Reply {
	case ReplyTaken:
		op.Taken++
	case ReplyAccepted:
		op.Job = e.Answer.Job
		op.JobGUID = e.GUID
	case ReplyDone:
		op.Made = e.Do == Post
	case ReplyRefused:
		op.Refused = firstOf(e.Answer.Description, "Cloud Foundry refused the request and gave no reason.")
		op.Code = e.Answer.Code
	case ReplyAbsent:
		if e.Do == Patch {
			op.Unusable = true
			op.Refused = "The service instance does not exist in Cloud Foundry, or its create failed there. Delete it and create it again."
		}
	default: // busy: the next look-up tells
	}
}

func (r *Record) dropCall(n int) bool {
	before := len(r.OpenCalls)
	r.OpenCalls = slices.DeleteFunc(r.OpenCalls, func(c OpenCall) bool { return c.N == n })
	return len(r.OpenCalls) != before
}
