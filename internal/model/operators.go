package main

// others: strangers make instances and keys, and remove what is being created.
func (m cloud) others(s *state, out emit) {
	if s.Left.Vanish > 0 {
		for _, at := range []func(*state) *row{func(s *state) *row { return &s.Row }, func(s *state) *row { return &s.Key }} {
			if r := at(s); r.GUID != 0 && r.State == rowCreating {
				n := *s
				n.Left.Vanish--
				*at(&n) = row{}
				out(n, label{Event: operator, GUID: r.GUID, What: "somebody removes it while it is being created"})
			}
		}
	}
	if s.Left.Foreign > 0 && s.Row.GUID == 0 {
		for _, at := range [...]rowState{rowIdle, rowFailed} {
			n := *s
			n.Left.Foreign--
			n.GUIDs++
			n.Row = row{GUID: n.GUIDs, State: at, Final: 1}
			out(n, label{Event: operator, GUID: n.GUIDs, What: "somebody else makes an instance of our name"})
		}
	}
	switch {
	case s.ForeignKey == 0 && s.Left.ForeignKeys > 0 && s.Row.GUID != 0 && s.Row.State == rowIdle:
		n := *s
		n.Left.ForeignKeys--
		n.ForeignKey = 1
		if s.Row.Deleting == 1 {
			n.ForeignKey = 3
		}
		out(n, label{Event: operator, What: "somebody else makes a key on our instance"})
	case s.ForeignKey == 2:
		n := *s
		n.ForeignKey = 0
		out(n, label{Event: byCloud, What: "the stranger's key is unbound"})
		if s.Left.DeleteFail > 0 {
			n.ForeignKey = 1
			n.Left.DeleteFail--
			out(n, label{Event: byCloud, What: "the unbind of the stranger's key fails"})
		}
	}
}

// rename: somebody renames our row, or names it back; a name becomes taken by what no look-up shows.
func (m cloud) rename(s *state, out emit) {
	r := &s.Row
	if s.Left.Rename > 0 && r.GUID != 0 && r.Mark != 0 && s.Renamed.GUID == 0 && (!m.RenameKnown || r.GUID == s.Instance.GUID || r.GUID == s.Instance.OtherGUID) {
		n := *s
		n.Left.Rename--
		n.Renamed, n.Row = s.Row, row{}
		out(n, label{Event: operator, GUID: r.GUID, What: "somebody renames our instance"})
	}
	if s.Left.Rename > 0 && s.Renamed.GUID != 0 && s.Row.GUID == 0 && s.Hidden == 0 {
		n := *s
		n.Left.Rename--
		n.Row, n.Renamed = s.Renamed, row{}
		out(n, label{Event: operator, GUID: n.Row.GUID, What: "somebody gives our instance its name back"})
	}
	if s.Left.Hide > 0 && (s.Hidden == 1 || s.Row.GUID == 0) {
		n := *s
		n.Left.Hide--
		n.Hidden ^= 1
		out(n, label{Event: operator, What: "the name becomes taken, or free, by what no look-up shows"})
	}
}

// loseRole: the login loses its role. From then on look-ups show nothing, and calls are refused.
func (m cloud) loseRole(s *state, out emit) {
	if s.Left.Blind > 0 && s.Blind == 0 {
		n := *s
		n.Left.Blind--
		n.Blind = 1
		out(n, label{Event: operator, What: "the login loses its role"})
	}
	if s.Blind == 1 && m.mayRegain(s) {
		n := *s
		n.Blind = 0
		out(n, label{Event: operator, What: "the login gets its role back"})
	}
}

// mayRegain: not while a look-up waits for its confirmation.
func (m cloud) mayRegain(s *state) bool {
	for i := range s.Ticks {
		if at := s.Ticks[i].Step; m.RoleStaysAway && (at == confirms || at == awaitsPage) {
			return false
		}
	}
	return true
}

