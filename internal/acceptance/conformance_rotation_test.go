package acceptance

import (
	"fmt"
	"testing"
)

// rotatable lets the bindings of two plans be rotated.
func rotatable(s *settings) {
	s.config.Clients[0].Catalog.Rotatable = []string{"postgres/small", "postgres/async-bindings"}
}

// TestConformanceRotation: a PUT of a binding that names its predecessor.
func TestConformanceRotation(t *testing.T) {
	t.Parallel()
	c := start(t, rotatable)
	c.hold([]clause{
		{"ROT-01 ROT-02 CAT-30 only the plans that the client names are rotatable", rotatablePlans},
		{"ROT-03 ROT-04 ROT-05 ROT-06 the successor is a binding of its own, and both work", successor},
		{"ROT-06 BIND-15 an asynchronous rotation: 202, then fetched", successorLater},
		{"ROT-08 what the request leaves out is the predecessor's", inherited},
		{"ROT-09 a predecessor that is none", noPredecessor},
		{"ROT-10 the predecessor is an attribute", rotatedTwice},
	})
}

func rotatablePlans(c tenant) {
	_, plans := c.marketplace()
	for name, p := range plans {
		want := ""
		if name == "postgres/small" || name == "postgres/async-bindings" {
			want = "true"
		}
		if string(p.BindingRotatable) != want {
			c.t.Errorf("%s: binding_rotatable %q, want %q", name, p.BindingRotatable, want)
		}
	}
}

// rotate sends a PUT with a predecessor and whatever rest says.
func (c tenant) rotate(id, binding, predecessor, rest string, m mode) answer {
	c.t.Helper()
	if rest != "" {
		rest = "," + rest
	}
	return c.send("PUT", bindingAt(id, binding)+m.query(), fmt.Sprintf(`{"predecessor_binding_id":%q%s}`, predecessor, rest))
}

// identified is what a request without a predecessor has to say.
func (c tenant) identified(plan string) string {
	p := c.plan(plan)
	return fmt.Sprintf(`"service_id":%q,"plan_id":%q`, p.service, p.plan)
}

func successor(c tenant) {
	id, old := c.bound("postgres/small")
	before := c.bind(id, old, "postgres/small", "", plain).want(c.t, 200)
	for _, rest := range []string{"", c.identified("postgres/small")} {
		next := c.id()
		a := c.rotate(id, next, old, rest, plain).want(c.t, 201)
		if a.credentials() == "" || a.credentials() == before.credentials() {
			c.t.Errorf("%s: %s, want credentials of its own", a.request, a.body)
		}
		before.same(c.t, c.bind(id, old, "postgres/small", "", plain))
		c.send("GET", bindingAt(id, next), "").want(c.t, 200)
	}
	if n := len(c.row(id).Keys); n != 3 {
		c.t.Errorf("Cloud Foundry has %d keys, want 3", n)
	}
	last := c.id()
	a := c.rotate(id, last, old, "", plain).want(c.t, 201)
	c.unbind(id, old, "postgres/small", plain).bare(c.t, 200)
	if fetched := c.send("GET", bindingAt(id, last), "").want(c.t, 200); fetched.credentials() != a.credentials() {
		c.t.Errorf("without its predecessor the successor has %s, before %s", fetched.credentials(), a.credentials())
	}
}

func successorLater(c tenant) {
	const plan = "postgres/async-bindings"
	id, old := c.bound(plan)
	next := c.id()
	a := c.rotate(id, next, old, "", async).want(c.t, 202)
	a.lacks(c.t, "credentials")
	if again := c.rotate(id, next, old, "", async); again.status == 202 && again.operation() != a.operation() {
		c.t.Errorf("%s: %s, want the operation %s", again.request, again.body, a.operation())
	}
	c.succeeds(bindingAt(id, next), a.operation())
	c.send("GET", bindingAt(id, next), "").want(c.t, 200)
	c.askedFor(1, "bind", id, next)
}

func inherited(c tenant) {
	id, old, next := c.one(), c.id(), c.id()
	c.bind(id, old, "postgres/small", `{"role":"reader","n":1.50}`, plain).want(c.t, 201)
	c.rotate(id, next, old, "", plain).want(c.t, 201)
	c.send("GET", bindingAt(id, next), "").want(c.t, 200).has(c.t, "parameters", `{"role":"reader","n":1.50}`)
	other := c.id()
	c.rotate(id, other, old, `"parameters":{"role":"writer"}`, plain).want(c.t, 201)
	c.send("GET", bindingAt(id, other), "").want(c.t, 200).has(c.t, "parameters", `{"role":"writer"}`)
}

func noPredecessor(c tenant) {
	id, binding := c.bound("postgres/small")
	otherID, _ := c.bound("postgres/small")
	c.unbind(id, binding, "postgres/small", plain).want(c.t, 200)
	large, largeBinding := c.bound("postgres/large")
	failed := bindingOn("faults/bind-fails", false, "failed")(c)
	for _, test := range []struct{ id, predecessor, says string }{
		{id, "nowhere", "predecessor_binding_id"}, {id, binding, "predecessor_binding_id"}, {otherID, binding, "predecessor_binding_id"},
		{large, largeBinding, "cannot be rotated"}, {failed.id, failed.binding, "predecessor_binding_id"},
	} {
		next := c.id()
		c.traceless(c.t, test.id, next, func() answer { return c.rotate(test.id, next, test.predecessor, "", plain) }).
			says(c.t, 400, "BadRequest", test.says)
	}
	c.rotate(c.id(), c.id(), "nowhere", "", plain).says(c.t, 404, "NotFound")
}

func rotatedTwice(c tenant) {
	id, old := c.bound("postgres/small")
	second := c.id()
	c.bind(id, second, "postgres/small", "", plain).want(c.t, 201)
	next := c.id()
	first := c.rotate(id, next, old, "", plain).want(c.t, 201)
	again := c.rotate(id, next, old, "", plain).want(c.t, 200)
	if again.credentials() != first.credentials() {
		c.t.Errorf("%s: %s, want the credentials of %s", again.request, again.body, first.body)
	}
	c.rotate(id, next, old, c.identified("postgres/small"), plain).want(c.t, 200)
	c.rotate(id, next, second, "", plain).says(c.t, 409, "Conflict")
	c.rotate(id, next, old, `"parameters":{"a":1}`, plain).says(c.t, 409, "Conflict")
	c.bind(id, next, "postgres/small", "", plain).says(c.t, 409, "Conflict")
}
