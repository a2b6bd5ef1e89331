package acceptance

import (
	"fmt"
	"strings"
	"testing"
)

// TestConformanceProvision: PUT /v2/service_instances/:instance_id. What it is answered in each
// state stands in TestTable.
func TestConformanceProvision(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.hold([]clause{
		{"PROV-01 PROV-02 PROV-18 ASY-02 ASY-11 ASY-14 CON-06 a create is accepted, and what it asks for is made", createMakesIt},
		{"PROV-05 PROV-06 PROV-07 PROV-08 PROV-15 mandatory fields", mandatoryOfCreate},
		{"PROV-16 HTTP-05 unknown or foreign ids, and parameters that are none", invalidCreates},
		{"PROV-09 PROV-10 PROV-11 PROV-12 contexts of both platforms", contexts},
		{"PROV-13 parameters may be an object, null or left out", shapesOfParameters},
		{"PROV-19 PROV-20 CON-07 ASY-03 a repeated create: 202 with the same operation until it is ready", repeatedCreate},
		{"PROV-21 CON-10 ASY-06 ready: 200 without an operation", readyAgain},
		{"PROV-22 CON-09 CON-11 CON-63 each attribute counts", eachAttribute},
		{"CON-63 PROV-12 a Kubernetes cluster id is no attribute", clusterIDs},
		{"PROV-23 ASY-09 ASY-10 ASY-12 ASY-16 ERR-08 ERR-14 CON-08 AsyncRequired unless the literal true is sent", asyncRequired},
		{"PROV-03 PROV-04 PROV-31 CON-17 an id may be used again", reusedID},
		{"PROV-28 LIM-01 LIM-05 UPD-30 operations are short strings, and there only while one runs", operationStrings},
		{"PROV-25 PROV-29 FI-14 there is no dashboard_url or metadata unless Cloud Foundry has them", nothingInvented},
		{"ERR-12 ORPH-09 a refused create leaves nothing", refusedCreates},
		{"ASY-01 ASY-04 ASY-07 one plan's instances and bindings: asynchronous, and held until done", syncAndAsync},
	})
}