// restore: the store is copied, and set back to the copy or to nothing. That ends all handlers and ticks; only what is
// about to be sent goes on.
func (m world) restore(s *state, out emit) {
	if !m.Restore || s.Restored == 2 {
		return
	}
	if s.Restored == 0 && (s.Instance.State != absent || s.Instance.Ghost == 1) {
		n := *s
		n.Restored, n.Copy = 1, s.Instance
		out(n, label{Event: byStore, What: "the store is copied"})
	}
	if s.Instance == s.Copy || m.RestoreWhenQuiet && !noCalls(s) {
		return
	}
	n := *s
	n.Restored, n.OpsBefore, n.Instance, n.Copy = 2, s.NumOps, s.Copy, record{}
	n.Requests = [2]request{}
	for i := range n.Ticks {
		if t := &n.Ticks[i]; t.Step == sends || t.Step == sendsDelete {
			t.Fresh, t.Cut = 0, 1
		} else {
			*t = tick{}
		}
	}
	for op := uint8(1); op <= n.NumOps; op++ {
		if op == n.Instance.Op && m.runs(&n, op) {
			n.Ops[op].Result = running
		} else if n.Ops[op].Result == running {
			n.Ops[op].Result = lost
		}
	}
	what := "the store is restored to the copy"
	if s.Restored == 0 {
		what = "the store is lost"
	}
	out(n, label{Event: byStore, What: what})
}

// noCalls reports whether nothing is under way to Cloud Foundry.
func noCalls(s *state) bool {
	for i := range s.Ticks {
		if at := s.Ticks[i].Step; at == sends || at == sendsDelete {
			return false
		}
	}
	return s.Late.Kind == noKind
}

// runs reports whether the store believes that an operation runs.
func (m *model) runs(s *state, op uint8) bool {
	if !m.Restore {
		return s.Ops[op].Result == running
	}
	at := s.Instance.State
	if op != s.Instance.Op {
		at = s.Binding.State
	}
	return at == creating || at == updating || at == deleting
}

// unixTime is above every seq given so far.
func unixTime(s *state) (seq uint8) {
	for op := range s.Ops {
		seq = max(seq, s.Ops[op].Seq)
	}
	return max(seq, s.Instance.Seq, s.Copy.Seq) + 1
}

// number gives the operation its seq; where there is no record it begins at the Unix time.
func (m *model) number(s *state, op uint8) {
	if !m.Restore {
		return
	}
	r := &s.Instance
	if r.State == absent && r.Ghost == 0 {
		r.Seq = unixTime(s)
	} else {
		r.Seq++
	}
	s.Ops[op].Seq = r.Seq
	r.Knows |= 1 << op
}

// knows reports whether the record knows an operation: its current one, create_op, or one in finished.
func (m *model) knows(s *state, op uint8) bool {
	r := &s.Instance
	return op == r.Op || op == r.CreateOp || r.Knows&(1<<op) != 0
}

// later reports whether a row was marked by a later operation than this one.
func (m *model) later(s *state, mark, op uint8) bool {
	if m.Restore {
		return s.Ops[mark].Seq > s.Ops[op].Seq
	}
	return mark > op
}

// audit removes by GUID every row whose operation is over and which is not the living incarnation. Reading rows and
// record need not be one moment: an operation that is over never comes back.
func (m world) audit(s *state) (did bool) {
	for _, r := range [...]*row{&s.Row, &s.OtherRow, &s.Renamed} {
		if m.mayAudit(s, r) {
			cloud(m).delete(s, 0, r.GUID)
			did = true
		}
	}
	for _, k := range [...]*row{&s.Key, &s.OtherKey} {
		if k.GUID != 0 && k.Deleting == 0 && s.Ops[k.Mark].Result != running && (k.Mark != s.Binding.CreateOp || s.Binding.State == gone) {
			cloud(m).deleteKey(s, 0, k.GUID)
			did = true
		}
	}
	return did
}

func (m world) mayAudit(s *state, r *row) bool {
	rec := &s.Instance
	if r.GUID == 0 || r.Mark == 0 || r.Deleting != 0 || r.State == rowUpdating || rec.State == absent && rec.Ghost == 0 {
		return false
	}
	living := r.Mark == rec.CreateOp && rec.State != gone && rec.State != absent
	if m.Restore {
		if living || r.Mark == rec.Op && m.runs(s, rec.Op) {
			return false
		}
		return m.knows(s, r.Mark) || !m.AuditByOperation && s.Ops[r.Mark].Seq < rec.Seq
	}
	byGUID := m.Faults.Rename > 0 && m.AuditByGUID
	switch {
	case s.Ops[r.Mark].Result == running:
		return false
	case living && byGUID && (rec.State == ready || rec.State == updating || rec.State == deleteFailed):
		return r.GUID != rec.GUID
	}
	return !living || byGUID && rec.State == createFailed
}
