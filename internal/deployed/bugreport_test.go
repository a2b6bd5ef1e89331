package deployed

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// big loses its last digit in whatever reads it as a float.
const big = "9007199254740993"

// marked are parameters with a mark, and with a number that has to stay exact.
const marked = `{"word":"` + parameterMark + `","big":` + big + `}`

// bugReport is what Ferry exists for. It is played alone: it counts every POST that
// Cloud Foundry gets.
func bugReport() []testCase {
	return []testCase{
		{"PROV-19 CON-07 CON-64 20 identical creates at once make one instance with one POST", identicalCreates},
	}
}

// matrix is the rest of it: every other request, many times at once.
func matrix() []testCase {
	return []testCase{
		{"CON-42 CON-44 CON-64 20 identical binds at once make one key and get the same credentials", identicalBinds},
		{"CON-42 BIND-46 20 identical binds at once of what takes its time are all held, and make one key", identicalSlowBinds},
		{"CON-41 BIND-15 20 identical asynchronous binds at once are one operation", identicalAsyncBinds},
		{"DEP-09 CON-35 CON-39 20 identical deletes at once are one operation, then 410", identicalDeletes},
		{"CON-14 CON-15 20 duplicates of a failed create are one new create", duplicatesOfAFailure},
	}
}

// held makes the backing broker accept the operation and not end it.
func (s *simulator) held(p platform, operation, id string) {
	p.t.Helper()
	s.control(p.t, http.MethodPost, "broker", fmt.Sprintf(
		`{"operation":%q,"org":%q,"instance":%q,"times":1,"answer":"accepted","polls":"in progress"}`, operation, p.org, id), nil)
}

// ended lets a held create end well.
func (s *simulator) ended(p platform, id string) {
	p.t.Helper()
	s.control(p.t, http.MethodPatch, "instances/"+s.row(p, id).GUID,
		`{"last_operation":{"type":"create","state":"succeeded","description":"made"},"job":"COMPLETE"}`, nil)
}

func identicalCreates(t *testing.T, s *stack) {
	const post = "POST /v3/service_instances"
	p, plan := s.platform(t, "calm"), "postgres/async"
	before, id := s.sim.state(t).Requests[post], p.newID()
	s.sim.held(p, "provision", id)
	answers := together(crowd, func(int) answer { return p.put(id, plan, marked) })
	op := agreed(t, answers, http.StatusAccepted)
	eventually(t, "the create reaches the backing broker", func() bool { return s.sim.asked(p, "provision", id, "") > 0 })
	for _, a := range together(crowd, func(int) answer { return p.put(id, plan, marked) }) {
		if a.status != http.StatusAccepted || a.operation() != op {
			t.Errorf("a duplicate while it runs: %d %s, want 202 with %s", a.status, a.body, op)
		}
	}
	different := strings.Replace(marked, big, "9007199254740992", 1)
	p.put(id, plan, different).says(t, http.StatusConflict, "Conflict")
	p.put(id, "postgres/large", marked).says(t, http.StatusConflict, "Conflict")
	p.elsewhere(id, plan, marked).says(t, http.StatusConflict, "Conflict")
	s.sim.ended(p, id)
	p.succeeds(at(id), op)
	for _, a := range together(crowd, func(int) answer { return p.put(id, plan, marked) }) {
		if a.status != http.StatusOK || a.operation() != "" {
			t.Errorf("a duplicate of what is ready: %d %s, want 200 without operation", a.status, a.body)
		}
	}
	p.put(id, plan, different).says(t, http.StatusConflict, "Conflict")
	if n := s.sim.state(t).Requests[post] - before; n != 1 {
		t.Errorf("Cloud Foundry got %d POSTs of an instance, want one", n)
	}
	row := s.sim.row(p, id)
	if string(row.Parameters) != marked || row.Annotations["ferry-operation"] != op || row.Labels["ferry-client"] != p.name {
		t.Errorf("Cloud Foundry has %+v with parameters %s, want the mark %s", row, row.Parameters, op)
	}
	s.sim.askedOnce(p, "provision", id, "")
}

func identicalBinds(t *testing.T, s *stack)     { bindsOf(t, s, "postgres/small") }
func identicalSlowBinds(t *testing.T, s *stack) { bindsOf(t, s, "postgres/async-bindings") }

func bindsOf(t *testing.T, s *stack, plan string) {
	p := s.platform(t, "calm")
	id := crowdedCreate(p, plan, "")
	binding := crowdedBind(p, id, plan, marked)
	s.sim.askedOnce(p, "provision", id, "")
	s.sim.askedOnce(p, "bind", id, binding)
	if keys := s.sim.row(p, id).Keys; len(keys) != 1 || keys[0].Name != binding {
		t.Errorf("Cloud Foundry has the keys %+v, want one", keys)
	}
	p.bind(id, binding, plan, `{"word":"other"}`, plain).says(t, http.StatusConflict, "Conflict")
	if a := p.send(http.MethodGet, bindingAt(id, binding), ""); !strings.Contains(a.credentials(), `"big":`+big) {
		t.Errorf("%s: the credentials have no %s", a.request, big)
	}
}

func identicalAsyncBinds(t *testing.T, s *stack) {
	const plan = "postgres/async-bindings"
	p := s.platform(t, "calm")
	id, binding := p.ready(plan, ""), p.newID()
	op := agreed(t, together(crowd, func(int) answer { return p.bind(id, binding, plan, marked, async) }), http.StatusOK)
	p.bind(id, binding, plan, `{"a":1}`, async).says(t, http.StatusConflict, "Conflict")
	p.succeeds(bindingAt(id, binding), op)
	s.sim.askedOnce(p, "bind", id, binding)
	crowdedUnbind(p, id, binding, plan)
	s.sim.askedOnce(p, "unbind", id, binding)
}

func identicalDeletes(t *testing.T, s *stack) {
	const plan = "postgres/async"
	p := s.platform(t, "calm")
	id := p.ready(plan, "")
	p.bind(id, p.newID(), plan, "", plain).want(t, http.StatusCreated)
	crowdedDelete(p, id, plan)
	s.sim.askedOnce(p, "deprovision", id, "")
	s.sim.nothingLeft(p, id)
}

func duplicatesOfAFailure(t *testing.T, s *stack) {
	const plan = "faults/create-fails"
	p := s.platform(t, "calm")
	id := p.newID()
	first := p.put(id, plan, marked).want(t, http.StatusAccepted).operation()
	if a := p.ends(at(id), first); a.text("state") != "failed" || a.text("description") == "" {
		t.Fatalf("%s: %s, want failed with a description", a.request, a.body)
	}
	p.put(id, plan, `{"a":1}`).says(t, http.StatusConflict, "Conflict")
	second := agreed(t, together(crowd, func(int) answer { return p.put(id, plan, marked) }), http.StatusAccepted)
	if second == first {
		t.Errorf("the duplicates have the operation %s, which has failed", first)
	}
	if a := p.ends(at(id), second); a.text("state") != "failed" {
		t.Errorf("%s: %s, want failed", a.request, a.body)
	}
	if n := s.sim.asked(p, "provision", id, ""); n != 2 {
		t.Errorf("the backing broker was asked %d times to make it, want once for each operation", n)
	}
	p.removed(id, plan)
	s.sim.nothingLeft(p, id)
}
