package lifecycle

import "time"

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
