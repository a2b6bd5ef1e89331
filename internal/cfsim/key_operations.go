package cfsim

// createKey is POST /v3/service_credential_bindings; binding is what the job does.
func createKey(c *call) (*answer, error) {
	n, err := readNewKey(c)
	if err != nil {
		return nil, err
	}
	i := c.database.instances.get(n.instance)
	if i == nil || !c.readable() {
		return nil, unprocessable("The service instance could not be found: '" + n.instance + "'")
	}
	if err := c.writable(i.space); err != nil {
		return nil, err
	}
	if err := bindable(c, i, n.name); err != nil {
		return nil, err
	}
	marks, err := metadata{}.applied(n.metadata)
	if err != nil {
		return nil, err
	}
	if old := c.database.keyNamed(i, n.name); old != nil { // a failed create, see bindable
		c.backing.forgetOperation(old.guid)
		c.database.removeKey(old)
		c.orphanKey(old)
	}
	if err := c.checkKeyQuota(i.space); err != nil {
		return nil, err
	}
	k := c.addKey(i, n.name, lastOperation{kind: kindCreate, state: stateInitial, written: c.now()})
	k.metadata, k.parameters = marks, n.parameters
	k.job = c.newJob(jobCreateKey, k.guid)
	c.workers.queue(k.job, &binding{c.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}

// newKey is a request to create a key that has been read.
type newKey struct {
	name, instance string
	metadata       metadataPatch
	parameters     []byte
}

func readNewKey(c *call) (newKey, error) {
	m, err := c.message(c.exceptOnKorifi([]string{"type", "name", "parameters", "metadata", "relationships"}, "metadata")...)
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

// bindable tells whether an instance takes a key of that name.
func bindable(c *call, i *instance, name string) error {
	const taken = "The binding name is invalid. Key binding names must be unique. The service instance already has "
	switch {
	case i.last.is(kindCreate, stateFailed):
		return unprocessable("Service instance not found")
	case !i.plan.bindable():
		return unprocessable("Service plan does not allow bindings.")
	case i.last.running():
		return unprocessable("There is an operation in progress for the service instance")
	}
	old := c.database.keyNamed(i, name)
	switch {
	case old == nil || old.last.is(kindCreate, stateFailed):
		return nil
	case old.last.kind == kindDelete:
		return unprocessable(taken + "a key binding with the name '" + name + "' that is getting deleted or its deletion failed.")
	}
	return unprocessable(taken + "a key binding with name '" + name + "'.")
}

// binding is the work of the job service_keys.create.
type binding struct{ keyWork }

func (w *binding) moot(bool) (bool, []cfError) {
	if w.gone() {
		return true, []cfError{rowGone("The binding could not be found: " + w.row.guid)}
	}
	if w.row.last.kind == kindDelete {
		return true, []cfError{unableTo("create", "delete in progress")}
	}
	return false, nil
}

func (w *binding) call() brokerCall { return w.row.call(bind) }

func (w *binding) ask() reply {
	if w.options.Korifi {
		if wait, needed := korifiWait(w.row.instance); needed {
			return wait
		}
	}
	plan := w.row.instance.plan
	r := w.backing.ask(w.call(), plan.spec.fates, w.row.guid)
	if r.details != nil {
		w.row.answered = r.details
	}
	if r.outcome == replyAccepted && !plan.offering.spec.retrievable && !w.options.Korifi {
		w.backing.forgetOperation(w.row.guid)
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
	if w.options.Korifi {
		state = stateInitial
	}
	w.mark(kindCreate, state, "")
}

func (w *binding) succeeded() []cfError {
	w.row.password = w.random.secret()
	w.mark(kindCreate, stateSucceeded, "")
	return nil
}

func (w *binding) refused(r reply) []cfError {
	w.mark(kindCreate, stateFailed, r.message)
	if r.orphan {
		w.orphanKey(w.row)
	}
	if r.own != nil {
		return r.own
	}
	return []cfError{unableTo("bind", r.message)}
}

// failedState is what a job on a key says when polling brought a failure: the name of the class, the reason is only in
// the key's last operation.
const failedState = "VCAP::CloudController::V3::LastOperationFailedState"

func (w *binding) failed(description string) cfError {
	w.mark(kindCreate, stateFailed, description)
	return unableTo("create", failedState)
}

func (w *binding) abandoned(description string) {
	w.mark(kindCreate, stateFailed, description)
	w.orphanKey(w.row)
}

func (w *binding) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "bind", gone: "bind"}, w.row.instance.plan
}

// orphanKey has the backing broker remove a binding whose create may have left something, or whose row was replaced.
func (cc *controller) orphanKey(row *key) {
	if cc.options.Korifi {
		return
	}
	call, fates, guid := row.call(unbind), row.instance.plan.spec.fates, row.guid
	cc.workers.later(cc.options.JobDelay, func() { cc.backing.ask(call, fates, guid) })
}

// deleteKey is DELETE /v3/service_credential_bindings/GUID. It queues a job and shows nothing of it; unbinding is what
// the job does.
func deleteKey(c *call) (*answer, error) {
	if err := c.query.only(); err != nil {
		return nil, err
	}
	k, err := c.keyToChange()
	if err != nil {
		return nil, err
	}
	switch {
	case k.last.running() && !k.last.is(kindCreate, stateInProgress):
		return nil, unprocessable(keyBusy)
	case k.instance.last.running():
		return nil, unprocessable("There is an operation in progress for the service instance.")
	}
	k.job = c.newJob(jobDeleteKey, k.guid)
	c.workers.queue(k.job, &unbinding{c.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}

// keyBusy refuses a second delete of a key.
const keyBusy = "There is an operation in progress for the service binding."

// unbinding is the work of the job service_keys.delete.
type unbinding struct{ keyWork }

func (w *unbinding) moot(asked bool) (bool, []cfError) {
	if w.gone() {
		return true, nil
	}
	if !asked && w.row.last.is(kindDelete, stateInProgress) {
		return true, []cfError{unableTo("unbind", keyBusy)}
	}
	return false, nil
}

func (w *unbinding) call() brokerCall { return w.row.call(unbind) }

func (w *unbinding) ask() reply {
	return w.backing.ask(w.call(), w.row.instance.plan.spec.fates, w.row.guid)
}

func (w *unbinding) began() { w.mark(kindDelete, stateInProgress, "") }

func (w *unbinding) succeeded() []cfError {
	w.backing.forgetOperation(w.row.guid)
	w.database.removeKey(w.row)
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

// keyWork is what all work on keys has in common.
type keyWork struct {
	*controller
	row    *key
	forced int // the row's count of forced states when the job was made
}

func (cc *controller) onKey(row *key) keyWork {
	return keyWork{controller: cc, row: row, forced: row.forced}
}

func (w keyWork) overtaken() bool { return w.row.forced != w.forced }

func (w keyWork) gone() bool { return w.database.keys[w.row.guid] != w.row }

func (w keyWork) mark(kind, state, description string) {
	now := w.now()
	if w.options.Korifi {
		description = "" // it never says why
	}
	w.row.last = lastOperation{kind: kind, state: state, description: description, written: now}
	w.row.updated = now
}
