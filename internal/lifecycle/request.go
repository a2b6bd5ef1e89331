package lifecycle

import (
	"fmt"
	"time"
)

// Request is a platform's request to create, update or delete an instance, or to create or delete a binding.
type Request struct {
	// Verb is the kind of operation that the request asks for.
	Verb Verb
	// SameAttributes: a create has the attributes now in force; an update leads to the same as the one that runs.
	SameAttributes bool
	// NoEffect: an update would change nothing. NamesNothing: it names nothing that it could change.
	NoEffect     bool
	NamesNothing bool
	// AcceptsIncomplete is OSB's accepts_incomplete.
	AcceptsIncomplete bool
	// Instance is the instance's record as just read; for bindings only.
	Instance InstanceView
	// Now is the time of this decision, and TombstoneTTL how long a tombstone or ghost lives.
	Now          time.Time
	TombstoneTTL time.Duration
	NewOperation NewOperation
	// FirstRead is what the request read first, once its claim was lost; nil before that.
	FirstRead *FirstRead
	// MayNotClaim: what the request read first is not known, so that it may claim nothing any more (docs/protocol.md
	// 2.3).
	MayNotClaim bool
}

// NewOperation is what the operation gets that the request begins, if it begins one.
type NewOperation struct {
	ID       string
	Deadline time.Time
	// Due is when the operation counts as overdue, if its workflow has not shown itself.
	Due time.Time
}

// FirstRead holds the counters of the record that a request read before it tried to write.
type FirstRead struct{ Life, Seq int64 }

// decideRequest decides by the table of docs/lifecycle.md.
func decideRequest(r Record, q Request) (Decision, error) {
	if r.Kind == Binding && q.Verb == Update {
		return Decision{}, fmt.Errorf("lifecycle: update of a binding: %w", ErrEvent)
	}
	if q.FirstRead != nil && q.Verb == Delete && r.Life != q.FirstRead.Life {
		return Decision{Record: r, Outcome: AlreadyGone}, nil // what it was about is over
	}
	state := EffectiveState(r, q.Instance)
	d := Decision{Record: r, Outcome: outcomeIn(state, q)}
	d.NeedsClaim = d.Outcome == Accepted
	if d.NeedsClaim && r.Kind == Binding && q.Verb == Create {
		d.Outcome = outcomeOfBind(q)
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
		d.Record, d.Write = tombstone(r, q), true
	default:
		return d, nil
	}
	if r.State.Busy() {
		d.Result = &d.Record.Finished[len(d.Record.Finished)-1]
	}
	return d, nil
}

// EffectiveState is the state that counts: a binding counts as gone for every request when its instance is gone, or is
// there in another incarnation.
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

// overtaken reports whether somebody else's operation or deletion came between the request's first read and this one. A
// delete may still claim after that: its life is the same.
func (q Request) overtaken(r Record) bool {
	if q.Verb == Delete {
		return false
	}
	return q.MayNotClaim || q.FirstRead != nil && (r.Life != q.FirstRead.Life || r.Seq != q.FirstRead.Seq)
}

// needsAsync reports where a platform that does not accept incomplete operations is turned away.
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

func outcomeIn(s State, q Request) Outcome {
	switch q.Verb {
	case Create:
		return outcomeOfCreate(s, q)
	case Update:
		return outcomeOfUpdate(s, q)
	default:
		return outcomeOfDelete(s)
	}
}

