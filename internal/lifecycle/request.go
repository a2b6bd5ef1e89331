package lifecycle

import (
	"fmt"
	"time"
)

// Request is a PUT, PATCH or DELETE of an instance, or a PUT or DELETE of a binding.
type Request struct {
	Verb Verb
	// SameAttributes: a PUT has the attributes now in force; a PATCH leads to the same target
	// as the update that runs.
	SameAttributes bool
	// NoEffect: a PATCH would change nothing. Empty: it names nothing to change.
	NoEffect     bool
	NamesNothing bool
	// AcceptsIncomplete is accepts_incomplete.
	AcceptsIncomplete bool
	// Instance is the instance's record as just read; for bindings only.
	Instance InstanceView
	// Now is the time of this decision, and TombstoneTTL how long a tombstone or ghost lives.
	Now          time.Time
	TombstoneTTL time.Duration
	NewOperation NewOperation
	// FirstRead is the first read of a request whose write was lost; nil before that.
	FirstRead *FirstRead
	// MayNotClaim: what the request read first is not known, so it may claim nothing any more
	// (protocol.md 2.1).
	MayNotClaim bool
}

// NewOperation is what the operation has that the request begins, if it begins one.
type NewOperation struct {
	ID       string
	Deadline time.Time
	// Due is when the operation counts as overdue, if its workflow has not shown itself.
	Due time.Time
}

// FirstRead remembers what a request read before it tried to write.
type FirstRead struct{ Life, Seq int64 }

// request decides by the lifecycle table (docs/lifecycle.md).
func request(r Record, q Request) (Decision, error) {
	if r.Kind == Binding && q.Verb == Update {
		return Decision{}, fmt.Errorf("lifecycle: update of a binding: %w", ErrEvent)
	}
	if q.FirstRead != nil && q.Verb == Delete && r.Life != q.FirstRead.Life {
		return Decision{Record: r, Outcome: AlreadyGone}, nil // what it was about is over
	}
	state := EffectiveState(r, q.Instance)
	d := Decision{Record: r, Outcome: outcome(state, q)}
	d.NeedsClaim = d.Outcome == Accepted
	if d.NeedsClaim && r.Kind == Binding && q.Verb == Create {
		d.Outcome = admit(q)
	}
	// Safeguard: no claim after a lost write with another life or seq.
	if (d.Outcome == Accepted || d.Outcome == Hold) && q.overtaken(r) {
		d.Outcome = Superseded
	}
	if r.Kind == Instance && !q.AcceptsIncomplete && needsAsync(d.Outcome, q) {
		d.Outcome = AsyncRequired
	}
	switch d.Outcome {
	case Accepted:
		d.Record, d.Write = claim(r, state, q), true
	case AlreadyGone:
		d.Record, d.Write = bury(r, q), true
	default:
		return d, nil
	}
	if r.State.Busy() {
		d.Result = &d.Record.Finished[len(d.Record.Finished)-1]
	}
	return d, nil
}

// overtaken reports whether somebody else's operation or deletion came between the
// request's first read and now. A DELETE may still claim then: its life is the same.
func (q Request) overtaken(r Record) bool {
	if q.Verb == Delete {
		return false
	}
	return q.MayNotClaim || q.FirstRead != nil && (r.Life != q.FirstRead.Life || r.Seq != q.FirstRead.Seq)
}

// needsAsync says where a platform that does not speak async is turned away.
func needsAsync(o Outcome, q Request) bool {
	switch o {
	case Accepted, Running, AlreadyGone:
		return true
	case Exists:
		return q.Verb == Update
	default:
		return false
	}
}

// EffectiveState is the state that counts: a binding of another incarnation of its
// instance, or of one that is gone, counts as gone for every request.
func EffectiveState(r Record, instance InstanceView) State {
	if r.Kind == Binding && r.State.Living() && Orphaned(r, instance) {
		return Gone
	}
	return r.State
}

// Orphaned reports whether the instance that the binding was made for is no more.
func Orphaned(binding Record, instance InstanceView) bool {
	return !instance.State.Living() || instance.CreateOp != binding.InstanceCreateOp
}

func outcome(s State, q Request) Outcome {
	switch q.Verb {
	case Create:
		return put(s, q)
	case Update:
		return patch(s, q)
	default:
		return remove(s)
	}
}

func put(s State, q Request) Outcome {
	switch s {
	case Absent, Ghost, Gone:
		return Accepted
	case Updating, Deleting:
		return Busy
	case DeleteFailed:
		return Conflict
	default:
	}
	if !q.SameAttributes {
		return Conflict
	}
	switch s {
	case Creating:
		return Running
	case CreateFailed:
		return Accepted
	default:
		return Exists
	}
}

func patch(s State, q Request) Outcome {
	switch s {
	case Absent, Ghost, Gone:
		return Missing
	case Creating, Deleting:
		return Busy
	case CreateFailed, DeleteFailed:
		return NotUpdatable
	case Updating:
		if q.SameAttributes {
			return Running
		}
		return Busy
	case UpdateFailed:
		// What Cloud Foundry now has is uncertain, so anything named is sent again.
		if q.NamesNothing {
			return Exists
		}
		return Accepted
	default:
		if q.NoEffect {
			return Exists
		}
		return Accepted
	}
}

func remove(s State) Outcome {
	switch s {
	case Absent, Ghost, Gone:
		return AlreadyGone
	case Deleting:
		return Running
	default:
		return Accepted
	}
}

// admit decides whether a new bind may be claimed, by the state of its instance.
func admit(q Request) Outcome {
	switch q.Instance.State {
	case Ready, UpdateFailed, DeleteFailed:
		if q.Instance.CFGUID == "" {
			return Missing // it never came to life, and could not be deleted
		}
		return Accepted
	case Creating, Updating:
		if q.AcceptsIncomplete {
			return Accepted
		}
		return Hold
	case Deleting:
		return Busy
	default:
		return Missing
	}
}
