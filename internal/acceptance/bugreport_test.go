package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// big loses its last digit in whatever reads it as a float.
const big = "9007199254740993"

// crowds are how many callers send the same request at once.
func crowds() []int { return []int{5, 20, 64} }

// TestBugReport is what Ferry exists for: platforms that send a request several times
// at once (CON-07, CON-09, CON-10, CON-11, CON-41 to CON-45, CON-64).
func TestBugReport(t *testing.T) {
	t.Parallel()
	t.Run("creates", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		for _, plan := range []string{"postgres/small", "postgres/async"} {
			for _, n := range crowds() {
				t.Run(fmt.Sprintf("%d of %s", n, plan), func(t *testing.T) { crowdedCreate(c.parallel(t), plan, n) })
			}
		}
	})
	t.Run("synchronous binds", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		for _, plan := range []string{"postgres/small", "postgres/async-bindings"} {
			for _, n := range crowds() {
				t.Run(fmt.Sprintf("%d of %s", n, plan), func(t *testing.T) { crowdedBind(c.parallel(t), plan, n) })
			}
		}
	})
	t.Run("asynchronous binds", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		for _, n := range crowds() {
			t.Run(fmt.Sprint(n), func(t *testing.T) { crowdedAsyncBind(c.parallel(t), n) })
		}
	})
	t.Run("deletes and unbinds", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		for _, n := range crowds() {
			t.Run(fmt.Sprint(n), func(t *testing.T) { crowdedRemoval(c.parallel(t), n) })
		}
	})
}

func crowdedCreate(c tenant, plan string, n int) {
	id, parameters := c.id(), `{"big":`+big+`,"word":"`+secret+`"}`
	op := sameOperation(c.t, together(n, func(int) answer { return c.put(id, plan, parameters, async) }))
	different := `{"big":9007199254740992,"word":"` + secret + `"}`
	c.put(id, plan, different, async).says(c.t, http.StatusConflict, "Conflict")
	c.put(id, "postgres/large", parameters, async).says(c.t, http.StatusConflict, "Conflict")
	c.succeeds(at(id), op)
	for _, a := range together(n, func(int) answer { return c.put(id, plan, parameters, async) }) {
		if a.status != http.StatusOK || a.operation() != "" {
			c.t.Errorf("a duplicate after the end: %d %s, want 200 without operation", a.status, a.body)
		}
	}
	c.put(id, plan, different, async).says(c.t, http.StatusConflict, "Conflict")
	row := c.row(id)
	if string(row.Parameters) != parameters || row.Space != "postgres" || row.Offering+"/"+row.Plan != plan ||
		row.Annotations["ferry-operation"] != op || row.Labels["ferry-client"] != c.name {
		c.t.Errorf("Cloud Foundry has %+v with %s, want parameters %s and the mark %s", row, row.Parameters, parameters, op)
	}
	c.askedFor(1, "provision", id, "")
}

// sameOperation checks that all were accepted under one operation, or came after its
// end, and returns it.
func sameOperation(t *testing.T, answers []answer) string {
	t.Helper()
	op := ""
	for _, a := range answers {
		switch {
		case a.status == http.StatusOK && a.operation() == "":
		case a.status != http.StatusAccepted:
			t.Errorf("%s: %d %s, want 202, or 200 once it is done", a.request, a.status, a.body)
		case op == "":
			op = a.operation()
		case op != a.operation():
			t.Errorf("%s: operation %s, others have %s", a.request, a.operation(), op)
		}
	}
	if op == "" {
		t.Fatal("nobody was told of an operation")
	}
	return op
}

func crowdedBind(c tenant, plan string, n int) {
	id, binding := c.ready(plan, ""), c.id()
	parameters := `{"word":"` + secret + `"}`
	answers := together(n, func(int) answer { return c.bind(id, binding, plan, parameters, plain) })
	answers = append(answers, c.bind(id, binding, plan, parameters, plain), c.bind(id, binding, plan, parameters, async))
	created := 0
	for _, a := range answers {
		if a.status == http.StatusCreated {
			created++
		} else if a.status != http.StatusOK {
			c.t.Errorf("%s: %d %s, want 201 or 200", a.request, a.status, a.body)
		}
		if a.operation() != "" || a.credentials() != answers[0].credentials() {
			c.t.Errorf("%s: %s, want the credentials %s and no operation", a.request, a.body, answers[0].credentials())
		}
	}
	if created != 1 {
		c.t.Errorf("201 was answered %d times, want once", created)
	}
	if !strings.Contains(answers[0].credentials(), `"big":`+big) || !strings.Contains(answers[0].credentials(), "postgres://") {
		c.t.Errorf("credentials %s, want big as %s", answers[0].credentials(), big)
	}
	c.bind(id, binding, plan, `{"word":"other"}`, plain).says(c.t, http.StatusConflict, "Conflict")
	oneKey(c, id, binding)
}

func oneKey(c tenant, id, binding string) {
	c.t.Helper()
	if row := c.row(id); len(row.Keys) != 1 || row.Keys[0].Name != binding {
		c.t.Errorf("Cloud Foundry has the keys %+v, want one", row.Keys)
	}
	c.askedFor(1, "bind", id, binding)
}

func crowdedAsyncBind(c tenant, n int) {
	const plan = "postgres/async-bindings"
	id, binding := c.ready(plan, ""), c.id()
	op := sameOperation(c.t, together(n, func(int) answer { return c.bind(id, binding, plan, "", async) }))
	// A platform that does not speak async may ask meanwhile; it waits (CON-42).
	held := later(func() answer { return c.bind(id, binding, plan, "", plain) })
	c.bind(id, binding, plan, `{"a":1}`, async).says(c.t, http.StatusConflict, "Conflict")
	c.bind(id, binding, plan, `{"a":1}`, plain).says(c.t, http.StatusConflict, "Conflict")
	c.succeeds(bindingAt(id, binding), op)
	fetched := c.send("GET", bindingAt(id, binding), "").want(c.t, http.StatusOK)
	if !strings.Contains(fetched.credentials(), `"big":`+big) {
		c.t.Errorf("fetched %s, want credentials with big as %s", fetched.body, big)
	}
	for _, a := range []answer{<-held, c.bind(id, binding, plan, "", async), c.bind(id, binding, plan, "{}", plain)} {
		if a.status != http.StatusOK || a.credentials() != fetched.credentials() {
			c.t.Errorf("%s: %d %s, want 200 with the credentials fetched", a.request, a.status, a.body)
		}
	}
	oneKey(c, id, binding)
}

func crowdedRemoval(c tenant, n int) {
	const plan = "postgres/async"
	id, binding := c.bound(plan)
	for _, a := range together(n, func(int) answer { return c.unbind(id, binding, plan, plain) }) {
		if a.status != http.StatusOK && a.status != http.StatusGone {
			c.t.Errorf("%s: %d %s, want 200 or 410", a.request, a.status, a.body)
		}
	}
	c.askedFor(1, "unbind", id, binding)
	var in []answer
	for _, a := range together(n, func(int) answer { return c.delete(id, plan, async) }) {
		if a.status != http.StatusGone { // which is right once it has ended
			in = append(in, a.want(c.t, http.StatusAccepted))
		}
	}
	c.succeeds(at(id), sameOperation(c.t, in))
	c.delete(id, plan, async).want(c.t, http.StatusGone)
	c.askedFor(1, "deprovision", id, "")
	c.nothingLeft(id)
}
