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

// claim makes the record of a new operation. Open calls stay: they may still take
// effect whatever the record says.
func claim(r Record, effective State, q Request) Record {
	n := r.Clone().withoutWords()
	if r.State.Busy() {
		result := supersededBy(r, q.Verb)
		if effective == Gone {
			result = orphanResult(r) // what polls have said of it since its instance went
		}
		n = n.finish(result, q.Now)
	}
	n.Seq = r.Seq + 1
	if r.State == Absent {
		n.Seq = q.Now.Unix()
	}
	n.ExpiresAt = time.Time{}
	n.Operation = Operation{
		ID: q.NewOperation.ID, Seq: n.Seq, Started: q.Now, Deadline: q.NewOperation.Deadline, Due: q.NewOperation.Due,
		Held: r.Kind == Binding && !q.AcceptsIncomplete,
	}
	switch q.Verb {
	case Create:
		n.State, n.Operation.Verb = Creating, Create
		n.Operation.IDWasFree = !r.State.Living()
		n.inherit(r, effective)
		n.CreateOp, n.CFGUID = Reference{ID: q.NewOperation.ID, Seq: n.Seq}, ""
		n.InstanceCreateOp, n.InstanceGUID = q.Instance.CreateOp, q.Instance.CFGUID
		if effective == Gone && r.State.Living() {
			n.Life++ // an orphaned binding ends here, unseen
		}
	case Update:
		n.State, n.Operation.Verb = Updating, Update
	case Delete:
		n.State, n.Operation.Verb = Deleting, Delete
	}
	return n
}

// inherit keeps what a new incarnation has to know of the rows of the last one: after a
// failed create some may be left; of what is gone, or went with its instance, none are.
func (r *Record) inherit(last Record, effective State) {
	if effective.Living() {
		r.remember(last.CFGUID)
		return
	}
	r.GUIDs, r.Place = nil, Place{}
}

// bury notes a 410: life moves, so that a PUT that read "absent" before cannot
// claim after the platform was told "gone" (protocol.md 2.4).
func bury(r Record, q Request) Record {
	n := r.Clone().withoutWords()
	switch {
	case r.State == Absent:
		n.State, n.Seq = Ghost, q.Now.Unix()
	case r.State.Busy():
		n = n.finish(orphanResult(r), q.Now)
		n.State = Gone
	case r.State.Living():
		n.State = Gone
	}
	n.Life++
	n.ExpiresAt = q.Now.Add(q.TombstoneTTL)
	return n
}

// supersededBy is the result of the operation that a claim ends.
func supersededBy(r Record, by Verb) Finished {
	why := "It was cancelled by a later request to delete the service " + string(r.Kind) + "."
	if by != Delete {
		why = "It was superseded by a later request."
	}
	return Finished{ID: r.Operation.ID, Verb: r.Operation.Verb, Description: why, OwnWords: true}
}

// orphanResult is the result of a binding's operation whose instance is gone: an
// unbind has reached its end, a bind cannot any more.
func orphanResult(r Record) Finished {
	f := Finished{ID: r.Operation.ID, Verb: r.Operation.Verb, Succeeded: r.Operation.Verb == Delete}
	if !f.Succeeded {
		f.Description, f.OwnWords = instanceGone, true
	}
	return f
}

// forgotten stands for a reason that is not kept any more.
const forgotten = "It failed. The reason is not kept any more, since another operation has begun after it."

// withoutWords drops what others said of operations that are over: a backing broker may
// quote parameters. The description of the latest one is needed until the next begins. It
// changes r in place, which is the caller's own copy.
func (r Record) withoutWords() Record {
	for i, f := range r.Finished {
		if f.Description != "" && !f.OwnWords {
			r.Finished[i].Description, r.Finished[i].OwnWords = forgotten, true
		}
	}
	r.Operation.FinalRefusal, r.Operation.TemporaryRefusal, r.Operation.NoAnswer = "", "", ""
	return r
}

// finish appends a result, forgetting the oldest beyond the limit.
func (r Record) finish(f Finished, now time.Time) Record {
	f.EndedAt = now
	r.Finished = append(r.Finished, f)
	if over := len(r.Finished) - FinishedLimit; over > 0 {
		r.Finished = r.Finished[over:]
	}
	return r
}

// Progress is what a record says of an operation.
type Progress struct {
	// Known is false when the record knows of nothing to report.
	Known bool
	// Running, or else the result.
	Running bool
	Result  Finished
}

// Poll answers for the operation with this id, or for the latest one when the id
// is empty or unknown (osb-choices B3, B9). instance is needed for bindings.
func Poll(r Record, id string, instance InstanceView) Progress {
	effective := EffectiveState(r, instance)
	if r.Running(id) && effective == r.State {
		return Progress{Known: true, Running: true}
	}
	if f, ok := r.Result(id); ok {
		return Progress{Known: true, Result: f}
	}
	return latest(r, effective, id)
}

func latest(r Record, effective State, id string) Progress {
	switch {
	case effective == Absent, effective == Ghost:
		return Progress{}
	case effective == Gone && r.State.Busy():
		return Progress{Known: true, Result: orphanResult(r)}
	case effective == Gone:
		return Progress{Known: true, Result: Finished{Verb: Delete, Succeeded: true}}
	case effective.Busy():
		return Progress{Known: true, Running: true}
	case len(r.Finished) > 0:
		return Progress{Known: true, Result: r.Finished[len(r.Finished)-1]}
	default:
		return Progress{Known: true, Result: Finished{Verb: Create, Succeeded: true}}
	}
}
