package main

import "bytes"

// canon gives states that behave alike the same form: actors are interchangeable, an actor whose next step can only be
// a refused write is as good as dead, and GUIDs are numbered by their rank.
func (m *model) canon(s *state) {
	for i := range s.Ticks {
		m.canonTick(s, &s.Ticks[i])
	}
	if !m.Early || !m.OwnRecordFirst {
		s.Requests[0].Moved, s.Requests[1].Moved = 0, 0
	}
	if m.TwoIDs == 0 {
		for _, k := range [...]int{0, 1, 0} {
			if bytes.Compare(raw(&s.Ticks[k]), raw(&s.Ticks[k+1])) < 0 {
				s.Ticks[k], s.Ticks[k+1] = s.Ticks[k+1], s.Ticks[k]
			}
		}
		if bytes.Compare(raw(&s.Requests[0]), raw(&s.Requests[1])) < 0 {
			s.Requests[0], s.Requests[1] = s.Requests[1], s.Requests[0]
		}
	}
	rankGUIDs(s)
}

// canonTick forgets what a tick makes no use of any more, or the tick as a whole.
func (m *model) canonTick(s *state, t *tick) {
	switch {
	case !t.hasRead():
		return
	case m.asGoodAsDead(s, t):
		*t = tick{}
		return
	}
	switch t.Step {
	case sends, sendsDelete, notesAnswer:
		t.Open, t.InstanceOK, t.Older = 0, 0, 0
	default: // the others make use of them
	}
	if t.Step == sendsDelete && m.ReportOnRevision {
		t.Fresh = 0
	}
	if t.Step == notesAnswer && (!m.GUIDs || t.Fresh == 0 || s.Ops[t.Op].Kind != createKind) {
		t.GUID = 0
	}
}

func (m *model) asGoodAsDead(s *state, t *tick) bool {
	switch t.Step {
	case sends:
		return false
	case notesAnswer:
		return t.Fresh == 0 && (!m.RemoveOwnWhenStale || !m.RecordOpenCalls || recordOf(s, t).Open[t.Slot] != t.Op || t.Cut == 1)
	case sendsDelete:
		g := t.GUID
		return m.DeleteWhatWasSeen && g != s.Row.GUID && g != s.OtherRow.GUID && g != s.Key.GUID && g != s.OtherKey.GUID &&
			g != s.Renamed.GUID && g != s.Second.Row.GUID
	default:
		return t.Fresh == 0 && m.PostOnRevision && m.PatchOnRevision && m.DeleteOnRevision && m.ReportOnRevision
	}
}

// rankGUIDs numbers the GUIDs that are in use from 1, in their order.
func rankGUIDs(s *state) {
	t := &s.Ticks
	all := [...]*uint8{
		&s.Row.GUID, &s.OtherRow.GUID, &s.Renamed.GUID, &s.Second.Row.GUID, &s.Key.GUID, &s.Key.Instance, &s.OtherKey.GUID, &s.OtherKey.Instance,
		&s.Instance.GUID, &s.Instance.OtherGUID, &s.Copy.GUID, &s.Second.Record.GUID,
		&s.Binding.GUID, &s.Binding.InstanceGUID, &s.Binding.Removes, &s.Late.GUID, &s.Requests[0].InstanceGUID, &s.Requests[1].InstanceGUID,
		&t[0].GUID, &t[0].Seen.GUID, &t[1].GUID, &t[1].Seen.GUID, &t[2].GUID, &t[2].Seen.GUID, &t[3].GUID, &t[3].Seen.GUID,
	}
	var rank [32]uint8
	for _, guid := range all {
		rank[*guid] = 1
	}
	rank[0] = 0
	n := uint8(0)
	for guid := range rank {
		if rank[guid] == 1 {
			n++
			rank[guid] = n
		}
	}
	for _, guid := range all {
		*guid = rank[*guid]
	}
	s.GUIDs = n
}
