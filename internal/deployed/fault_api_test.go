package deployed

import (
	"net/http"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

func caseAPIKilledAfterClaim(t *testing.T, s *stack) {
	p := newStorm(t, s).knows()
	id := p.newID()
	p.order(putAction, id, fromAPI, 0, 1, killAfter)
	p.answered5xx(http.MethodPut, at(id)+async.query(), p.create(small, ""))
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	if n := p.count(startAction, id, fromAPI); n != 0 {
		t.Errorf("a duplicate started %d executions", n)
	}
	p.picksUp(broker.Key{Client: p.name, InstanceID: id})
	p.restarted(operation)
	p.gets("succeeded", at(id), operation)
	p.kept(id, small)
}

func caseAPIKilledAfterStart(t *testing.T, s *stack) {
	p := newStorm(t, s).knows()
	id := p.newID()
	p.order(startAction, id, fromAPI, 0, 1, killAfter)
	p.answered5xx(http.MethodPut, at(id)+async.query(), p.create("postgres/async", ""))
	operation := p.put(id, "postgres/async", "").want(t, http.StatusAccepted).operation()
	p.gets("succeeded", at(id), operation)
	same(t, "executions", p.executions(operation), map[string]string{operation: "SUCCEEDED"})
	p.kept(id, "postgres/async")
}

// answered5xx sends a request whose function is killed.
func (p storm) answered5xx(method, path, body string) {
	p.t.Helper()
	if status := p.roughly(method, path, body); status < 500 {
		p.t.Fatalf("%s %s: %d, though the function was killed", method, path, status)
	}
}

// caseAPIKilledHolding kills the api once the key is asked for and before anybody knows
// the answer. The platform does what platforms do: it sends the same bind again.
func caseAPIKilledHolding(t *testing.T, s *stack) {
	const plan = "postgres/async-bindings"
	p := newStorm(t, s).knows()
	id, binding := p.ready(plan, ""), p.newID()
	o := p.order(putAction, binding, fromAPI, 2, 1, killBefore) // after claim and intent
	body := p.create(plan, "")
	p.answered5xx(http.MethodPut, bindingAt(id, binding), body)
	o.awaits(t, long)
	var again answer
	p.until(long, "the bind succeeds", func() bool {
		again = p.bind(id, binding, plan, "", plain)
		return again.status == http.StatusOK || again.status == http.StatusCreated
	})
	if row := s.sim.row(p.platform, id); len(row.Keys) != 1 || again.credentials() == "" {
		t.Errorf("%d keys and the credentials %q, want one and some", len(row.Keys), again.credentials())
	}
	s.sim.askedOnce(p.platform, "bind", id, binding)
	p.until(long, "the unbind succeeds", func() bool { return p.unbind(id, binding, plan, plain).status == http.StatusGone })
	s.sim.askedOnce(p.platform, "unbind", id, binding)
	p.kept(id, plan)
}
