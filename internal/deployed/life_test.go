package deployed

import (
	"net/http"
	"testing"
)

// healthyDay is what happens when nothing is wrong; nothing of it is worth a warning.
func healthyDay() []testCase {
	return []testCase{
		{"CAT-01 CAT-07 the catalog has a tag, and 304 for who knows it", func(t *testing.T, s *stack) { catalogAnswers(s.platform(t, "demo")) }},
		{"CON-06 LOI-01 UNB-01 DEP-10 an instance and its bindings live and end", aLife},
		{"ASY-01 BIND-46 a life in which everything takes its time", aSlowLife},
		{"UPD-20 UPD-09 CON-22 an update of plan and parameters, sent five times", anUpdate},
		{"HTTP-15 two platforms with the same ids do not see each other", twoPlatforms},
		{"DEP-12 CON-32 a delete during a create leads to gone", deleteDuringCreate},
		{"DEP-12 CON-29 a delete during an update leads to gone", deleteDuringUpdate},
		{"HTTP-13 ids that have to be encoded", encodedIDs},
		{"CON-17 PROV-31 an id may be used again after a delete", reusedID},
	}
}

func aLife(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id, _ := wholeLife(p, "postgres/small", marked)
	s.sim.askedOnce(p, "provision", id, "")
	s.sim.askedOnce(p, "deprovision", id, "")
	s.sim.nothingLeft(p, id)
}

func aSlowLife(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id, binding := wholeLife(p, "postgres/async-bindings", "")
	s.sim.askedOnce(p, "bind", id, binding)
	s.sim.askedOnce(p, "unbind", id, binding)
	s.sim.nothingLeft(p, id)
}

func anUpdate(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id := p.ready("postgres/async", `{"size":1}`)
	change := func(int) answer { return p.patch(id, "postgres/async", marked) }
	op := agreed(t, together(5, change), http.StatusOK)
	p.patch(id, "postgres/async", `{"size":3}`).says(t, http.StatusUnprocessableEntity, "ConcurrencyError")
	p.succeeds(at(id), op)
	change(0).want(t, http.StatusOK)
	s.sim.askedOnce(p, "update", id, "")
	if row := s.sim.row(p, id); string(row.Parameters) != marked {
		t.Errorf("Cloud Foundry has the parameters %s, want %s", row.Parameters, marked)
	}
	p.succeeds(at(id), p.patch(id, "postgres/large", "").want(t, http.StatusAccepted).operation())
	if row := s.sim.row(p, id); row.Plan != "large" {
		t.Errorf("Cloud Foundry has the plan %s, want large", row.Plan)
	}
	// What is in force now is what a repeated create has to equal.
	p.put(id, "postgres/large", marked).want(t, http.StatusOK)
	p.put(id, "postgres/async", `{"size":1}`).says(t, http.StatusConflict, "Conflict")
	p.removed(id, "postgres/large")
}

func twoPlatforms(t *testing.T, s *stack) {
	a, b := s.platform(t, "demo"), s.platform(t, "calm")
	id := a.ready("postgres/small", "")
	b.send(http.MethodGet, at(id), "").says(t, http.StatusNotFound, "NotFound")
	b.delete(id, "postgres/small").want(t, http.StatusGone)
	b.succeeds(at(id), b.put(id, "postgres/large", "").want(t, http.StatusAccepted).operation())
	if row := s.sim.row(a, id); row.Plan != "small" {
		t.Errorf("the first platform's instance has the plan %s, want small", row.Plan)
	}
	a.removed(id, "postgres/small")
	b.send(http.MethodGet, at(id), "").want(t, http.StatusOK)
	b.removed(id, "postgres/large")
}

func deleteDuringCreate(t *testing.T, s *stack) {
	const plan = "faults/create-stalls"
	p := s.platform(t, "demo")
	id := p.newID()
	creating := p.put(id, plan, marked).want(t, http.StatusAccepted).operation()
	eventually(t, "the create reaches the backing broker", func() bool { return s.sim.asked(p, "provision", id, "") > 0 })
	deleting := agreed(t, together(5, func(int) answer { return p.delete(id, plan) }), http.StatusGone)
	if deleting == creating {
		t.Errorf("the delete has the create's operation %s", creating)
	}
	p.succeeds(at(id), deleting)
	if a := p.poll(at(id), creating); a.text("state") != "failed" {
		t.Errorf("%s: %d %s, want failed", a.request, a.status, a.body)
	}
	p.delete(id, plan).want(t, http.StatusGone)
	s.sim.nothingLeft(p, id)
}

func deleteDuringUpdate(t *testing.T, s *stack) {
	const plan = "postgres/async"
	p := s.platform(t, "demo")
	id := p.ready(plan, "")
	p.patch(id, plan, marked).want(t, http.StatusAccepted)
	eventually(t, "the update reaches the backing broker", func() bool { return s.sim.asked(p, "update", id, "") > 0 })
	p.succeeds(at(id), p.delete(id, plan).want(t, http.StatusAccepted).operation())
	p.delete(id, plan).want(t, http.StatusGone)
	s.sim.askedOnce(p, "update", id, "")
	s.sim.askedOnce(p, "deprovision", id, "")
	s.sim.nothingLeft(p, id)
}

// encodedIDs leaves out what the stand-in cannot carry: it decodes paths, so that an
// encoded slash becomes one of the path (the events of events/ have those).
func encodedIDs(t *testing.T, s *stack) {
	var each []testCase
	for _, id := range []string{"a b", "äΩ", "1+1=2", "a:b@c", "semi;colon,comma", "~tilde'quote", "100% sure"} {
		each = append(each, testCase{id, func(t *testing.T, s *stack) { livesAs(t, s, id) }})
	}
	group{cases: each}.play(t, s)
}

func livesAs(t *testing.T, s *stack, id string) {
	p := s.platform(t, "demo")
	op := p.put(id, "postgres/small", "").want(t, http.StatusAccepted).operation()
	p.elsewhere(id, "postgres/small", "").says(t, http.StatusConflict, "Conflict")
	p.succeeds(at(id), op)
	s.sim.row(p, id)
	p.removed(id, "postgres/small")
	s.sim.nothingLeft(p, id)
}

func reusedID(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id := p.ready("postgres/small", "")
	p.removed(id, "postgres/small")
	p.succeeds(at(id), p.put(id, "postgres/large", "").want(t, http.StatusAccepted).operation())
	if row := s.sim.row(p, id); row.Plan != "large" {
		t.Errorf("Cloud Foundry has the plan %s, want large", row.Plan)
	}
	p.removed(id, "postgres/large")
}
