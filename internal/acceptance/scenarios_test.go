package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// scenario is one way in which Cloud Foundry may behave, and what platforms see of it. Numbers and names are those of
// the list of forty that the Cloud Controller's source gave. That list was made for a broker that calls Cloud Foundry
// inside the request; this one has answered 202 before, so that a refusal is the operation's failure, and what passes
// by itself is an operation still in progress.
type scenario struct {
	name string
	tune []func(*settings)
	// classic says why a Korifi cannot get there, empty when it can.
	classic string
	run     func(tenant)
}

// TestScenario shows all of them from a platform's side: the answers, the state in Cloud Foundry, and what the backing
// broker was asked.
func TestScenario(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(start(t, s.tune...))
		})
	}
}

// TestScenarioKorifi shows those that another implementation of the API can have, and what only that one does.
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
	answer{T: c.t, Body: f.Body}.Decode(&body)
	return body.Errors[0].Detail
}

// html is what stands in front of a Cloud Foundry that is down: a page on every route.
func html(status int) fault {
	return fault{Action: "respond", Status: status, Body: "<html><body>unavailable</body></html>", Headers: map[string]string{"Content-Type": "text/html"}}
}

func dropped() fault { return fault{When: "before", Action: "drop"} }

// sent is how often Cloud Foundry was called so.
func (c tenant) sent(call string) int { c.t.Helper(); return c.State().Requests[call] }

// sentTimes checks it.
func (c tenant) sentTimes(n int, call string) {
	c.t.Helper()
	if got := c.sent(call); got != n {
		c.t.Errorf("Cloud Foundry was asked %d times to %s, want %d", got, call, n)
	}
}

// looked waits until Cloud Foundry was asked n times more, by whatever look-up: that many steps have seen the state as
// it is now.
func (c tenant) looked(n int) {
	c.t.Helper()
	count := func() int {
		sum := 0
		for call, times := range c.State().Requests {
			if strings.HasPrefix(call, "GET ") && !strings.Contains(call, "service_plans") && !strings.Contains(call, "service_offerings") {
				sum += times
			}
		}
		return sum
	}
	until := count() + n
	c.Eventually("Cloud Foundry is looked at", func() bool { return count() >= until })
}

// runs checks that an operation is said to run, however often it is asked for while Cloud Foundry is looked at.
func (c tenant) runs(path, operation string) {
	c.t.Helper()
	for range 3 {
		c.looked(2)
		a := c.Poll(path, operation)
		if a.Status != http.StatusOK || a.State() != "in progress" {
			c.t.Fatalf("%s: %d %s, want in progress", a.Request, a.Status, a.Body)
		}
	}
}

// halt keeps Cloud Foundry's workers from taking up jobs until release.
func (c tenant) halt()    { c.t.Helper(); c.Control("POST", "/workers", `{"held":true}`) }
func (c tenant) release() { c.t.Helper(); c.Control("POST", "/workers", `{"held":false}`) }

// starts sends the create of a new id.
func (c tenant) starts(plan string) (id, operation string) {
	c.t.Helper()
	id = c.NewID()
	return id, c.Provision(id, plan, `{"a":1}`).Want(http.StatusAccepted).Operation()
}

// changes sends an update of an instance.
func (c tenant) changes(id, plan string) (operation string) {
	c.t.Helper()
	return c.Update(id, plan, `"parameters":{"a":2}`).Want(http.StatusAccepted).Operation()
}

// removes sends the delete of an instance.
func (c tenant) removes(id, plan string) (operation string) {
	c.t.Helper()
	return c.Deprovision(id, plan).Want(http.StatusAccepted).Operation()
}

// made checks a finished create: one row with the operation's mark, made once.
func (c tenant) made(id, operation string) osbtest.Instance {
	c.t.Helper()
	c.Succeeds(at(id), operation)
	row := c.Row(id)
	if row.Annotations["ferry-operation"] != operation || row.LastOperation.Type != "create" || row.LastOperation.State != "succeeded" {
		c.t.Errorf("Cloud Foundry has %+v, want it made by %s", row, operation)
	}
	c.AskedFor(1, "provision", id, "")
	c.AskedFor(0, "deprovision", id, "")
	return row
}

// goneFor checks a finished delete.
func (c tenant) goneFor(id, operation string) {
	c.t.Helper()
	c.Succeeds(at(id), operation)
	c.NothingLeft(id)
	c.Send("GET", at(id), "").Says(http.StatusNotFound, "NotFound")
}

// strangerSends makes a key that is not ours, without waiting for it.
func (c tenant) strangerSends(id, name string) {
	c.t.Helper()
	c.Operator("POST", keys, fmt.Sprintf(`{"type":"key","name":%q,"relationships":{"service_instance":{"data":{"guid":%q}}}}`, name, c.Row(id).GUID)).Want(202)
}
