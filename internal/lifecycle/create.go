package lifecycle

import (
	"slices"
	"time"
)

// tickCreate drives the create of an instance (protocol.md 4).
func tickCreate(r Record, t Tick) Decision {
	if firstCall(r) {
		return first(r, t)
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUIDs: r.KnownGUIDs()})
	}
	return judgeCreate(r, t)
}

// first is the POST that goes without a look-up, once it is known where it goes.
func first(r Record, t Tick) Decision {
	if t.Place == nil {
		return need(r, Effect{Do: FindOrg})
	}
	return call(r, t, Create, SendCreate)
}

// firstCall reports whether the POST may go without a look-up (protocol.md 3.8): not
// where GUIDs are known, whose rows have to be looked at before.
func firstCall(r Record) bool {
	return r.Operation.IDWasFree && r.Operation.Calls == 0 && len(r.GUIDs) == 0
}

// judgeCreate decides on what the look-up of a create or bind saw.
func judgeCreate(r Record, t Tick) Decision {
	rows := sort(r, t.Look.Rows)
	switch {
	case rows.mine != nil && r.Operation.Cleanup.GUID == rows.mine.GUID:
		// Safeguard: what this operation has begun to remove is never adopted, whatever its row says.
		return removeLeftover(r, t, rows.mine.GUID)
	case len(rows.leftovers) > 0:
		return removeLeftover(r.seen(rows.mine), t, rows.leftovers[0].GUID)
	case rows.unknown > 0:
		return failSettled(r.seen(rows.mine), t, unknownRow(r.Kind), "")
	case rows.strangers > 0 && rows.mine == nil:
		return failSettled(r, t, "The name is in use in Cloud Foundry by something that this broker did not make. "+
			"Ask the operator to rename or remove it.", "")
	case rows.mine == nil:
		return judgeAbsence(r, t)
	}
	return noting(r, *rows.mine, func(r Record) Decision { return judgeMine(r, t, *rows.mine) })
}

// unknownRow is what a create or delete says that meets something which bears our marks
// and which the record does not know.
func unknownRow(kind Kind) string {
	return "Cloud Foundry has a service " + string(kind) + " of this id that was made by an operation which the broker's store does not " +
		"know, perhaps because the store was restored from an older copy. Nothing was removed. " +
		"Ask the operator of the broker to adopt it or to remove it."
}

// noting records the GUID of the row that judge decides on. The first sight of a row is
// worth a write of its own: from then on it is found whatever it is called.
func noting(r Record, row Row, judge func(Record) Decision) Decision {
	if r.OwnsRow(row.GUID) {
		return judge(r)
	}
	n := r.Clone()
	n.remember(row.GUID)
	d := judge(n)
	d.Write = d.Write || d.Effect.Do == Wait
	return d
}

// judgeAbsence: nothing of ours is there. A POST that was accepted must have
// vanished; one that was refused for good is not sent again.
func judgeAbsence(r Record, t Tick) Decision {
	op := r.Operation
	switch {
	case op.FinalRefusal != "":
		return failSettled(r, t, op.FinalRefusal, op.Code)
	case op.Job != "" && t.Job == nil:
		return need(r, Effect{Do: AskJob, Job: op.Job}) // it may name the row, which may have another name by now
	case t.Job != nil && t.Job.GUID != "" && !r.OwnsRow(t.Job.GUID):
		n := r.Clone()
		n.remember(t.Job.GUID)
		d := wait(n, t)
		d.Write = true
		return d
	case op.NameTaken >= takenLimit:
		return failSettled(r, t, "The name is taken in Cloud Foundry by something that the broker cannot see, such as an instance that is "+
			"shared into the space, or one whose name differs only in its case. Ask the operator to rename or remove it.", "")
	case op.Job != "" || op.CreatedWithoutJob:
		return failSettled(r, t, "It vanished from Cloud Foundry while it was being created. Delete it and try again.", "")
	default:
		return call(r, t, Create, SendCreate)
	}
}

// takenLimit is how often Cloud Foundry may answer "taken" where nothing can be seen.
const takenLimit = 3

func judgeMine(r Record, t Tick, row Row) Decision {
	last := row.Last
	switch {
	case last.State == LastFailed && last.Verb != Update: // a removal that failed says nothing of the create
		return judgeFailure(r, t, row)
	case last.State == LastInitial || last.State == LastInProgress:
		return wait(r, t)
	case row.MarkedByName && foreignCall(r, t):
		return wait(r, t) // a key of an older operation may still appear beside it
	default:
		return succeed(r, t, row.GUID)
	}
}

// judgeFailure believes a failed row only when the job says so too, or when it has
// stood longer than any call can take: Cloud Foundry's clean-up marks rows as
// failed whose create still runs.
func judgeFailure(r Record, t Tick, row Row) Decision {
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
	description := firstOf(row.Last.Description, job.Description)
	if op.Held {
		return rememberFailure(r, t, row.GUID, description, job.Code)
	}
	return fail(r, t, description, job.Code)
}

func finalFailure(job JobState, age, settle time.Duration) bool {
	switch job {
	case JobFailed: // safeguard: failed only when the job says so
		return true
	case JobPolling, JobLost, JobComplete: // without a word that fits the row
		return age > settle
	default:
		return false
	}
}

