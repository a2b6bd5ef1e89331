package cfsim

import (
	"strings"
	"testing"
)

// TestUpdateIsSynchronousOrNot is section 1.10: what needs the backing broker,
// and what becomes of the last operation.
func TestUpdateIsSynchronousOrNot(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		plan, body, want, last string
	}{
		"metadata alone":            {"postgres/small", `{"metadata":{"labels":{"a":"b"}}}`, "200", "create succeeded"},
		"tags":                      {"postgres/small", `{"tags":["a"]}`, "200", "update succeeded"},
		"tags and metadata":         {"postgres/small", `{"tags":null,"metadata":{}}`, "200", "update succeeded"},
		"nothing at all":            {"postgres/small", `{}`, "200", "update succeeded"},
		"empty parameters":          {"postgres/small", `{"parameters":{}}`, "202", "update succeeded"},
		"a name with context":       {"postgres/small", `{"name":"new"}`, "202", "update succeeded"},
		"a name without context":    {"queue/standard", `{"name":"new"}`, "200", "update succeeded"},
		"another plan":              {"postgres/small", `PLAN(postgres/large)`, "202", "update succeeded"},
		"the same plan":             {"postgres/small", `PLAN(postgres/small)`, "200", "update succeeded"},
		"the same version":          {"postgres/maintained", `{"maintenance_info":{"version":"2.1.0"}}`, "200", "update succeeded"},
		"a plan of another kind":    {"postgres/small", `PLAN(queue/standard)`, "400 1002 CF-InvalidRelation: service plan relates to a different service offering", "create succeeded"},
		"a plan that may not":       {"queue/standard", `PLAN(queue/priority)`, unprocessableText + "The service does not support changing plans.", "create succeeded"},
		"a version that is not":     {"postgres/maintained", `{"maintenance_info":{"version":"3.0.0"}}`, unprocessableText + "maintenance_info.version requested is invalid. Please ensure the catalog is up to date and you are providing a version supported by this service plan.", "create succeeded"},
		"a version without any":     {"postgres/small", `{"maintenance_info":{"version":"3.0.0"}}`, unprocessableText + "The service broker does not support upgrades for service instances created from this plan.", "create succeeded"},
		"a version that is none":    {"postgres/small", `{"maintenance_info":{"version":"three"}}`, unprocessableText + "Maintenance info Version must be a Semantic Version string", "create succeeded"},
		"an unknown plan":           {"postgres/small", `{"relationships":{"service_plan":{"data":{"guid":"x"}}}}`, unprocessableText + "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.", "create succeeded"},
		"a name that is too long":   {"postgres/small", `{"name":"` + strings.Repeat("x", 256) + `"}`, "500 10001 UnknownError: An unknown error occurred.", "create succeeded"},
		"a name that is taken":      {"postgres/small", `{"name":"other"}`, unprocessableText + "The service instance name is taken: other", "create succeeded"},
		"its own name":              {"postgres/small", `{"name":"it"}`, "202", "update succeeded"},
		"parameters that are wrong": {"postgres/small", `{"parameters":1}`, unprocessableText + "Parameters must be an object", "create succeeded"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.ready("other", "postgres/small")
			guid := c.ready("it", test.plan)
			checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, c.planPatch(test.body)), test.want)
			c.lastOperation("/v3/service_instances/"+guid, test.last)
		})
	}
}

// planPatch writes PLAN(x/y) out.
func (c *cloud) planPatch(body string) string {
	name, isPlan := strings.CutPrefix(body, "PLAN(")
	if !isPlan {
		return body
	}
	return `{"relationships":{"service_plan":{"data":{"guid":"` + c.planGUID(strings.TrimSuffix(name, ")")) + `"}}}}`
}

