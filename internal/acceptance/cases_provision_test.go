package acceptance

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

func provisionCases() []clause {
	return []clause{
		{"PRO-01 the same create twice while Cloud Foundry works", func(c tenant) { sentTwice(c, "postgres/async") }},
		{"PRO-03 the first operation works until the end", func(c tenant) {
			id := c.id()
			first := c.put(id, "postgres/async", "", async).want(c.t, 202).operation()
			c.put(id, "postgres/async", "", async)
			c.succeeds(at(id), first)
		}},
		{"PRO-05 create during a delete", func(c tenant) {
			s := deleting(c)
			c.put(s.id, s.plan, s.parameters, async).says(c.t, 422, "ConcurrencyError")
			c.poll(at(s.id), s.operation).has(c.t, "state", `"in progress"`)
			c.askedFor(1, "deprovision", s.id, "")
		}},
		{"PRO-06 PRO-07 PRO-15 repeated when it is ready", func(c tenant) {
			id := c.one()
			for range 3 {
				c.put(id, "postgres/small", `{"a":1}`, async).bare(c.t, 200)
			}
			c.askedFor(1, "provision", id, "")
			c.askedFor(0, "update", id, "")
		}},
		{"PRO-08 PRO-09 repeated while it runs: 202, never 200", func(c tenant) {
			s := creating(c)
			if a := c.put(s.id, s.plan, s.parameters, async).want(c.t, 202); a.operation() != s.operation {
				c.t.Errorf("%s: %s, want the operation %s", a.request, a.body, s.operation)
			}
		}},
		{"PRO-10 other parameters: 409, and the first stay", func(c tenant) {
			id := c.one()
			c.traceless(c.t, id, "", func() answer { return c.put(id, "postgres/small", `{"a":2}`, async) }).says(c.t, 409, "Conflict")
		}},
		{"PRO-11 the connection is cut before the answer, then sent again", cutConnection},
		{"PRO-12 two instances of one plan in one namespace", func(c tenant) {
			first, second := c.one(), c.one()
			if c.row(first).GUID == c.row(second).GUID {
				c.t.Error("two instances are one in Cloud Foundry")
			}
		}},
		{"PRO-13 BND-11 after a failed create and a delete the id is free", func(c tenant) {
			s := createFailed(c)
			c.gone(s.id, s.plan)
			c.succeeds(at(s.id), c.put(s.id, "postgres/small", `{"other":1}`, async).want(c.t, 202).operation())
		}},
		{"PRO-14 a false is forwarded, what is left out stays", func(c tenant) {
			id := c.ready("postgres/small", `{"backup":true}`)
			c.patch(id, "postgres/small", `"parameters":{}`, async).bare(c.t, 200)
			c.changed(id, "postgres/small", `"parameters":{"backup":false}`)
			if got := string(c.row(id).Parameters); got != `{"backup":false}` {
				c.t.Errorf("the backing broker got %s", got)
			}
		}},
	}
}

func sentTwice(c tenant, plan string) {
	id := c.id()
	c.succeeds(at(id), sameOperation(c.t, together(2, func(int) answer { return c.put(id, plan, `{"a":1}`, async) })))
	c.askedFor(1, "provision", id, "")
}