func outcomeOfCreate(s State, q Request) Outcome {
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

func outcomeOfUpdate(s State, q Request) Outcome {
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
		// What Cloud Foundry has now is not certain, so whatever is named is sent again.
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

func outcomeOfDelete(s State) Outcome {
	switch s {
	case Absent, Ghost, Gone:
		return AlreadyGone
	case Deleting:
		return Running
	default:
		return Accepted
	}
}

// outcomeOfBind decides by the state of its instance whether a new bind may be claimed.
func outcomeOfBind(q Request) Outcome {
	switch q.Instance.State {
	case Ready, UpdateFailed, DeleteFailed:
		if q.Instance.CFGUID == "" {
			return Missing // its create failed, and then its delete
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

// claim makes the record of a new operation. Open calls stay in it: they may still take effect, whatever the record
// says.
func claim(r Record, effective State, q Request) Record {
	n := r.Clone().withoutQuotes()
	if r.State.Busy() {
		result := supersededBy(r, q.Verb)
		if effective == Gone {
			result = resultOfOrphan(r) // what polls have said of it since its instance went
		}
		n = n.withResult(result, q.Now)
	}
	n.Seq = r.Seq + 1
	if r.State == Absent {
		n.Seq = q.Now.Unix()
	}
	n.ExpiresAt = time.Time{}
	n.Operation = Operation{
		ID: q.NewOperation.ID, Seq: n.Seq, Verb: q.Verb,
		Started: q.Now, Deadline: q.NewOperation.Deadline, Due: q.NewOperation.Due,
		Held: r.Kind == Binding && !q.AcceptsIncomplete,
	}
	switch q.Verb {
	case Create:
		n.State = Creating
		n.beginLife(r, effective, q)
	case Update:
		n.State = Updating
	case Delete:
		n.State = Deleting
	}
	return n
}

// beginLife notes, in place, what a new incarnation begins with. After a failed create it has to know the rows of the
// last one, since some may be left; of what is gone, or went with its instance, none are.
func (r *Record) beginLife(last Record, effective State, q Request) {
	r.Operation.IDWasFree = !last.State.Living()
	if effective.Living() {
		r.rememberGUID(last.CFGUID)
	} else {
		r.GUIDs, r.Place = nil, Place{}
	}
	if effective == Gone && last.State.Living() {
		r.Life++ // an orphaned binding ends here, without a 410
	}
	r.CreateOp, r.CFGUID = Reference{ID: r.Operation.ID, Seq: r.Seq}, ""
	r.InstanceCreateOp, r.InstanceGUID = q.Instance.CreateOp, q.Instance.CFGUID
}

// tombstone notes that an id was told to be gone. Its life moves, so that a create that read "absent" before that
// cannot claim any more (docs/protocol.md 2.4).
func tombstone(r Record, q Request) Record {
	n := r.Clone().withoutQuotes()
	switch {
	case r.State == Absent:
		n.State, n.Seq = Ghost, q.Now.Unix()
	case r.State.Busy():
		n = n.withResult(resultOfOrphan(r), q.Now)
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
	why := "It was cancelled by a later request to delete the " + thing(r) + "."
	if by != Delete {
		why = "It was superseded by a later request."
	}
	return Finished{ID: r.Operation.ID, Verb: r.Operation.Verb, Description: why, OwnWords: true}
}

// resultOfOrphan is the result of a binding's operation whose instance is gone: an unbind has reached its end, a bind
// cannot reach it any more.
func resultOfOrphan(r Record) Finished {
	f := Finished{ID: r.Operation.ID, Verb: r.Operation.Verb, Succeeded: r.Operation.Verb == Delete}
	if !f.Succeeded {
		f.Description, f.OwnWords = instanceGone, true
	}
	return f
}

// reasonDropped stands for a reason that is not kept any more.
const reasonDropped = "It failed. The reason is not kept any more, since another operation has begun after it."

// withoutQuotes drops what others said of operations that are over, since a backing broker may quote parameters. The
// description of the latest one is needed until the next begins. It changes r in place, which has to be the caller's
// copy.
func (r Record) withoutQuotes() Record {
	for i, f := range r.Finished {
		if f.Description != "" && !f.OwnWords {
			r.Finished[i].Description, r.Finished[i].OwnWords = reasonDropped, true
		}
	}
	r.Operation.FinalRefusal, r.Operation.TemporaryRefusal, r.Operation.NoAnswer = "", "", ""
	return r
}

// Progress is what a record says of an operation.
type Progress struct {
	// Known is false when the record has nothing to report.
	Known bool
	// Running is true while the operation runs. Result is how it ended otherwise.
	Running bool
	Result  Finished
}

// Poll answers for the operation with this id, or for the latest one when the id is empty or unknown (LOI-20 and LOI-21
// in docs/osb-choices.md). instance is needed for bindings only.
func Poll(r Record, id string, instance InstanceView) Progress {
	effective := EffectiveState(r, instance)
	if r.Running(id) && effective == r.State {
		return Progress{Known: true, Running: true}
	}
	if f, ok := r.Result(id); ok {
		return Progress{Known: true, Result: f}
	}
	return pollLatest(r, effective)
}

func pollLatest(r Record, effective State) Progress {
	switch {
	case effective == Absent, effective == Ghost:
		return Progress{}
	case effective == Gone && r.State.Busy():
		return Progress{Known: true, Result: resultOfOrphan(r)}
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
