package cfsim

import (
	"strings"
	"testing"
	"time"
)

// TestKorifiJobsOfCreate has jobs that are no rows: named after the resource, without times, warnings or a link, and
// never failed.
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
		c.answers("GET", "/v3/jobs/"+gone, "", textNoJob)
	}
	for _, unknown := range []string{"managed_service_instance.delete~x", "managed_service_binding.delete~x"} { // what is not there is gone
		c.reads("/v3/jobs/"+unknown, "state="+jobComplete)
	}
}

// TestKorifiFailedCreates stay POLLING, and say why only when polling said so.
func TestKorifiFailedCreates(t *testing.T) {
	t.Parallel()
	each(t, korifi(), map[string]string{"faults/create-rejected": "", "faults/create-fails": "The create fails with this plan", "faults/create-times-out": ""}, func(c *cloud, plan, description string) {
		path, job := c.operate(provision, plan)
		c.described(path, "create failed", description)
		c.reads(job, "state="+jobPolling, "errors.#=0")
		c.answers("POST", instances, c.instanceBody("it", "postgres/small", ""), unprocessableText+"The service instance name is taken: it")
		c.job(c.accepted("DELETE", path, ""), jobComplete)
		c.answers("GET", job, "", textNoJob)
	})
}

// TestKorifiDeleteGivesUp has a delete job fail after its time, and turn complete when the row goes after all.
func TestKorifiDeleteGivesUp(t *testing.T) {
	t.Parallel()
	var at clock
	o := korifi()
	o.Now = at.now
	c := start(t, o)
	c.instruct(`{"operation":"deprovision","answer":"rejected","description":"locked"}`)
	path, job := c.operate(deprovision, "postgres/small")
	guid := path[len(instances):]
	if want := c.url + "/v3/jobs/managed_service_instance.delete~" + guid; job != want {
		t.Fatalf("job %s, want %s", job, want)
	}
	c.lastOperation(path, "delete failed")
	at.move(2*time.Minute - time.Second)
	c.job(job, jobPolling)
	at.move(time.Second)
	c.fails(job, `10008 CF-UnprocessableEntity: managed_service_instance deletion timed out, check the remaining "`+guid+`" resource`)
	c.accepted("DELETE", path, "")
	c.gone(path)
	c.job(job, jobComplete)
}

func TestKorifiDeleteTimeoutIsAnOption(t *testing.T) {
	t.Parallel()
	o := korifi()
	o.KorifiDeleteTimeout = time.Nanosecond
	c := start(t, o)
	path, job := c.operate(unbind, "faults/unbind-rejected")
	c.fails(job, `10008 CF-UnprocessableEntity: managed_service_binding deletion timed out, check the remaining "`+path[len(keys):]+`" resource`)
}

// TestKorifiLastOperations has the words before a controller acts, and those that bindings have.
func TestKorifiLastOperations(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	c.workers(true)
	guid, _ := c.create("it", "postgres/async-bindings")
	c.reads(instances+guid, "last_operation.type=", "last_operation.state=", "last_operation.description=")
	_, bound := c.createKey("a", guid)
	c.workers(false)
	c.lastOperation(instances+guid, "create succeeded")
	c.job(bound, jobComplete)
	c.instruct(`{"operation":"bind","answer":"accepted","polls":"in progress"}`)
	key, bound := c.createKey("b", guid)
	c.job(bound, jobPolling)
	c.lastOperation(keys+key, "create initial")
	c.answers("GET", keys+key+"/details", "", "500 10001 UnknownError: An unknown error occurred.")
}

