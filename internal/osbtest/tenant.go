package osbtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Tenant is a platform together with its org in Cloud Foundry.
type Tenant struct {
	Client
	Cloud
	T testing.TB
	// Name is that of the client in the broker's configuration.
	Name string
}

// In is the same tenant in a subtest.
func (c Tenant) In(t testing.TB) Tenant {
	c.T, c.Client.T, c.Cloud.T = t, t, t
	return c
}

// Works waits until the backing broker was asked for something that does not end by itself: from then on nothing moves.
func (c Tenant) Works(operation, id, binding string) {
	c.T.Helper()
	kind := map[string]string{"provision": "create", "bind": "create", "update": "update", "deprovision": "delete", "unbind": "delete"}[operation]
	c.Eventually(operation+" of "+id+" reaches the backing broker", func() bool { return c.Asked(operation, id, binding) > 0 })
	if binding == "" {
		c.Comes(id, kind, "in progress")
	} else {
		c.KeyComes(id, binding, kind, "in progress")
	}
}

// Print is what a refusal may not change: the instance in Cloud Foundry, what the backing broker was asked about it,
// and what polls and fetches show. binding may be "".
func (c Tenant) Print(id, binding string) string {
	c.T.Helper()
	var out strings.Builder
	if c.Simulated() {
		state := c.State()
		for _, i := range state.Instances {
			if i.Name == id {
				_, _ = fmt.Fprintf(&out, "%+v\n", i)
			}
		}
		for _, call := range state.BrokerCalls {
			if call.Instance == id {
				_, _ = fmt.Fprintf(&out, "%+v\n", call)
			}
		}
	}
	paths := []string{InstancePath(id)}
	if binding != "" {
		paths = append(paths, BindingPath(id, binding))
	}
	for _, path := range paths {
		fetched, polled := c.Fetch(path), c.Poll(path, "")
		_, _ = fmt.Fprintf(&out, "%s %d %s\n", fetched.Request, fetched.Status, fetched.Body)
		_, _ = fmt.Fprintf(&out, "%s %d %s\n", polled.Request, polled.Status, settled(polled))
	}
	return out.String()
}

// settled is the body of a poll without what an operation that runs waits for: that changes by itself.
func settled(poll Answer) string {
	if poll.State() == "in progress" {
		return poll.State()
	}
	return poll.Body
}

// Traceless does what must change nothing, and checks that it left no trace (ERR-12).
func (c Tenant) Traceless(id, binding string, do func()) {
	c.T.Helper()
	before := c.Print(id, binding)
	do()
	if after := c.Print(id, binding); after != before {
		c.T.Errorf("refusals and duplicates left a trace\nbefore %s\nafter  %s", before, after)
	}
}

// Refused is Traceless for one request; it returns the answer.
func (c Tenant) Refused(id, binding string, send func() Answer) (a Answer) {
	c.T.Helper()
	c.Traceless(id, binding, func() { a = send() })
	return a
}

// Gone deletes an instance, waits until it is gone, and checks that nothing is left.
func (c Tenant) Gone(id, plan string) {
	c.T.Helper()
	c.Deleted(id, plan)
	c.Deprovision(id, plan).Bare(http.StatusGone)
	if c.Simulated() {
		c.NothingLeft(id)
	}
}

// Stranger makes a key that is not ours, as somebody who works in Cloud Foundry would.
func (c Tenant) Stranger(id, name string) {
	c.T.Helper()
	c.Operator(http.MethodPost, Keys, fmt.Sprintf(`{"type":"key","name":%q,"relationships":{"service_instance":{"data":{"guid":%q}}}}`, name, c.Row(id).GUID)).Want(http.StatusAccepted)
	c.KeyComes(id, name, "create", "succeeded")
}

// Calls counts the calls to Cloud Foundry from now on that have this text in body or URL; no other fault may be about
// them. It needs a text that no other test uses.
func (c Tenant) Calls(method, route, text string) (count func() int) {
	c.T.Helper()
	c.Disturb(Fault{Method: method, Route: route, Match: text, When: "before", Action: "delay"})
	return func() int { c.T.Helper(); return c.hits(method, route, text) }
}

// hits is how often the faults in force about such calls have struck.
func (c Tenant) hits(method, route, text string) (sum int) {
	c.T.Helper()
	var list []struct {
		Method, Route, Match string
		Hits                 int
	}
	c.Control(http.MethodGet, "/faults", "").Decode(&list)
	for _, f := range list {
		if f.Method == method && f.Route == route && f.Match == text {
			sum += f.Hits
		}
	}
	return sum
}
