package cfsim

import "slices"

// deprovisioning is the work of service_instance.delete: keys first, then the
// instance.
type deprovisioning struct {
	instanceWork
	// cascade has the keys removed by work of their own that is waited for;
	// nil is the older way, where a key that does not go at once is a failure.
	cascade *cascade
}

func (w *deprovisioning) moot(asked bool) (bool, *cfError) {
	if w.vanished() != nil {
		return true, nil // somebody else has removed it
	}
	if w.s.options.Korifi {
		// Another delete is at it: there is nothing to add to that.
		return !asked && w.row.last.is(kindDelete, stateInProgress), nil
	}
	blocked := w.row.last.running() && !w.row.last.is(kindCreate, stateInProgress)
	if !asked && blocked {
		err := instanceBusy(w.row.name)
		return true, &err
	}
	return false, nil
}

func (w *deprovisioning) call() brokerCall { return w.row.call(deprovision) }

// ask unbinds every key and asks for the instance only when all are gone. The
// older way does not see a key whose own job no worker has taken up (R7).
func (w *deprovisioning) ask() reply {
	if w.cascade != nil {
		if wait, needed := w.cascade.step(); needed {
			return wait
		}
		return w.s.backing.ask(w.call(), w.row.plan.spec.fates, w.row.guid)
	}
	first := ""
	for _, k := range slices.Clone(w.row.keys) {
		if k.last.is(kindCreate, stateInitial) {
			continue
		}
		if problem := w.s.unbindBelow(k); problem != "" && first == "" {
			first = problem
		}
	}
	if first != "" {
		return reply{outcome: replyRefused, message: first, whole: true}
	}
	return w.s.backing.ask(w.call(), w.row.plan.spec.fates, w.row.guid)
}

func (w *deprovisioning) began() { w.mark(kindDelete, stateInProgress, "") }

// lateKey is what the database says when a key came while the instance went.
const lateKey = `PG::ForeignKeyViolation: ERROR:  update or delete on table "service_instances" violates foreign key constraint ` +
	`"fk_svc_key_svc_instance_id" on table "service_keys"`

func (w *deprovisioning) succeeded() *cfError {
	if len(w.row.keys) > 0 && w.cascade == nil {
		w.mark(kindDelete, stateFailed, lateKey)
		err := unableTo("delete", lateKey)
		return &err
	}
	w.s.dropInstance(w.row)
	return nil
}

// refused leaves the row of a create that still runs as it is, so that such a
// failure can be seen in the job alone. So does one of a key in a cascade.
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

// unbindBelow removes one key on the way to removing its instance, and returns
// why it is still there. An asynchronous unbind goes on in the background.
func (s *Simulator) unbindBelow(k *key) string {
	const running = "An operation for a service binding of service instance "
	if k.last.is(kindDelete, stateInProgress) {
		return running + k.instance.name + " is in progress."
	}
	w := &unbinding{s.onKey(k)}
	r := w.ask()
	switch r.outcome {
	case replyDone:
		_ = w.succeeded() // a key can always be removed
		return ""
	case replyAccepted:
		// No job that anybody could look at stands behind this one.
		s.heard(&job{operation: jobDeleteKey, resource: k.guid}, w, r)
		return running + k.instance.name + " is in progress."
	case replySilent:
		r.message = timedOutMessage
	default: // refused: the broker's message stands
	}
	w.refused(r)
	return k.last.description
}
