package cfsim

import (
	"strings"
	"testing"
	"time"
)

// TestKorifiJobsOfCreate has jobs that are no rows: named after the resource,
// without times, warnings or a link, and never failed.
func TestKorifiJobsOfCreate(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	guid, job := c.create("it", "postgres/small")
	if want := c.url + "/v3/jobs/managed_service_instance.create~" + guid; job != want {
		t.Fatalf("job %s, want %s", job, want)
	}
	last := c.job(job, jobComplete)
	want := `{"guid":"managed_service_instance.create~` + guid + `","errors":[],"operation":"managed_service_instance.create","state":"COMPLETE","links":{"self":{"href":"` + job + `"}}}`
	if string(last.body) != want {
		t.Errorf("job %s, want %s", last.body, want)
	}
	key, bound := c.createKey("a", guid)
	if want := c.url + "/v3/jobs/managed_service_binding.create~" + key; bound != want {
		t.Errorf("job %s, want %s", bound, want)
	}
	c.job(bound, jobComplete)
	for _, gone := range []string{"managed_service_instance.create~x", "managed_service_binding.create~x", "managed_service_instance.delete~" + guid, "service_instance.create~" + guid, "x"} {
		checkAnswer(t, c.do("GET", "/v3/jobs/"+gone, ""), "404 10010 CF-ResourceNotFound: Job not found")
	}
	for _, unknown := range []string{"managed_service_instance.delete~x", "managed_service_binding.delete~x"} {
		if r := c.must(200, "GET", "/v3/jobs/"+unknown, ""); r.str("state") != jobComplete {
			t.Errorf("delete of what is not there: %s", r.body)
		}
	}
}

// TestKorifiFailedCreates stay POLLING, and say why only when polling told.
func TestKorifiFailedCreates(t *testing.T) {
	t.Parallel()
	for plan, description := range map[string]any{"faults/create-rejected": nil, "faults/create-fails": "The create fails with this plan", "faults/create-times-out": nil} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, korifi())
			guid, job := c.create("it", plan)
			row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
			if got := row.at("last_operation", "description"); got != description {
				t.Errorf("description %v, want %v", got, description)
			}
			if r := c.must(200, "GET", job, ""); r.str("state") != jobPolling || r.at("errors", 0) != nil {
				t.Errorf("job %s", r.body)
			}
			checkAnswer(t, c.do("POST", "/v3/service_instances", c.instanceBody("it", "postgres/small", "")), unprocessableText+"The service instance name is taken: it")
			c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
			checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
		})
	}
}

// TestKorifiDeleteGivesUp has a delete job fail after its time, and turn
// complete when the row goes after all.
func TestKorifiDeleteGivesUp(t *testing.T) {
	t.Parallel()
	var at clock
	o := korifi()
	o.Now = at.now
	c := start(t, o)
	guid := c.ready("it", "postgres/small")
	c.instruct(`{"operation":"deprovision","answer":"rejected","description":"locked"}`)
	path := "/v3/service_instances/" + guid
	job := c.must(202, "DELETE", path, "").header.Get("Location")
	if want := c.url + "/v3/jobs/managed_service_instance.delete~" + guid; job != want {
		t.Fatalf("job %s, want %s", job, want)
	}
	c.lastOperation(path, "delete failed")
	at.move(2*time.Minute - time.Second)
	c.job(job, jobPolling)
	at.move(time.Second)
	if got, want := jobError(c.job(job, jobFailed)), `10008 CF-UnprocessableEntity: managed_service_instance deletion timed out, check the remaining "`+guid+`" resource`; got != want {
		t.Errorf("job %q, want %q", got, want)
	}
	c.must(202, "DELETE", path, "")
	eventually(t, "delete", func() bool { return c.do("GET", path, "").status == 404 })
	c.job(job, jobComplete)
}

