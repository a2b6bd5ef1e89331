package main

// requests are the platform's, and the handlers that carry them out: read, decide, claim.
type requests struct{ *model }

// next emits what each handler may do, and the platform's next intent.
func (m requests) next(s *state, out emit) {
	for i := range s.Requests {
		if m.TwoIDs > 0 && i != int(s.Current) {
			continue
		}
		h := s.Requests[i]
		switch h.Step {
		case noRequest:
			if m.TwoIDs > 0 || i == 0 || s.Requests[0].Step != noRequest { // two idle handlers are one
				m.arrive(s, i, out)
			}
		case readsParameters:
			m.die(s, i, out)
			m.readPredecessor(s, i, out)
		case meansToClaim:
			m.die(s, i, out)
			m.tryClaim(s, i, out)
		case lostItsClaim:
			m.die(s, i, out)
			m.readAfterLostClaim(s, i, out)
		}
	}
	m.turn(s, out)
}

func (m requests) die(s *state, i int, out emit) {
	n := *s
	n.Requests[i] = request{}
	out(n, label{Event: death, Request: s.Requests[i].Kind, What: "its handler dies"})
}

// turn is the platform's next phase.
func (m requests) turn(s *state, out emit) {
	if int(s.Phase)+1 >= len(m.Script) {
		return
	}
	p := m.Script[s.Phase+1]
	if p.After == deleted && s.Done == 0 || p.After == whenReady && s.Instance.State != ready {
		return
	}
	n := *s
	n.Phase++
	n.Done = 0
	if p.Kind == deleteKind {
		n.Row.Told, n.OtherRow.Told, n.Renamed.Told = 0, 0, 0
	}
	out(n, label{Event: platform, What: "the platform wants: " + kindNames[p.Kind]})
}

// arrive is the first read of a request of the current phase.
func (m requests) arrive(s *state, i int, out emit) {
	p := m.Script[s.Phase]
	h := request{Step: meansToClaim, Kind: p.Kind, Plan: p.Plan, Phase: s.Phase, MayClaim: 1, ID: s.Current}
	if m.ClaimFirst && p.Kind == createKind {
		m.claimUnread(s, i, h, out)
		return
	}
	if m.Faults.LateGone > 0 || m.Faults.Expire > 0 {
		h.CreateOp = s.Instance.CreateOp
	}
	if p.Kind == bindKind {
		m.arriveBind(s, i, h, out)
		return
	}
	claims, answersGone := m.decide(s, &h)
	if answersGone {
		m.answerGone(s, h, out)
	}
	if claims {
		n := *s
		n.Requests[i] = h
		out(n, label{Event: requestRead, Request: h.Kind, What: "reads the record, means to claim"})
	}
}

// arriveBind reads the instance, and before it the binding's own record.
func (m requests) arriveBind(s *state, i int, h request, out emit) {
	if !m.bindable(s) {
		return
	}
	h.InstanceCreateOp, h.InstanceGUID = s.Instance.CreateOp, m.guidForBind(s)
	if m.Early && m.OwnRecordFirst {
		if claims, _ := m.decide(s, &h); !claims {
			return
		}
	}
	if m.Rotate {
		h.Step = readsParameters
	}
	n := *s
	n.Requests[i] = h
	out(n, label{Event: requestRead, Request: h.Kind, What: "reads the instance"})
}

// bindable reports whether the instance's record permits a bind.
func (m requests) bindable(s *state) bool {
	switch s.Instance.State {
	case ready, updating:
		return true
	case creating:
		return m.Early
	default:
		return false
	}
}

// guidForBind is the GUID that a bind takes from the instance's record when it is claimed.
func (m requests) guidForBind(s *state) uint8 {
	if m.GUIDs && m.GUIDOfReadyOnly && s.Instance.State == creating {
		return 0
	}
	return s.Instance.GUID
}

func (m requests) readPredecessor(s *state, i int, out emit) {
	h := s.Requests[i]
	if s.Predecessor.State != ready {
		return
	}
	h.CreateOp = s.Predecessor.CreateOp
	if m.SamePredecessorLife && h.CreateOp != h.InstanceCreateOp {
		return
	}
	h.Step = meansToClaim
	if m.RotateAgain {
		h.Parameters = h.CreateOp
	}
	n := *s
	n.Requests[i] = h
	out(n, label{Event: requestRead, Request: h.Kind, What: "reads the predecessor, means to claim"})
}

// decide says by the table of states what becomes of a request.
func (m requests) decide(s *state, h *request) (claims, answersGone bool) {
	if h.Kind.ofBinding() {
		at := s.Binding.State
		if m.BindingOfIncarnation {
			at = s.bindingState()
		}
		if h.Kind == unbindKind {
			return at != absent && at != gone && at != deleting, at == absent || at == gone
		}
		return at == absent || at == gone || at == createFailed, false
	}
	at := s.Instance.State
	switch h.Kind {
	case createKind:
		return at == absent || at == gone || at == createFailed && s.Ops[s.Instance.CreateOp].Plan == h.Plan, false
	case deleteKind:
		return at != absent && at != gone && at != deleting, at == absent || at == gone
	case updateKind:
		return (at == ready || m.Plans && at == deleteFailed) && s.Instance.Plan != h.Plan, false
	default:
		return false, false
	}
}

