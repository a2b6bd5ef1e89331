package lifecycle

import "slices"

// tickDelete drives the delete of an instance (docs/protocol.md 6).
func tickDelete(r Record, t Tick) Decision {
	if d, running := waitForJob(r, t); running {
		return d
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUIDs: r.KnownGUIDs()})
	}
	rows := ownRows(r, t.Look.Rows)
	none := len(rows.ours) == 0
	switch {
	case none && r.HasOpenCall(Create, t.ReadAt): // safeguard: delete waits for open POSTs
		return wait(r, t)
	case none && rows.unknown > 0:
		return failWhenSettled(r, t, Finished{Description: unknownRow(r)})
	case none && (r.Operation.NoBindingsLeft || t.deadlinePassed || !t.lookIsRecent()):
		return gone(r, t)
	case !t.BindingsKnown:
		return need(r, Effect{Do: ListBindings})
	}
	if d, waits := bindingsFirst(r, t, none); waits {
		return d
	}
	if none {
		return gone(r, t)
	}
	d := deleteRows(r, t, rows.ours)
	if d.Effect.Do == SendDelete {
		d.Record.Operation.NoBindingsLeft = !slices.ContainsFunc(t.Bindings, func(b BindingView) bool {
			return b.of(r) && b.State.Living()
		})
	}
	return d
}

// tickUnbind drives an unbind (docs/protocol.md 7).
func tickUnbind(r Record, t Tick) Decision {
	if r.InstanceGUID == "" {
		return gone(r, t) // no key was ever asked for
	}
	if t.Instance == nil {
		return need(r, Effect{Do: ReadInstance})
	}
	if d, running := waitForJob(r, t); running {
		return d
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUID: r.InstanceGUID, GUIDs: r.KnownGUIDs()})
	}
	rows := ownRows(r, t.Look.Rows)
	switch {
	case len(rows.ours) > 0:
		return deleteRows(r, t, rows.ours)
	case r.HasOpenCall(Create, t.ReadAt) && !Orphaned(r, *t.Instance): // safeguard: delete waits for open POSTs
		return wait(r, t)
	case rows.unknown > 0:
		return failWhenSettled(r, t, Finished{Description: unknownRow(r)})
	default:
		return gone(r, t)
	}
}

// waitForJob asks the job of this operation's delete, and saves the look-up while that runs.
func waitForJob(r Record, t Tick) (Decision, bool) {
	op := r.Operation
	if op.Job == "" || t.Look != nil || t.deadlinePassed || t.OneOfMany {
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

// rowsOfDelete are the rows that a delete may remove, and how many bear our marks without being known.
type rowsOfDelete struct {
	ours    []Row
	unknown int
}

// ownRows tells what is ours, by the recorded GUIDs or by the mark of an operation that the record knows, from what is
// somebody else's: rows without our marks.
func ownRows(r Record, rows []Row) rowsOfDelete {
	var o rowsOfDelete
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

// bindingsFirst makes sure that the bindings of this incarnation are gone before the instance is. Where the instance
// has vanished already, by somebody else's hand or with a binding whose unbind failed, they are unbound all the same,
// so that their records end and expire.
func bindingsFirst(r Record, t Tick, vanished bool) (Decision, bool) {
	var living []string
	waiting, problem := false, ""
	for _, b := range t.Bindings {
		if !b.of(r) {
			continue
		}
		switch b.State {
		case Creating, Ready, CreateFailed:
			living = append(living, b.ID)
		case Deleting:
			waiting = true
			if problem == "" && b.Problem != "" {
				problem = problemOfBinding(b)
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
	return waitForBindings(r, t, problem), true
}

// waitForBindings waits for unbinds and says what they wait for. Nothing is written when that is no news.
func waitForBindings(r Record, t Tick, problem string) Decision {
	news := r.Operation.TemporaryRefusal != problem
	r.Operation.TemporaryRefusal = problem
	d := wait(r, t)
	d.Write = d.Write || news
	return d
}

// deleteRows deletes the rows one after the other, each by the GUID just looked up.
func deleteRows(r Record, t Tick, rows []Row) Decision {
	op := r.Operation
	i := slices.IndexFunc(rows, func(row Row) bool { return row.GUID == op.JobGUID })
	if op.Job == "" || i < 0 {
		return deleteRow(r, t, rows[0].GUID)
	}
	row := rows[i]
	if row.busy() && row.Last.Verb == Delete && row.Age <= quietAfter {
		return wait(r, t) // the row says enough: its job is at work
	}
	if t.Job == nil {
		return need(r, Effect{Do: AskJob, Job: op.Job})
	}
	switch {
	case !t.Job.State.Ended():
		return wait(r, t)
	case row.Last.failed(Delete) && t.Job.State == JobFailed && t.Job.FromBackingBroker: // safeguard: delete failed only by the own job
		return failDelete(r, t, Finished{Description: firstOf(row.Last.Description, t.Job.Description), Code: t.Job.Code})
	case t.Job.State == JobFailed:
		return deleteAgain(r, t, row)
	default:
		return sendDelete(r, t, row.GUID)
	}
}

// deleteRow sends the delete of a row, at once, later, or not any more.
func deleteRow(r Record, t Tick, guid string) Decision {
	if refusedOften(r) {
		return failDelete(r, t, Finished{Description: r.Operation.TemporaryRefusal})
	}
	if d, early := waitForNextDelete(r, t); early {
		return d
	}
	return sendDelete(r, t, guid)
}

// deleteAgain notes why the job of a delete failed, and sends another one, as a rule later.
func deleteAgain(r Record, t Tick, row Row) Decision {
	text, byBroker := reasonOfFailedDelete(r, t, row)
	r.Operation.countFailedDelete(text, byBroker, t.Now, t.Pace)
	r.Operation.Job = ""
	d := deleteRow(r, t, row.GUID)
	d.Write = true
	return d
}

// failDelete reports that the backing broker refused, once no update can move the plan of what lives on any more.
func failDelete(r Record, t Tick, why Finished) Decision {
	if planMayMove(r, t) {
		return wait(r, t)
	}
	return fail(r, t, why)
}
