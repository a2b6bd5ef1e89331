package lifecycle

import (
	"slices"
	"time"
)

// tickCreate drives the create of an instance (docs/protocol.md 4).
func tickCreate(r Record, t Tick) Decision {
	if mayCreateUnseen(r) {
		return createUnseen(r, t)
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUIDs: r.KnownGUIDs()})
	}
	return decideCreate(r, t)
}

// tickBind drives a bind (docs/protocol.md 7). Every tick reads the instance's record again after the claim, and the
// key is created for the GUID for which the bind was accepted.
func tickBind(r Record, t Tick) Decision {
	if t.Instance == nil {
		return need(r, Effect{Do: ReadInstance})
	}
	if cannotBind(r, *t.Instance) { // safeguard: instance read again after the claim
		return failBind(r, t)
	}
	if r.InstanceGUID == "" {
		if t.Instance.CFGUID == "" {
			return wait(r, t)
		}
		r.InstanceGUID = t.Instance.CFGUID // written with the open call, never later
	}
	if mayCreateUnseen(r) {
		return createUnseen(r, t)
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUID: r.InstanceGUID, GUIDs: r.KnownGUIDs()})
	}
	return decideCreate(r, t)
}

// cannotBind reports whether a key may not be created any more. An instance without a GUID has nothing to bind to,
// unless its create still runs: it failed, or was cancelled.
func cannotBind(r Record, v InstanceView) bool {
	return Orphaned(r, v) || v.State == Deleting || v.CFGUID == "" && v.State != Creating
}

// failBind ends a bind whose instance is being deleted or is gone.
func failBind(r Record, t Tick) Decision {
	orphaned := Orphaned(r, *t.Instance)
	if r.HasOpenCall(Create, t.ReadAt) && !orphaned {
		return wait(r, t)
	}
	d := fail(r, t, Finished{Description: instanceGone})
	if orphaned || r.Operation.IDWasFree && r.Operation.Calls == 0 {
		d.Record.ExpiresAt = t.Now.Add(t.TombstoneTTL) // nobody has to unbind it: no attempt has left a key
	}
	return d
}

// mayCreateUnseen reports whether the call may go without a look-up (docs/protocol.md 3.8): the first one of the
// operation, where no GUIDs are known whose rows have to be looked at before.
func mayCreateUnseen(r Record) bool {
	return r.Operation.IDWasFree && r.Operation.Calls == 0 && len(r.GUIDs) == 0
}

// createUnseen sends the create without a look-up, once it is known where it goes.
func createUnseen(r Record, t Tick) Decision {
	if t.Place == nil {
		return need(r, Effect{Do: FindOrg})
	}
	return sendCreate(r, t)
}

// decideCreate decides on what the look-up of a create or bind saw.
func decideCreate(r Record, t Tick) Decision {
	rows := sortRows(r, t.Look.Rows)
	switch {
	case rows.mine != nil && r.Operation.Cleanup.GUID == rows.mine.GUID:
		// Safeguard: what this operation has begun to remove is never adopted, whatever its row says.
		return removeLeftover(r, t, rows.mine.GUID)
	case len(rows.leftovers) > 0:
		return removeLeftover(r.withRow(rows.mine), t, rows.leftovers[0].GUID)
	case rows.unknown > 0:
		return failWhenSettled(r.withRow(rows.mine), t, Finished{Description: unknownRow(r)})
	case rows.strangers > 0 && rows.mine == nil:
		return failWhenSettled(r, t, Finished{Description: nameInUse})
	case rows.mine == nil:
		return decideWithoutRow(r, t)
	}
	d := decideOnRow(r.withRow(rows.mine), t, *rows.mine)
	if !r.OwnsRow(rows.mine.GUID) {
		// That it is seen is worth a write of its own: from then on it is found whatever it is called.
		d.Write = d.Write || d.Effect.Do == Wait
	}
	return d
}

// rowsOfCreate are the rows of a look-up of a create or bind, by whose they are.
type rowsOfCreate struct {
	// mine bears this operation's mark: only such a row is ever adopted.
	mine *Row
	// leftovers are ours and not to stay.
	leftovers []Row
	// unknown ones bear our marks, of an operation that the record does not know.
	unknown, strangers int
}

// sortRows tells the rows apart by their marks, and by the GUIDs that the record knows.
func sortRows(r Record, rows []Row) rowsOfCreate {
	var s rowsOfCreate
	for _, row := range rows {
		switch {
		case row.Marked && row.Operation == r.Operation.ID: // safeguard: adoption by operation mark
			s.addMine(r, row)
		case r.OwnsRow(row.GUID), row.Marked && r.KnowsOperation(row.Operation): // safeguard: no leftover that the record does not know
			s.leftovers = append(s.leftovers, row)
		case row.Marked:
			s.unknown++
		default:
			s.strangers++
		}
	}
	return s
}

// addMine keeps one row of this operation: the recorded one, else the first. Another one, which a call has made after
// the first was renamed, is a leftover.
func (s *rowsOfCreate) addMine(r Record, row Row) {
	switch {
	case s.mine == nil:
		s.mine = &row
	case row.GUID == s.mine.GUID: // pages that overlap show a row twice
	case r.OwnsRow(row.GUID) && !r.OwnsRow(s.mine.GUID):
		s.leftovers = append(s.leftovers, *s.mine)
		s.mine = &row
	default:
		s.leftovers = append(s.leftovers, row)
	}
}

