package osbtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Target is a broker under test, and what is known of it.
type Target struct {
	// Tenant is a platform of the broker. Where its Cloud is the zero value, what needs the simulator's plans and
	// controls is left out.
	Tenant
	// Other is another client of the same broker, with an org of its own; nil: there is none.
	Other *Tenant
	// Bindable is a plan that can be bound, as OFFERING/PLAN; Parameters is what its instances need, "" for nothing.
	Bindable, Parameters string
	// Crowd is how many send the same request at once in the clauses that are about that, Repeats how many repeat a
	// request in each state of an instance or a binding, Beside how many clauses are played at once: most wait most of
	// the time.
	Crowd, Repeats, Beside int
	// Logged reports whether a line of the broker's log has all the parts; nil: the log cannot be read.
	Logged func(parts ...string) bool
	// Verbatim says that the bytes of a path and of a body reach the broker as they were sent. API Gateway decodes both
	// first.
	Verbatim bool
}

// suite is one run of the clauses.
type suite struct {
	Target
	// ready is an instance with a binding that no clause may change.
	ready subject
}

// clause is what the specification asks for, shown by one walk.
type clause struct {
	// name begins with the ids of internal/osb/testdata/requirements.tsv.
	name  string
	check func(suite)
}

// in is the same run in the test of one clause.
func (s suite) in(t *testing.T) suite {
	s.Tenant = s.Tenant.In(t)
	if s.Other != nil {
		other := s.Other.In(t)
		s.Other = &other
	}
	return s
}

// Run plays every clause that the target allows, each in a subtest, and leaves nothing behind.
func Run(t *testing.T, target Target) {
	s := suite{Target: target}.in(t)
	s.ready = subject{id: s.NewID(), binding: s.NewID(), plan: s.Bindable, parameters: s.Parameters}
	s.ready.operation = sameCreate(s.Tenant, s.ready).Want(http.StatusAccepted).Operation()
	s.Succeeds(InstancePath(s.ready.id), s.ready.operation)
	s.Bind(s.ready.id, s.ready.binding, s.ready.plan, "").Want(http.StatusCreated)
	s.Traceless(s.ready.id, s.ready.binding, func() { s.play(t) })
	s.Gone(s.ready.id, s.ready.plan)
}

// play runs the clauses beside each other. t.Parallel would run as many as there are processors, and all of them wait.
func (s suite) play(t *testing.T) {
	places := make(chan struct{}, s.Beside)
	var all sync.WaitGroup
	for _, c := range s.clauses() {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			t.Run(c.name, func(t *testing.T) { c.check(s.in(t)) })
		})
	}
	all.Wait()
}

// clauses are those that the target allows.
func (s suite) clauses() []clause {
	all := append([]clause{}, anywhere...)
	if s.Simulated() {
		for _, r := range instanceRows {
			all = append(all, clause{"an instance that is " + r.state, func(s suite) { r.check(s.Tenant, s.Repeats) }})
		}
		for _, r := range bindingRows {
			all = append(all, clause{"a binding that is " + r.state, func(s suite) { r.check(s.Tenant, s.Repeats) }})
		}
		all = append(all, simulated...)
	}
	if s.Other != nil {
		all = append(all, between...)
	}
	if s.Logged != nil {
		all = append(all, logged...)
	}
	return all
}

// edited is a JSON object with members added or replaced, or left out where the value is "".
func edited(object string, members ...string) string {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &all); err != nil {
		panic(err) // a fault of the test
	}
	for i := 0; i < len(members); i += 2 {
		all[members[i]] = json.RawMessage(members[i+1])
		if members[i+1] == "" {
			delete(all, members[i])
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// route is a request of OSB, right but for what a clause does to it.
type route struct{ name, method, path, body string }

// routes are all that OSB has, for an instance and a binding of these ids.
func (s suite) routes(id, binding string) []route {
	s.T.Helper()
	hints := "?" + incomplete + "&" + s.hints(s.Bindable)
	change := edited(s.BindingBody(s.Bindable, ""), "plan_id", "")
	return []route{
		{"catalog", "GET", "/v2/catalog", ""},
		{"provision", "PUT", InstancePath(id) + "?" + incomplete, s.InstanceBody(s.Bindable, s.Parameters)},
		{"update", "PATCH", InstancePath(id) + "?" + incomplete, change},
		{"fetch", "GET", InstancePath(id), ""},
		{"deprovision", "DELETE", InstancePath(id) + hints, ""},
		{"poll", "GET", InstancePath(id) + "/last_operation", ""},
		{"bind", "PUT", BindingPath(id, binding), s.BindingBody(s.Bindable, "")},
		{"fetch a binding", "GET", BindingPath(id, binding), ""},
		{"unbind", "DELETE", BindingPath(id, binding) + hints, ""},
		{"poll a binding", "GET", BindingPath(id, binding) + "/last_operation", ""},
	}
}

// route returns one of them.
func (s suite) route(name, id, binding string) route {
	s.T.Helper()
	for _, r := range s.routes(id, binding) {
		if r.name == name {
			return r
		}
	}
	s.T.Fatalf("OSB has no request %s", name)
	return route{}
}

func (s suite) send(r route, changes ...Change) Answer {
	s.T.Helper()
	return s.Send(r.method, r.path, r.body, changes...)
}

// flagless is the path without accepts_incomplete.
func (r route) flagless() string { return strings.Replace(r.path, incomplete, "", 1) }
