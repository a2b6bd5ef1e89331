package cfsim

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestControlRefusesBadInput(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, path, body string
		status             int
		part               string
	}{
		"no JSON":                  {"POST", "/faults", `{`, 400, "not what this call takes"},
		"an unknown field":         {"POST", "/faults", `{"acton":"drop"}`, 400, "acton"},
		"no action":                {"POST", "/faults", `{}`, 400, "drop, delay or respond"},
		"a strange moment":         {"POST", "/faults", `{"action":"drop","when":"during"}`, 400, "before or after"},
		"a strange method":         {"POST", "/faults", `{"action":"drop","method":"PUSH"}`, 400, "PUSH"},
		"a relative route":         {"POST", "/faults", `{"action":"drop","route":"v3"}`, 400, "pattern"},
		"negative times":           {"POST", "/faults", `{"action":"drop","times":-1}`, 400, "negative"},
		"an impossible status":     {"POST", "/faults", `{"action":"respond","status":1000}`, 400, "between"},
		"an unknown plan":          {"POST", "/marketplace", `{"hide":["postgres/huge"]}`, 400, "postgres/huge"},
		"a strange version":        {"POST", "/marketplace", `{"maintenance":{"postgres/maintained":"two"}}`, 400, "semantic"},
		"an unknown organization":  {"POST", "/instances", `{"org":"x","space":"s","name":"n","offering":"postgres","plan":"small"}`, 400, "organization"},
		"a nameless instance":      {"POST", "/instances", `{"org":"demo","space":"s","offering":"postgres","plan":"small"}`, 400, "needs"},
		"an unknown plan to plant": {"POST", "/instances", `{"org":"demo","space":"s","name":"n","offering":"postgres","plan":"x"}`, 400, "postgres/x"},
		"a strange last operation": {"POST", "/instances", `{"org":"demo","space":"s","name":"n","offering":"postgres","plan":"small","last_operation":{"type":"x","state":"failed"}}`, 400, "type"},
		"two keys of one name":     {"POST", "/instances", `{"org":"demo","space":"s","name":"n","offering":"postgres","plan":"small","keys":[{"name":"k"},{"name":"k"}]}`, 400, "differ"},
		"an unknown instance":      {"PATCH", "/instances/x", `{"job":"gone"}`, 404, "no instance"},
		"an unknown call":          {"GET", "/elsewhere", ``, 404, "does not know"},
		"a wrong method":           {"GET", "/reset", ``, 404, "does not know"},
	}
	c := start(t, quick())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := c.do(test.method, controlPrefix+test.path, test.body)
			if r.status != test.status || !strings.Contains(r.str("error"), test.part) {
				t.Errorf("got %d %s, want %d and %q", r.status, r.body, test.status, test.part)
			}
		})
	}
}

func TestStateTellsWhatHappened(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/maintained", `,"parameters":{"big":9007199254740993},"metadata":{"labels":{"l":"1"},"annotations":{"a":"2"}}`)
	c.job(c.must(202, "POST", "/v3/service_instances", body).header.Get("Location"), jobComplete)
	guid := c.do("GET", "/v3/service_instances", "").str("resources", 0, "guid")
	c.readyKey("key", guid)
	c.do("GET", "/v3/elsewhere/"+guid, "")
	state := c.state()
	i := state.Instances[0]
	if i.GUID != guid || i.Name != "it" || i.Org != "ferry" || i.Space != "work" || i.Offering != "postgres" || i.Plan != "maintained" ||
		i.MaintenanceVersion != "2.1.0" || i.Labels["l"] != "1" || i.Annotations["a"] != "2" || string(i.Parameters) != `{"big":9007199254740993}` ||
		i.LastOperation.Type != "create" || i.LastOperation.State != "succeeded" || len(i.Keys) != 1 || i.Keys[0].Name != "key" {
		t.Errorf("instance %+v", i)
	}
	for line, want := range map[string]int{"POST /v3/service_instances": 1, "POST /uaa/oauth/token": 1, "GET /v3/elsewhere/:guid": 1} {
		if got := state.Requests[line]; got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
	for line := range state.Requests {
		if strings.Contains(line, controlPrefix) {
			t.Errorf("the control is counted: %s", line)
		}
	}
	if len(state.BrokerCalls) != 2 || state.BrokerCalls[0].Operation != "provision" || state.BrokerCalls[1].Binding != "key" || state.BrokerCalls[1].Org != "ferry" {
		t.Errorf("broker calls %+v", state.BrokerCalls)
	}
}

func TestResetForgets(t *testing.T) {
	t.Parallel()
	o := quick()
	o.JobDelay = 20 * time.Millisecond
	c := start(t, o)
	_, job := c.create("it", "postgres/small")
	c.fault(`{"action":"drop","route":"/nowhere"}`)
	c.must(200, "POST", "/__sim/reset", "")
	state := c.state()
	if len(state.Instances)+len(state.Requests)+len(state.BrokerCalls) != 0 || string(c.do("GET", "/__sim/faults", "").body) != "[]" {
		t.Errorf("something is left: %+v", state)
	}
	checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
	// The worker of before must not come; the one of now must.
	c.ready("it", "postgres/small")
	if n := c.calls("it", provision); n != 1 {
		t.Errorf("%d provisions, want 1", n)
	}
}

func TestMarketplaceChanges(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	change := func(json string) { c.must(200, "POST", "/__sim/marketplace", json) }
	large := func() result { return c.do("GET", "/v3/service_plans?names=large", "") }
	guid := large().str("resources", 0, "guid")
	id := large().str("resources", 0, "broker_catalog", "id")

	change(`{"hide":["postgres/large"]}`)
	if got := large().at("resources", 0); got != nil {
		t.Errorf("a hidden plan is listed: %v", got)
	}
	change(`{"show":["postgres/large"]}`)
	c.ready("it", "postgres/large")
	change(`{"hide":["postgres/large"]}`)
	if got := large().at("resources", 0, "available"); got != false {
		t.Errorf("a hidden plan with an instance: available %v, want false", got)
	}
	body := strings.Replace(c.instanceBody("other", "postgres/small", ""), c.planGUID("postgres/small"), guid, 1)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "422 10008 CF-UnprocessableEntity: Invalid service plan. The service plan 'large' with guid '"+guid+
		"' has been removed from the service broker's catalog. It is not possible to create new service instances using this plan.")
	change(`{"show":["postgres/large"],"reregister":true}`)
	again := c.do("GET", "/v3/service_plans?names=large&available=true", "")
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "422 10008 CF-UnprocessableEntity: Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
	it := c.do("GET", "/v3/service_instances?names=it", "").str("resources", 0, "relationships", "service_plan", "data", "guid")
	if it == guid || it != again.str("resources", 0, "guid") {
		t.Errorf("the instance has the plan %s", it)
	}
	if again.str("resources", 0, "guid") == guid || again.str("resources", 0, "broker_catalog", "id") != id || again.at("resources", 1) != nil {
		t.Errorf("after registering again: %s", again.body)
	}
	change(`{"maintenance":{"postgres/maintained":"2.2.0"}}`)
	if got := c.do("GET", "/v3/service_plans?names=maintained", "").str("resources", 0, "maintenance_info", "version"); got != "2.2.0" {
		t.Errorf("version %q, want 2.2.0", got)
	}
}