// withRow returns the record with the GUID of a row that stays; row may be nil.
func (r Record) withRow(row *Row) Record {
	if row == nil || r.OwnsRow(row.GUID) {
		return r
	}
	n := r.Clone()
	n.rememberGUID(row.GUID)
	return n
}

// decideWithoutRow: nothing of ours is there. A create that was accepted must have vanished; one that was refused for
// good is not sent again.
func decideWithoutRow(r Record, t Tick) Decision {
	op := r.Operation
	switch {
	case op.FinalRefusal != "":
		return failWhenSettled(r, t, Finished{Description: op.FinalRefusal, Code: op.Code})
	case op.Job != "" && t.Job == nil:
		return need(r, Effect{Do: AskJob, Job: op.Job}) // it may name the row, which may have another name by now
	case t.Job != nil && t.Job.GUID != "" && !r.OwnsRow(t.Job.GUID):
		d := wait(r.withRow(&Row{GUID: t.Job.GUID}), t)
		d.Write = true
		return d
	case op.NameTaken >= takenLimit:
		return failWhenSettled(r, t, Finished{Description: nameTakenUnseen})
	case op.Job != "" || op.CreatedWithoutJob:
		return failWhenSettled(r, t, Finished{Description: vanished})
	default:
		return sendCreate(r, t)
	}
}

// takenLimit is how often Cloud Foundry may answer that the name is taken where nothing can be seen.
const takenLimit = 3

func decideOnRow(r Record, t Tick, row Row) Decision {
	switch {
	case row.Last.State == LastFailed && row.Last.Verb != Update: // a removal that failed says nothing of the create
		return decideOnFailedRow(r, t, row)
	case row.busy():
		return wait(r, t)
	case row.MarkedByName && r.hasOpenCallOfOthers(t.ReadAt):
		return wait(r, t) // a key of an older operation may still appear beside it
	default:
		return succeed(r, t, row.GUID)
	}
}

// decideOnFailedRow believes a failed row only when the job says so too, or when it has stood longer than any call can
// take: Cloud Foundry's clean-up marks rows as failed whose create still runs.
func decideOnFailedRow(r Record, t Tick, row Row) Decision {
	op := r.Operation
	if op.Held && op.FinalRefusal != "" {
		return removeLeftover(r, t, row.GUID)
	}
	if op.Job != "" && t.Job == nil {
		return need(r, Effect{Do: AskJob, Job: op.Job})
	}
	job := JobStatus{State: JobLost}
	if t.Job != nil {
		job = *t.Job
	}
	if job.State == JobComplete && row.Last.Verb == Delete {
		return succeed(r, t, row.GUID)
	}
	if !finalFailure(job.State, row.Age, t.SettleAfter) || r.HasOpenCall("", t.ReadAt) {
		return wait(r, t)
	}
	why := Finished{Description: firstOf(row.Last.Description, job.Description), Code: job.Code}
	if op.Held {
		return removeFailedKey(r, t, row.GUID, why)
	}
	return fail(r, t, why)
}

func finalFailure(job JobState, age, settleAfter time.Duration) bool {
	switch job {
	case JobFailed: // safeguard: failed only when the job says so
		return true
	case JobPolling, JobLost, JobComplete: // the job does not say what became of the row
		return age > settleAfter
	default:
		return false
	}
}

// removeFailedKey notes why a bind without accepts_incomplete failed, and begins to remove its key: the platform does
// not poll, and may never unbind.
func removeFailedKey(r Record, t Tick, guid string, why Finished) Decision {
	r.Operation.FinalRefusal = firstOf(why.Description, noReason)
	r.Operation.Code = why.Code
	return removeLeftover(r, t, guid)
}

// removeLeftover deletes a row of an older operation, or of a held bind that failed. The next tick looks again.
func removeLeftover(r Record, t Tick, guid string) Decision {
	c := r.Operation.Cleanup
	refused := false
	if c.GUID == guid && c.Job != "" {
		if t.Job == nil {
			return need(r, Effect{Do: AskJob, Job: c.Job})
		}
		if !t.Job.State.Ended() {
			return wait(r, t)
		}
		if refused = t.Job.State == JobFailed; refused {
			r.Operation.countFailedDelete(firstOf(t.Job.Description, notDeleted), t.Job.FromBackingBroker, t.Now, t.Pace)
			r.Operation.Cleanup.Job = ""
		}
	}
	d := deleteLeftover(r, t, guid)
	d.Write = d.Write || refused
	return d
}

// deleteLeftover sends the delete of a leftover, at once or later. A create does not wait for ever for what the backing
// broker does not give up, unless something of its own is there, too.
func deleteLeftover(r Record, t Tick, guid string) Decision {
	op := r.Operation
	own := slices.ContainsFunc(t.Look.Rows, func(row Row) bool { return row.Operation == op.ID })
	if refusedOften(r) && !own {
		return failWhenSettled(r, t, Finished{Description: leftoverStays + op.TemporaryRefusal})
	}
	if d, early := waitForNextDelete(r, t); early {
		return d
	}
	return sendDeleteLeftover(r, t, guid)
}