// TestKorifiKeys has what is different about them.
func TestKorifiKeys(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	guid := c.ready("it", "faults/bind-fails")
	c.answers("POST", keys, keyBody("a", "nowhere", ""), textNotFound)
	c.answers("POST", keys, keyBody("a", guid, `,"metadata":{}`), unprocessableText+`invalid request body: json: unknown field "metadata"`)
	key, job := c.createKey("a", guid)
	c.described(keys+key, "create failed", "")
	c.reads(job, "state="+jobPolling)
	c.answers("POST", keys, keyBody("a", guid, ""), unprocessableText+"Service binding already exists: App:  Service Instance: "+guid+" Service Binding: a")
	c.answers("GET", keys+key+"/details", "", "500 10001 UnknownError: An unknown error occurred.")
	c.must(200, "PATCH", keys+key, `{"metadata":{"annotations":{"mine":"x"}}}`).reads(t, "metadata.annotations.mine=x")
	c.job(c.accepted("DELETE", keys+key, ""), jobComplete)
	good := keys + c.readyKey("a", c.ready("small", "postgres/small"))
	c.must(200, "GET", good+"/details", "")
	c.must(200, "GET", good+"/parameters", "")
	c.answers("POST", keys, keyBody("a", c.ready("other", "postgres/no-bindings"), ""), unprocessableText+"Service plan does not allow bindings.")
}

// TestKorifiKeyWaitsForInstance has keys of an instance in progress, and of one that failed.
func TestKorifiKeyWaitsForInstance(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	guid, _ := c.create("it", "faults/create-stalls")
	c.lastOperation(instances+guid, "create in progress")
	_, job := c.createKey("a", guid)
	c.job(job, jobPolling)
	c.force("instances/"+guid, `{"last_operation":{"type":"create","state":"succeeded"}}`)
	c.job(job, jobComplete)
	key, _ := c.createKey("b", c.plantAt("ferry/work", "failed", "postgres/small", `,"last_operation":{"type":"create","state":"failed"}`))
	c.readyKey("c", guid) // whose job came later
	c.lastOperation(keys+key, "create initial")
	c.asked("failed", bind, 0)
}

// TestKorifiQueries has what lists refuse and ignore.
func TestKorifiQueries(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	guid := c.ready("it", "postgres/small")
	key := c.readyKey("a", guid)
	for _, query := range []string{
		"service_offerings?space_guids=x", "service_offerings?available=true", "service_offerings?label_selector=a", "service_offerings?broker_catalog_ids=x",
		"service_plans?broker_catalog_ids=x", "service_plans?organization_guids=x", "service_plans?label_selector=a",
		"service_instances?organization_guids=x", "service_instances?service_plan_names=x", "service_instances?colour=x",
	} {
		c.must(400, "GET", "/v3/"+query, "").reads(t, "errors.0.title=CF-BadQueryParameter")
	}
	for _, query := range []string{
		"service_offerings?names=postgres", "service_offerings?service_broker_names=backing-broker", "service_plans?available=true",
		"service_instances?label_selector=a", "service_instances?names=it",
	} {
		c.must(200, "GET", "/v3/"+query, "")
	}
	c.lists("/v3/service_plans?names=small&space_guids=nowhere", "small")
	c.reads("/v3/service_plans?names=small&include=service_offering", "included.service_offerings.0.name=postgres")
	for _, path := range []string{"service_credential_bindings?include=service_instance", "service_credential_bindings/" + key + "?include=service_instance",
		"service_plans/" + c.planGUID("postgres/small") + "?include=service_offering", "spaces?include=organization"} {
		c.reads("/v3/"+path, "included=")
	}
}

// TestKorifiLacksRoutes has those that a Cloud Controller has.
func TestKorifiLacksRoutes(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	for _, line := range korifiMissing {
		method, path, _ := strings.Cut(line, " ")
		c.answers(method, strings.ReplaceAll(path, ":guid", "x"), "", "404 10000 CF-NotFound: Unknown request")
	}
}

