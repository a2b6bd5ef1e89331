package lifecycle

import "time"

// tickCreate drives the create of an instance (protocol.md 4).
func tickCreate(r Record, t Tick) Decision {
	if firstCall(r) {
		return call(r, t, Create, Post)
	}
	if t.Look == nil {
		return need(r, Effect{Do: Find})
	}
	return judgeCreate(r, t)
}

// firstCall reports whether the POST may go without a look-up (protocol.md 3.8).
func firstCall(r Record) bool { return r.Operation.Fresh && r.Operation.Calls == 0 }

// judgeCreate decides on what the look-up of a create or bind saw.
func judgeCreate(r Record, t Tick) Decision {
	rows := sort(r, t.Look.Rows)
	switch {
	case rows.newer > 0:
		return stale(r) // a later operation owns the name
	case rows.strangers > 0 && rows.mine == nil:
		return failSettled(r, t, "The name is in use in Cloud Foundry by something that this broker did not make. "+
			"Ask the operator to rename or remove it.", "")
	case len(rows.older) > 0:
		return removeLeftover(r, t, rows.older[0].GUID)
	case rows.mine == nil:
		return judgeAbsence(r, t)
	}
	return judgeMine(r, t, *rows.mine)
}

// judgeAbsence: nothing of ours is there. A POST that was accepted must have
// vanished; one that was refused for good is not sent again.
func judgeAbsence(r Record, t Tick) Decision {
	op := r.Operation
	switch {
	case op.Refused != "":
		return failSettled(r, t, op.Refused, op.Code)
	case op.Job != "" || op.Made:
		return failSettled(r, t, "It vanished from Cloud Foundry while it was being created. Delete it and try again.", "")
	default:
		return call(r, t, Create, Post)
	}
}

func judgeMine(r Record, t Tick, row Row) Decision {
	last := row.Last
	switch {
	case last.State == LastFailed && last.Verb != Update: // a removal that failed says nothing of the create
		return judgeFailure(r, t, row)
	case last.State == LastInitial || last.State == LastInProgress:
		return wait(r, t)
	case row.Loose && foreignCall(r, t):
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
	if op.Held && op.Refused != "" {
		return removeLeftover(r, t, row.GUID)
	}
	if op.Job != "" && t.Job == nil {
		return need(r, Effect{Do: AskJob, Job: op.Job})
	}
	job := JobSight{State: JobLost}
	if t.Job != nil {
		job = *t.Job
	}
	if job.State == JobComplete && row.Last.Verb == Delete {
		return succeed(r, t, row.GUID)
	}
	if !finalFailure(job.State, row.Age, t.SettleAfter) || r.HasOpen("", t.Read) {
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
	r.Operation.Refused = firstOf(description, "Cloud Foundry reported a failure and gave no reason.")
	r.Operation.Code = code
	return removeLeftover(r, t, guid)
}

// removeLeftover deletes a row of an older operation, or of a held bind that
// failed; the next tick looks again.
func removeLeftover(r Record, t Tick, guid string) Decision {
	c := r.Operation.Cleanup
	if c.GUID == guid && c.Job != "" {
		if t.Job == nil {
			return need(r, Effect{Do: AskJob, Job: c.Job})
		}
		if !t.Job.State.Ended() {
			return wait(r, t)
		}
	}
	n := r.Clone()
	n.Operation.Cleanup = Cleanup{GUID: guid}
	n.Operation.Lease = Lease{Holder: t.Driver, Until: t.LeaseUntil}
	n.Operation.Due = due(t.Now, t.Wait)
	return Decision{Record: n, Write: true, Outcome: Ongoing, Effect: Effect{Do: RemoveLeftover, GUID: guid}}
}

// sorted are the rows of a look-up, by whose they are.
type sorted struct {
	mine             *Row
	older            []Row
	newer, strangers int
}

// sort tells the rows apart by their marks. Only a row that carries this
// operation's mark is ever adopted.
func sort(r Record, rows []Row) sorted {
	var s sorted
	for _, row := range rows {
		switch {
		case !row.Marked:
			s.strangers++
		case row.Operation == r.Operation.ID: // safeguard: adoption by operation mark
			s.mine = &row
		case row.Seq > r.Operation.Seq:
			s.newer++
		default:
			s.older = append(s.older, row)
		}
	}
	return s
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
