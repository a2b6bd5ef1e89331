package main

// decide is what a tick makes of its look-up (docs/protocol.md 4 to 7).
func (x turn) decide() {
	switch k := x.kind(); {
	case k == bindKind:
		keyTurn{x}.decideBind()
	case k == unbindKind:
		keyTurn{x}.decideUnbind()
	case x.endsAtDeadline():
	case k == createKind:
		x.decideCreate()
	case k == deleteKind:
		x.decideDelete()
	case k == updateKind:
		x.decideUpdate()
	}
}

// decideCreate is docs/protocol.md 4, from the top.
func (x turn) decideCreate() {
	seen, r := &x.t.Seen, &x.s.Instance
	switch {
	case seen.GUID == 0 && r.Refused == 1 && r.Op == x.t.Op:
		x.failCreate("fails, refused", x.FailedWaits)
	case seen.GUID == 0 && x.Vanished && r.Job == 1:
		x.failCreate("fails, vanished", x.FailedWaits)
	case seen.GUID == 0 && x.NameTakenIsWaited && r.Taken >= 3:
		x.failCreate("fails, the name is taken by what is not to be seen", x.TakenWaits)
	case seen.GUID == 0, !x.AdoptOnlyOwn && seen.State == rowFailed && r.Job == 0:
		x.intend(x.PostOnRevision, 0)
	case seen.Mark == 0:
		x.failCreate("fails, the name is somebody else's", x.FailedWaits)
	case x.AdoptOnlyOwn && seen.Mark != x.t.Op:
		x.clearLeftover()
	default:
		x.judgeOwnRow()
	}
}

// clearLeftover removes a row of ours that another operation made.
func (x turn) clearLeftover() {
	seen := &x.t.Seen
	switch {
	case x.Restore && x.RemoveOnlyKnown && !x.knows(x.s, seen.Mark):
		x.failCreate("fails over a row of an operation that the record does not know", x.FailedWaits)
	case x.SpareNewer && x.later(x.s, seen.Mark, x.t.Op), x.Restore && x.s.Ops[seen.Mark].Seq == x.s.Ops[x.t.Op].Seq:
		x.wait()
	default:
		x.intendDelete(seen.GUID)
	}
}

// judgeOwnRow is about the row of this create.
func (x turn) judgeOwnRow() {
	seen, r := &x.t.Seen, &x.s.Instance
	unknown := r.GUID != seen.GUID && r.OtherGUID != seen.GUID
	switch {
	case x.GUIDs && unknown && seen.State != rowIdle && x.t.Duplicate == 0 && x.t.Fresh == 1:
		x.end(reported, "notes the GUID that it sees", func(n *state) {
			n.wroteInstance()
			n.noteGUID(seen.GUID)
		})
	case x.t.Duplicate == 1:
		x.intendDelete(seen.GUID)
	case seen.State == rowCreating, seen.State == rowUpdating:
		x.wait()
	case seen.State == rowIdle:
		x.succeedCreate()
	case !x.failureIsFinal():
		x.wait()
	default:
		x.report(endIt, "reports: create failed", func(n *state) {
			n.Instance.GUID = seen.GUID
			createHasFailed(n, x.t.Op)
		})
	}
}

// failCreate reports a failure, where it should wait for open calls once there is none.
func (x turn) failCreate(what string, waits bool) {
	if waits && x.open() != 0 {
		x.wait()
		return
	}
	x.report(endIt, what, func(n *state) { createHasFailed(n, x.t.Op) })
}

func createHasFailed(n *state, op uint8) {
	n.Instance.State, n.Instance.Op, n.Instance.CreateOp = createFailed, op, op
	n.setResult(op, failed)
}

func (x turn) succeedCreate() {
	op, guid := x.t.Op, x.t.Seen.GUID
	x.report(sendIt, "reports: created", func(n *state) {
		made := n.rowOf(guid)
		if (made.GUID != guid || made.State != rowIdle) && n.Restored != 2 {
			n.violates(reportFlips)
		}
		r := &n.Instance
		old := r.GUID
		r.State, r.Op, r.CreateOp, r.GUID, r.Plan = ready, op, op, guid, n.Ops[op].Plan
		if x.GUIDs && old != guid && old != 0 {
			if r.OtherGUID == guid {
				r.OtherGUID = 0
			}
			n.noteGUID(old)
		}
		if x.Restore && made.GUID == guid && n.Ops[op].Phase == n.Phase {
			made.Told = 1
		}
		n.setResult(op, succeeded)
	})
}

// failureIsFinal reports whether a failed row may be believed.
func (x turn) failureIsFinal() bool {
	switch {
	case x.FailureIsFinal && x.t.Seen.Final == 0, x.FailedWaits && x.open() != 0:
		return false
	}
	return !x.NoFailedJobs || x.OldFailureIsOld || recordOf(x.s, &x.t).Job == 0
}