// TestKorifiPatch changes name, tags and metadata, and forgets the rest.
func TestKorifiPatch(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	path, small, large := instances+c.ready("it", "postgres/small"), c.planGUID("postgres/small"), c.planGUID("postgres/large")
	c.plantAt("ferry/work", "other", "postgres/small", "")
	r := c.must(200, "PATCH", path, `{"name":"new","tags":["a"],"metadata":{"labels":{"l":"v"}},"parameters":{"size":1},"maintenance_info":{"version":"9.9.9"},
		"relationships":{"service_plan":{"data":{"guid":"`+large+`"}}}}`)
	r.reads(t, "name=new", "tags.0=a", "metadata.labels.l=v", "relationships.service_plan.data.guid="+small, "last_operation.type=create", "maintenance_info=map[version:]")
	if strings.Contains(string(r.body), "dashboard_url") {
		t.Errorf("body %s", r.body)
	}
	c.asked("it", update, 0)
	c.asked("new", update, 0)
	c.answers("PATCH", path, `{"name":"other"}`, unprocessableText+"The service instance name is taken: other")
	c.answers("PATCH", path, `{"colour":1}`, unprocessableText+`invalid request body: json: unknown field "colour"`)
	c.answers("PATCH", instances+"nowhere", `{}`, textNotFound)
}

// TestKorifiForgetsVersions of creates that took their time, and repeats them.
func TestKorifiForgetsVersions(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	quickly := c.ready("quickly", "postgres/maintained")
	c.instruct(`{"operation":"provision","answer":"accepted"}`)
	slowly := c.ready("slowly", "postgres/maintained")
	c.reads(instances+quickly, "maintenance_info.version=2.1.0", "upgrade_available=false")
	c.reads(instances+slowly, "maintenance_info.version=", "upgrade_available=true")
	calls := c.reads("/__sim/state", "broker_calls.0.repeated=")
	if calls.text("broker_calls.1.repeated") == "" {
		t.Errorf("calls %s", calls.body)
	}
	c.asked("slowly", provision, 1)
}

// TestKorifiDeletes has deletes at every time, with keys, and by purge.
func TestKorifiDeletes(t *testing.T) {
	t.Parallel()
	each(t, korifi(), map[string]func(*cloud){
		"during a create": func(c *cloud) {
			c.workers(true)
			guid, create := c.create("it", "postgres/small")
			job := c.accepted("DELETE", instances+guid, "")
			c.accepted("DELETE", instances+guid, "")
			c.workers(false)
			c.job(job, jobComplete)
			c.answers("GET", create, "", textNoJob)
		},
		"with keys that take their time": func(c *cloud) {
			guid := c.plantAt("ferry/work", "it", "postgres/async-bindings", `,"keys":[{"name":"a"}]`)
			c.job(c.accepted("DELETE", instances+guid, ""), jobComplete)
			c.asked("it", unbind, 1)
			c.asked("it", deprovision, 1)
		},
		"with a key that stays": func(c *cloud) {
			guid := c.plantAt("ferry/work", "it", "faults/unbind-rejected", `,"keys":[{"name":"a"}]`)
			job := c.accepted("DELETE", instances+guid, "")
			c.lastOperation(keys+c.do("GET", keys, "").str("resources", 0, "guid"), "delete failed")
			c.job(job, jobPolling)
			c.asked("it", deprovision, 0)
		},
		"purge": func(c *cloud) {
			guid := c.plantAt("ferry/work", "it", "faults/delete-stalls", `,"keys":[{"name":"a"}]`)
			c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
			c.job(c.accepted("DELETE", instances+guid+"?purge=true", ""), jobComplete)
			c.asked("it", deprovision, 0)
			c.lists(instances, "")
		},
	}, func(c *cloud, _ string, run func(*cloud)) { run(c) })
}

// TestKorifiShowsHiddenPlans has an admin-only plan listed, and refused.
func TestKorifiShowsHiddenPlans(t *testing.T) {
	t.Parallel()
	c := start(t, korifi())
	body := c.instanceBody("it", "postgres/large", "")
	c.market(`{"visible_in":{"postgres/large":[]}}`)
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	c.lists("/v3/service_plans?names=large", "large")
	c.answers("POST", instances, body, unprocessableText+"Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
	c.conditions(`{"permissions":{"ferry":"space_auditor"}}`)
	c.answers("POST", instances, body, textForbidden)
}
