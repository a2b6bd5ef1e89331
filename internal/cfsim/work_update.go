package cfsim

// changes are what a PATCH asks for; nil means untouched.
type changes struct {
	name        *string
	tags        *[]string
	plan        *plan
	maintenance *string
	metadata    metadataPatch
	parameters  []byte
}

// updating is the work of service_instance.update. Nothing of what was asked
// for can be seen before the backing broker has succeeded.
type updating struct {
	instanceWork
	changes
}

func (w *updating) moot(bool) (bool, *cfError) {
	err := w.vanished()
	return err != nil, err
}

// target is the plan that the instance is to have afterwards.
func (w *updating) target() *plan {
	if w.plan != nil {
		return w.plan
	}
	return w.row.plan
}

func (w *updating) call() brokerCall { return w.row.call(update) }

func (w *updating) ask() reply {
	if w.parameters != nil {
		w.row.received = w.parameters
	}
	r := w.s.backing.ask(w.call(), w.target().spec.fates, w.row.guid)
	if r.dashboard != "" {
		w.row.setDashboard(r.dashboard)
	}
	return r
}

func (w *updating) began() { w.mark(kindUpdate, stateInProgress, "") }

func (w *updating) succeeded() *cfError {
	if w.parameters != nil {
		w.row.applied = w.parameters
	}
	w.s.apply(w.row, w.changes)
	w.mark(kindUpdate, stateSucceeded, "")
	return nil
}

// apply writes changes into a row. A limit of labels that another request has
// used up in the meantime leaves the metadata as it is.
func (s *Simulator) apply(row *instance, c changes) {
	if marks, err := row.metadata.applied(c.metadata); err == nil {
		row.metadata = marks
	}
	if c.name != nil && s.nameFree(row, *c.name) {
		s.world.instances.rename(row, *c.name)
	}
	if c.tags != nil {
		row.tags = *c.tags
	}
	if c.plan != nil && c.plan != row.plan {
		s.world.instances.changePlan(row, c.plan)
		row.maintenance = c.plan.spec.version
	}
	if c.maintenance != nil {
		row.maintenance = *c.maintenance
	}
}

func (w *updating) refused(r reply) []cfError { return []cfError{w.failed(r.message)} }

func (w *updating) failed(description string) cfError {
	w.mark(kindUpdate, stateFailed, description)
	return unableTo("update", description)
}

func (w *updating) abandoned(description string) { w.mark(kindUpdate, stateFailed, description) }

func (w *updating) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "update", gone: "update"}, w.target()
}
