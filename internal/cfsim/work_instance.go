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

// said is what a row tells of a failure that did not come from polling, which
// is nothing with Korifi.
func (w instanceWork) said(message string) string {
	if w.s.options.Korifi {
		return ""
	}
	return message
}

// provisioning is the work of service_instance.create.
type provisioning struct {
	instanceWork
	parameters []byte
	slow       bool // the backing broker works asynchronously
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

func (w *provisioning) call() brokerCall { return w.row.call(provision) }

func (w *provisioning) ask() reply {
	if w.s.options.Korifi && w.row.last.blank() {
		// The controller takes notice of a row before it does anything.
		w.mark(kindCreate, stateInitial, "")
		return reply{outcome: replyLater}
	}
	w.row.received = w.parameters
	r := w.s.backing.ask(w.call(), w.row.plan.spec.fates, w.row.guid)
	if r.dashboard != "" {
		w.row.setDashboard(r.dashboard)
	}
	return r
}

func (w *provisioning) began() {
	w.slow = true
	w.mark(kindCreate, stateInProgress, "")
}

func (w *provisioning) succeeded() *cfError {
	w.row.applied = w.parameters
	if w.s.options.Korifi && w.slow {
		w.row.maintenance = "" // it forgets the version on the way
	}
	w.mark(kindCreate, stateSucceeded, "")
	return nil
}

func (w *provisioning) refused(r reply) []cfError {
	w.mark(kindCreate, stateFailed, w.said(r.message))
	if r.orphan {
		w.s.orphanInstance(w.row)
	}
	return []cfError{unableTo("provision", r.message)}
}

func (w *provisioning) failed(description string) cfError {
	w.mark(kindCreate, stateFailed, description)
	return unableTo("create managed", description)
}

func (w *provisioning) abandoned(description string) {
	w.mark(kindCreate, stateFailed, w.said(description))
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
	if s.options.Korifi {
		return // it does not clean up
	}
	call, fates, guid := row.call(deprovision), row.plan.spec.fates, row.guid
	s.later(s.options.JobDelay, func() { s.backing.ask(call, fates, guid) })
}
