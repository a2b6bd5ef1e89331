package main

// ticks are the actors that drive operations: executions, the loop of a process, handlers that go on.
type ticks struct{ *model }

// next emits what each ticker may do.
func (m ticks) next(s *state, out emit) {
	if m.TwoIDs > 0 {
		rounds(m).next(s, out)
		return
	}
	for i := range m.Tickers {
		if s.Ticks[i].Step != noTick {
			m.step(s, i, out)
			m.die(s, i, out)
			continue
		}
		if i > 0 && s.Ticks[i-1].Step == noTick {
			continue // two idle tickers are one
		}
		if op := s.Instance.Op; op != 0 && m.runs(s, op) {
			m.begin(s, i, op, out)
		}
		if op := s.Binding.Op; op != 0 && s.Ops[op].Result == running {
			m.begin(s, i, op, out)
		}
	}
}

func (m ticks) die(s *state, i int, out emit) {
	n := *s
	n.Ticks[i] = tick{}
	out(n, label{Event: death, Op: s.Ticks[i].Op, What: "its ticker dies"})
}

// begin reads the record, and notes which calls are open. Of a binding it reads the instance, too.
func (m ticks) begin(s *state, i int, op uint8, out emit) {
	n, binding := *s, s.Ops[op].Kind.ofBinding()
	if m.TakeLease {
		n.wrote(binding)
	}
	t := &n.Ticks[i]
	*t = tick{Step: looksUp, Op: op, Fresh: 1, ID: s.Current}
	t.Open = s.openCalls(recordOf(s, t), op)
	if binding && !m.readInstance(s, t) {
		return
	}
	out(n, label{Event: tickBegins, Op: op, What: "a tick begins"})
	may := m.NoLook&recordOf(s, t).First != 0 || m.NoLook&withoutOpening != 0 && t.Open == 0 && (s.Ops[op].Kind == createKind || s.Ops[op].Kind == bindKind)
	if may && (!binding || t.InstanceOK == 1) {
		t.Step = decides
		out(n, label{Event: tickBegins, Op: op, What: "a tick begins, without look-up"})
	}
}

// readInstance notes the GUID of the instance, and whether it may have a key; false when its GUID is waited for.
func (m ticks) readInstance(s *state, t *tick) bool {
	b, at := &s.Binding, s.Instance.State
	living, same := at == ready || at == updating, s.Instance.CreateOp == b.InstanceCreateOp
	binds := s.Ops[t.Op].Kind == bindKind
	t.GUID = b.InstanceGUID
	ok := living && (same || !m.BindingOfIncarnation) || !m.ReadInstanceAgain
	if !m.BindingOfIncarnation && binds && living {
		t.GUID = s.Instance.GUID
	}
	if m.Early && b.InstanceGUID == 0 && binds {
		switch {
		case living && (same || !m.GUIDOfSameIncarnation):
			t.GUID, ok = s.Instance.GUID, true
		case at == creating && same:
			return false
		}
	}
	if ok {
		t.InstanceOK = 1
	}
	return true
}

// recordOf returns the record that a tick is about.
func recordOf(s *state, t *tick) *record {
	switch {
	case s.Ops[t.Op].Kind.ofBinding():
		return &s.Binding
	case t.ID != s.Current:
		return &s.Second.Record
	}
	return &s.Instance
}

// step emits what comes next in the life of one tick.
func (m ticks) step(s *state, i int, out emit) {
	x := turn{m.model, s, i, s.Ticks[i], out}
	switch x.t.Step {
	case readsLater:
		rounds(m).readLater(s, i, out)
	case looksUp:
		x.lookUp()
	case confirms:
		x.confirm()
	case decides:
		x.decide()
	case sends:
		x.send()
	case notesAnswer:
		x.noteAnswer()
	case sendsDelete:
		x.sendDelete()
	default: // a round's ticks wait for its list
	}
}

// turn is one step of one tick: what it knows, and where its outcomes go.
type turn struct {
	*model
	s   *state
	i   int
	t   tick
	out emit
}

func (x turn) kind() kind    { return x.s.Ops[x.t.Op].Kind }
func (x turn) binding() bool { return x.kind().ofBinding() }

// open is what the open calls of the record are to the operation: those that were open when the tick began.
func (x turn) open() uint8 {
	if x.JudgeBeforeLook {
		return x.t.Open
	}
	return x.s.openCalls(recordOf(x.s, &x.t), x.t.Op)
}

// end emits a state in which this tick is over.
func (x turn) end(event event, what string, change func(n *state)) {
	n := *x.s
	n.Ticks[x.i] = tick{}
	if change != nil {
		change(&n)
	}
	x.out(n, label{Event: event, Op: x.t.Op, What: what})
}

func (x turn) wait()      { x.end(tickBegins, "waits", nil) }
func (x turn) lostWrite() { x.end(tickBegins, "its conditional write is refused, it ends", nil) }

// deed is what a tick may do with an older look-up.
type deed uint8

const (
	sendIt deed = iota // POST, PATCH, DELETE or success
	endIt              // failed, gone, delete failed
)

// tooOld ends the tick where the look-up is older than the read, and the deed needs a newer one (protocol.md 3.9).
func (x turn) tooOld(d deed) bool {
	if x.t.Older == 1 && (d == endIt && x.ListAfterRead) {
		x.wait()
		return true
	}
	return false
}

// report ends the operation by a write on the revision that the tick read.
func (x turn) report(d deed, what string, change func(n *state)) {
	switch {
	case x.tooOld(d):
	case x.t.Fresh == 0 && x.ReportOnRevision:
		x.lostWrite()
	default:
		x.end(reported, what, func(n *state) {
			n.wrote(x.binding())
			change(n)
		})
	}
}

