package cfsim

import "slices"

// deprovisioning is the work of service_instance.delete: keys first, then the
// instance.
type deprovisioning struct {
	instanceWork
}

func (w *deprovisioning) moot(asked bool) (bool, *cfError) {
	if w.vanished() != nil {
		return true, nil // somebody else has removed it
	}
	blocked := w.row.last.running() && !w.row.last.is(kindCreate, stateInProgress)
	if !asked && blocked {
		err := instanceBusy(w.row.name)
		return true, &err
	}
	return false, nil
}

// ask unbinds every key and asks for the instance only when all are gone.
func (w *deprovisioning) ask() reply {
	first := ""
	for _, k := range slices.Clone(w.row.keys) {
		if problem := w.s.unbindBelow(k); problem != "" && first == "" {
			first = problem
		}
	}
	if first != "" {
		return reply{outcome: replyRefused, message: first, whole: true}
	}
	return w.s.backing.ask(w.row.call(deprovision), w.row.plan.spec.fates, w.row.guid)
}

func (w *deprovisioning) began() { w.mark(kindDelete, stateInProgress, "") }

func (w *deprovisioning) succeeded() { w.s.dropInstance(w.row) }

// refused leaves the row of a create that still runs as it is, so that such a
// failure can be seen in the job alone.
func (w *deprovisioning) refused(message string, whole bool) cfError {
	if !whole {
		message = "Service instance " + w.row.name + ": " + message
	}
	if !w.row.last.running() {
		w.mark(kindDelete, stateFailed, message)
	}
	return unableTo("delete", message)
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
	w := &unbinding{keyWork{s, k}}
	r := w.ask()
	switch r.outcome {
	case replyDone:
		w.succeeded()
		return ""
	case replyAccepted:
		// No job that anybody could look at stands behind this one.
		s.heard(&job{operation: jobDeleteKey, resource: k.guid}, w, r)
		return running + k.instance.name + " is in progress."
	case replySilent:
		r.message = timedOutMessage
	default: // refused: the broker's message stands
	}
	w.refused(r.message, false)
	return k.last.description
}
