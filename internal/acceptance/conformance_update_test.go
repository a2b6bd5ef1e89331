package acceptance

import (
	"fmt"
	"net/http"
	"testing"
)

// TestConformanceUpdate: PATCH /v2/service_instances/:instance_id. What it is answered in each
// state stands in TestTable.
func TestConformanceUpdate(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.hold([]clause{
		{"UPD-01 CON-18 an unknown instance is 404", unknownInstance},
		{"UPD-02 UPD-03 UPD-04 UPD-36 service_id is mandatory and stays", serviceOfUpdate},
		{"UPD-04 plans that are not there, parameters that are none", invalidUpdates},
		{"UPD-05 UPD-06 UPD-08 what is left out stays", leftOut},
		{"UPD-07 UPD-09 parameters are replaced, not merged", replaced},
		{"UPD-11 UPD-13 CAT-44 CON-21 a context alone is kept", contextAlone},
		{"UPD-12 UPD-34 previous_values are not judged", previousValues},
		{"UPD-15 UPD-16 UPD-33 ERR-06 ERR-07 CAT-43 a plan change where there is none", planStays},
		{"UPD-14 UPD-32 the plan that it has is no change", samePlan},
		{"UPD-17 UPD-18 UPD-19 CON-21 CON-24 what is in force already: 200 {}", inForce},
		{"UPD-20 UPD-21 UPD-22 UPD-30 CON-20 CON-22 CON-23 LOI-10 202 with one operation until it is done", updateRuns},
		{"UPD-23 ASY-09 CON-20 AsyncRequired", updateNeedsAsync},
		{"UPD-25 UPD-26 UPD-27 CON-25 ORPH-09 a failed update changes nothing and may be sent again", failedUpdate},
		{"UPD-27 a failed update is repaired by another", repairedUpdate},
		{"UPD-35 empty parameters are none", emptyParameters},
		{"UPD-31 no dashboard_url and no metadata where Cloud Foundry has none", updateInventsNothing},
	})
}

func unknownInstance(c tenant) {
	c.patch(c.id(), "postgres/small", `"parameters":{"a":1}`, async).says(c.t, 404, "NotFound")
	c.patch(c.id(), "postgres/small", `"parameters":{"a":1}`, plain).says(c.t, 404, "NotFound")
}

func serviceOfUpdate(c tenant) {
	id := c.one()
	for _, body := range []string{"{}", `{"service_id":""}`, `{"service_id":null}`, `{"service_id":1}`, `{"plan_id":"x"}`, "[]", "{"} {
		c.traceless(c.t, id, "", func() answer { return c.send("PATCH", at(id)+"?accepts_incomplete=true", body) }).says(c.t, 400, "BadRequest")
	}
	for _, service := range []string{"nope", c.plan("queue/standard").service} {
		body := fmt.Sprintf(`{"service_id":%q,"parameters":{"a":2}}`, service)
		c.traceless(c.t, id, "", func() answer { return c.send("PATCH", at(id)+"?accepts_incomplete=true", body) }).
			says(c.t, 400, "BadRequest", "service_id")
	}
}

func invalidUpdates(c tenant) {
	id := c.one()
	for _, rest := range []string{
		`"plan_id":"nope"`, `"plan_id":` + quoted(c.plan("queue/standard").plan), `"plan_id":1`, `"parameters":[]`, `"parameters":"a"`, `"context":1`, `"maintenance_info":1`,
	} {
		c.traceless(c.t, id, "", func() answer { return c.patch(id, "postgres/small", rest, async) }).says(c.t, 400, "BadRequest")
	}
}

// changed sends an update and waits until it is in force.
func (c tenant) changed(id, plan, rest string) {
	c.t.Helper()
	c.succeeds(at(id), c.patch(id, plan, rest, async).want(c.t, 202).operation())
}

func leftOut(c tenant) {
	id := c.ready("postgres/large", `{"a":1}`)
	c.changed(id, "postgres/large", `"parameters":{"a":2}`)
	if row := c.row(id); row.Plan != "large" || string(row.Parameters) != `{"a":2}` {
		c.t.Errorf("after new parameters: %+v", row)
	}
	c.changed(id, "postgres/large", `"plan_id":`+quoted(c.plan("postgres/small").plan))
	c.put(id, "postgres/small", `{"a":2}`, async).want(c.t, 200) // the parameters in force are the same
	if row := c.row(id); row.Plan != "small" || string(row.Parameters) != `{"a":2}` {
		c.t.Errorf("after a new plan: %+v with %s", row, row.Parameters)
	}
}

func replaced(c tenant) {
	id := c.ready("postgres/small", `{"a":1,"b":2}`)
	c.changed(id, "postgres/small", `"parameters":{"b":false}`)
	if row := c.row(id); string(row.Parameters) != `{"b":false}` {
		c.t.Errorf("the backing broker got %s", row.Parameters)
	}
	c.put(id, "postgres/small", `{"b":false}`, async).want(c.t, 200)
	c.put(id, "postgres/small", `{"a":1,"b":false}`, async).want(c.t, 409)
}

