package acceptance

import "testing"

// TestConformanceParameters: parameters are held against the plan's schema before
// anything is stored. How schemas are read is tested in internal/schema.
func TestConformanceParameters(t *testing.T) {
	t.Parallel()
	c := start(t)
	const plan = "postgres/schema"
	c.hold([]clause{
		{"PROV-14 PROV-16 ERR-12 of a create", func(c tenant) {
			for parameters, part := range map[string]string{
				`{"size":0}`: "/size", `{"size":101}`: "/size", `{"size":"1"}`: "/size", `{"name":"x"}`: "size", "": "size", "{}": "size",
				`{"size":1,"name":2}`: "/name", `{"size":1,"colour":"red"}`: "colour",
			} {
				id := c.id()
				c.traceless(c.t, id, "", func() answer { return c.put(id, plan, parameters, async) }).says(c.t, 400, "BadRequest", part)
				c.nothingLeft(id)
			}
			c.succeeds(at("fine"), c.put("fine", plan, `{"size":100,"name":"x"}`, async).want(c.t, 202).operation())
		}},
		{"UPD-10 UPD-04 UPD-25 of an update", func(c tenant) {
			id := c.ready(plan, `{"size":1}`)
			c.traceless(c.t, id, "", func() answer { return c.patch(id, plan, `"parameters":{"size":0}`, async) }).says(c.t, 400, "BadRequest", "/size")
			c.changed(id, plan, `"parameters":{"name":"x"}`)
			// A new plan brings its own schema.
			free := c.ready("postgres/small", "")
			to := `"plan_id":` + quoted(c.plan(plan).plan)
			c.traceless(c.t, free, "", func() answer { return c.patch(free, plan, to+`,"parameters":{"size":0}`, async) }).says(c.t, 400, "BadRequest", "/size")
			c.changed(free, plan, to+`,"parameters":{"size":2}`)
		}},
		{"BIND-10 BIND-12 of a bind", func(c tenant) {
			id := c.ready(plan, `{"size":1}`)
			for _, m := range []mode{plain, async} {
				c.traceless(c.t, id, "b", func() answer { return c.bind(id, "b", plan, `{"name":1}`, m) }).says(c.t, 400, "BadRequest", "/name")
			}
			c.bind(id, "b", plan, `{"name":"x"}`, plain).want(c.t, 201)
		}},
		{"CON-10 CON-11 a duplicate is compared and not checked", func(c tenant) {
			id := c.ready(plan, `{"size":1}`)
			c.put(id, plan, `{"size":0}`, async).says(c.t, 409, "Conflict")
			c.put(id, plan, `{"size":1.0}`, async).bare(c.t, 200)
		}},
	})
}
