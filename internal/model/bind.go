package main

// keyTurn decides about a binding.
type keyTurn struct{ turn }

// decideBind is docs/protocol.md 7 for a bind: rows of keys as those of instances, and the instance must still be the
// one for which the bind was accepted.
func (x keyTurn) decideBind() {
	seen, b := &x.t.Seen, &x.s.Binding
	switch {
	case seen.GUID == 0 && (x.t.InstanceOK == 0 || b.Refused == 1):
		if x.GoneWaits && x.open() != 0 && !x.instanceGone() {
			x.wait()
			return
		}
		x.report(endIt, "reports: bind failed", x.bindHasFailed)
	case seen.GUID == 0 && x.Vanished && b.Job == 1:
		if x.FailedWaits && x.open() != 0 {
			x.wait()
			return
		}
		x.report(endIt, "reports: bind failed, vanished", x.bindHasFailed)
	case seen.GUID == 0:
		x.intend(x.PostOnRevision, x.t.GUID)
	case x.AdoptOnlyOwn && x.SpareNewer && seen.Mark > x.t.Op:
		x.wait()
	case x.AdoptOnlyOwn && seen.Mark != x.t.Op:
		x.intendDelete(seen.GUID)
	default:
		x.judgeOwnKey()
	}
}

// judgeOwnKey is about the key of this bind.
func (x keyTurn) judgeOwnKey() {
	seen, b := &x.t.Seen, &x.s.Binding
	switch {
	case seen.State == rowCreating:
		x.wait()
	case seen.State == rowIdle && x.NamedKeys && x.OneKey && x.open()&openOther != 0:
		x.wait()
	case seen.State == rowIdle && x.Held && x.NeverAdoptRemoved && b.Removes == seen.GUID:
		x.intendCleanUp()
	case seen.State == rowIdle:
		x.report(sendIt, "reports: bound", x.bound)
	case x.Held && b.Refused == 1:
		x.intendCleanUp()
	case !x.failureIsFinal():
		x.wait()
	case x.Held:
		x.intendCleanUp()
	default:
		x.report(endIt, "reports: bind failed", x.bindHasFailed)
	}
}

func (x keyTurn) bound(n *state) {
	b := &n.Binding
	if x.t.Seen.Mark != x.t.Op {
		n.violates(adopted)
	}
	b.State, b.Op, b.CreateOp, b.GUID = ready, x.t.Op, x.t.Op, x.t.Seen.GUID
	if x.Early && b.InstanceGUID == 0 {
		b.InstanceGUID = x.t.GUID
	}
	n.setResult(x.t.Op, succeeded)
}

func (x keyTurn) bindHasFailed(n *state) {
	n.Binding.State, n.Binding.Op, n.Binding.CreateOp = createFailed, x.t.Op, x.t.Op
	n.setResult(x.t.Op, failed)
}

func (x keyTurn) instanceGone() bool {
	return x.s.Binding.InstanceCreateOp != x.s.Instance.CreateOp || x.s.Instance.State == gone
}

// intendCleanUp: a held bind removes its own failed key, and remembers that in the same write.
func (x keyTurn) intendCleanUp() {
	if x.t.Fresh == 0 {
		x.lostWrite()
		return
	}
	n := *x.s
	n.wroteBinding()
	n.Binding.Refused, n.Binding.Removes = 1, x.t.Seen.GUID
	t := &n.Ticks[x.i]
	t.Fresh, t.Step, t.GUID, t.Seen = 1, sendsDelete, x.t.Seen.GUID, row{}
	x.out(n, label{Event: intent, Op: x.t.Op, GUID: t.GUID, What: "intends to remove its own failed key"})
}

// decideUnbind is docs/protocol.md 7 for an unbind.
func (x keyTurn) decideUnbind() {
	seen, op := &x.t.Seen, x.t.Op
	switch {
	case seen.GUID == 0:
		noCallCanMakeOne := x.instanceGone() || x.Early && x.t.GUID == 0
		if x.GoneWaits && x.open() != 0 && !noCallCanMakeOne {
			x.wait()
			return
		}
		x.report(endIt, "reports: unbound", func(n *state) {
			n.Binding.State, n.Binding.Op, n.Binding.GUID = gone, op, 0
			n.endDelete(op)
		})
	case x.SpareNewer && seen.Mark > op:
		x.wait()
	case seen.FailedFor == op:
		x.report(endIt, "reports: unbind failed", func(n *state) {
			n.Binding.State, n.Binding.Op = deleteFailed, op
			n.setResult(op, failed)
		})
	default:
		x.intendDelete(seen.GUID)
	}
}