// answerGone answers 410, now, or hangs with its write on the way.
func (m requests) answerGone(s *state, h request, out emit) {
	if s.Done == 0 || m.GoneMovesLife {
		n := *s
		m.writeGone(&n, h)
		out(n, label{Event: requestRead, Request: h.Kind, What: "is answered 410"})
	}
	if s.Left.LateGone > 0 && s.GoneWrite == 0 {
		n := *s
		n.Left.LateGone--
		n.GoneWrite = 2
		if m.GoneOnRevision {
			n.GoneWrite = 1
		}
		out(n, label{Event: death, Request: h.Kind, What: "its handler dies, its 410 write hangs"})
	}
}

// writeGone is the write of a 410.
func (m requests) writeGone(s *state, h request) {
	if h.Phase == s.Phase {
		s.ended(h.Kind)
	}
	at := s.Instance.State
	if h.Kind.ofBinding() {
		at = s.bindingState()
	}
	if !m.GoneMovesLife || at != absent && at != gone {
		return
	}
	s.wrote(h.Kind.ofBinding())
	s.lifeMoved(h.Kind.ofBinding())
	if !h.Kind.ofBinding() && s.Instance.State == absent && (m.Restore || m.ClaimFirst) {
		s.Instance.Ghost = 1
		if m.Restore && s.Instance.Seq == 0 {
			s.Instance.Seq = unixTime(s)
		}
	}
}

// tryClaim is the claim of a request that has read. Where its record has moved, it reads again and decides anew.
func (m requests) tryClaim(s *state, i int, out emit) {
	h := s.Requests[i]
	n := *s
	n.Requests[i] = request{}
	if !m.ClaimOnRevision {
		if s.NumOps < m.MaxOps {
			m.claim(&n, h)
			out(n, label{Event: claim, Request: h.Kind, Op: n.NumOps, What: "is claimed without a condition"})
		}
		return
	}
	inOrder := m.Early && m.OwnRecordFirst && h.Kind == bindKind
	if inOrder && h.Moved == 1 {
		m.readBindAgain(s, i, out)
		return
	}
	m.readParametersAgain(s, i, out)
	claims, answersGone := m.decide(s, &h)
	if inOrder {
		claims, answersGone = true, false // decided when it read; the record has not moved
	}
	if m.ClaimOnFirstRead && h.MayClaim == 0 { // what it was about is over: it answers, and claims nothing
		claims, answersGone = false, h.Kind == deleteKind || h.Kind == unbindKind
	}
	switch {
	case answersGone:
		at := s.Instance.State
		if m.Faults.LateGone > 0 && h.CreateOp == s.Instance.CreateOp && (at == creating || at == ready || at == updating) {
			n.violates(toldGone)
		}
		m.writeGone(&n, h)
		out(n, label{Event: requestRead, Request: h.Kind, What: "is answered 410 after a lost claim"})
	case claims && s.NumOps < m.MaxOps:
		if h.Kind == bindKind && m.Rotate && (h.CreateOp != h.InstanceCreateOp || m.RotateAgain && h.Parameters != h.InstanceCreateOp) {
			n.violates(formerParameters)
		}
		m.claim(&n, h)
		out(n, label{Event: claim, Request: h.Kind, Op: n.NumOps, What: "is claimed"})
		if m.Inline {
			m.goOn(&n, h.Kind == createKind && s.Instance.State == absent, out)
		}
	}
}

// readBindAgain reads record and instance anew after a lost claim.
func (m requests) readBindAgain(s *state, i int, out emit) {
	h := s.Requests[i]
	if !m.bindable(s) {
		return
	}
	h.InstanceCreateOp, h.InstanceGUID, h.Moved = s.Instance.CreateOp, m.guidForBind(s), 0
	if claims, _ := m.decide(s, &h); !claims || m.ClaimOnFirstRead && h.MayClaim == 0 {
		return
	}
	n := *s
	n.Requests[i] = h
	out(n, label{Event: requestRead, Request: h.Kind, What: "has lost its claim, reads record and instance again"})
}

// readParametersAgain: a rotation was held, or has lost its claim.
func (m requests) readParametersAgain(s *state, i int, out emit) {
	h, at := s.Requests[i], s.Instance.State
	moved := h.InstanceCreateOp != s.Instance.CreateOp || h.CreateOp != s.Predecessor.CreateOp
	if !m.RotateAgain || h.Kind != bindKind || s.Predecessor.State != ready || at != ready && at != updating || !moved ||
		m.SamePredecessorLife && s.Predecessor.CreateOp != s.Instance.CreateOp {
		return
	}
	h.InstanceCreateOp, h.InstanceGUID, h.CreateOp = s.Instance.CreateOp, s.Instance.GUID, s.Predecessor.CreateOp
	if m.ParametersAgain {
		h.Parameters = h.CreateOp
	}
	n := *s
	n.Requests[i] = h
	out(n, label{Event: requestRead, Request: h.Kind, What: "reads predecessor and instance again"})
}

// goOn: the handler of a claim just made goes on as a ticker, on the revision of its claim (protocol.md 3.7).
func (m requests) goOn(s *state, wasAbsent bool, out emit) {
	for i := range m.Tickers {
		if s.Ticks[i].Step != noTick {
			continue
		}
		op := s.Instance.Op
		if s.Ops[s.NumOps].Kind.ofBinding() {
			op = s.Binding.Op
		}
		if wasAbsent && m.OpenFirst {
			n := *s
			n.Instance.Open[0], n.Instance.First = op, 0
			n.Ticks[i] = tick{Step: sends, Op: op, Fresh: 1}
			out(n, label{Event: claim, Op: op, What: "is claimed with its open call, and about to be sent"})
			return
		}
		ticks(m).begin(s, i, op, out)
		return
	}
}
