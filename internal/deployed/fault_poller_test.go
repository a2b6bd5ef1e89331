package deployed

import (
	"net/http"
	"testing"
)

// casePollerCrashes: the runtime of the poller ends itself within a tick, which the
// state machine repeats.
func casePollerCrashes(t *testing.T, s *stack) {
	p := newStorm(t, s).knows()
	id := p.newID()
	o := p.order(putAction, id, fromPoller, 0, 2, crash)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	p.gets("succeeded", at(id), operation)
	if o.count() != 2 {
		t.Errorf("%d crashes, want 2", o.count())
	}
	same(t, "executions", p.executions(operation), map[string]string{operation: "SUCCEEDED"})
	p.kept(id, small)
}

// The first tick of a create writes the intent with the open call, sends the POST, and
// notes the answer. A poller is killed at each write, with as many rows in Cloud
// Foundry as there are then.

func casePollerKilledBeforeIntent(t *testing.T, s *stack) { killedInCreate(t, s, 0, 0) }

func casePollerKilledBeforeNote(t *testing.T, s *stack) { killedInCreate(t, s, 1, 1) }

func killedInCreate(t *testing.T, s *stack, skip, rows int) {
	p := newStorm(t, s).knows()
	id := p.newID()
	o := p.order(putAction, id, fromPoller, skip, 1, holdThenKill)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	o.awaits(t, long)
	if got := len(s.sim.rows(p.platform, id)); got != rows {
		t.Errorf("Cloud Foundry has %d instances when the poller is killed, want %d", got, rows)
	}
	o.release()
	p.gets("succeeded", at(id), operation)
	p.kept(id, small)
}

// casePollerKilledBeforePost: whether the POST was sent, nobody can tell any more.
func casePollerKilledBeforePost(t *testing.T, s *stack) {
	p := newStorm(t, s).knows()
	id := p.newID()
	o := p.order(putAction, id, fromPoller, 0, 1, killAfter)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	p.gets("succeeded", at(id), operation)
	if o.count() != 1 {
		t.Errorf("%d pollers were killed, want one", o.count())
	}
	p.kept(id, small)
}

// casePollerKilledInUpdate kills one poller after its intent, and one after the PATCH.
func casePollerKilledInUpdate(t *testing.T, s *stack) {
	p := newStorm(t, s).knows()
	id := p.ready(small, "")
	o := p.order(putAction, id, fromPoller, 0, 1, killAfter)
	first := p.patch(id, "postgres/large", "").want(t, http.StatusAccepted).operation()
	p.gets("succeeded", at(id), first)
	then := p.order(putAction, id, fromPoller, 1, 1, killBefore)
	second := p.patch(id, small, "").want(t, http.StatusAccepted).operation()
	p.gets("succeeded", at(id), second)
	if o.count() != 1 || then.count() != 1 {
		t.Errorf("%d and %d pollers were killed, want one each", o.count(), then.count())
	}
	if row := s.sim.row(p.platform, id); row.Plan != "small" {
		t.Errorf("the instance has the plan %s", row.Plan)
	}
	p.kept(id, small)
}

// casePollerKilledInDelete kills one poller after its intent to delete, and one after
// the DELETE.
func casePollerKilledInDelete(t *testing.T, s *stack) {
	p := newStorm(t, s).knows()
	for skip, do := range []deed{killAfter, killBefore} {
		id := p.ready(small, "")
		o := p.order(putAction, id, fromPoller, skip, 1, do)
		operation := p.delete(id, small).want(t, http.StatusAccepted).operation()
		p.gets("succeeded", at(id), operation)
		if o.count() != 1 {
			t.Errorf("%d pollers were killed, want one", o.count())
		}
		p.gone(id, small)
	}
}
