package lifecycle

import "slices"

// tickDelete drives the delete of an instance (protocol.md 6).
func tickDelete(r Record, t Tick) Decision {
	if d, asked := jobFirst(r, t); asked {
		return d
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUIDs: r.KnownGUIDs()})
	}
	rows := owned(r, t.Look.Rows)
	switch {
	case len(rows.ours) == 0 && r.HasOpenCall(Create, t.ReadAt): // safeguard: delete waits for open POSTs
		return wait(r, t)
	case len(rows.ours) == 0 && rows.unknown > 0:
		return failSettled(r, t, unknownRow(r.Kind), "")
	case len(rows.ours) == 0 && (r.Operation.NoBindingsLeft || t.over || !t.fresh()):
		return gone(r, t)
	}
	if !t.BindingsKnown {
		return need(r, Effect{Do: ListBindings})
	}
	if d, wait := bindingsFirst(r, t, len(rows.ours) == 0); wait {
		return d
	}
	if len(rows.ours) == 0 {
		return gone(r, t)
	}
	d := removeRows(r, t, rows.ours)
	if d.Effect.Do == SendDelete {
		d.Record.Operation.NoBindingsLeft = !r.hasBindings(t)
	}
	return d
}

// hasBindings reports whether the store still has a binding of this incarnation that
// counts as there.
func (r Record) hasBindings(t Tick) bool {
	return slices.ContainsFunc(t.Bindings, func(b BindingView) bool {
		return b.InstanceCreateOp == r.CreateOp.ID && b.State.Living()
	})
}

// jobFirst asks the job of this operation's DELETE and saves the look-up while it
// has not ended.
func jobFirst(r Record, t Tick) (Decision, bool) {
	op := r.Operation
	if op.Job == "" || t.Look != nil || t.over {
		return Decision{}, false
	}
	if t.Job == nil {
		return need(r, Effect{Do: AskJob, Job: op.Job}), true
	}
	if !t.Job.State.Ended() {
		return wait(r, t), true
	}
	return Decision{}, false
}

// bindingsFirst makes sure that the bindings of this incarnation are gone before
// the instance is. Where the instance has gone already, by somebody else's hand or with
// a binding whose unbind failed, they are unbound all the same, so that their records
// end and expire.
func bindingsFirst(r Record, t Tick, vanished bool) (Decision, bool) {
	var living []string
	waiting, trouble := false, ""
	for _, b := range t.Bindings {
		if b.InstanceCreateOp != r.CreateOp.ID {
			continue // of another incarnation: counts as gone
		}
		switch b.State {
		case Creating, Ready, CreateFailed:
			living = append(living, b.ID)
		case Deleting:
			waiting = true
			if trouble == "" && b.Problem != "" {
				trouble = bindingTrouble(b)
			}
		case DeleteFailed:
			if vanished {
				living = append(living, b.ID)
			}
			waiting = waiting || b.HasOpenCreate // else Cloud Foundry removes the key with the instance
		default: // gone, or never there
		}
	}
	if len(living) > 0 {
		d := wait(r, t)
		d.Effect = Effect{Do: Unbind, Bindings: living}
		return d, true
	}
	if !waiting {
		return Decision{}, false
	}
	return waitBecause(r, t, trouble), true
}

// removeRows deletes the rows one after the other, each by the GUID just looked up.
func removeRows(r Record, t Tick, rows []Row) Decision {
	op := r.Operation
	i := slices.IndexFunc(rows, func(row Row) bool { return row.GUID == op.JobGUID })
	if op.Job == "" || i < 0 {
		return removeNext(r, t, rows[0].GUID)
	}
	if t.Job == nil {
		return need(r, Effect{Do: AskJob, Job: op.Job})
	}
	row := rows[i]
	failed := row.Last.Verb == Delete && row.Last.State == LastFailed
	switch {
	case !t.Job.State.Ended():
		return wait(r, t)
	case failed && t.Job.State == JobFailed && t.Job.FromBackingBroker: // safeguard: delete failed only by the own job
		return deleteFailed(r, t, firstOf(row.Last.Description, t.Job.Description), t.Job.Code)
	case t.Job.State == JobFailed:
		return removeAgain(r, t, row)
	default:
		return deletion(r, t, row.GUID)
	}
}

// deleteFailed reports that the backing broker refused, once no PATCH can move the plan of
// what lives on any more.
func deleteFailed(r Record, t Tick, description, code string) Decision {
	if patching(r, t) {
		return wait(r, t)
	}
	return fail(r, t, description, code)
}

// removeAgain notes why the job of a DELETE failed, and sends another one, as a rule
// later.
func removeAgain(r Record, t Tick, row Row) Decision {
	text, word := whatStood(r, t, row)
	r.Operation.turnedDown(text, word, t.Now, t.Pace)
	r.Operation.Job = ""
	d := removeNext(r, t, row.GUID)
	d.Write = true
	return d
}

// ownedRows are the rows that a delete may remove, and how many bear our marks without
// being known.
type ownedRows struct {
	ours    []Row
	unknown int
}

// owned tells what is ours, by the recorded GUIDs or by the mark of an operation that the
// record knows, from what is somebody else's: rows without our marks.
func owned(r Record, rows []Row) ownedRows {
	var o ownedRows
	for _, row := range rows {
		switch {
		case r.OwnsRow(row.GUID), row.Marked && r.KnowsOperation(row.Operation):
			o.ours = append(o.ours, row)
		case row.Marked: // safeguard: what the store does not know is not removed
			o.unknown++
		default: // safeguard: unmarked rows are not ours
		}
	}
	return o
}
