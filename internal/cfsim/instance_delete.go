package cfsim

import (
	"net/http"
	"slices"
	"strconv"
)

// deleteInstance is DELETE /v3/service_instances/GUID. It queues a job and shows nothing of it: the row stays as it was
// until a worker has asked the backing broker. With RecursiveDelete a second delete gets the job of the first.
// deprovisioning is what the job does.
func deleteInstance(c *call) (*answer, error) {
	purge, err := readPurge(c)
	if err != nil {
		return nil, err
	}
	row, err := c.instanceToChange()
	if err != nil {
		return nil, err
	}
	if purge {
		if !c.administrator() {
			return nil, notAuthorized()
		}
		c.dropInstance(row)
		return newAnswer(http.StatusNoContent, "", nil), nil
	}
	if c.options.RecursiveDelete && row.deletion != nil && !row.deletion.over() {
		return jobAnswer(c.base, row.deletion), nil
	}
	if row.last.running() && !row.last.is(kindCreate, stateInProgress) {
		return nil, unprocessable("There is an operation in progress for the service instance.")
	}
	row.job = c.newJob(jobDeleteInstance, row.guid)
	row.deletion = row.job
	c.workers.queue(row.job, c.deletion(row, row.job))
	return jobAnswer(c.base, row.job), nil
}

// readPurge reads whether the backing broker is to be left out.
func readPurge(c *call) (bool, error) {
	c.query.allow("purge")
	purge := c.query.flag("purge")
	return purge != nil && *purge, c.query.problem()
}

// deletion returns the work of a delete whose job is j.
func (cc *controller) deletion(row *instance, j *job) *deprovisioning {
	w := &deprovisioning{instanceWork: cc.onInstance(row)}
	if cc.options.RecursiveDelete || cc.options.Korifi {
		w.cascade = &cascade{controller: cc, row: row, job: j}
	}
	return w
}

// deprovisioning is the work of the job service_instance.delete: keys first, then the instance.
type deprovisioning struct {
	instanceWork
	// cascade has the keys removed by work of their own that is waited for; nil is the older way, where a key that does
	// not go at once is a failure.
	cascade *cascade
}

func (w *deprovisioning) moot(asked bool) (bool, []cfError) {
	if w.vanished() != nil {
		return true, nil // somebody else has removed it
	}
	if w.options.Korifi {
		// Another delete is at it: there is nothing to add to that.
		return !asked && w.row.last.is(kindDelete, stateInProgress), nil
	}
	blocked := w.row.last.running() && !w.row.last.is(kindCreate, stateInProgress)
	if !asked && blocked {
		return true, []cfError{instanceBusy(w.row.name)}
	}
	return false, nil
}

func (w *deprovisioning) call() brokerCall { return w.row.call(deprovision) }

// ask unbinds every key and asks for the instance only when all are gone. The older way does not see a key whose own
// job no worker has taken up (R7).
func (w *deprovisioning) ask() reply {
	if w.cascade != nil {
		if wait, needed := w.cascade.step(); needed {
			return wait
		}
		return w.backing.ask(w.call(), w.row.plan.spec.fates, w.row.guid)
	}
	first := ""
	for _, k := range slices.Clone(w.row.keys) {
		if k.last.is(kindCreate, stateInitial) {
			continue
		}
		if problem := w.unbindNow(k); problem != "" && first == "" {
			first = problem
		}
	}
	if first != "" {
		return reply{outcome: replyRefused, message: first, whole: true}
	}
	return w.backing.ask(w.call(), w.row.plan.spec.fates, w.row.guid)
}

func (w *deprovisioning) began() { w.mark(kindDelete, stateInProgress, "") }

// lateKey is what the database says when a key came while the instance went.
const lateKey = `PG::ForeignKeyViolation: ERROR:  update or delete on table "service_instances" violates foreign key constraint ` +
	`"fk_svc_key_svc_instance_id" on table "service_keys"`

func (w *deprovisioning) succeeded() []cfError {
	if len(w.row.keys) > 0 && w.cascade == nil {
		w.mark(kindDelete, stateFailed, lateKey)
		return []cfError{unableTo("delete", lateKey)}
	}
	w.dropInstance(w.row)
	return nil
}

// refused leaves the row of a create that still runs as it is, so that such a failure can be seen in the job alone. So
// does one of a key in a cascade.
func (w *deprovisioning) refused(r reply) []cfError {
	if r.own != nil {
		return r.own
	}
	message := r.message
	if !r.whole {
		message = "Service instance " + w.row.name + ": " + message
	}
	if !w.row.last.running() {
		w.mark(kindDelete, stateFailed, w.said(message))
	}
	switch r.kind {
	case answerConcurrency:
		return []cfError{instanceBusy(w.row.name)}
	case answerConflict:
		return []cfError{{60011, "CF-ServiceInstanceDeprovisionFailed", "The service broker reported an error during deprovisioning: " + r.message}}
	}
	return []cfError{unableTo("delete", message)}
}

