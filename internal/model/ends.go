package main

// fairRuns says for states what comes of them when no more faults happen, one actor works at a time, and Cloud Foundry
// does its part: every accepted operation must end, and nothing may be left over.
type fairRuns struct {
	*model
	seen   *table
	result []property
}

func newFairRuns(m *model) *fairRuns { return &fairRuns{model: m, seen: newTable()} }

// from returns what does not hold at the end of a fair run, 0 if all does.
func (f *fairRuns) from(s state) property {
	s.Requests, s.Ticks, s.Hanging = [2]request{}, [4]tick{}, request{}
	s.Row.Told, s.OtherRow.Told, s.Renamed.Told = 0, 0, 0
	s.Blind = 0
	if s.Late.Kind != noKind {
		cloud{f.model}.deliver(&s)
	}
	s.Left, s.Bad, s.GoneWrite = budget{}, 0, 0
	s.Phase, s.Done, s.OverInstance, s.OverBinding = 0, 0, 0, 0
	s.Second.Phase, s.Second.Done, s.Second.Over = 0, 0, 0
	if s.Predecessor.State != absent {
		s.Predecessor = predecessor{State: gone}
	}
	at, isNew := f.seen.add(&s, 0)
	if isNew {
		f.result = append(f.result, f.judgeEnd(&s, f.run(&s)))
	}
	return f.result[at]
}

// take replaces the state by the first one that may follow; false when none does.
func take(s *state, f func(*state, emit)) bool {
	done := false
	var next state
	f(s, func(n state, _ label) {
		if !done {
			next, done = n, true
		}
	})
	if done {
		*s = next
	}
	return done
}

func repeat(s *state, most int, f func(*state, emit)) {
	for range most {
		if !take(s, f) {
			return
		}
	}
}

// run reports whether it has come to rest.
func (f *fairRuns) run(s *state) bool {
	for range 60 {
		repeat(s, 20, cloud{f.model}.next)
		repeat(s, 20, world{f.model}.expire)
		idle := f.drive(s)
		if f.TwoIDs > 0 {
			s.swap()
			repeat(s, 20, world{f.model}.expire)
			idle = f.drive(s) && idle
			s.swap()
		}
		if f.Audit && (world{f.model}).audit(s) {
			idle = false
		}
		if idle && s.Row.Deleting == 0 && s.OtherRow.Deleting == 0 && s.Renamed.Deleting == 0 && s.Second.Row.Deleting == 0 &&
			s.Key.Deleting == 0 && s.OtherKey.Deleting == 0 {
			return true
		}
	}
	return false
}

// drive gives each operation one tick, and reports whether none runs.
func (f *fairRuns) drive(s *state) bool {
	idle, t := true, ticks{f.model}
	for b := range 2 {
		op := s.Instance.Op
		if b == 1 {
			op = s.Binding.Op
		}
		if op == 0 || !f.runs(s, op) {
			continue
		}
		idle = false
		take(s, func(s *state, out emit) { t.begin(s, 0, op, out) })
		for j := 0; j < 10 && s.Ticks[0].Step != noTick; j++ {
			take(s, func(s *state, out emit) { t.step(s, 0, out) })
		}
	}
	return idle
}

func (f *fairRuns) judgeEnd(s *state, rests bool) property {
	if f.Leftover && s.Instance.Op == 2 {
		return 0
	}
	for op := uint8(1); op <= s.NumOps; op++ {
		if s.Ops[op].Result == running {
			return neverEnds
		}
	}
	keys := s.Key.GUID != 0 || s.OtherKey.GUID != 0
	isGone := s.Instance.State == gone || s.Instance.State == absent
	switch {
	case !rests:
		return neverEnds
	case s.Restored == 2:
		return 0
	case isGone && (s.Row.GUID != 0 && s.Row.Mark != 0 || s.OtherRow.GUID != 0 || keys), s.Binding.State == gone && keys:
		return leftAtRest
	case f.TwoIDs > 0 && (s.Second.Record.State == gone || s.Second.Record.State == absent) && s.Second.Row.GUID != 0:
		return leftAtRest
	case f.Faults.Rename > 0 && (f.leftBeside(s, &s.Row) || f.leftBeside(s, &s.Renamed)):
		return leftAtRest
	}
	return 0
}

// leftBeside reports whether a row stands beside the living one, behind a finished delete, or alive behind a failed
// create.
func (f *fairRuns) leftBeside(s *state, r *row) bool {
	if r.GUID == 0 || r.Mark == 0 {
		return false
	}
	switch s.Instance.State {
	case ready: // without the audit a POST intended before may land on the free name at any time
		return r.GUID != s.Instance.GUID && f.Audit
	case gone, absent:
		return true
	case createFailed:
		return r.State != rowFailed && s.Instance.PastDeadline == 0
	default:
		return false
	}
}