func createMakesIt(c tenant) {
	id := c.id()
	a := c.put(id, "postgres/async", `{"a":1}`, async).want(c.t, 202)
	if !strings.HasPrefix(a.operation(), "create-") || a.header.Get("Retry-After") == "" {
		c.t.Errorf("%s: %s with %v", a.request, a.body, a.header)
	}
	c.succeeds(at(id), a.operation())
	if row := c.row(id); row.Offering+"/"+row.Plan != "postgres/async" || string(row.Parameters) != `{"a":1}` {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
	c.askedFor(1, "provision", id, "")
}

func mandatoryOfCreate(c tenant) {
	body := c.createBody("postgres/small", "")
	for _, field := range []string{"service_id", "plan_id", "organization_guid", "space_guid"} {
		for _, value := range []string{"", `""`, "null", "1", "{}"} {
			id := c.id()
			c.send("PUT", at(id)+"?accepts_incomplete=true", edited(body, field, value)).says(c.t, 400, "BadRequest", field)
			c.send("GET", at(id), "").want(c.t, 404)
		}
	}
}

func invalidCreates(c tenant) {
	body := c.createBody("postgres/small", "")
	for name, members := range map[string][]string{
		"an unknown service_id":      {"service_id", `"nope"`},
		"an unknown plan_id":         {"plan_id", `"nope"`},
		"a plan of another offering": {"plan_id", quoted(c.plan("queue/standard").plan)},
		"parameters a list":          {"parameters", "[]"},
		"parameters a string":        {"parameters", `"a=1"`},
		"context a list":             {"context", "[]"},
	} {
		id := c.id()
		a := c.traceless(c.t, id, "", func() answer { return c.send("PUT", at(id)+"?accepts_incomplete=true", edited(body, members...)) })
		if a.says(c.t, 400, "BadRequest"); a.text("description") == "" {
			c.t.Errorf("%s: %s", name, a.body)
		}
	}
}

func contexts(c tenant) {
	body := c.createBody("postgres/small", "")
	for name, context := range map[string]string{
		"Cloud Foundry's": `{"platform":"cloudfoundry","organization_guid":"org","organization_name":"o","space_guid":"space","space_name":"s","instance_name":"i","organization_annotations":{"a/b":"c"}}`,
		"Kubernetes'":     `{"platform":"kubernetes","namespace":"` + strings.Repeat("n", 80) + `","clusterid":"c","instance_name":"i","namespace_annotations":{"a":"b"}}`,
		"another's":       `{"platform":"mainframe"}`,
		"none":            `{}`,
	} {
		id := c.id()
		a := c.send("PUT", at(id)+"?accepts_incomplete=true", edited(body, "context", context))
		if a.status != 202 {
			c.t.Errorf("%s: %d %s", name, a.status, a.body)
			continue
		}
		c.succeeds(at(id), a.operation())
	}
}

func shapesOfParameters(c tenant) {
	for _, parameters := range []string{"", "null", "{}", `{"a":{"b":[null,"",{},1.0]}}`} {
		id := c.ready("postgres/small", parameters)
		if got := string(c.row(id).Parameters); strings.Contains(parameters, "a") && got != parameters {
			c.t.Errorf("the backing broker got %s, want %s", got, parameters)
		}
	}
}

func repeatedCreate(c tenant) {
	id := c.id()
	op := c.put(id, "postgres/async", `{"a":1}`, async).want(c.t, 202).operation()
	for range 3 {
		if a := c.put(id, "postgres/async", `{ "a" : 1e0 }`, async); a.status == 202 && a.operation() != op || a.status != 202 && a.status != 200 {
			c.t.Errorf("%s: %d %s, want 202 with %s", a.request, a.status, a.body, op)
		}
	}
	c.succeeds(at(id), op)
	stalled := c.id()
	op = c.put(stalled, "faults/create-stalls", "", async).want(c.t, 202).operation()
	c.comes(stalled, "create", "in progress")
	if again := c.put(stalled, "faults/create-stalls", "null", async).want(c.t, 202); again.operation() != op {
		c.t.Errorf("%s: %s, want the operation %s", again.request, again.body, op)
	}
	c.askedFor(1, "provision", stalled, "")
	c.askedFor(1, "provision", id, "")
}

func readyAgain(c tenant) {
	id := c.one()
	for range 3 {
		c.put(id, "postgres/small", `{"a":1}`, async).bare(c.t, 200)
		c.put(id, "postgres/small", `{"a":1.0}`, plain).bare(c.t, 200)
	}
	c.askedFor(1, "provision", id, "")
}

func eachAttribute(c tenant) {
	for state, id := range map[string]string{"ready": c.one(), "creating": c.id()} {
		plan := "postgres/small"
		if state == "creating" {
			plan = "faults/create-stalls"
			c.put(id, plan, `{"a":1}`, async).want(c.t, 202)
			c.comes(id, "create", "in progress")
		}
		body := c.createBody(plan, `{"a":1}`)
		for _, members := range [][]string{
			{"parameters", `{"a":2}`}, {"parameters", `{"a":"1"}`}, {"parameters", ""}, {"organization_guid", `"other"`}, {"space_guid", `"other"`},
			{"plan_id", quoted(c.plan("postgres/large").plan)}, {"service_id", quoted(c.plan("queue/standard").service)},
		} {
			c.traceless(c.t, id, "", func() answer { return c.send("PUT", at(id)+"?accepts_incomplete=true", edited(body, members...)) }).
				says(c.t, 409, "Conflict")
		}
		for _, members := range [][]string{
			{"context", `{"platform":"cloudfoundry","instance_name":"new name","space_annotations":{"a":"b"}}`}, {"parameters", `{"a":1.0}`},
			{"maintenance_info", `{"version":"9.9.9"}`}, {"colour", "1"},
		} {
			a := c.send("PUT", at(id)+"?accepts_incomplete=true", edited(body, members...))
			if want := map[string]int{"ready": 200, "creating": 202}[state]; a.status != want {
				c.t.Errorf("%s, %v: %d %s, want %d", state, members, a.status, a.body, want)
			}
		}
	}
}

func clusterIDs(c tenant) {
	id, body := c.id(), c.createBody("postgres/small", "")
	context := func(namespace, cluster string) string {
		return fmt.Sprintf(`{"platform":"kubernetes","namespace":%q,"clusterid":%q}`, namespace, cluster)
	}
	send := func(namespace, cluster string) answer {
		return c.send("PUT", at(id)+"?accepts_incomplete=true", edited(body, "organization_guid", quoted(cluster), "context", context(namespace, cluster)))
	}
	c.succeeds(at(id), send("shop", "cluster-1").want(c.t, 202).operation())
	send("shop", "cluster-2").want(c.t, 200)
	send("other", "cluster-1").want(c.t, 409)
}

func asyncRequired(c tenant) {
	body := c.createBody("postgres/small", "")
	for _, query := range []string{"", "?accepts_incomplete=false", "?accepts_incomplete=True", "?accepts_incomplete=1", "?accepts_incomplete="} {
		id := c.id()
		a := c.traceless(c.t, id, "", func() answer { return c.send("PUT", at(id)+query, body) })
		a.says(c.t, 422, "AsyncRequired", "accepts_incomplete=true")
		a.has(c.t, "description", `"This service plan requires client support for asynchronous service operations."`)
	}
}

func reusedID(c tenant) {
	id := c.one()
	c.gone(id, "postgres/small")
	op := c.put(id, "postgres/large", `{"other":true}`, async).want(c.t, 202).operation()
	c.succeeds(at(id), op)
	if row := c.row(id); row.Plan != "large" {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
	c.askedFor(2, "provision", id, "")
}

func operationStrings(c tenant) {
	id := c.id()
	create := c.put(id, "postgres/small", "", async).want(c.t, 202)
	c.succeeds(at(id), create.operation())
	update := c.patch(id, "postgres/small", `"parameters":{"a":1}`, async).want(c.t, 202)
	c.succeeds(at(id), update.operation())
	for _, a := range []answer{create, update} {
		if n := len(a.operation()); n == 0 || n > 64 {
			c.t.Errorf("%s: an operation of %d characters: %s", a.request, n, a.body)
		}
	}
	c.put(id, "postgres/small", "", async).says(c.t, 409, "Conflict")
	c.put(id, "postgres/small", `{"a":1}`, async).bare(c.t, 200)
}

func nothingInvented(c tenant) {
	id := c.id()
	a := c.put(id, "postgres/small", "", async).want(c.t, 202)
	a.lacks(c.t, "dashboard_url", "metadata")
	c.succeeds(at(id), a.operation())
	c.send("GET", at(id), "").want(c.t, 200).lacks(c.t, "dashboard_url", "metadata")
}

func refusedCreates(c tenant) {
	body := c.createBody("postgres/schema", "")
	for name, members := range map[string][]string{
		"parameters against the schema": {"parameters", `{"size":0}`},
		"a parameter that nobody knows": {"parameters", `{"a":1}`},
		"a version that is not there":   {"maintenance_info", `{"version":"9.9.9"}`, "parameters", `{"size":1}`},
	} {
		id := c.id()
		a := c.traceless(c.t, id, "", func() answer { return c.send("PUT", at(id)+"?accepts_incomplete=true", edited(body, members...)) })
		if a.status < 400 || a.status >= 500 {
			c.t.Errorf("%s: %d %s, want a refusal", name, a.status, a.body)
		}
		c.nothingLeft(id)
		c.poll(at(id), "").want(c.t, 404)
		c.delete(id, "postgres/schema", async).bare(c.t, 410)
	}
}

func syncAndAsync(c tenant) {
	id, binding := c.ready("postgres/async-bindings", ""), c.id()
	c.bind(id, binding, "postgres/async-bindings", "", plain).want(c.t, 201)
	c.unbind(id, binding, "postgres/async-bindings", plain).want(c.t, 200)
	d := c.ready("drain/standard", "") // bindings that cannot be fetched: the flag is ignored
	c.bind(d, c.id(), "drain/standard", "", async).want(c.t, 201)
}

// TestConformanceMaintenanceInfo: versions of plans and instances.
func TestConformanceMaintenanceInfo(t *testing.T) {
	t.Parallel()
	c := start(t, restless)
	c.hold([]clause{
		{"MI-04 MI-06 MI-08 MI-09 MI-10 MI-12 PROV-24 ERR-11 of a create", versionsOfCreate},
		{"MI-05 MI-07 MI-11 UPD-24 of an update", versionsOfUpdate},
	})
	t.Run("MI-05 MI-13 MI-14 UPD-12 an older instance is brought to the plan's version", func(t *testing.T) { maintained(c.in(t)) })
}

func version(v string) string {
	return fmt.Sprintf(`{"version":%q,"description":"ignored","more":1}`, v)
}

func versionsOfCreate(c tenant) {
	for _, test := range []struct {
		plan, info string
		status     int
	}{
		{"postgres/maintained", "", 202}, {"postgres/maintained", "null", 202}, {"postgres/maintained", "{}", 202},
		{"postgres/maintained", version("9.9.9"), 422}, {"postgres/maintained", version("not a version"), 422}, {"postgres/small", version("1.0.0"), 422},
	} {
		id := c.id()
		a := c.send("PUT", at(id)+"?accepts_incomplete=true", edited(c.createBody(test.plan, ""), "maintenance_info", test.info))
		if test.status == 202 {
			c.succeeds(at(id), a.want(c.t, 202).operation())
			continue
		}
		if a.says(c.t, 422, "MaintenanceInfoConflict", "maintenance_info"); c.poll(at(id), "").status != 404 {
			c.t.Errorf("%s left something", a.request)
		}
	}
}

func versionsOfUpdate(c tenant) {
	id := c.one()
	to := `"plan_id":` + quoted(c.plan("postgres/maintained").plan)
	for _, rest := range []string{
		`"maintenance_info":` + version("9.9.9"), to + `,"maintenance_info":` + version("9.9.9"), to + `,"maintenance_info":` + version("x"),
	} {
		c.traceless(c.t, id, "", func() answer { return c.patch(id, "postgres/small", rest, async) }).says(c.t, 422, "MaintenanceInfoConflict")
	}
	current := c.planOf("postgres/maintained").MaintenanceInfo["version"]
	a := c.patch(id, "postgres/small", to+`,"maintenance_info":`+version(fmt.Sprint(current)), async)
	if a.status == 422 { // the other subtest raised it meanwhile
		a = c.patch(id, "postgres/small", to, async)
	}
	c.succeeds(at(id), a.want(c.t, 202).operation())
}

func (c tenant) planOf(name string) offeringPlan {
	c.t.Helper()
	_, plans := c.marketplace()
	return plans[name]
}

func maintained(c tenant) {
	id := c.ready("postgres/maintained", "")
	c.send("GET", at(id), "").want(c.t, 200).has(c.t, "maintenance_info", `{"version":"2.1.0"}`)
	c.control("POST", "/marketplace", `{"maintenance":{"postgres/maintained":"2.2.0"}}`)
	c.eventually("the catalog has the new version", func() bool { return c.planOf("postgres/maintained").MaintenanceInfo["version"] == "2.2.0" })
	c.patch(id, "postgres/maintained", `"maintenance_info":`+version("2.0.0"), async).says(c.t, 422, "MaintenanceInfoConflict")
	c.patch(id, "postgres/maintained", `"maintenance_info":`+version("2.1.0"), async).bare(c.t, 200) // the one that it has is no change
	rest := `"maintenance_info":` + version("2.2.0") + `,"previous_values":{"plan_id":"stale","maintenance_info":{"version":"0.0.1"}}`
	op := c.patch(id, "postgres/maintained", rest, async).want(c.t, 202).operation()
	c.succeeds(at(id), op)
	c.send("GET", at(id), "").want(c.t, 200).has(c.t, "maintenance_info", `{"version":"2.2.0"}`)
	if row := c.row(id); row.MaintenanceVersion != "2.2.0" {
		c.t.Errorf("Cloud Foundry has the version %s", row.MaintenanceVersion)
	}
	c.patch(id, "postgres/maintained", rest, async).bare(c.t, 200)
}
