package cfsim

// keyWork is what all work on keys has in common.
type keyWork struct {
	s   *Simulator
	row *key
}

// overtaken is never true: the control forces states of instances only.
func (w keyWork) overtaken() bool { return false }

func (w keyWork) gone() bool { return w.s.world.keys[w.row.guid] != w.row }

func (w keyWork) mark(kind, state, description string) {
	now := w.s.options.Now()
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

func (w *binding) ask() reply {
	return w.s.backing.ask(w.row.call(bind), w.row.instance.plan.spec.fates, w.row.guid)
}

func (w *binding) began() { w.mark(kindCreate, stateInProgress, "") }

func (w *binding) succeeded() {
	w.row.password = w.s.random.secret()
	w.mark(kindCreate, stateSucceeded, "")
}

func (w *binding) refused(message string, _ bool) cfError {
	w.mark(kindCreate, stateFailed, message)
	return unableTo("bind", message)
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

func (w *unbinding) ask() reply {
	return w.s.backing.ask(w.row.call(unbind), w.row.instance.plan.spec.fates, w.row.guid)
}

func (w *unbinding) began() { w.mark(kindDelete, stateInProgress, "") }

func (w *unbinding) succeeded() {
	w.s.backing.forgetOperation(w.row.guid)
	w.s.world.removeKey(w.row)
}

func (w *unbinding) refused(message string, _ bool) cfError {
	message = "Service broker failed to delete service binding for instance " + w.row.instance.name + ": " + message
	w.mark(kindDelete, stateFailed, message)
	return unableTo("unbind", message)
}

func (w *unbinding) failed(description string) cfError {
	w.mark(kindDelete, stateFailed, description)
	return unableTo("delete", failedState)
}

func (w *unbinding) abandoned(description string) { w.mark(kindDelete, stateFailed, description) }

func (w *unbinding) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "unbind", gone: "unbind"}, w.row.instance.plan
}