// TestUpdateIsWrittenOnSuccessOnly holds for the plan, the name and the marks.
func TestUpdateIsWrittenOnSuccessOnly(t *testing.T) {
	t.Parallel()
	for plan, written := range map[string]bool{"postgres/large": true, "faults/update-fails": false, "faults/update-rejected": false} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			first := "postgres/small"
			if !written {
				first = "faults/create-fails"
			}
			offeringName, planName, _ := strings.Cut(first, "/")
			guid := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"`+offeringName+`","plan":"`+planName+`","annotations":{"old":"1"}}`).str("guid")
			body := strings.TrimSuffix(c.planPatch("PLAN("+plan+")"), "}") + `,"name":"new","parameters":{"a":1},"tags":["t"],"metadata":{"annotations":{"mark":"x","old":null}}}`
			job := c.must(202, "PATCH", "/v3/service_instances/"+guid, body).header.Get("Location")
			end := map[bool]string{true: jobComplete, false: jobFailed}[written]
			c.job(job, end)
			row := c.must(200, "GET", "/v3/service_instances/"+guid, "")
			if got := row.str("name") == "new"; got != written {
				t.Errorf("name %q", row.str("name"))
			}
			if got := row.str("metadata", "annotations", "mark") == "x" && row.at("metadata", "annotations", "old") == nil && row.str("tags", 0) == "t"; got != written {
				t.Errorf("row %s", row.body)
			}
			if got := row.str("relationships", "service_plan", "data", "guid") == c.planGUID(plan); got != written {
				t.Errorf("plan written: %v", got)
			}
			if got := string(c.state().Instances[0].Parameters); got != `{"a":1}` {
				t.Errorf("received parameters %s", got)
			}
			if got := string(c.must(200, "GET", "/v3/service_instances/"+guid+"/parameters", "").body) == `{"a":1}`; got != written {
				t.Errorf("parameters in force: %v", got)
			}
		})
	}
}

func TestUpdateToNonBindablePlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	c.readyKey("k", guid)
	want := unprocessableText + "The service plan is invalid: cannot switch to non-bindable plan when service bindings exist"
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, c.planPatch("PLAN(postgres/no-bindings)")), want)
}

// TestUpgrade raises the version of a plan and then that of an instance.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/maintained")
	c.must(200, "POST", "/__sim/marketplace", `{"maintenance":{"postgres/maintained":"2.2.0"}}`)
	if r := c.must(200, "GET", "/v3/service_instances/"+guid, ""); r.at("upgrade_available") != true || r.str("maintenance_info", "version") != "2.1.0" {
		t.Errorf("before: %s", r.body)
	}
	c.job(c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"maintenance_info":{"version":"2.2.0"}}`).header.Get("Location"), jobComplete)
	if r := c.must(200, "GET", "/v3/service_instances/"+guid, ""); r.at("upgrade_available") != false || r.str("maintenance_info", "version") != "2.2.0" {
		t.Errorf("after: %s", r.body)
	}
	moved := strings.TrimSuffix(c.planPatch("PLAN(postgres/small)"), "}") + `,"maintenance_info":{"version":"2.2.0"}}`
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, moved), unprocessableText+"maintenance_info should not be changed when switching to different plan.")
}

func TestUpdateOfAnInaccessiblePlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	large := c.planPatch("PLAN(postgres/large)")
	c.must(200, "POST", "/__sim/marketplace", `{"hide":["postgres/small"]}`)
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, `{"parameters":{}}`), unprocessableText+"Cannot update parameters of a service instance that belongs to inaccessible plan")
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, `{"name":"x"}`), unprocessableText+"Cannot update name of a service instance that belongs to inaccessible plan")
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, large), "202")
}

func TestPurge(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid, _ := c.create("it", "faults/create-stalls")
	c.lastOperation("/v3/service_instances/"+guid, "create in progress")
	c.must(204, "DELETE", "/v3/service_instances/"+guid+"?purge=true", "")
	c.must(404, "GET", "/v3/service_instances/"+guid, "")
	if n := c.calls("it", deprovision); n != 0 {
		t.Errorf("purge asked the backing broker %d times", n)
	}
}
