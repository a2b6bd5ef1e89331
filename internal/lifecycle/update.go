package lifecycle

import (
	"slices"
	"time"
)

const (
	// updateAttempts is how often an update is sent whose answers stay unknown.
	updateAttempts = 3
	// quietAfter is how long a row may be in progress without having been written before its job is asked, too. While
	// Cloud Foundry polls the backing broker it writes the row each time, once a minute unless it is set otherwise
	// (docs/cf-contract.md 0, fact 7).
	quietAfter = 2 * time.Minute
)

// tickUpdate drives an update by the instance's GUID, in the order of docs/protocol.md 5.
func tickUpdate(r Record, t Tick) Decision {
	if t.Look == nil {
		return need(r, Effect{Do: FindByGUID, GUID: r.CFGUID})
	}
	i := slices.IndexFunc(t.Look.Rows, func(row Row) bool { return row.GUID == r.CFGUID })
	if i < 0 {
		return fail(r, t, Finished{Description: instanceVanished, InstanceUnusable: true, UpdateNotRepeatable: true})
	}
	row, op := t.Look.Rows[i], r.Operation
	if row.Update == op.ID {
		return succeed(r, t, r.CFGUID)
	}
	if op.Job != "" && t.Job == nil && (!row.busy() || row.Age > quietAfter) {
		return need(r, Effect{Do: AskJob, Job: op.Job})
	}
	switch {
	// Safeguard: over a row that is being updated the job's failure counts only when no other call of this operation
	// can be the one that is being carried out (docs/protocol.md 5).
	case t.Job != nil && t.Job.State == JobFailed && (op.Calls == 1 || !row.busy()):
		return failWhenSettled(r, t, Finished{Description: firstOf(t.Job.Description, row.Last.Description), Code: t.Job.Code})
	case op.FinalRefusal != "" && !row.busy(): // and a refusal never does
		return failWhenSettled(r, t, Finished{
			Description: op.FinalRefusal, Code: op.Code, UpdateNotRepeatable: true, InstanceUnusable: op.InstanceMissing,
		})
	case row.busy() && t.Job != nil:
		return waitTwice(r, t)
	case row.busy():
		return wait(r, t)
	case r.hasOpenCallOfOthers(t.ReadAt): // safeguard: next update waits for foreign open calls
		return wait(r, t)
	}
	return updateAgain(r, t, row)
}

// waitTwice waits for twice as long, after a tick that asked for the row and for the job: waiting costs one call for
// each wait, however long the row stays in progress.
func waitTwice(r Record, t Tick) Decision {
	left := r.Operation.Deadline.Sub(t.Now)
	t.Wait = min(2*t.Wait, LongestWait, max(t.Wait, left))
	d := wait(r, t)
	d.Wait = t.Wait
	return d
}

// updateAgain sends the update, unless it was accepted once or sent often enough.
func updateAgain(r Record, t Tick, row Row) Decision {
	op := r.Operation
	switch {
	case op.Job != "" && t.Job.State == JobLost && row.Last.failed(Update):
		return failWhenSettled(r, t, Finished{Description: row.Last.Description})
	case op.Job != "":
		return wait(r, t)
	case op.Calls-op.Answered >= updateAttempts:
		return failWhenSettled(r, t, Finished{Description: updateUnanswered})
	default:
		return sendUpdate(r, t)
	}
}