// cutConnection sends a create and hangs up at once.
func cutConnection(c tenant) {
	id, body := c.id(), c.createBody("postgres/async", "")
	r, err := http.NewRequest("PUT", c.broker+at(id)+"?accepts_incomplete=true", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.SetBasicAuth(c.user, c.secret)
	r.Header.Set("X-Broker-API-Version", "2.17")
	conn, err := net.Dial("tcp", r.URL.Host)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := r.Write(conn); err != nil {
		c.t.Fatal(err)
	}
	_ = conn.Close() // that it is cut is the point
	a := c.put(id, "postgres/async", "", async)
	if a.status == 202 {
		c.succeeds(at(id), a.operation())
	} else {
		a.bare(c.t, 200)
	}
	c.askedFor(1, "provision", id, "")
	c.row(id)
}

func bindCases() []clause {
	return []clause{
		{"BND-01 BND-02 BND-03 the same bind twice", func(c tenant) {
			id, binding := c.one(), c.id()
			first := c.bind(id, binding, "postgres/small", "", plain).want(c.t, 201)
			if again := c.bind(id, binding, "postgres/small", "", plain).want(c.t, 200); again.credentials() != first.credentials() {
				c.t.Errorf("%s, before %s", again.body, first.body)
			}
			oneKey(c, id, binding)
		}},
		{"BND-05 BND-07 two binds of one instance at once", func(c tenant) {
			const plan = "postgres/async-bindings"
			id := c.ready(plan, "")
			answers := together(2, func(i int) answer { return c.bind(id, fmt.Sprint("b", i), plan, "", async) })
			for i, a := range answers {
				c.succeeds(bindingAt(id, fmt.Sprint("b", i)), a.want(c.t, 202).operation())
			}
			first, second := c.send("GET", bindingAt(id, "b0"), ""), c.send("GET", bindingAt(id, "b1"), "")
			if answers[0].operation() == answers[1].operation() || first.credentials() == second.credentials() {
				c.t.Errorf("two bindings share an operation or credentials: %s, %s", first.body, second.body)
			}
		}},
		{"BND-08 a bind at once after the create", func(c tenant) {
			id := c.one()
			c.bind(id, c.id(), "postgres/small", "", plain).want(c.t, 201)
		}},
		{"ABN-02 ABN-03 ABN-04 ABN-06 ABN-08 an asynchronous bind from the 202 to the credentials", func(c tenant) {
			const plan = "postgres/async-bindings"
			id := c.ready(plan, "")
			a := c.bind(id, "b", plan, "", async).want(c.t, 202)
			a.lacks(c.t, "credentials")
			if early := c.send("GET", bindingAt(id, "b"), ""); early.status != 404 && c.poll(bindingAt(id, "b"), "").state() != "succeeded" {
				c.t.Errorf("%s: %d %s", early.request, early.status, early.body)
			}
			c.succeeds(bindingAt(id, "b"), a.operation())
			if got := c.send("GET", bindingAt(id, "b"), "").want(c.t, 200); got.credentials() == "" {
				c.t.Errorf("%s: %s", got.request, got.body)
			}
			c.succeeds(bindingAt(id, "b"), c.unbind(id, "b", plan, async).want(c.t, 202).operation())
		}},
		{"ABN-07 a binding that is not there", func(c tenant) { c.send("GET", bindingAt(c.one(), "none"), "").says(c.t, 404, "NotFound") }},
		{"ABN-09 a bind that the platform gave up is unbound, and the key with it", func(c tenant) {
			s := bindingOn("faults/bind-stalls", false, "in progress")(c)
			c.succeeds(bindingAt(s.id, s.binding), c.unbind(s.id, s.binding, s.plan, async).want(c.t, 202).operation())
			if n := len(c.row(s.id).Keys); n != 0 {
				c.t.Errorf("Cloud Foundry has %d keys", n)
			}
		}},
		{"ABN-10 a finished unbind is polled: 200 succeeded (Decided 1)", func(c tenant) {
			s := bindingOn("postgres/async-bindings", true, "succeeded")(c)
			c.poll(bindingAt(s.id, s.binding), "").want(c.t, 200).has(c.t, "state", `"succeeded"`)
		}},
		{"BND-11 after a failed bind and an unbind the id is free", func(c tenant) {
			s := bindingOn("faults/bind-fails", false, "failed")(c)
			c.unbind(s.id, s.binding, s.plan, plain).bare(c.t, 200)
			c.bind(s.id, s.binding, s.plan, `{"other":1}`, async).want(c.t, 202)
			c.ends(bindingAt(s.id, s.binding), "")
		}},
	}
}
