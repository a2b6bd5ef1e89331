package cfsim

// keyWork is what all work on keys has in common.
type keyWork struct {
	s      *Simulator
	row    *key
	forced int // the row's count of forced states when the job was made
}

func (s *Simulator) onKey(row *key) keyWork { return keyWork{s: s, row: row, forced: row.forced} }

func (w keyWork) overtaken() bool { return w.row.forced != w.forced }

func (w keyWork) gone() bool { return w.s.world.keys[w.row.guid] != w.row }

func (w keyWork) mark(kind, state, description string) {
	now := w.s.options.Now()
	if w.s.options.Korifi {
		description = "" // it never tells
	}
	w.row.last = lastOperation{kind: kind, state: state, description: description, written: now}
	w.row.updated = now
}

// binding is the work of service_keys.create.
type binding struct{ keyWork }

func (w *binding) moot(bool) (bool, *cfError) {
	if w.gone() {
		err := vanished("The binding could not be found: " + w.row.guid)
		return true, &err
	}
	if w.row.last.kind == kindDelete {
		err := unableTo("create", "delete in progress")
		return true, &err
	}
	return false, nil
}

func (w *binding) call() brokerCall { return w.row.call(bind) }

func (w *binding) ask() reply {
	if w.s.options.Korifi {
		if wait, needed := korifiWait(w.row.instance); needed {
			return wait
		}
	}
	plan := w.row.instance.plan
	r := w.s.backing.ask(w.call(), plan.spec.fates, w.row.guid)
	if r.details != nil {
		w.row.answered = r.details
	}
	if r.outcome == replyAccepted && !plan.offering.spec.retrievable && !w.s.options.Korifi {
		w.s.backing.forgetOperation(w.row.guid)
		return reply{outcome: replyRefused, message: cannotFetch().Detail, own: []cfError{cannotFetch()}}
	}
	return r
}

// cannotFetch is the error for a bind that would have to be read afterwards.
func cannotFetch() cfError {
	return cfError{90001, "CF-ServiceBindingInvalid", "The service binding is invalid: The broker responded asynchronously but does not support fetching binding data"}
}

func (w *binding) began() {
	state := stateInProgress
	if w.s.options.Korifi {
		state = stateInitial
	}
	w.mark(kindCreate, state, "")
}

func (w *binding) succeeded() *cfError {
	w.row.password = w.s.random.secret()
	w.mark(kindCreate, stateSucceeded, "")
	return nil
}

func (w *binding) refused(r reply) []cfError {
	w.mark(kindCreate, stateFailed, r.message)
	if r.orphan {
		w.s.orphanKey(w.row)
	}
	if r.own != nil {
		return r.own
	}
	return []cfError{unableTo("bind", r.message)}
}

func (w *binding) failed(description string) cfError {
	w.mark(kindCreate, stateFailed, description)
	return unableTo("create", failedState)
}

func (w *binding) abandoned(description string) {
	w.mark(kindCreate, stateFailed, description)
	w.s.orphanKey(w.row)
}

func (w *binding) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "bind", gone: "bind"}, w.row.instance.plan
}

// orphanKey has the backing broker remove a binding whose create may have left
// something, or whose row was replaced.
func (s *Simulator) orphanKey(row *key) {
	if s.options.Korifi {
		return
	}
	call, fates, guid := row.call(unbind), row.instance.plan.spec.fates, row.guid
	s.later(s.options.JobDelay, func() { s.backing.ask(call, fates, guid) })
}

// unbinding is the work of service_keys.delete.
type unbinding struct{ keyWork }

func (w *unbinding) moot(asked bool) (bool, *cfError) {
	if w.gone() {
		return true, nil
	}
	if !asked && w.row.last.is(kindDelete, stateInProgress) {
		err := unableTo("unbind", keyBusy)
		return true, &err
	}
	return false, nil
}

func (w *unbinding) call() brokerCall { return w.row.call(unbind) }

func (w *unbinding) ask() reply {
	return w.s.backing.ask(w.call(), w.row.instance.plan.spec.fates, w.row.guid)
}

func (w *unbinding) began() { w.mark(kindDelete, stateInProgress, "") }

func (w *unbinding) succeeded() *cfError {
	w.s.backing.forgetOperation(w.row.guid)
	w.s.world.removeKey(w.row)
	return nil
}

func (w *unbinding) refused(r reply) []cfError {
	message := "Service broker failed to delete service binding for instance " + w.row.instance.name + ": " + r.message
	w.mark(kindDelete, stateFailed, message)
	return []cfError{unableTo("unbind", message)}
}

func (w *unbinding) failed(description string) cfError {
	w.mark(kindDelete, stateFailed, description)
	return unableTo("delete", failedState)
}

func (w *unbinding) abandoned(description string) { w.mark(kindDelete, stateFailed, description) }

func (w *unbinding) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "unbind", gone: "unbind"}, w.row.instance.plan
}

// newKey is a create request that has been read.
type newKey struct {
	name, instance string
	metadata       metadataPatch
	parameters     []byte
}

func (c *call) newKey() (newKey, error) {
	m, err := c.message(c.without([]string{"type", "name", "parameters", "metadata", "relationships"}, "metadata")...)
	if err != nil {
		return newKey{}, err
	}
	if kind := m.text("type"); kind != "key" && len(m.problems) == 0 {
		m.refuse("Type must be 'key': applications are not simulated")
	}
	n := newKey{
		name:       m.name(false),
		instance:   m.relationship("service_instance", "Service instance", true),
		parameters: m.parameters(),
	}
	if app := m.relationship("app", "App", false); app != "" {
		m.refuse("Relationships Unknown field(s): 'app'")
	}
	n.metadata = m.metadata()
	return n, m.problem()
}

func (s *Simulator) createKey(c *call) (*answer, error) {
	n, err := c.newKey()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.world.instances.get(n.instance)
	if i == nil || !s.readable(c) {
		return nil, unprocessable("The service instance could not be found: '" + n.instance + "'")
	}
	if err := s.writable(c, i.space); err != nil {
		return nil, err
	}
	if err := s.bindable(i, n.name); err != nil {
		return nil, err
	}
	marks, err := metadata{}.applied(n.metadata)
	if err != nil {
		return nil, err
	}
	if old := s.world.keyNamed(i, n.name); old != nil { // a failed create, see bindable
		s.backing.forgetOperation(old.guid)
		s.world.removeKey(old)
		s.orphanKey(old)
	}
	if err := s.checkKeyQuota(i.space); err != nil {
		return nil, err
	}
	k := s.addKey(i, n.name, lastOperation{kind: kindCreate, state: stateInitial, written: s.options.Now()})
	k.metadata, k.parameters = marks, n.parameters
	k.job = s.newJob(jobCreateKey, k.guid)
	s.queue(k.job, &binding{s.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}

// bindable tells whether an instance takes a key of that name.
func (s *Simulator) bindable(i *instance, name string) error {
	const taken = "The binding name is invalid. Key binding names must be unique. The service instance already has "
	switch {
	case i.last.is(kindCreate, stateFailed):
		return unprocessable("Service instance not found")
	case !i.plan.bindable():
		return unprocessable("Service plan does not allow bindings.")
	case i.last.running():
		return unprocessable("There is an operation in progress for the service instance")
	}
	old := s.world.keyNamed(i, name)
	switch {
	case old == nil || old.last.is(kindCreate, stateFailed):
		return nil
	case old.last.kind == kindDelete:
		return unprocessable(taken + "a key binding with the name '" + name + "' that is getting deleted or its deletion failed.")
	}
	return unprocessable(taken + "a key binding with name '" + name + "'.")
}