// intend writes the intent of a POST or PATCH, with its open call.
func (x turn) intend(onRevision bool, guid uint8) {
	n := *x.s
	t := &n.Ticks[x.i]
	if onRevision {
		if x.t.Fresh == 0 {
			x.lostWrite()
			return
		}
		r := recordOf(&n, &x.t)
		if x.RecordOpenCalls {
			free := 0
			for free < x.Slots && r.Open[free] != 0 {
				free++
			}
			if free == x.Slots {
				x.wait()
				return
			}
			r.Open[free], t.Slot = x.t.Op, uint8(free)
		}
		r.First = 0
		if x.kind() == updateKind && (x.PatchJobs || x.RefusePatch) {
			r.Calls++
		}
		if x.kind() == updateKind && x.PatchJobs {
			t.Patch = r.Calls
		}
		if x.binding() && x.Early && x.GUIDBeforePost {
			r.InstanceGUID = guid
		}
		n.wrote(x.binding())
		t.Fresh = 1
	}
	t.Step, t.GUID, t.Seen = sends, guid, row{}
	x.out(n, label{Event: intent, Op: x.t.Op, GUID: guid, What: "intends a POST or PATCH"})
}

// intendDelete writes the intent of a DELETE.
func (x turn) intendDelete(guid uint8) {
	n := *x.s
	t := &n.Ticks[x.i]
	if x.DeleteOnRevision {
		if x.t.Fresh == 0 {
			x.lostWrite()
			return
		}
		n.wrote(x.binding())
		t.Fresh = 1
	}
	if x.GUIDs && !x.binding() && x.t.Fresh == 1 {
		if x.t.Duplicate == 1 {
			keepOther(&n, guid)
		}
		n.noteGUID(guid)
	}
	t.Step, t.GUID, t.Seen = sendsDelete, guid, row{}
	x.out(n, label{Event: intent, Op: x.t.Op, GUID: guid, What: "intends a DELETE"})
}

// send is the call itself: it takes effect, is refused, or hangs.
func (x turn) send() {
	n := *x.s
	t := &n.Ticks[x.i]
	cf := cloud{x.model}
	switch x.kind() {
	case createKind:
		t.Answer = cf.post(&n, x.t.Op)
		if x.GUIDs && t.Answer == accepted {
			t.GUID = n.GUIDs
		}
	case updateKind:
		t.Answer = cf.patch(&n, x.t.Op, x.t.GUID, x.t.Patch)
	case bindKind:
		t.Answer = cf.postKey(&n, x.t.Op, x.t.GUID)
	default: // a DELETE is sent by sendDelete
	}
	t.Step = notesAnswer
	what := "its call takes effect"
	if t.Answer == refused {
		what = "its call is refused"
	}
	x.out(n, label{Event: sent, Op: x.t.Op, What: what})
	if x.s.Left.Refuse > 0 && (x.kind() != updateKind || x.RefusePatch) {
		n = *x.s
		n.Left.Refuse--
		n.Ticks[x.i].Step, n.Ticks[x.i].Answer = notesAnswer, refusedForGood
		x.out(n, label{Event: sent, Op: x.t.Op, What: "its call is refused for good"})
	}
	if x.s.Left.Late > 0 && x.s.Late.Kind == noKind {
		x.end(sent, "its call hangs, no answer comes", func(n *state) {
			n.Left.Late--
			n.Late = lateCall{x.kind(), x.t.Op, x.t.Slot, x.t.GUID, x.t.Patch}
		})
	}
}

// noteAnswer writes what was answered. A superseded actor removes its own open call and nothing else.
func (x turn) noteAnswer() {
	x.end(answered, "notes the answer", func(n *state) {
		t, r, fresh := &x.t, recordOf(n, &x.t), x.t.Fresh == 1
		if x.RecordOpenCalls && (fresh || x.RemoveOwnWhenStale) && t.Cut == 0 && r.Open[t.Slot] == t.Op {
			r.Open[t.Slot] = 0
			n.wrote(x.binding())
		}
		if !fresh {
			return
		}
		switch {
		case t.Answer == accepted:
			r.Job = 1
			if x.GUIDs && x.kind() == createKind {
				n.noteGUID(t.GUID)
			}
			if x.kind() == updateKind && x.PatchJobs {
				r.JobOf = t.Patch
			}
		case t.Answer == refused && x.kind() == createKind && x.Faults.Hide > 0 && r.Taken < 3:
			r.Taken++
		case t.Answer == refusedForGood:
			r.Refused = 1
		default:
			return
		}
		n.wrote(x.binding())
	})
}

// sendDelete is the DELETE itself. A row whose create is initial refuses it.
func (x turn) sendDelete() {
	guid, cf := x.t.GUID, cloud{x.model}
	if !x.DeleteWhatWasSeen { // the GUID is found anew by name
		guid = x.s.Row.GUID
		if x.binding() {
			guid = x.s.Key.GUID
		}
	}
	x.end(sent, "sends the DELETE", func(n *state) {
		if x.binding() {
			cf.deleteKey(n, x.t.Op, guid)
		} else {
			cf.delete(n, x.t.Op, guid)
		}
	})
	r := x.s.rowOf(guid)
	if x.binding() {
		r = x.s.keyOf(guid)
	}
	if r.GUID == guid && r.State == rowCreating {
		x.end(sent, "sends the DELETE: refused, the create is initial", nil)
	}
}
