package main

// cloud is Cloud Foundry: what it makes of calls, and what it does by itself.
type cloud struct{ *model }

// post creates the instance of an operation. A row of that name that failed is replaced.
func (m cloud) post(s *state, op uint8) answer {
	r := m.spaceOf(s, op)
	if s.Blind == 1 || s.Hidden == 1 || r.GUID != 0 && r.State != rowFailed {
		return refused
	}
	if r.GUID != 0 && r.Mark == 0 && r.After == 1 {
		s.violates(foreignRow)
	}
	s.GUIDs++
	*r = row{GUID: s.GUIDs, Mark: op, State: rowCreating, Final: 1, Plan: s.Ops[op].Plan}
	return accepted
}

// patch begins an update, of a row that is idle.
func (m cloud) patch(s *state, op, guid, number uint8) answer {
	r := s.rowOf(guid)
	if s.Blind == 1 || r.GUID != guid || r.State != rowIdle {
		return refused
	}
	r.State, r.UpdatedBy = rowUpdating, op
	if m.PatchJobs {
		r.Patch = number
	}
	return accepted
}

// postKey creates a key on the instance with this GUID.
func (m cloud) postKey(s *state, op, instance uint8) answer {
	k := &s.Key
	if m.NamedKeys && (s.OtherKey.GUID != 0 && s.OtherKey.Mark == op || s.Key.GUID != 0 && s.Key.Mark != op) {
		k = &s.OtherKey
	}
	of := s.rowOf(instance)
	if of.GUID != instance || of.State != rowIdle || k.GUID != 0 && (k.State != rowFailed || m.NamedKeys) {
		return refused
	}
	s.GUIDs++
	*k = row{GUID: s.GUIDs, Mark: op, State: rowCreating, Final: 1, Instance: instance, After: of.Deleting}
	if of.Deleting == 1 {
		s.violates(keyRace)
	}
	if s.Ops[op].Instance != of.Mark {
		s.violates(keyWrong)
	}
	return accepted
}

// delete queues the removal of an instance. A row that is being updated refuses it. Operation 0 is the audit.
func (m cloud) delete(s *state, op, guid uint8) {
	r := s.rowOf(guid)
	if s.Blind == 1 || guid == 0 || r.GUID != guid || r.State == rowUpdating {
		return
	}
	m.judgeDelete(s, r, op)
	r.Deleting, r.DeletedBy = 1, op
}

// deleteKey queues the removal of a key.
func (m cloud) deleteKey(s *state, op, guid uint8) {
	k := s.keyOf(guid)
	if guid == 0 || k.GUID != guid || k.Deleting == 2 {
		return
	}
	at := s.bindingState()
	own := m.Held && op == k.Mark && s.Binding.Removes == guid
	if k.Mark == s.Binding.CreateOp && (at == creating || at == ready) && !own {
		s.violates(newerDamaged)
	}
	k.Deleting, k.DeletedBy = 1, op
}

// deliver lets the late call take effect.
func (m cloud) deliver(s *state) {
	l := s.Late
	s.Late = lateCall{}
	if s.Ops[l.Op].ID != s.Current {
		s.swap()
		defer s.swap()
	}
	switch l.Kind {
	case createKind:
		m.post(s, l.Op)
	case updateKind:
		m.patch(s, l.Op, l.GUID, l.Patch)
	case bindKind:
		m.postKey(s, l.Op, l.GUID)
	default: // a DELETE never hangs: it may be sent late all the same, by an actor that paused
	}
}

// next emits what Cloud Foundry, and whoever else uses it, may do.
func (m cloud) next(s *state, out emit) {
	for _, at := range []func(*state) *row{
		func(s *state) *row { return &s.Row },
		func(s *state) *row { return &s.OtherRow },
		func(s *state) *row { return &s.Renamed },
		func(s *state) *row { return &s.Second.Row },
	} {
		m.workOnInstance(s, at, out)
	}
	m.rename(s, out)
	m.workOnKey(s, func(s *state) *row { return &s.Key }, out)
	m.workOnKey(s, func(s *state) *row { return &s.OtherKey }, out)
	if s.Late.Kind != noKind {
		n := *s
		m.deliver(&n)
		out(n, label{Event: byCloud, Op: s.Late.Op, What: "the late call takes effect"})
		n = *s
		n.Late = lateCall{}
		out(n, label{Event: byCloud, Op: s.Late.Op, What: "the late call is lost"})
	}
	m.others(s, out)
	m.loseRole(s, out)
}

// workOnInstance is the worker of one instance: its create, update and removal.
func (m cloud) workOnInstance(s *state, at func(*state) *row, out emit) {
	r := at(s)
	if r.GUID == 0 {
		return
	}
	step := func(what string, f func(n *state, r *row)) {
		n := *s
		f(&n, at(&n))
		out(n, label{Event: byCloud, GUID: r.GUID, What: what})
	}
	switch {
	case r.State == rowCreating:
		step("the create succeeds", func(_ *state, r *row) { r.State, r.Final = rowIdle, 1 })
		if s.Left.Fail > 0 {
			step("the create fails", func(n *state, r *row) { r.State, r.Final = rowFailed, 1; n.Left.Fail-- })
		}
		if s.Left.CleanUp > 0 && r.Final == 1 {
			step("a clean-up job marks the queued create as failed", func(n *state, r *row) { r.State, r.Final = rowFailed, 0; n.Left.CleanUp-- })
		}
	case r.State == rowFailed && r.Final == 0:
		step("the create that was marked as failed succeeds", func(_ *state, r *row) { r.State, r.Final = rowIdle, 1 })
	case r.State == rowUpdating:
		step("the update succeeds", func(_ *state, r *row) {
			r.State, r.Plan, r.UpdateMark = rowIdle, s.Ops[r.UpdatedBy].Plan, r.UpdatedBy
			r.UpdatedBy, r.UpdateFail, r.Patch = 0, 0, 0
		})
		if s.Left.Fail > 0 {
			step("the update fails", m.failUpdate)
		}
	}
	if r.Deleting != 0 {
		m.workOnDelete(s, r, step)
	}
}

