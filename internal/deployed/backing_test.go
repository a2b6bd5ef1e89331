package deployed

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// backingBrokers are days on which those behind Cloud Foundry do not work.
func backingBrokers() []testCase {
	return []testCase{
		{"LOI-12 a create that the backing broker fails is failed, and says why", failedCreate},
		{"LOI-12 a create that the backing broker refuses is failed, and says why", refusedCreate},
		{"ORPH-02 a bind slower than the budget is 500, and DELETE cleans up", bindBeyondBudget},
		{"ERR-13 a bind that the backing broker refuses is 500 and leaves nothing", refusedBind},
		{"UPD-25 UPD-27 a failed update changes nothing", failedUpdate},
		{"DEP-13 a failed delete may be sent again", failedDelete},
		{"parameters leave the table once Cloud Foundry has taken them", parametersLeave},
	}
}

func failedCreate(t *testing.T, s *stack) { createFails(t, s, "faults/create-fails", "with this plan") }
func refusedCreate(t *testing.T, s *stack) {
	createFails(t, s, "faults/create-rejected", "by this plan")
}

func createFails(t *testing.T, s *stack, plan, words string) {
	p := s.platform(t, "demo")
	id := p.newID()
	op := p.put(id, plan, marked).want(t, http.StatusAccepted).operation()
	a := p.ends(at(id), op)
	if a.text("state") != "failed" || !strings.Contains(a.text("description"), words) {
		t.Errorf("%s: %s, want failed with the backing broker's words", a.request, a.body)
	}
	p.put(id, "postgres/small", "").says(t, http.StatusConflict, "Conflict")
	p.send(http.MethodGet, at(id), "").says(t, http.StatusNotFound, "NotFound")
	p.removed(id, plan)
	s.sim.nothingLeft(p, id)
}

func bindBeyondBudget(t *testing.T, s *stack) {
	const plan = "faults/bind-stalls"
	p := s.platform(t, "demo")
	id, binding := p.ready(plan, ""), p.newID()
	if a := p.bind(id, binding, plan, marked, plain); a.status != http.StatusInternalServerError || a.text("error") == "ConcurrencyError" {
		t.Errorf("%s: %d %s, want 500 and no ConcurrencyError", a.request, a.status, a.body)
	}
	s.sim.askedOnce(p, "bind", id, binding)
	p.unbind(id, binding, plan, plain).want(t, http.StatusOK)
	p.unbind(id, binding, plan, plain).want(t, http.StatusGone)
	if keys := s.sim.row(p, id).Keys; len(keys) != 0 {
		t.Errorf("Cloud Foundry still has the keys %+v", keys)
	}
	p.removed(id, plan)
	s.sim.nothingLeft(p, id)
}

func refusedBind(t *testing.T, s *stack) {
	const plan = "faults/bind-rejected"
	p := s.platform(t, "demo")
	id, binding := p.ready(plan, ""), p.newID()
	p.bind(id, binding, plan, "", plain).want(t, http.StatusInternalServerError)
	eventually(t, "the key is gone", func() bool { return len(s.sim.row(p, id).Keys) == 0 })
	p.removed(id, plan)
}

func failedUpdate(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id := p.ready("faults/update-fails", `{"a":1}`)
	op := p.patch(id, "faults/update-fails", marked).want(t, http.StatusAccepted).operation()
	if a := p.ends(at(id), op); a.text("state") != "failed" || a.text("description") == "" {
		t.Errorf("%s: %s, want failed with a description", a.request, a.body)
	}
	p.put(id, "faults/update-fails", `{"a":1}`).want(t, http.StatusOK)
	p.removed(id, "faults/update-fails")
}

func failedDelete(t *testing.T, s *stack) {
	const plan = "faults/delete-fails-once"
	p := s.platform(t, "demo")
	id := p.ready(plan, "")
	first := p.delete(id, plan).want(t, http.StatusAccepted).operation()
	if a := p.ends(at(id), first); a.text("state") != "failed" || a.text("description") == "" {
		t.Errorf("%s: %s, want failed with a description", a.request, a.body)
	}
	p.removed(id, plan)
	s.sim.nothingLeft(p, id)
}

// parametersLeave shows both: they are there while they are needed, so that the search
// at the end would find them, and then they are not.
func parametersLeave(t *testing.T, s *stack) {
	const plan = "postgres/small"
	p := s.platform(t, "demo")
	id := p.newID()
	secret := "marked-until-accepted-" + id
	var added struct{ ID string }
	s.sim.control(t, http.MethodPost, "faults",
		fmt.Sprintf(`{"method":"POST","route":"/v3/service_instances","match":%q,"times":1,"when":"before","action":"respond","page":"gorouter-503-no-endpoints"}`, secret), &added)
	op := p.put(id, plan, fmt.Sprintf(`{"word":%q}`, secret)).want(t, http.StatusAccepted).operation()
	if !s.tableHolds(t, secret) {
		t.Error("parameters that Cloud Foundry has not taken are not in the table; can the search find them?")
	}
	p.succeeds(at(id), op)
	if s.tableHolds(t, secret) {
		t.Error("parameters are still in the table")
	}
	p.removed(id, plan)
}
