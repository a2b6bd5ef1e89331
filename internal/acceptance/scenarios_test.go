package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// scenario is one way in which Cloud Foundry may behave, and what platforms see of it.
// Numbers and names are those of the list of forty that the Cloud Controller's source
// gave. That list was made for a broker that calls Cloud Foundry inside the request;
// this one has answered 202 before, so that a refusal is the operation's failure, and
// what passes by itself is an operation still in progress.
type scenario struct {
	name string
	tune []func(*settings)
	// classic says why a Korifi cannot get there, empty when it can.
	classic string
	run     func(tenant)
}

// TestScenario shows all of them from a platform's side: the answers, the state in
// Cloud Foundry, and what the backing broker was asked.
func TestScenario(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(start(t, s.tune...))
		})
	}
}

// TestScenarioKorifi shows those that another implementation of the API can have, and
// what only that one does.
func TestScenarioKorifi(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(scenarios(), korifiScenarios()) {
		if s.classic != "" {
			continue // the reason stands with the scenario
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(start(t, slices.Concat(s.tune, []func(*settings){korifi})...))
		})
	}
}

func scenarios() []scenario {
	return slices.Concat(createScenarios(), createdScenarios(), updateScenarios(), deleteScenarios(), bindScenarios(), loginScenarios())
}

func korifi(s *settings) { s.sim.Korifi = true }

// isKorifi tells which of the two a scenario runs against.
func (c tenant) isKorifi() bool {
	c.t.Helper()
	return c.operator("GET", "/v3/service_instances?organization_guids=x", "").status == http.StatusBadRequest
}

// said is an error in Cloud Foundry's own words.
func said(status, code int, title, detail string) fault {
	return fault{When: "before", Action: "respond", Status: status, Headers: map[string]string{"Content-Type": "application/json; charset=utf-8"},
		Body: fmt.Sprintf(`{"errors":[{"code":%d,"title":%q,"detail":%q}]}`, code, title, detail)}
}

// unprocessable is the 422 into which version 3 of the API folds nearly everything.
func unprocessable(detail string) fault { return said(422, 10008, "CF-UnprocessableEntity", detail) }

// detailOf is the text of an error that said made.
func (c tenant) detailOf(f fault) string {
	c.t.Helper()
	var body struct{ Errors []struct{ Detail string } }
	answer{body: f.Body}.decode(c.t, &body)
	return body.Errors[0].Detail
}

// on says which calls a disturbance hits, and how often.
func (f fault) on(method, route string, times int) fault {
	f.Method, f.Route, f.Times = method, route, times
	if f.When == "" {
		f.When = "before"
	}
	return f
}

func (f fault) after() fault { f.When = "after"; return f }

func dropped() fault { return fault{When: "before", Action: "drop"} }

// sent is how often Cloud Foundry was called so.
func (c tenant) sent(call string) int { c.t.Helper(); return c.cf().Requests[call] }

// sentTimes checks it.
func (c tenant) sentTimes(n int, call string) {
	c.t.Helper()
	if got := c.sent(call); got != n {
		c.t.Errorf("Cloud Foundry was asked %d times to %s, want %d", got, call, n)
	}
}

// looked waits until Cloud Foundry was asked n times more, by whatever look-up: that
// many steps have seen the state as it is now.
func (c tenant) looked(n int) {
	c.t.Helper()
	count := func() int {
		sum := 0
		for call, times := range c.cf().Requests {
			if strings.HasPrefix(call, "GET ") && !strings.Contains(call, "service_plans") && !strings.Contains(call, "service_offerings") {
				sum += times
			}
		}
		return sum
	}
	until := count() + n
	c.eventually("Cloud Foundry is looked at", func() bool { return count() >= until })
}