func TestKorifiDeleteTimeoutIsAnOption(t *testing.T) {
	t.Parallel()
	o := korifi()
	o.KorifiDeleteTimeout = time.Nanosecond
	c := start(t, o)
	guid := c.ready("it", "faults/unbind-rejected")
	key := c.readyKey("a", guid)
	job := c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "").header.Get("Location")
	if got, want := jobError(c.job(job, jobFailed)), `10008 CF-UnprocessableEntity: managed_service_binding deletion timed out, check the remaining "`+key+`" resource`; got != want {
		t.Errorf("job %q, want %q", got, want)
	}
}

// TestKorifiLastOperations has the words before a controller acts, and those
// that bindings have.
func TestKorifiLastOperations(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	c.workers(true)
	guid, _ := c.create("it", "postgres/async-bindings")
	path := "/v3/service_instances/" + guid
	r := c.must(200, "GET", path, "")
	if r.at("last_operation", "type") != "" || r.at("last_operation", "state") != "" || r.at("last_operation", "description") != nil {
		t.Errorf("at first: %s", r.body)
	}
	_, bound := c.createKey("a", guid)
	c.workers(false)
	c.lastOperation(path, "create succeeded")
	c.job(bound, jobComplete)
	c.instruct(`{"operation":"bind","answer":"accepted","polls":"in progress"}`)
	key, bound := c.createKey("b", guid)
	c.job(bound, jobPolling)
	c.lastOperation("/v3/service_credential_bindings/"+key, "create initial")
	checkAnswer(t, c.do("GET", "/v3/service_credential_bindings/"+key+"/details", ""), "500 10001 UnknownError: An unknown error occurred.")
}

// TestKorifiKeys has what is different about them.
func TestKorifiKeys(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	const path = "/v3/service_credential_bindings"
	checkAnswer(t, c.do("POST", path, keyBody("a", "nowhere", "")), textNotFound)
	guid := c.ready("it", "faults/bind-fails")
	checkAnswer(t, c.do("POST", path, keyBody("a", guid, `,"metadata":{}`)), unprocessableText+`invalid request body: json: unknown field "metadata"`)
	key, job := c.createKey("a", guid)
	row := c.lastOperation(path+"/"+key, "create failed")
	if row.at("last_operation", "description") != nil {
		t.Errorf("description %v", row.at("last_operation", "description"))
	}
	if r := c.must(200, "GET", job, ""); r.str("state") != jobPolling {
		t.Errorf("job %s", r.body)
	}
	checkAnswer(t, c.do("POST", path, keyBody("a", guid, "")), unprocessableText+"Service binding already exists: App:  Service Instance: "+guid+" Service Binding: a")
	checkAnswer(t, c.do("GET", path+"/"+key+"/details", ""), "500 10001 UnknownError: An unknown error occurred.")
	if r := c.must(200, "PATCH", path+"/"+key, `{"metadata":{"annotations":{"mine":"x"}}}`); r.str("metadata", "annotations", "mine") != "x" {
		t.Errorf("patch %s", r.body)
	}
	c.job(c.must(202, "DELETE", path+"/"+key, "").header.Get("Location"), jobComplete)
	small := c.ready("small", "postgres/small")
	good := c.readyKey("a", small)
	c.must(200, "GET", path+"/"+good+"/details", "")
	c.must(200, "GET", path+"/"+good+"/parameters", "")
	unbindable := c.ready("other", "postgres/no-bindings")
	checkAnswer(t, c.do("POST", path, keyBody("a", unbindable, "")), unprocessableText+"Service plan does not allow bindings.")
}

