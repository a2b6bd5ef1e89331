package deployed

import (
	"net/http"
	"testing"
)

const small = "postgres/small"

func caseThrottledOnce(t *testing.T, s *stack) {
	p := newStorm(t, s).knows()
	id := p.newID()
	o := p.order(putAction, id, fromAPI, 0, 1, throttle)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	if n := p.count(putAction, id, fromAPI); o.count() != 1 || n != 2 {
		t.Errorf("%d writes were throttled and %d asked for, want 1 and 2", o.count(), n)
	}
	p.gets("succeeded", at(id), operation)
	p.kept(id, small)
}

func caseThrottled(t *testing.T, s *stack) { unwritable(t, s, throttle) }

func caseStoreFails(t *testing.T, s *stack) { unwritable(t, s, fail500) }

// unwritable: the table takes no claim for longer than a request repeats it.
func unwritable(t *testing.T, s *stack, do deed) {
	p := newStorm(t, s)
	id := p.newID()
	o := p.order(putAction, id, "", 0, 0, do)
	refused := p.put(id, small, "").want(t, http.StatusServiceUnavailable)
	if refused.header.Get("Retry-After") == "" {
		t.Errorf("503 without Retry-After: %v", refused.header)
	}
	tries := o.count()
	if tries < 2 || tries > 5 {
		t.Errorf("the claim was sent %d times, want some, and not many", tries)
	}
	p.send(http.MethodGet, at(id), "").want(t, http.StatusNotFound)
	if n := p.count(startAction, id, ""); n != 0 {
		t.Errorf("%d executions of what was never claimed", n)
	}
	s.sim.nothingLeft(p.platform, id)
	s.gate.lift(o)
	p.gets("succeeded", at(id), p.put(id, small, "").want(t, http.StatusAccepted).operation())
	p.kept(id, small)
}

func caseClaimLost(t *testing.T, s *stack) {
	p := newStorm(t, s)
	id := p.newID()
	o := p.order(putAction, id, "", 0, 1, lose)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	if n := o.count(); n != 1 {
		t.Fatalf("%d answers were lost, want one", n)
	}
	p.gets("succeeded", at(id), operation)
	if n := p.count(startAction, operation, ""); n != 1 {
		t.Errorf("%d executions were asked for, want one", n)
	}
	p.kept(id, small)
}

// caseTickThrottled: the poller repeats, then fails the tick, and the state machine
// repeats that.
func caseTickThrottled(t *testing.T, s *stack) {
	p := newStorm(t, s).knows()
	id := p.newID()
	o := p.order(putAction, id, fromPoller, 0, 7, throttle)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	p.gets("succeeded", at(id), operation)
	if o.count() != 7 || p.count(startAction, operation+"-r1", "") != 0 {
		t.Errorf("%d writes were throttled, want 7, and no restart", o.count())
	}
	p.kept(id, small)
}
