package main

// property is something that must never be the case.
type property uint8

const (
	adopted          property = iota + 1 // ready, but the row behind it is not the one of its create
	livesAfterFailed                     // create or bind reported failed, and a living row is there or appears
	rowRemains                           // the delete has ended, and a row is there or appears
	acceptedTwice                        // one intent of the platform was accepted twice
	acceptedLate                         // a request that was given up is accepted after what followed it
	reportFlips                          // a reported result changes, or success is reported for what is not there
	newerDamaged                         // a call of an old operation damages what a newer one made
	planWrong                            // the plan in Cloud Foundry is not the one last reported
	keyLost                              // ready without its key
	keyLeft                              // the binding is gone, and a key is there
	keyWrong                             // a key on an incarnation for which the bind was not accepted
	keyRace                              // a key is posted after the DELETE of its instance was accepted
	deleteUntrue                         // "delete failed" though its own job never failed
	neverEnds                            // an accepted operation never ends
	leftAtRest                           // at rest something is there that no record accounts for
	foreignRow                           // what somebody else made is removed or replaced
	twoRows                              // two instances, or two keys, behind one finished operation
	toldGone                             // 410 for what lives
	formerParameters                     // a rotation copies from another incarnation
	estateRemoved                        // what the platform was told is ready, and never asked to delete, is removed
	goneAfterRestore                     // "gone" after a restore, and the row is there
)

var properties = [...]string{
	adopted:          "another operation's row was adopted",
	livesAfterFailed: "a living row behind a failure",
	rowRemains:       "a row is left behind an ended delete",
	acceptedTwice:    "one intent was accepted twice",
	acceptedLate:     "a request that was given up was accepted",
	reportFlips:      "a result changed, or success was reported for nothing",
	newerDamaged:     "an old operation damaged what a newer one made",
	planWrong:        "the plan is not the one that was reported",
	keyLost:          "a binding is ready without its key",
	keyLeft:          "a key is left behind an ended unbind",
	keyWrong:         "a key is on the wrong incarnation",
	keyRace:          "a key was posted under the delete of its instance",
	deleteUntrue:     "delete failed was reported for another delete",
	neverEnds:        "an operation never ends",
	leftAtRest:       "something is left at rest",
	foreignRow:       "somebody else's row was touched",
	twoRows:          "two rows behind one operation",
	toldGone:         "410 was answered for what lives",
	formerParameters: "a rotation copied from a former life",
	estateRemoved:    "an instance that nobody asked to delete was removed",
	goneAfterRestore: "gone was reported over a row",
}

func (p property) String() string { return properties[p] }

// judgeClaim notes what must not be accepted.
func (m *model) judgeClaim(s *state, h request) {
	over := s.OverInstance
	if h.Kind.ofBinding() {
		over = s.OverBinding
	}
	if h.Phase < over && s.Restored != 2 {
		s.violates(acceptedLate)
	}
	for op := uint8(1); op <= s.NumOps; op++ {
		o := &s.Ops[op]
		if o.ID != s.Current || o.Kind != h.Kind {
			continue
		}
		switch {
		case h.Kind == updateKind && o.Phase > h.Phase && o.Phase < cascade:
			s.violates(acceptedLate)
		case (h.Kind == createKind || h.Kind == bindKind) && o.Phase == h.Phase && o.Result != failed && s.Restored != 2:
			s.violates(acceptedTwice)
		}
	}
}

// judgeDelete notes what a DELETE that Cloud Foundry accepts must not be about. Operation 0 is the audit.
func (m *model) judgeDelete(s *state, r *row, op uint8) {
	if r.Mark == 0 {
		s.violates(foreignRow)
	}
	at := s.Instance.State
	living := r.Mark == s.Instance.CreateOp && (at == creating || at == ready || at == updating)
	duplicate := m.Faults.Rename > 0 && (r.GUID != s.Instance.GUID || at == creating && op == s.Instance.Op)
	if living && !m.Plans && !duplicate && (s.Restored != 2 || m.RestoreWhenQuiet) {
		s.violates(newerDamaged)
	}
	// By a PUT, the audit, or a DELETE that the copy revived. One that arrives again is a new one (section 12).
	if r.Told == 1 && (op == 0 || s.Ops[op].Kind == createKind || op <= s.OpsBefore && s.Ops[op].Phase < s.Ops[r.Mark].Phase) {
		s.violates(estateRemoved)
	}
}

// judge notes the first property that does not hold in a state.
func (m *model) judge(s *state) {
	if s.Restored == 2 {
		return // the store knows less than was said: only what is noted where it happens, and the end
	}
	m.judgeInstance(s)
	m.judgeBinding(s)
	if m.TwoIDs > 0 {
		s.swap()
		m.judgeInstance(s)
		s.swap()
	}
}

func (m *model) judgeInstance(s *state) {
	r := &s.Instance
	at := s.rowOf(r.GUID)
	wrongPlan := at.GUID == r.GUID && at.State == rowIdle && at.Plan != r.Plan && r.PastDeadline == 0
	switch r.State {
	case ready, updating:
		if (at.GUID != r.GUID || at.Mark != r.CreateOp) && !m.Plans {
			s.violates(adopted)
		}
		if r.State == ready && wrongPlan {
			s.violates(planWrong)
		}
		if s.Row.GUID != 0 && s.OtherRow.GUID != 0 && !m.Audit {
			s.violates(twoRows)
		}
	case deleteFailed:
		if m.Plans && at.GUID != 0 && wrongPlan {
			s.violates(planWrong)
		}
	case gone, absent:
		if isOurs(s) && !m.Audit && s.Row.After != 2 {
			s.violates(rowRemains)
		}
	case createFailed:
		lives := func(r *row) bool { return r.GUID != 0 && r.Mark != 0 && r.State != rowFailed }
		if (lives(&s.Row) || lives(&s.OtherRow) || lives(&s.Renamed)) && r.PastDeadline == 0 && !m.Audit {
			s.violates(livesAfterFailed)
		}
	default: // while it is created or deleted, anything may be there
	}
}

func isOurs(s *state) bool {
	return s.Row.GUID != 0 && s.Row.Mark != 0 || s.OtherRow.GUID != 0 || s.Renamed.GUID != 0
}

func (m *model) judgeBinding(s *state) {
	b, at := &s.Binding, s.bindingState()
	if at == ready && (s.Instance.State == ready || s.Instance.State == updating) {
		if k := s.keyOf(b.GUID); k.GUID != b.GUID || k.State != rowIdle {
			s.violates(keyLost)
		}
		if s.Key.GUID != 0 && s.OtherKey.GUID != 0 && !m.Audit {
			s.violates(twoRows)
		}
	}
	lives := s.Key.GUID != 0 && s.Key.State != rowFailed || s.OtherKey.GUID != 0 && s.OtherKey.State != rowFailed
	if at == createFailed && lives && !m.Audit && s.Instance.PastDeadline == 0 && b.PastDeadline == 0 {
		s.violates(livesAfterFailed)
	}
	if b.State == gone && (s.Key.GUID != 0 || s.OtherKey.GUID != 0) && !m.Audit {
		s.violates(keyLeft)
	}
}