func TestPlantedInstance(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := `{"org":"ferry-b","space":"theirs","name":"it","offering":"postgres","plan":"maintained","labels":{"l":"1"},"annotations":{"a":"2"},
		"maintenance_version":"2.0.0","last_operation":{"type":"update","state":"failed"},"keys":[{"name":"k"}]}`
	guid := c.must(200, "POST", "/__sim/instances", body).str("guid")
	row := c.must(200, "GET", "/v3/service_instances/"+guid, "")
	if row.str("maintenance_info", "version") != "2.0.0" || row.at("upgrade_available") != true || row.str("metadata", "labels", "l") != "1" || row.str("last_operation", "type") != "update" {
		t.Errorf("planted %s", row.body)
	}
	key := c.do("GET", "/v3/service_credential_bindings?service_instance_guids="+guid, "").str("resources", 0, "guid")
	c.must(200, "GET", "/v3/service_credential_bindings/"+key+"/details", "")
	if n := len(c.state().BrokerCalls); n != 0 {
		t.Errorf("planting asked the backing broker %d times", n)
	}
	c.must(http.StatusConflict, "POST", "/__sim/instances", body)
}

func TestForcedStates(t *testing.T) {
	t.Parallel()
	t.Run("a failed row under a running job stays so", func(t *testing.T) {
		t.Parallel()
		o := quick()
		o.BrokerDelay = 50 * time.Millisecond
		c := start(t, o)
		guid, job := c.create("it", "postgres/async")
		c.lastOperation("/v3/service_instances/"+guid, "create in progress")
		c.must(200, "PATCH", "/__sim/instances/"+guid, `{"last_operation":{"type":"create","state":"failed","description":"stuck"},"job":"PROCESSING"}`)
		c.ready("other", "postgres/async") // takes as long as the worker of the first one
		row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
		if row.str("last_operation", "description") != "stuck" {
			t.Errorf("row %s", row.body)
		}
		c.job(job, jobProcessing)
	})
	t.Run("a job that vanished leaves the row to its worker", func(t *testing.T) {
		t.Parallel()
		o := quick()
		o.BrokerDelay = 50 * time.Millisecond
		c := start(t, o)
		guid, job := c.create("it", "postgres/async")
		c.must(200, "PATCH", "/__sim/instances/"+guid, `{"job":"gone"}`)
		checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
		c.lastOperation("/v3/service_instances/"+guid, "create succeeded")
		checkAnswer(t, c.do("GET", job, ""), "404 10010 CF-ResourceNotFound: Job not found")
		c.must(http.StatusConflict, "PATCH", "/__sim/instances/"+guid, `{"job":"FAILED"}`)
	})
	t.Run("a failed job leaves an update in progress for ever", func(t *testing.T) {
		t.Parallel()
		c := start(t, quick())
		guid := c.ready("it", "faults/update-stalls")
		job := c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"parameters":{}}`).header.Get("Location")
		c.must(200, "PATCH", "/__sim/instances/"+guid, `{"job":"FAILED"}`)
		if got := jobError(c.job(job, jobFailed)); !strings.HasPrefix(got, "10009 CF-UnableToPerform: update could not be completed: ") {
			t.Errorf("job error %q", got)
		}
		c.lastOperation("/v3/service_instances/"+guid, "update in progress")
		checkAnswer(t, c.do("DELETE", "/v3/service_instances/"+guid, ""), textDelete)
	})
}
