package main

// claim applies the claim on which a request has decided: one write with the new operation, the superseded one failed,
// every open call kept.
func (m requests) claim(s *state, h request) {
	m.judgeClaim(s, h)
	switch h.Kind {
	case bindKind:
		m.claimBind(s, h)
	case unbindKind:
		m.claimUnbind(s, h.Plan, h.Phase)
	default:
		m.claimInstance(s, h)
	}
}

// supersede reports the operation that a claim cancels.
func supersede(s *state, op uint8) {
	if op != 0 && s.Ops[op].Result == running {
		s.setResult(op, failed)
	}
}

func (m requests) claimBind(s *state, h request) {
	supersede(s, s.Binding.Op)
	op := s.newOp(bindKind, h.Plan, h.Phase)
	s.seqMoved(true)
	s.wroteBinding()
	open := s.Binding.Open
	if s.Binding.InstanceCreateOp != h.InstanceCreateOp || !m.KeepOpenCalls {
		open = [3]uint8{}
	}
	s.Ops[op].Instance = h.InstanceCreateOp
	s.Binding = record{State: creating, Op: op, CreateOp: op, InstanceCreateOp: h.InstanceCreateOp, InstanceGUID: h.InstanceGUID,
		Open: open, First: m.foundBy(s.bindingState(), open)}
}

// claimUnbind is the claim of an unbind, by a request or by the delete of its instance.
func (m *model) claimUnbind(s *state, plan, phase uint8) {
	supersede(s, s.Binding.Op)
	op := s.newOp(unbindKind, plan, phase)
	s.seqMoved(true)
	s.wroteBinding()
	b := &s.Binding
	b.State, b.Op, b.Job, b.First, b.Refused, b.Removes = deleting, op, 0, 0, 0, 0
	if !m.KeepOpenCalls {
		b.Open = [3]uint8{}
	}
}

func (m requests) claimInstance(s *state, h request) {
	supersede(s, s.Instance.Op)
	op := s.newOp(h.Kind, h.Plan, h.Phase)
	m.number(s, op)
	s.seqMoved(false)
	s.wroteInstance()
	r := &s.Instance
	if !m.KeepOpenCalls {
		r.Open = [3]uint8{}
	}
	switch h.Kind {
	case createKind:
		old := *r
		*r = record{State: creating, Op: op, CreateOp: op, Open: old.Open, First: m.foundBy(old.State, old.Open), Seq: old.Seq, Knows: old.Knows}
		if m.GUIDs && m.KeepFormerGUIDs {
			r.GUID, r.OtherGUID = old.GUID, old.OtherGUID
		}
		if s.Row.GUID != 0 && s.Row.Mark == 0 {
			s.Row.After = 1
		}
	case deleteKind:
		r.State, r.Op, r.Job, r.PastDeadline, r.First, r.Refused = deleting, op, 0, 0, 0, 0
	case updateKind:
		r.State, r.Op, r.Job, r.Refused, r.Calls, r.JobOf = updating, op, 0, 0, 0, 0
		s.Row.FailedJobs = 0
	default: // of bindings
	}
}

// What a claim found (record.First, scenario.NoLook).
const (
	foundAbsent    = 1 << iota
	foundGone      // a tombstone without open calls
	foundGoneOpen  // one with open calls
	foundFailed    // create failed
	withoutOpening // scenario.NoLook only: every tick that sees no open call
)

func (m *model) foundBy(at recordState, open [3]uint8) uint8 {
	switch {
	case m.NoLook == 0:
		return 0
	case at == absent:
		return foundAbsent
	case at == createFailed:
		return foundFailed
	case open == [3]uint8{}:
		return foundGone
	}
	return foundGoneOpen
}

// claimUnread begins with the claim, on condition that there is no record (protocol.md 2.1). Its answer may be lost,
// and the write may hang.
func (m requests) claimUnread(s *state, i int, h request, out emit) {
	unknown := h
	unknown.Step = lostItsClaim
	if s.Instance.State == absent && s.Instance.Ghost == 0 {
		if s.NumOps < m.MaxOps {
			n := *s
			m.claim(&n, h)
			out(n, label{Event: claim, Request: h.Kind, Op: n.NumOps, What: "is claimed without a read"})
			n.Requests[i] = unknown
			n.Requests[i].Own = n.NumOps
			out(n, label{Event: claim, Request: h.Kind, Op: n.NumOps, What: "is claimed without a read, the answer is lost"})
		}
	} else {
		n := *s
		if claims, _ := m.decide(s, &h); claims {
			n.Requests[i] = h
			out(n, label{Event: requestRead, Request: h.Kind, What: "has its first claim refused, is shown the record"})
		}
		n.Requests[i] = unknown
		out(n, label{Event: requestRead, Request: h.Kind, What: "has its first claim refused, the answer is lost"})
	}
	if s.Left.LateClaim > 0 && s.Hanging.Step == noRequest {
		n := *s
		n.Left.LateClaim--
		n.Hanging, n.Requests[i] = h, unknown
		n.Requests[i].Parameters = 1
		out(n, label{Event: requestRead, Request: h.Kind, What: "begins with a claim that hangs"})
	}
}

// arriveLate: a first claim that hung is applied, or lost.
func (m requests) arriveLate(s *state, out emit) {
	if s.Hanging.Step == noRequest {
		return
	}
	n := *s
	n.Hanging = request{}
	out(n, label{Event: death, Request: s.Hanging.Kind, What: "its hanging claim is lost"})
	if s.Instance.State != absent || s.Instance.Ghost == 1 || s.NumOps >= m.MaxOps {
		return
	}
	m.claim(&n, s.Hanging)
	for i := range n.Requests {
		if h := &n.Requests[i]; h.Step == lostItsClaim && h.Parameters == 1 {
			h.Own = n.NumOps
		}
	}
	out(n, label{Event: claim, Request: s.Hanging.Kind, Op: n.NumOps, What: "has its hanging claim applied"})
}

// readAfterLostClaim: with its own operation in the record it was won. Otherwise it claims again only where there is no
// item, on the same condition (protocol.md 2.3).
func (m requests) readAfterLostClaim(s *state, i int, out emit) {
	h := s.Requests[i]
	claims, _ := m.decide(s, &h)
	isAbsent := s.Instance.State == absent && s.Instance.Ghost == 0
	if h.Own != 0 || !claims || m.RepeatOnlyWhereAbsent && !isAbsent {
		return
	}
	h.Step, h.MayClaim, h.Parameters = meansToClaim, 1, 0
	n := *s
	n.Requests[i] = h
	out(n, label{Event: requestRead, Request: h.Kind, What: "reads after its lost claim, means to claim again"})
}
