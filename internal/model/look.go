package main

// lookUp looks for the row by name, in the whole org; for a key by the GUID of its instance and name.
func (x turn) lookUp() {
	n := *x.s
	t := &n.Ticks[x.i]
	t.Step = decides
	t.Seen, t.Duplicate = x.look(x.s, &x.t)
	if x.Pages && t.Seen.GUID == 0 && x.ConfirmAfterList {
		t.Step = confirms
	}
	x.out(n, label{Event: lookedUp, Op: x.t.Op, GUID: t.Seen.GUID, What: "looks up"})
}

// look returns what a look-up shows of the row, and whether it is the second row of the operation.
func (m *model) look(s *state, t *tick) (seen row, duplicate uint8) {
	switch {
	case s.Blind == 1:
		return row{}, 0
	case s.Ops[t.Op].Kind.ofBinding():
		return shown(m.lookForKey(s, t), m), 0
	}
	seen = s.Row
	if !m.LookByName && s.Instance.GUID != 0 && s.Ops[t.Op].Kind == deleteKind && seen.GUID != s.Instance.GUID {
		seen = row{}
	}
	if m.TwoSpaces {
		seen = *m.spaceOf(s, s.Instance.CreateOp)
		if m.LookInWholeOrg {
			seen = first(s.Row, s.OtherRow, t.Op)
		}
	}
	if m.showsRenamed(s, t.Op) {
		seen, duplicate = m.ofTwo(s, t.Op)
	}
	return shown(seen, m), duplicate
}

func (m *model) lookForKey(s *state, t *tick) row {
	var a, b row
	if s.Key.Instance == t.GUID {
		a = s.Key
	}
	if s.OtherKey.Instance == t.GUID {
		b = s.OtherKey
	}
	return first(a, b, t.Op)
}

// shown is what a tick goes by of a row.
func shown(r row, m *model) row {
	seen := row{GUID: r.GUID, Mark: r.Mark, State: r.State, Final: r.Final, FailedFor: r.FailedFor, UpdateMark: r.UpdateMark, UpdateFail: r.UpdateFail, FailedJobs: r.FailedJobs}
	if m.Plans {
		seen.Plan = r.Plan
	}
	return seen
}

// first returns that of two rows which is treated first: of a later operation, of an earlier one, the own, a
// stranger's.
func first(a, b row, op uint8) row {
	rank := func(r row) int {
		switch {
		case r.GUID == 0:
			return 0
		case r.Mark == 0:
			return 1
		case r.Mark == op:
			return 2
		case r.Mark < op:
			return 3
		}
		return 4
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// showsRenamed reports whether a look-up also shows the row under another name.
func (m *model) showsRenamed(s *state, op uint8) bool {
	guid := s.Renamed.GUID
	if guid == 0 || m.LookByMark {
		return guid != 0
	}
	recorded := guid == s.Instance.GUID || guid == s.Instance.OtherGUID
	return m.GUIDs && m.LookByGUID && recorded && (m.LookBeforePost || s.Ops[op].Kind != createKind || s.Instance.Job == 1)
}

// ofTwo picks of the rows of our name and of another one. Of two of this operation the one that is not recorded comes
// first, so that it is removed.
func (m *model) ofTwo(s *state, op uint8) (seen row, duplicate uint8) {
	twice := m.GUIDs && m.RemoveDuplicate && s.Row.GUID != 0 && s.Row.Mark == op && s.Renamed.Mark == op
	switch {
	case !twice:
		return first(s.Row, s.Renamed, op), 0
	case s.Ops[op].Kind == createKind:
		duplicate = 1
	}
	if s.Renamed.GUID == s.Instance.GUID {
		return s.Row, duplicate
	}
	return s.Renamed, duplicate
}

// noteGUID records a GUID beside those that are still there. In the product that is a list; here two are enough.
func (s *state) noteGUID(guid uint8) {
	r := &s.Instance
	switch {
	case guid == 0 || guid == r.GUID || guid == r.OtherGUID:
	case r.GUID == 0 || s.rowOf(r.GUID).GUID != r.GUID:
		r.GUID = guid
	case r.OtherGUID == 0 || s.rowOf(r.OtherGUID).GUID != r.OtherGUID:
		r.OtherGUID = guid
	}
}

// keepOther records the row of the operation that stays, in the write that intends to remove the other one.
func keepOther(s *state, removed uint8) {
	for _, r := range [...]*row{&s.Renamed, &s.Row} {
		if r.GUID != 0 && r.GUID != removed && r.Mark == s.Instance.Op && s.Instance.GUID != r.GUID {
			old := s.Instance.GUID
			s.Instance.GUID = r.GUID
			s.noteGUID(old)
		}
	}
}

// confirm is the call that says whether an empty look-up could see anything. It begins after the look-up's answer.
func (x turn) confirm() {
	if x.s.Blind == 1 {
		x.end(lookedUp, "cannot confirm the empty look-up, waits", nil)
		return
	}
	n := *x.s
	n.Ticks[x.i].Step = decides
	x.out(n, label{Event: lookedUp, Op: x.t.Op, What: "confirms the empty look-up"})
}
