package main

// world is time, and what happens to the store.
type world struct{ *model }

// next emits what time and operators may do.
func (m world) next(s *state, out emit) {
	m.expire(s, out)
	m.forget(s, out)
	m.movePredecessor(s, out)
	m.deadlines(s, out)
	requests(m).arriveLate(s, out)
	m.restore(s, out)
	if m.Audit {
		n := *s
		if m.audit(&n) {
			out(n, label{Event: operator, What: "the audit removes a row whose operation is over"})
		}
	}
}

// expire: an open call has expired. This is the one assumption about time: nothing of it can take effect any more.
func (m world) expire(s *state, out emit) {
	for b := range 2 {
		r, seen := &s.Instance, &s.Row
		if b == 1 {
			r, seen = &s.Binding, &s.Key
		}
		for slot, op := range r.Open {
			if op == 0 || !m.mayExpire(s, seen, op, uint8(slot)) {
				continue
			}
			n := *s
			if b == 0 {
				n.Instance.Open[slot] = 0
			} else {
				n.Binding.Open[slot] = 0
			}
			out(n, label{Event: expiry, Op: op, What: "an open call expires"})
		}
	}
}

func (m world) mayExpire(s *state, seen *row, op, slot uint8) bool {
	if m.CallsEndInTime && s.Late.Kind != noKind && s.Late.Op == op && s.Late.Slot == slot {
		return false
	}
	for i := range s.Ticks {
		t := &s.Ticks[i]
		if m.SendersEndInTime && (t.Step == sends || t.Step == notesAnswer) && t.Op == op && t.Slot == slot {
			return false
		}
	}
	return !m.CallsEndInTime || seen.GUID == 0 || seen.Mark != op || seen.Final == 1
}

// forget: a tombstone expires; a 410's write that hung arrives, or does not.
func (m world) forget(s *state, out emit) {
	if s.Left.Expire > 0 && (s.Instance.State == gone || s.Instance.Ghost == 1) && m.mayForget(s) {
		n := *s
		for i := range n.Requests {
			if n.Requests[i].CreateOp == 0 { // it has read "absent", and would read so again
				n.Requests[i].MayClaim = 1
			}
		}
		n.Left.Expire--
		n.wroteInstance()
		n.Instance = record{}
		out(n, label{Event: expiry, What: "the tombstone expires"})
	}
	if s.GoneWrite != 0 {
		n := *s
		n.GoneWrite = 0
		n.wroteInstance()
		n.lifeMoved(false)
		out(n, label{Event: byStore, What: "a 410's write arrives"})
		n = *s
		n.GoneWrite = 0
		out(n, label{Event: byStore, What: "a 410's write is lost"})
	}
}

func (m world) mayForget(s *state) bool {
	if m.OutliveRequests && (s.Hanging.Step != noRequest || s.Requests[0].Step != noRequest || s.Requests[1].Step != noRequest) {
		return false
	}
	if !m.OutliveCalls {
		return true
	}
	for i := range s.Ticks {
		if s.Ticks[i].Step == sends {
			return false
		}
	}
	return s.Late.Kind == noKind && s.Row.GUID == 0 && s.OtherRow.GUID == 0
}

// movePredecessor: the binding that a rotation copies from is unbound, and bound again.
func (m world) movePredecessor(s *state, out emit) {
	p := &s.Predecessor
	if p.State == ready || p.State == deleting {
		n := *s
		n.Predecessor.State = deleting
		if p.State == deleting {
			n.Predecessor = predecessor{State: gone}
		}
		out(n, label{Event: platform, What: "the predecessor is being unbound"})
	}
	if p.State == gone && s.Instance.State == ready && s.Instance.CreateOp != 1 {
		n := *s
		n.Predecessor = predecessor{State: ready, CreateOp: s.Instance.CreateOp}
		out(n, label{Event: platform, What: "the predecessor is bound again"})
	}
}

// deadlines: an operation reaches its deadline.
func (m world) deadlines(s *state, out emit) {
	if s.Left.Deadline == 0 {
		return
	}
	op := s.Instance.Op
	if op != 0 && m.runs(s, op) {
		m.instanceDeadline(s, op, out)
	}
	if op := s.Binding.Op; m.NamedKeys && op != 0 && s.Ops[op].Result == running && s.Ops[op].Kind == bindKind {
		n := *s
		n.Left.Deadline--
		n.wroteBinding()
		n.setResult(op, failed)
		n.Binding.PastDeadline, n.Binding.State = 1, createFailed
		out(n, label{Event: expiry, Op: op, What: "its deadline ends it"})
	}
}

func (m world) instanceDeadline(s *state, op uint8, out emit) {
	n, k := *s, s.Ops[op].Kind
	n.Left.Deadline--
	judgesByLook := m.Plans || m.looksAfterDeadline()
	switch {
	case judgesByLook && (k == createKind && !m.looksAfterDeadline() || s.Instance.PastDeadline == 1), !judgesByLook && k == updateKind:
		return
	case judgesByLook && (k == createKind || m.waitsAtDeadline()): // its next tick ends it
		n.Instance.PastDeadline = 1
		out(n, label{Event: expiry, Op: op, What: "its deadline is over"})
		return
	}
	n.wroteInstance()
	n.setResult(op, failed)
	n.Instance.State = map[kind]recordState{createKind: createFailed, deleteKind: deleteFailed, updateKind: ready}[k]
	if !m.Plans {
		n.Instance.PastDeadline = 1
	}
	out(n, label{Event: expiry, Op: op, What: "its deadline ends it"})
}

func (m *model) looksAfterDeadline() bool { return m.LastLook && m.LookAfterDeadline }
func (m *model) waitsAtDeadline() bool    { return m.Plans && m.DeadlineWaits }