// decideDelete is docs/protocol.md 6.
func (x turn) decideDelete() {
	seen, op := &x.t.Seen, x.t.Op
	unknown := x.Restore && !x.knows(x.s, seen.Mark)
	switch {
	case seen.GUID == 0, seen.Mark == 0 && x.SpareUnmarked, unknown && !x.UnknownIsNotNone:
		if x.GoneWaits && x.open()&openPost != 0 { // a late PATCH would meet no row
			x.wait()
			return
		}
		x.report(endIt, "reports: deleted", x.deleted)
	case unknown && x.DeleteFailsOverNew:
		x.report(endIt, "reports: delete failed, over a row of an operation that the record does not know", func(n *state) {
			n.Instance.State, n.Instance.Op = deleteFailed, op
			n.setResult(op, failed)
		})
	case x.SpareNewer && x.later(x.s, seen.Mark, op):
		x.wait()
	case x.Plans && x.PlanOfRow && x.DeleteFailedWaits && seen.FailedFor == op && (seen.State == rowUpdating || x.open()&openPatch != 0):
		x.wait()
	case seen.FailedFor == op, !x.OwnDeleteFailed && seen.FailedFor != 0:
		x.report(endIt, "reports: delete failed", func(n *state) {
			if seen.FailedFor != op {
				n.violates(deleteUntrue)
			}
			n.Instance.State, n.Instance.Op = deleteFailed, op
			x.learnPlan(n)
			n.setResult(op, failed)
		})
	default:
		x.deleteAfterBindings()
	}
}

func (x turn) deleted(n *state) {
	if n.Restored == 2 && n.Row.GUID != 0 && n.Row.Mark != 0 && x.RestoreWhenQuiet {
		n.violates(goneAfterRestore)
	}
	r := &n.Instance
	r.State, r.Op, r.GUID, r.OtherGUID = gone, x.t.Op, 0, 0
	n.endDelete(x.t.Op)
}

// deleteAfterBindings sends the DELETE once the bindings of this incarnation are gone.
func (x turn) deleteAfterBindings() {
	if !x.BindingsFirst {
		x.intendDelete(x.t.Seen.GUID)
		return
	}
	at, p := x.s.bindingState(), &x.s.Predecessor
	switch {
	case x.FailedUnbindWaits && at == deleteFailed && x.s.Binding.Open != [3]uint8{}:
		x.wait()
	case at == deleting, p.State != absent && p.State != gone && p.CreateOp == x.s.Instance.CreateOp:
		x.wait()
	case at != creating && at != ready && at != createFailed:
		x.intendDelete(x.t.Seen.GUID)
	case x.t.Fresh == 1 && x.s.NumOps < maxOps-1:
		x.end(claim, "unbinds the binding", func(n *state) { x.claimUnbind(n, 0, cascade) })
	default:
		x.lostWrite()
	}
}

// decideUpdate is docs/protocol.md 5, in the order of internal/lifecycle/update.go.
func (x turn) decideUpdate() {
	seen, r, op := &x.t.Seen, &x.s.Instance, x.t.Op
	busy := seen.State == rowUpdating
	jobFailed := r.JobOf != 0 && seen.FailedJobs&(1<<r.JobOf) != 0
	if !x.PatchJobs {
		jobFailed = seen.UpdateFail == op
	}
	switch {
	case seen.GUID != r.GUID && x.t.Fresh == 1:
		x.report(endIt, "reports: update failed, the instance is gone", func(n *state) {
			n.Instance.State = ready
			n.setResult(op, failed)
		})
	case seen.UpdateMark == op:
		x.report(sendIt, "reports: updated", func(n *state) {
			n.Instance.State, n.Instance.Op, n.Instance.Plan = ready, op, n.Ops[op].Plan
			x.learnPlan(n)
			n.setResult(op, succeeded)
		})
	case jobFailed && !(x.CountPatches && busy && r.Calls != 1):
		x.failUpdate("reports: update failed, by its job")
	case r.Refused == 1 && !(x.CountPatches && busy):
		x.failUpdate("reports: update failed, refused")
	case busy:
		x.wait()
	case x.WaitForOthersCalls && x.open()&openOther != 0:
		x.wait()
	case x.PatchJobs && r.JobOf != 0:
		x.wait()
	case x.PatchJobs && r.Calls >= 3:
		x.failUpdate("reports: update failed, sent often enough")
	default:
		x.intend(x.PatchOnRevision, seen.GUID)
	}
}

func (x turn) failUpdate(what string) {
	if x.FailedWaits && x.open() != 0 {
		x.wait()
		return
	}
	x.report(endIt, what, func(n *state) {
		n.Instance.State, n.Instance.Op = ready, x.t.Op
		x.learnPlan(n)
		n.setResult(x.t.Op, failed)
	})
}

// learnPlan: what lives on is what Cloud Foundry says it is.
func (x turn) learnPlan(n *state) {
	if x.Plans && x.PlanOfRow && x.t.Seen.GUID != 0 {
		n.Instance.Plan = x.t.Seen.Plan
	}
}

// endsAtDeadline: past the deadline nothing more is sent. The operation ends as failed, unless its row says otherwise,
// or a PATCH may still change what lives on.
func (x turn) endsAtDeadline() bool {
	t := &x.t
	if x.s.Instance.PastDeadline == 0 {
		return false
	}
	if x.looksAfterDeadline() && x.kind() == createKind {
		if t.Seen.Mark == t.Op && t.Seen.State == rowIdle {
			return false
		}
		x.report(endIt, "reports: create failed, deadline", func(n *state) { createHasFailed(n, t.Op) })
		return true
	}
	if !x.waitsAtDeadline() || t.Seen.GUID == 0 || t.Seen.UpdateMark == t.Op {
		return false
	}
	if x.open()&openPatch != 0 || t.Seen.State == rowUpdating {
		x.wait()
		return true
	}
	x.report(endIt, "reports: failed, deadline", func(n *state) {
		n.Instance.State, n.Instance.PastDeadline = deleteFailed, 0
		if x.kind() == updateKind {
			n.Instance.State = ready
		}
		x.learnPlan(n)
		n.setResult(t.Op, failed)
	})
	return true
}