func (w *deprovisioning) failed(description string) cfError {
	w.mark(kindDelete, stateFailed, description)
	return unableTo("delete", description)
}

func (w *deprovisioning) abandoned(description string) { w.mark(kindDelete, stateFailed, description) }

func (w *deprovisioning) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "delete", gone: "deprovision"}, w.row.plan
}

// unbindNow removes one key on the way to removing its instance, and returns why it is still there. An asynchronous
// unbind goes on in the background.
func (cc *controller) unbindNow(k *key) string {
	const running = "An operation for a service binding of service instance "
	if k.last.is(kindDelete, stateInProgress) {
		return running + k.instance.name + " is in progress."
	}
	w := &unbinding{cc.onKey(k)}
	r := w.ask()
	switch r.outcome {
	case replyDone:
		_ = w.succeeded() // a key can always be removed
		return ""
	case replyAccepted:
		// No job that anybody could look at stands behind this one.
		cc.workers.carryOn(&job{operation: jobDeleteKey, resource: k.guid}, w, r)
		return running + k.instance.name + " is in progress."
	case replySilent:
		r.message = timedOutMessage
	default: // refused: the broker's message stands
	}
	w.refused(r)
	return k.last.description
}

// cascade removes the keys of an instance before the instance. Each key gets work of its own, all at once, and the
// instance's job waits for it; what goes wrong is reported key by key.
type cascade struct {
	*controller
	row      *instance
	job      *job // of the instance
	children []cascadeChild
	begun    bool
}

type cascadeChild struct {
	work *unbinding
	job  *job
}

// ended tells whether nothing more comes of a child; the errors are why its key is still there. The control may have
// ended it.
func (c cascadeChild) ended() (bool, []cfError) {
	row := c.work.row
	switch {
	case c.job.state == jobFailed:
		return true, c.job.errors
	case c.work.overtaken() && !row.last.running() && !c.work.gone():
		return true, []cfError{unableTo("unbind", row.last.description)}
	}
	return c.work.gone(), nil
}

// step returns what is to be waited for, or how it failed; needed is false when there are no keys any more.
func (c *cascade) step() (wait reply, needed bool) {
	if !c.begun {
		c.begin()
	}
	var failures []cfError
	running := 0
	for _, child := range c.children {
		over, problems := child.ended()
		if !over {
			running++
		}
		for _, e := range problems {
			failures = append(failures, cfError{codeUnprocessable, titleUnprocessable, "service_credential_binding " + child.work.row.guid + ": " + e.Detail})
		}
	}
	c.job.warnings = nil
	switch {
	case running > 0:
		c.job.warnings = []jobWarning{{Detail: "Waiting for " + strconv.Itoa(running) + " service credential bindings to be deleted"}}
		return reply{outcome: replyLater}, true
	case failures == nil:
		return reply{}, false
	case c.options.Korifi:
		return reply{outcome: replyNever}, true // its job says so when the time is over
	}
	return reply{outcome: replyRefused, own: failures}, true
}

func (c *cascade) begin() {
	c.begun = true
	for _, k := range slices.Clone(c.row.keys) {
		w := &unbinding{c.onKey(k)}
		child := cascadeChild{w, &job{operation: jobDeleteKey, resource: k.guid, state: jobProcessing}}
		c.children = append(c.children, child)
		if k.last.is(kindDelete, stateInProgress) {
			c.await(child) // somebody else's delete
			continue
		}
		c.workers.carryOn(child.job, w, w.ask())
	}
}

// await fails the job of a child when the delete that it joined has failed.
func (c *cascade) await(child cascadeChild) {
	row := child.work.row
	switch {
	case child.work.gone():
	case row.last.is(kindDelete, stateFailed):
		child.job.set(jobFailed, c.now(), unableTo("unbind", row.last.description))
	default:
		c.workers.later(c.options.PollInterval, func() { c.await(child) })
	}
}

// removeNow removes an instance on the way to removing its space, and returns why it is still there. An asynchronous
// delete goes on in the background.
func (cc *controller) removeNow(row *instance) string {
	busy := instanceBusy(row.name).Detail
	w := &deprovisioning{instanceWork: cc.onInstance(row)}
	if over, _ := w.moot(false); over {
		return busy
	}
	r := w.ask()
	switch r.outcome {
	case replyDone:
		if errors := w.succeeded(); errors != nil {
			return errors[0].Detail
		}
		return ""
	case replyAccepted:
		row.job = cc.newJob(jobDeleteInstance, row.guid)
		cc.workers.carryOn(row.job, w, r)
		return busy
	case replySilent:
		r.message = timedOutMessage
	default: // refused: the broker's message stands
	}
	w.refused(r)
	return r.message
}