func contextAlone(c tenant) {
	id := c.one()
	c.patch(id, "postgres/small", `"context":{"platform":"cloudfoundry","instance_name":"new"}`, async).bare(c.t, 200)
	c.askedFor(0, "update", id, "")
}

func previousValues(c tenant) {
	id := c.one()
	for i, values := range []string{"{}", "null", "1", `{"plan_id":"stale","service_id":"x","organization_id":"y","space_id":"z","maintenance_info":{"version":"0.0.0"}}`} {
		c.changed(id, "postgres/small", fmt.Sprintf(`"parameters":{"n":%d},"previous_values":%s`, i, values))
	}
}

func planStays(c tenant) {
	id := c.ready("queue/standard", "")
	a := c.traceless(c.t, id, "", func() answer {
		return c.patch(id, "queue/standard", `"plan_id":`+quoted(c.plan("queue/priority").plan), async)
	})
	a.says(c.t, 422, "Unprocessable", "plan")
	a.has(c.t, "update_repeatable", "false")
}

func samePlan(c tenant) {
	id := c.ready("queue/standard", "")
	plan := `"plan_id":` + quoted(c.plan("queue/standard").plan)
	c.patch(id, "queue/standard", plan, async).bare(c.t, 200)
	c.changed(id, "queue/standard", plan+`,"parameters":{"a":1}`)
}

func inForce(c tenant) {
	id := c.one()
	rest := `"parameters":{"a":2},"plan_id":` + quoted(c.plan("postgres/large").plan)
	c.changed(id, "postgres/small", rest)
	for range 2 {
		c.patch(id, "postgres/small", rest, async).bare(c.t, 200)
		c.patch(id, "postgres/small", "", async).bare(c.t, 200)
	}
	c.askedFor(1, "update", id, "")
}

func updateRuns(c tenant) {
	s := updating(c)
	first, again := s.operation, c.patch(s.id, s.plan, `"parameters":`+s.target, async).want(c.t, 202)
	if again.operation() != first || again.header.Get("Retry-After") == "" {
		c.t.Errorf("%s: %s, want the operation %s", again.request, again.body, first)
	}
	c.traceless(c.t, s.id, "", func() answer { return c.patch(s.id, s.plan, `"parameters":{"a":9}`, async) }).says(c.t, 422, "ConcurrencyError")
	for _, hint := range []string{"faults/update-stalls", "postgres/small"} {
		c.send("GET", at(s.id)+"/last_operation?operation="+first+"&plan_id="+c.plan(hint).plan, "").want(c.t, 200).has(c.t, "state", `"in progress"`)
	}
	c.askedFor(1, "update", s.id, "")
}

func updateNeedsAsync(c tenant) {
	id := c.one()
	for _, rest := range []string{`"parameters":{"a":2}`, `"parameters":{"a":1}`, ""} {
		c.traceless(c.t, id, "", func() answer { return c.patch(id, "postgres/small", rest, plain) }).says(c.t, 422, "AsyncRequired")
	}
}

func failedUpdate(c tenant) {
	s := patched(c, "faults/update-fails")
	c.fails(at(s.id), s.operation, "The update fails with this plan")
	c.put(s.id, s.plan, s.parameters, async).want(c.t, 200) // what was in force still is
	again := c.patch(s.id, s.plan, `"parameters":`+s.target, async).want(c.t, 202)
	if again.operation() == s.operation {
		c.t.Errorf("%s: the operation that failed: %s", again.request, again.body)
	}
	c.fails(at(s.id), again.operation(), "The update fails with this plan")
	c.poll(at(s.id), s.operation).has(c.t, "state", `"failed"`)
	c.gone(s.id, s.plan)
}

func repairedUpdate(c tenant) {
	s := patched(c, "faults/update-fails")
	c.fails(at(s.id), s.operation)
	// The plan that it is to have decides about an update's fate.
	rest := `"parameters":{"a":3},"plan_id":` + quoted(c.plan("faults/create-fails").plan)
	c.changed(s.id, s.plan, rest)
	c.patch(s.id, s.plan, rest, async).bare(c.t, 200)
}

func emptyParameters(c tenant) {
	id := c.one()
	for _, parameters := range []string{"{}", "null"} {
		c.patch(id, "postgres/small", `"parameters":`+parameters, async).bare(c.t, 200)
	}
	c.changed(id, "postgres/small", `"parameters":{},"plan_id":`+quoted(c.plan("postgres/large").plan))
	if row := c.row(id); string(row.Parameters) != `{"a":1}` || row.Plan != "large" {
		c.t.Errorf("Cloud Foundry has %+v with %s", row, row.Parameters)
	}
}

func updateInventsNothing(c tenant) {
	id := c.one()
	a := c.patch(id, "postgres/small", `"parameters":{"a":2}`, async).want(c.t, http.StatusAccepted)
	a.lacks(c.t, "dashboard_url", "metadata")
	c.succeeds(at(id), a.operation())
}
