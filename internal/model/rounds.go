package main

// rounds drive two ids by one list (docs/protocol.md 3.9). The first two tickers are one round's, for one id each; the
// other two are executions that look up alone, as every older version does, or a second round. A round reads the
// records, then begins its list, then writes on those revisions. It takes no lease: nothing depends on that.
type rounds struct{ *model }

func (m rounds) next(s *state, out emit) {
	last := 4
	if m.TwoIDs == 3 {
		last = 2
	}
	for i := range last {
		ofRound := i < 2 || m.TwoIDs == 2
		if s.Ticks[i].Step == noTick {
			onID(s, i&1, func(x *state, out emit) { m.begin(x, i, ofRound, out) }, out)
			continue
		}
		if at := s.Ticks[i].Step; at != awaitsList && at != awaitsPage && !(ofRound && at == confirms) {
			onID(s, i&1, func(x *state, out emit) { ticks{m.withoutLease()}.step(x, i, out) }, out)
		}
		ticks(m).die(s, i, out)
	}
	for i := 0; i < last; i += 2 {
		m.list(s, i, out)
		if i == 0 || m.TwoIDs == 2 {
			m.confirm(s, i, out)
		}
	}
}

// withoutLease is the same protocol for a round.
func (m rounds) withoutLease() *model {
	free := *m.model
	free.TakeLease = false
	return &free
}

// begin reads one record, for a round or for an execution.
func (m rounds) begin(s *state, i int, ofRound bool, out emit) {
	op := s.Instance.Op
	switch {
	case op == 0 || !m.runs(s, op):
	case !ofRound:
		ticks(m).begin(s, i, op, out)
	default:
		ticks{m.withoutLease()}.begin(s, i, op, func(n state, l label) {
			n.Ticks[i].Step = awaitsList
			l.What = "the round reads the record"
			out(n, l)
		})
	}
}

// list is one list for the tickers i and i+1 of a round, as far as they have read.
func (m rounds) list(s *state, i int, out emit) {
	a, b := &s.Ticks[i], &s.Ticks[i+1]
	switch {
	case a.Step == awaitsPage || b.Step == awaitsPage:
		m.secondPage(s, i, out)
		return
	case a.Step != awaitsList && b.Step != awaitsList:
		return
	case m.Pages:
		m.firstPage(s, i, out)
	}
	n := *s
	for k := i; k < i+2; k++ {
		if n.Ticks[k].Step == awaitsList {
			n.Ticks[k].Seen = m.listed(s, k)
			m.believe(&n.Ticks[k])
		}
	}
	out(n, label{Event: lookedUp, What: "the round makes its list"})
	if m.OldLists {
		m.listForLater(s, n, i, out)
	}
}

// listForLater makes the list serve a record, too, that is read afterwards.
func (m rounds) listForLater(s *state, n state, i int, out emit) {
	if s.Ticks[i].Step == awaitsList && s.Ticks[i+1].Step == awaitsList {
		return
	}
	k := i
	if s.Ticks[i].Step == awaitsList {
		k = i + 1
	}
	if s.Ticks[k].Step != noTick {
		return
	}
	onID(s, k&1, func(x *state, _ emit) {
		n.Ticks[k] = tick{Step: readsLater, Op: x.Instance.Op, ID: x.Current}
		n.Ticks[k].Seen, _ = m.look(x, &n.Ticks[k])
	}, nil)
	out(n, label{Event: lookedUp, What: "the round makes its list, also for a record that it reads afterwards"})
}

// readLater reads the record for a look-up that is there already.
func (m rounds) readLater(s *state, i int, out emit) {
	old := s.Ticks[i]
	op := s.Instance.Op
	if op == 0 || !m.runs(s, op) {
		return
	}
	ticks(m).begin(s, i, op, func(n state, l label) {
		n.Ticks[i].Step, n.Ticks[i].Older, n.Ticks[i].Seen = decides, 1, old.Seen
		l.What = "the round reads the record after its list"
		out(n, l)
	})
}

// listed is what a list shows of the row that ticker k is about.
func (m rounds) listed(s *state, k int) (seen row) {
	onID(s, k&1, func(x *state, _ emit) { seen, _ = m.look(x, &x.Ticks[k]) }, nil)
	return seen
}

// firstPage: each row stands on the first page, or does not.
func (m rounds) firstPage(s *state, i int, out emit) {
	for on := range uint8(4) {
		n := *s
		possible := true
		for k := range uint8(2) {
			t := &n.Ticks[i+int(k)]
			if t.Step != awaitsList {
				possible = possible && on&(1<<k) == 0
				continue
			}
			t.Step = awaitsPage
			if on&(1<<k) != 0 {
				t.Seen = m.listed(s, i+int(k))
				possible = possible && t.Seen.GUID != 0
			}
		}
		if possible {
			out(n, label{Event: lookedUp, What: "the round reads the first page of its list"})
		}
	}
}

// secondPage: pages are no snapshot. What was not on the first one is on the second, or moved to the first meanwhile,
// since other rows were removed, and is on none.
func (m rounds) secondPage(s *state, i int, out emit) {
	for missed := range uint8(4) {
		n := *s
		possible := true
		for k := range uint8(2) {
			t := &n.Ticks[i+int(k)]
			if t.Step != awaitsPage || t.Seen.GUID != 0 {
				possible = possible && missed&(1<<k) == 0
				continue
			}
			if missed&(1<<k) == 0 {
				t.Seen = m.listed(s, i+int(k))
			} else {
				possible = possible && m.listed(s, i+int(k)).GUID != 0
			}
		}
		if possible {
			m.endList(&n, i, missed != 0, out)
		}
	}
}

// endList: what the list shows is decided on. What it does not show is looked up alone, for the same read of its
// record.
func (m rounds) endList(n *state, i int, torn bool, out emit) {
	for k := i; k < i+2; k++ {
		t := &n.Ticks[k]
		switch {
		case t.Step != awaitsPage:
		case t.Seen.GUID == 0 && m.AloneWhenTorn:
			t.Step = looksUp
		default:
			m.believe(t)
		}
	}
	what := "the round reads the last page of its list"
	if torn {
		what = "the round reads the last page of its list, and misses a row that has moved"
	}
	out(*n, label{Event: lookedUp, What: what})
}

// believe lets the tick decide by the list, once an absence is confirmed.
func (m rounds) believe(t *tick) {
	t.Step = decides
	if m.Pages && m.ConfirmAfterList && t.Seen.GUID == 0 {
		t.Step = confirms
	}
}

// confirm is one call for all that a round has not seen. It begins after the list.
func (m rounds) confirm(s *state, i int, out emit) {
	if s.Ticks[i].Step != confirms && s.Ticks[i+1].Step != confirms {
		return
	}
	n := *s
	for k := i; k < i+2; k++ {
		t := &n.Ticks[k]
		switch {
		case t.Step != confirms:
		case s.Blind == 1:
			*t = tick{}
		default:
			t.Step = decides
		}
	}
	what := "the round confirms what it has not seen"
	if s.Blind == 1 {
		what = "the round cannot confirm what it has not seen, and waits"
	}
	out(n, label{Event: lookedUp, What: what})
}