// rememberFailure begins to remove the row of a bind that was asked for without
// accepts_incomplete: its platform will not poll, and may never unbind.
func rememberFailure(r Record, t Tick, guid, description, code string) Decision {
	r.Operation.FinalRefusal = firstOf(description, "Cloud Foundry reported a failure and gave no reason.")
	r.Operation.Code = code
	return removeLeftover(r, t, guid)
}

// removeLeftover deletes a row of an older operation, or of a held bind that
// failed; the next tick looks again.
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
			r.Operation.turnedDown(firstOf(t.Job.Description, notDone), t.Job.FromBackingBroker, t.Now, t.Pace)
			r.Operation.Cleanup.Job = ""
		}
	}
	d := leftoverNext(r, t, guid)
	d.Write = d.Write || refused
	return d
}

// leftoverNext sends the DELETE of a leftover, at once or later. A create does not wait
// for ever for what the backing broker does not give up, unless something of its own is
// there, too.
func leftoverNext(r Record, t Tick, guid string) Decision {
	op := r.Operation
	own := slices.ContainsFunc(t.Look.Rows, func(row Row) bool { return row.Operation == op.ID })
	if refusedEnough(r) && !own {
		return failSettled(r, t, "What is left of an earlier attempt could not be removed: "+op.TemporaryRefusal, "")
	}
	if d, early := tooEarly(r, t); early {
		return d
	}
	n := r.Clone()
	n.remember(guid)
	n.settleIn(t)
	n.Operation.Cleanup = Cleanup{GUID: guid}
	n.Operation.Lease = Lease{Holder: t.Driver, Until: t.LeaseUntil}
	n.Operation.Due = due(op, t.Now, t.Wait)
	return Decision{Record: n, Write: true, Outcome: Ongoing, Effect: Effect{Do: SendDeleteLeftover, GUID: guid}}
}

// sorted are the rows of a look-up of a create or bind, by whose they are.
type sorted struct {
	// mine bears this operation's mark: only such a row is ever adopted.
	mine *Row
	// leftovers are ours and not to stay.
	leftovers []Row
	// unknown ones bear our marks, of an operation that the record does not know.
	unknown, strangers int
}

// sort tells the rows apart by their marks and by the GUIDs that the record knows.
func sort(r Record, rows []Row) sorted {
	var s sorted
	for _, row := range rows {
		switch {
		case row.Marked && row.Operation == r.Operation.ID: // safeguard: adoption by operation mark
			s.keep(r, row)
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

// keep takes one row of this operation: the recorded one, else the first. Another one,
// which a POST has made after the first was renamed, is a leftover.
func (s *sorted) keep(r Record, row Row) {
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

// seen returns the record with the GUID of a row that stays; row may be nil.
func (r Record) seen(row *Row) Record {
	if row == nil || r.OwnsRow(row.GUID) {
		return r
	}
	n := r.Clone()
	n.remember(row.GUID)
	return n
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// tickBind drives a bind: the instance's record is read again after the claim by
// every tick, and the key is posted to the GUID for which the bind was accepted.
func tickBind(r Record, t Tick) Decision {
	if t.Instance == nil {
		return need(r, Effect{Do: ReadInstance})
	}
	if unbindable(r, *t.Instance) { // safeguard: instance read again after the claim
		if r.HasOpenCall(Create, t.ReadAt) && !Orphaned(r, *t.Instance) {
			return wait(r, t)
		}
		d := fail(r, t, instanceGone, "")
		if Orphaned(r, *t.Instance) || r.Operation.IDWasFree && r.Operation.Calls == 0 {
			d.Record.ExpiresAt = t.Now.Add(t.TombstoneTTL) // nobody has to unbind it: no attempt has left a key
		}
		return d
	}
	if r.InstanceGUID == "" {
		if t.Instance.CFGUID == "" {
			return wait(r, t)
		}
		r.InstanceGUID = t.Instance.CFGUID // written with the open call, never later
	}
	if firstCall(r) {
		return first(r, t)
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUID: r.InstanceGUID, GUIDs: r.KnownGUIDs()})
	}
	return judgeCreate(r, t)
}

// unbindable reports whether a key may not be made any more. Without a GUID there is
// nothing to bind to unless the create still runs: it failed, or was cancelled.
func unbindable(r Record, v InstanceView) bool {
	return Orphaned(r, v) || v.State == Deleting || v.CFGUID == "" && v.State != Creating
}

// tickUnbind drives an unbind (protocol.md 7).
func tickUnbind(r Record, t Tick) Decision {
	if r.InstanceGUID == "" {
		return gone(r, t) // no key was ever posted
	}
	if t.Instance == nil {
		return need(r, Effect{Do: ReadInstance})
	}
	if d, asked := jobFirst(r, t); asked {
		return d
	}
	if t.Look == nil {
		return need(r, Effect{Do: FindByName, GUID: r.InstanceGUID, GUIDs: r.KnownGUIDs()})
	}
	rows := owned(r, t.Look.Rows)
	switch {
	case len(rows.ours) > 0:
		return removeRows(r, t, rows.ours)
	case r.HasOpenCall(Create, t.ReadAt) && !Orphaned(r, *t.Instance): // safeguard: delete waits for open POSTs
		return wait(r, t)
	case rows.unknown > 0:
		return failSettled(r, t, unknownRow(r.Kind), "")
	default:
		return gone(r, t)
	}
}
