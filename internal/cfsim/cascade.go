package cfsim

import (
	"slices"
	"strconv"
)

// cascade removes the keys of an instance before the instance. Each key gets
// work of its own, all at once, and the instance's job waits for it; what goes
// wrong is reported key by key.
type cascade struct {
	s        *Simulator
	row      *instance
	job      *job // of the instance
	children []cascadeChild
	begun    bool
}

type cascadeChild struct {
	work *unbinding
	job  *job
}

// ended tells whether nothing more comes of a child; the errors are why its
// key is still there. The control may have ended it.
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

// step returns what is to be waited for, or how it failed; needed is false
// when there are no keys any more.
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
	case c.s.options.Korifi:
		return reply{outcome: replyNever}, true // its job says so when the time is over
	}
	return reply{outcome: replyRefused, own: failures}, true
}

func (c *cascade) begin() {
	c.begun = true
	for _, k := range slices.Clone(c.row.keys) {
		w := &unbinding{c.s.onKey(k)}
		child := cascadeChild{w, &job{operation: jobDeleteKey, resource: k.guid, state: jobProcessing}}
		c.children = append(c.children, child)
		if k.last.is(kindDelete, stateInProgress) {
			c.await(child) // somebody else's delete
			continue
		}
		c.s.heard(child.job, w, w.ask())
	}
}

// await fails the job of a child when the delete that it joined has failed.
func (c *cascade) await(child cascadeChild) {
	row := child.work.row
	switch {
	case child.work.gone():
	case row.last.is(kindDelete, stateFailed):
		child.job.set(jobFailed, c.s.options.Now(), unableTo("unbind", row.last.description))
	default:
		c.s.later(c.s.options.PollInterval, func() { c.await(child) })
	}
}

// deletion returns the work of a delete whose job is j.
func (s *Simulator) deletion(row *instance, j *job) *deprovisioning {
	w := &deprovisioning{instanceWork: s.onInstance(row)}
	if s.options.RecursiveDelete || s.options.Korifi {
		w.cascade = &cascade{s: s, row: row, job: j}
	}
	return w
}
