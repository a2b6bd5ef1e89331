package lifecycle

import (
	"slices"
	"time"
)

const (
	// tries is how often a PATCH whose answers stay unknown is sent.
	tries = 3
	// quietAfter is how long a row may be in progress without having been written before its
	// job is asked, too. While Cloud Foundry asks the backing broker it writes the row each
	// time, once a minute unless it is set otherwise (docs/cf-contract.md 0, fact 7).
	quietAfter = 2 * time.Minute
)

// tickUpdate drives an update by the instance's GUID, in the order of protocol.md 5.
func tickUpdate(r Record, t Tick) Decision {
	if t.Look == nil {
		return need(r, Effect{Do: FindByGUID, GUID: r.CFGUID})
	}
	i := slices.IndexFunc(t.Look.Rows, func(row Row) bool { return row.GUID == r.CFGUID })
	if i < 0 {
		return fail(r, t, "The service instance does not exist any more in Cloud Foundry. Delete it and create it again.", "").
			judged(Finished{InstanceUnusable: true, UpdateNotRepeatable: true})
	}
	row, op := t.Look.Rows[i], r.Operation
	if row.Update == op.ID {
		return succeed(r, t, r.CFGUID)
	}
	if op.Job != "" && t.Job == nil && (!busy(row) || row.Age > quietAfter) {
		return need(r, Effect{Do: AskJob, Job: op.Job})
	}
	switch {
	// Safeguard: over a row that is being updated the job's failure counts only when no other
	// PATCH of this operation can be the one that is being carried out (protocol.md 5).
	case t.Job != nil && t.Job.State == JobFailed && (op.Calls == 1 || !busy(row)):
		return failSettled(r, t, firstOf(t.Job.Description, row.Last.Description), t.Job.Code)
	case op.FinalRefusal != "" && !busy(row): // and a refusal never does
		return failSettled(r, t, op.FinalRefusal, op.Code).judged(Finished{UpdateNotRepeatable: true, InstanceUnusable: op.InstanceMissing})
	case busy(row) && t.Job != nil:
		return waitTwice(r, t)
	case busy(row):
		return wait(r, t)
	case foreignCall(r, t): // safeguard: next update waits for foreign open calls
		return wait(r, t)
	}
	return patchAgain(r, t, row)
}

// waitTwice waits for twice as long, after a tick that asked for the row and for the job:
// waiting costs one call a wait, however long the row stays in progress.
func waitTwice(r Record, t Tick) Decision {
	left := r.Operation.Deadline.Sub(t.Now)
	t.Wait = min(2*t.Wait, LongestWait, max(t.Wait, left))
	d := wait(r, t)
	d.Wait = t.Wait
	return d
}

func busy(row Row) bool { return row.Last.State == LastInProgress || row.Last.State == LastInitial }

// patchAgain sends the PATCH, unless it was accepted once or tried often enough.
func patchAgain(r Record, t Tick, row Row) Decision {
	op := r.Operation
	switch {
	case op.Job != "" && t.Job.State == JobLost && row.Last.Verb == Update && row.Last.State == LastFailed:
		return failSettled(r, t, row.Last.Description, "")
	case op.Job != "":
		return wait(r, t)
	case op.Calls-op.Answered >= tries:
		return failSettled(r, t, "Cloud Foundry did not answer when it was asked to update the service instance. Try again later.", "")
	default:
		return call(r, t, Update, SendUpdate)
	}
}

// foreignCall reports whether a call of another operation may still take effect.
func foreignCall(r Record, t Tick) bool {
	return slices.ContainsFunc(r.OpenCalls, func(c OpenCall) bool {
		return c.Seq != r.Operation.Seq && c.Until.After(t.ReadAt)
	})
}