// runs checks that an operation is said to run, however often it is asked for while
// Cloud Foundry is looked at.
func (c tenant) runs(path, operation string) {
	c.t.Helper()
	for range 3 {
		c.looked(2)
		a := c.poll(path, operation)
		if a.status != http.StatusOK || a.state() != "in progress" {
			c.t.Fatalf("%s: %d %s, want in progress", a.request, a.status, a.body)
		}
	}
}

// forced puts an instance in a state with words of its own, and its latest job too
// when one is named.
func (c tenant) forced(guid, kind, state, description, job string) {
	c.t.Helper()
	forced := map[string]any{"last_operation": map[string]string{"type": kind, "state": state, "description": description}}
	if job != "" {
		forced["job"] = job
	}
	text, err := json.Marshal(forced)
	if err != nil {
		c.t.Fatal(err)
	}
	c.control("PATCH", "/instances/"+guid, string(text))
}

// instruct makes the backing broker answer otherwise than its plans have it.
func (c tenant) instruct(format string, args ...any) {
	c.t.Helper()
	c.control("POST", "/broker", fmt.Sprintf(format, args...))
}

// halt keeps Cloud Foundry's workers from taking up jobs until release.
func (c tenant) halt()    { c.t.Helper(); c.control("POST", "/workers", `{"held":true}`) }
func (c tenant) release() { c.t.Helper(); c.control("POST", "/workers", `{"held":false}`) }

// starts sends the create of a new id.
func (c tenant) starts(plan string) (id, operation string) {
	c.t.Helper()
	id = c.id()
	return id, c.put(id, plan, `{"a":1}`, async).want(c.t, http.StatusAccepted).operation()
}

// changes sends an update of an instance.
func (c tenant) changes(id, plan string) (operation string) {
	c.t.Helper()
	return c.patch(id, plan, `"parameters":{"a":2}`, async).want(c.t, http.StatusAccepted).operation()
}

// removes sends the delete of an instance.
func (c tenant) removes(id, plan string) (operation string) {
	c.t.Helper()
	return c.delete(id, plan, async).want(c.t, http.StatusAccepted).operation()
}

// made checks a finished create: one row with the operation's mark, made once.
func (c tenant) made(id, operation string) cfInstance {
	c.t.Helper()
	c.succeeds(at(id), operation)
	row := c.row(id)
	if row.Annotations["ferry-operation"] != operation || row.LastOperation.Type != "create" || row.LastOperation.State != "succeeded" {
		c.t.Errorf("Cloud Foundry has %+v, want it made by %s", row, operation)
	}
	c.askedFor(1, "provision", id, "")
	c.askedFor(0, "deprovision", id, "")
	return row
}

// askedForKey is askedFor for a binding. Where keys cannot be marked their names carry
// the operation behind the binding's id.
func (c tenant) askedForKey(n int, operation, id, binding string) {
	c.t.Helper()
	got := 0
	for _, call := range c.cf().BrokerCalls {
		own := call.Binding == binding || strings.HasPrefix(call.Binding, binding+"~")
		if call.Org == c.org && call.Operation == operation && call.Instance == id && own {
			got += call.Count
		}
	}
	if got != n {
		c.t.Errorf("the backing broker was asked %d times to %s %s/%s, want %d", got, operation, id, binding, n)
	}
}

// goneFor checks a finished delete.
func (c tenant) goneFor(id, operation string) {
	c.t.Helper()
	c.succeeds(at(id), operation)
	c.nothingLeft(id)
	c.send("GET", at(id), "").says(c.t, http.StatusNotFound, "NotFound")
}

// stranger makes a key that is not ours, as somebody who works in Cloud Foundry would.
func (c tenant) stranger(id, name string) {
	c.t.Helper()
	c.strangerSends(id, name)
	c.keyComes(id, name, "create", "succeeded")
}

func (c tenant) strangerSends(id, name string) {
	c.t.Helper()
	c.operator("POST", keys, fmt.Sprintf(`{"type":"key","name":%q,"relationships":{"service_instance":{"data":{"guid":%q}}}}`, name, c.row(id).GUID)).want(c.t, 202)
}