// TestKorifiKeyWaitsForInstance has keys of an instance in progress, and of one
// that failed.
func TestKorifiKeyWaitsForInstance(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	guid, _ := c.create("it", "faults/create-stalls")
	c.lastOperation("/v3/service_instances/"+guid, "create in progress")
	_, job := c.createKey("a", guid)
	c.job(job, jobPolling)
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"last_operation":{"type":"create","state":"succeeded"}}`)
	c.job(job, jobComplete)
	failed := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"failed","offering":"postgres","plan":"small","last_operation":{"type":"create","state":"failed"}}`).str("guid")
	key, _ := c.createKey("b", failed)
	c.readyKey("c", guid) // whose job came later
	c.lastOperation("/v3/service_credential_bindings/"+key, "create initial")
	if n := c.calls("failed", bind); n != 0 {
		t.Errorf("%d binds of an instance that failed", n)
	}
}

// TestKorifiQueries has what lists refuse and ignore.
func TestKorifiQueries(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	guid := c.ready("it", "postgres/small")
	key := c.readyKey("a", guid)
	tests := map[string]int{
		"service_offerings?space_guids=x": 400, "service_offerings?available=true": 400, "service_offerings?label_selector=a": 400, "service_offerings?names=postgres": 200,
		"service_offerings?service_broker_names=backing-broker": 200, "service_offerings?broker_catalog_ids=x": 400,
		"service_plans?broker_catalog_ids=x": 400, "service_plans?organization_guids=x": 400, "service_plans?label_selector=a": 400, "service_plans?available=true": 200,
		"service_instances?organization_guids=x": 400, "service_instances?service_plan_names=x": 400, "service_instances?label_selector=a": 200, "service_instances?names=it": 200,
		"service_instances?colour=x": 400,
	}
	for query, want := range tests {
		if r := c.do("GET", "/v3/"+query, ""); r.status != want || want == 400 && r.str("errors", 0, "title") != "CF-BadQueryParameter" {
			t.Errorf("%s: %d %s, want %d", query, r.status, r.body, want)
		}
	}
	if n := len(c.must(200, "GET", "/v3/service_plans?names=small&space_guids=nowhere", "").names()); n != 1 {
		t.Errorf("space_guids was not ignored: %d plans", n)
	}
	if r := c.must(200, "GET", "/v3/service_plans?names=small&include=service_offering", ""); r.str("included", "service_offerings", 0, "name") != "postgres" {
		t.Errorf("include of plans: %s", r.body)
	}
	for _, path := range []string{"service_credential_bindings?include=service_instance", "service_credential_bindings/" + key + "?include=service_instance",
		"service_plans/" + c.planGUID("postgres/small") + "?include=service_offering", "spaces?include=organization"} {
		if r := c.must(200, "GET", "/v3/"+path, ""); r.at("included") != nil {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	for _, part := range []string{"parameters", "permissions", "relationships/shared_spaces"} {
		checkAnswer(t, c.do("GET", "/v3/service_instances/"+guid+"/"+part, ""), "404 10000 CF-NotFound: Unknown request")
	}
}

// TestKorifiPatch changes name, tags and metadata, and forgets the rest.
func TestKorifiPatch(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	guid := c.ready("it", "postgres/small")
	c.ready("other", "postgres/small")
	path, large := "/v3/service_instances/"+guid, c.planGUID("postgres/large")
	r := c.must(200, "PATCH", path, `{"name":"new","tags":["a"],"metadata":{"labels":{"l":"v"}},"parameters":{"size":1},"maintenance_info":{"version":"9.9.9"},
		"relationships":{"service_plan":{"data":{"guid":"`+large+`"}}}}`)
	if r.str("name") != "new" || r.str("tags", 0) != "a" || r.str("metadata", "labels", "l") != "v" || r.str("relationships", "service_plan", "data", "guid") == large {
		t.Errorf("patched %s", r.body)
	}
	if r.str("last_operation", "type") != "create" || c.calls("new", update)+c.calls("it", update) != 0 {
		t.Errorf("the backing broker was asked, or so it looks: %s", r.body)
	}
	if raw := string(r.body); strings.Contains(raw, "dashboard_url") || r.at("maintenance_info", "version") != "" {
		t.Errorf("body %s", raw)
	}
	checkAnswer(t, c.do("PATCH", path, `{"name":"other"}`), unprocessableText+"The service instance name is taken: other")
	checkAnswer(t, c.do("PATCH", path, `{"colour":1}`), unprocessableText+`invalid request body: json: unknown field "colour"`)
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/nowhere", `{}`), textNotFound)
}

// TestKorifiForgetsVersions of creates that took their time, and repeats them.
func TestKorifiForgetsVersions(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	quickly := c.ready("quickly", "postgres/maintained")
	c.instruct(`{"operation":"provision","answer":"accepted"}`)
	slowly := c.ready("slowly", "postgres/maintained")
	if r := c.must(200, "GET", "/v3/service_instances/"+quickly, ""); r.str("maintenance_info", "version") != "2.1.0" || r.at("upgrade_available") != false {
		t.Errorf("at once: %s", r.body)
	}
	if r := c.must(200, "GET", "/v3/service_instances/"+slowly, ""); r.at("maintenance_info", "version") != "" || r.at("upgrade_available") != true {
		t.Errorf("slowly: %s", r.body)
	}
	calls := c.must(200, "GET", "/__sim/state", "")
	if calls.at("broker_calls", 0, "repeated") != nil || calls.at("broker_calls", 1, "repeated") == nil || c.calls("slowly", provision) != 1 {
		t.Errorf("calls %s", calls.body)
	}
}

// TestKorifiDeletes has deletes at every time, with keys, and by purge.
func TestKorifiDeletes(t *testing.T) {
	t.Parallel()
	t.Run("during a create", func(t *testing.T) {
		t.Parallel()
		c := start(t, korifi())
		c.workers(true)
		guid, create := c.create("it", "postgres/small")
		job := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
		c.must(202, "DELETE", "/v3/service_instances/"+guid, "")
		c.workers(false)
		c.job(job, jobComplete)
		checkAnswer(t, c.do("GET", create, ""), "404 10010 CF-ResourceNotFound: Job not found")
	})
	t.Run("with keys that take their time", func(t *testing.T) {
		t.Parallel()
		c := start(t, korifi())
		guid := c.ready("it", "postgres/async-bindings")
		c.readyKey("a", guid)
		c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
		if c.calls("it", unbind) != 1 || c.calls("it", deprovision) != 1 {
			t.Errorf("calls %+v", c.state().BrokerCalls)
		}
	})
	t.Run("with a key that stays", func(t *testing.T) {
		t.Parallel()
		c := start(t, korifi())
		guid := c.ready("it", "faults/unbind-rejected")
		key := c.readyKey("a", guid)
		job := c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location")
		c.lastOperation("/v3/service_credential_bindings/"+key, "delete failed")
		c.job(job, jobPolling)
		if c.calls("it", deprovision) != 0 {
			t.Errorf("the instance was deprovisioned under its key")
		}
	})
	t.Run("purge", func(t *testing.T) {
		t.Parallel()
		c := start(t, korifi())
		guid := c.ready("it", "faults/delete-stalls")
		c.readyKey("a", guid)
		c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
		c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid+"?purge=true", "").header.Get("Location"), jobComplete)
		if c.calls("it", deprovision) != 0 || len(c.state().Instances) != 0 {
			t.Errorf("state %+v", c.state())
		}
	})
}

// TestKorifiShowsHiddenPlans has an admin-only plan listed, and refused.
func TestKorifiShowsHiddenPlans(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	body := c.instanceBody("it", "postgres/large", "")
	c.must(200, "POST", "/__sim/marketplace", `{"visible_in":{"postgres/large":[]}}`)
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	if n := len(c.must(200, "GET", "/v3/service_plans?names=large", "").names()); n != 1 {
		t.Errorf("%d plans", n)
	}
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), unprocessableText+"Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
	c.conditions(`{"permissions":{"ferry":"space_auditor"}}`)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "403 10003 CF-NotAuthorized: You are not authorized to perform the requested action")
}
