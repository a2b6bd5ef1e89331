package acceptance

import (
	"testing"
)

// inState are the cells of the lifecycle table in which the OSB text is silent or
// leaves a choice. TestTable walks the whole table; here stand the ids, each with its
// own expectation.
func inState() []struct {
	name  string
	bring func(tenant) subject
	send  func(tenant, subject) answer
	want  cell
} {
	put := func(c tenant, s subject) answer { return c.put(s.id, s.plan, s.parameters, async) }
	other := func(c tenant, s subject) answer { return c.put(s.id, s.plan, `{"a":9}`, async) }
	patch := func(c tenant, s subject) answer { return c.patch(s.id, s.plan, `"parameters":{"a":9}`, async) }
	bind := func(c tenant, s subject) answer { return c.bind(s.id, s.binding, s.plan, s.parameters, async) }
	return []struct {
		name  string
		bring func(tenant) subject
		send  func(tenant, subject) answer
		want  cell
	}{
		{"CON-12 PUT, updating", updating, put, cell{422, "ConcurrencyError"}},
		{"CON-13 PUT, deleting", deleting, put, cell{422, "ConcurrencyError"}},
		{"CON-14 PUT, create failed, same", createFailed, put, cell{202, "new"}},
		{"CON-15 PUT, create failed, different", createFailed, other, cell{409, "Conflict"}},
		{"CON-16 PUT, delete failed", deleteFailed, put, cell{409, "Conflict"}},
		{"CON-19 PATCH, creating", creating, patch, cell{422, "ConcurrencyError"}},
		{"CON-26 PATCH, deleting", deleting, patch, cell{422, "ConcurrencyError"}},
		{"CON-27 UPD-16 PATCH, create failed", createFailed, patch, cell{422, "Unprocessable"}},
		{"CON-27 UPD-16 PATCH, delete failed", deleteFailed, patch, cell{422, "Unprocessable"}},
		{"CON-47 PUT of a binding, deleting", bindingOn("faults/unbind-stalls", true, "in progress"), bind, cell{422, "ConcurrencyError"}},
	}
}

// TestConformanceConcurrency has the duties about requests that meet others.
func TestConformanceConcurrency(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, row := range inState() {
		t.Run(row.name, func(t *testing.T) {
			c := c.parallel(t)
			s := row.bring(c)
			a := c.traceless(t, s.id, s.binding, func() answer { return row.send(c, s) })
			checkCell(t, a, s, row.want)
			if row.want.word == "ConcurrencyError" {
				a.has(t, "description", `"The Service Broker does not support concurrent requests that mutate the same resource."`)
			}
		})
	}
	c.hold([]clause{
		{"CON-01 CON-64 many requests for many things at once are all served", manyAtOnce},
		{"CON-64 CON-63 of two creates that differ and meet, one wins and the other is 409", racingCreates},
		{"ERR-12 CON-04 a request that meets another and is refused leaves nothing", func(c tenant) {
			s := creating(c)
			for range 2 {
				c.traceless(c.t, s.id, "", func() answer { return c.patch(s.id, s.plan, `"parameters":{"a":9}`, async) }).says(c.t, 422, "ConcurrencyError")
			}
			c.succeeds(at(s.id), c.delete(s.id, s.plan, async).want(c.t, 202).operation())
			c.askedFor(0, "update", s.id, "")
		}},
	})
}

func manyAtOnce(c tenant) {
	ids := make([]string, 12)
	for i := range ids {
		ids[i] = c.id()
	}
	for i, a := range together(2*len(ids), func(i int) answer { return c.put(ids[i%len(ids)], "postgres/small", "", async) }) {
		if id := ids[i%len(ids)]; a.status == 202 {
			c.succeeds(at(id), a.operation())
		} else {
			a.bare(c.t, 200)
		}
	}
	for _, id := range ids {
		c.askedFor(1, "provision", id, "")
	}
}

func racingCreates(c tenant) {
	id := c.id()
	bodies := []string{`{"a":1}`, `{"a":2}`}
	won := ""
	for _, a := range together(8, func(i int) answer { return c.put(id, "postgres/async", bodies[i%2], async) }) {
		switch {
		case a.status == 409, a.status == 200: // the second when it came after the end
		case a.status != 202 || won != "" && a.operation() != won:
			c.t.Errorf("%s: %d %s, want 409, or 202 with the operation %q", a.request, a.status, a.body, won)
		default:
			won = a.operation()
		}
	}
	c.succeeds(at(id), won)
	c.askedFor(1, "provision", id, "")
}
