package cfsim

// instanceWork is what all work on instances has in common.
type instanceWork struct {
	s      *Simulator
	row    *instance
	forced int // the row's count of forced states when the job was made
}

func (s *Simulator) onInstance(row *instance) instanceWork {
	return instanceWork{s: s, row: row, forced: row.forced}
}

func (w instanceWork) overtaken() bool { return w.row.forced != w.forced }

func (w instanceWork) mark(kind, state, description string) {
	now := w.s.options.Now()
	w.row.last = lastOperation{kind: kind, state: state, description: description, written: now}
	w.row.updated = now
}

func (w instanceWork) vanished() *cfError {
	if w.s.world.present(w.row) {
		return nil
	}
	err := vanished("The service instance could not be found: " + w.row.guid + ".")
	return &err
}

// provisioning is the work of service_instance.create.
type provisioning struct {
	instanceWork
	parameters []byte
}

func (w *provisioning) moot(bool) (bool, *cfError) {
	if err := w.vanished(); err != nil {
		return true, err
	}
	if w.row.last.kind == kindDelete {
		err := unableTo("create", "delete in progress")
		return true, &err
	}
	return false, nil
}

func (w *provisioning) ask() reply {
	w.row.received = w.parameters
	return w.s.backing.ask(w.row.call(provision), w.row.plan.spec.fates, w.row.guid)
}

func (w *provisioning) began() { w.mark(kindCreate, stateInProgress, "") }

func (w *provisioning) succeeded() {
	w.row.applied = w.parameters
	w.mark(kindCreate, stateSucceeded, "")
}

func (w *provisioning) refused(message string, _ bool) cfError {
	w.mark(kindCreate, stateFailed, message)
	return unableTo("provision", message)
}

func (w *provisioning) failed(description string) cfError {
	w.mark(kindCreate, stateFailed, description)
	return unableTo("create managed", description)
}

func (w *provisioning) abandoned(description string) {
	w.mark(kindCreate, stateFailed, description)
	w.s.orphanInstance(w.row)
}

func (w *provisioning) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "provision", gone: "provision"}, w.row.plan
}

// dropInstance removes a row, and what the backing broker still does for it.
func (s *Simulator) dropInstance(row *instance) {
	for _, k := range row.keys {
		s.backing.forgetOperation(k.guid)
	}
	s.backing.forgetOperation(row.guid)
	s.world.removeInstance(row)
}

// orphanInstance has the backing broker remove an instance whose create may
// have left something, or whose row was replaced.
func (s *Simulator) orphanInstance(row *instance) {
	call, fates, guid := row.call(deprovision), row.plan.spec.fates, row.guid
	s.later(s.options.JobDelay, func() { s.backing.ask(call, fates, guid) })
}