func (m cloud) failUpdate(n *state, r *row) {
	n.Left.Fail--
	if m.PatchJobs && n.Instance.Op == r.UpdatedBy {
		r.FailedJobs |= 1 << r.Patch
	}
	r.State, r.UpdateFail, r.UpdatedBy, r.Patch = rowIdle, r.UpdatedBy, 0, 0
}

// workOnDelete is the job of a DELETE that was accepted.
func (m cloud) workOnDelete(s *state, r *row, step func(string, func(*state, *row))) {
	var busy, late, any bool // keys of this instance: at work, posted after the DELETE, there
	for _, k := range [...]*row{&s.Key, &s.OtherKey} {
		if k.GUID != 0 && k.Instance == r.GUID {
			busy = busy || k.State == rowCreating || k.Deleting == 2
			late = late || k.After == 1
			any = true
		}
	}
	switch {
	case r.State == rowUpdating:
		step("its delete job fails, an update is in progress", func(_ *state, r *row) { r.Deleting = 0 })
	case busy || late:
		step("its delete job fails because of a key", func(n *state, r *row) { r.Deleting, n.Key.After, n.OtherKey.After = 0, 0, 0 })
	case s.ForeignKey == 2 || s.ForeignKey == 3:
		step("its delete job fails because of a stranger's key", func(n *state, r *row) {
			r.Deleting = 0
			if s.ForeignKey == 3 {
				n.ForeignKey = 1
			}
		})
	default:
		if m.Async && (any || s.ForeignKey == 1) {
			step("its delete job fails, an unbind goes on in the background", unbindInBackground)
		}
		step("it is deleted", removeInstance)
		if r.State == rowCreating {
			step("its delete job fails, the create is in progress", func(_ *state, r *row) { r.Deleting = 0 })
		}
		if s.Left.DeleteFail > 0 {
			m.refuseDelete(s, r, step)
		}
	}
}

func (m cloud) refuseDelete(s *state, r *row, step func(string, func(*state, *row))) {
	step("the backing broker refuses the delete", func(n *state, r *row) {
		r.Deleting, r.FailedFor = 0, r.DeletedBy
		n.Left.DeleteFail--
	})
	if m.TimedOut && r.DeletedBy != 0 {
		step("its delete job says FAILED, the deletion goes on", func(n *state, r *row) { r.FailedFor = r.DeletedBy; n.Left.DeleteFail-- })
	}
	if s.ForeignKey == 1 {
		step("its delete job fails, the stranger's key cannot be unbound", func(n *state, r *row) { r.Deleting = 0; n.Left.DeleteFail-- })
	}
}

func unbindInBackground(n *state, r *row) {
	r.Deleting = 0
	if n.ForeignKey == 1 {
		n.ForeignKey = 2
	}
	for _, k := range [...]*row{&n.Key, &n.OtherKey} {
		if k.GUID != 0 && k.Instance == r.GUID {
			k.Deleting, k.DeletedBy = 2, 0
		}
	}
}

func removeInstance(n *state, r *row) {
	for _, k := range [...]*row{&n.Key, &n.OtherKey} {
		if k.Instance == r.GUID {
			*k = row{}
		}
	}
	if r == &n.Row {
		n.ForeignKey = 0
	}
	*r = row{}
}

// workOnKey is the worker of one key.
func (m cloud) workOnKey(s *state, at func(*state) *row, out emit) {
	k := at(s)
	if k.GUID == 0 {
		return
	}
	step := func(what string, f func(n *state, k *row)) {
		n := *s
		f(&n, at(&n))
		out(n, label{Event: byCloud, GUID: k.GUID, What: what})
	}
	if k.State == rowCreating {
		step("the key is made", func(_ *state, k *row) { k.State = rowIdle })
		if s.Left.Fail > 0 {
			step("the key fails", func(n *state, k *row) { k.State = rowFailed; n.Left.Fail-- })
		}
	}
	if m.CleanUpKeys && k.State == rowCreating && k.Final == 1 && s.Left.CleanUp > 0 {
		step("a clean-up job marks the queued key as failed", func(n *state, k *row) { k.State, k.Final = rowFailed, 0; n.Left.CleanUp-- })
	}
	if m.CleanUpKeys && k.State == rowFailed && k.Final == 0 {
		step("the key that was marked as failed is made", func(_ *state, k *row) { k.State, k.Final = rowIdle, 1 })
	}
	if k.Deleting == 1 && m.Async {
		step("its unbind goes on in the background", func(_ *state, k *row) { k.Deleting = 2 })
	}
	if k.Deleting != 0 {
		step("the key is deleted", func(_ *state, k *row) { *k = row{} })
		if s.Left.DeleteFail > 0 {
			step("the backing broker refuses the unbind", func(n *state, k *row) { k.Deleting, k.FailedFor = 0, k.DeletedBy; n.Left.DeleteFail-- })
		}
	}
}
