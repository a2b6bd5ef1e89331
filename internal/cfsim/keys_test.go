package cfsim

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestDetailsWithoutCredentials has the backing broker bring anything but an
// object of credentials.
func TestDetailsWithoutCredentials(t *testing.T) {
	t.Parallel()
	for _, details := range []string{`{}`, `{"credentials":null}`, `{"credentials":[1]}`, `{"credentials":"text"}`, `{"credentials":{},"syslog_drain_url":"syslog://x"}`} {
		t.Run(details, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.must(200, "POST", "/__sim/broker", `{"operation":"bind","binding":"bare","answer":"accepted","details":`+details+`}`)
			guid := c.ready("it", "postgres/small")
			bare, usual := c.readyKey("bare", guid), c.readyKey("usual", guid)
			path := "/v3/service_credential_bindings/" + bare + "/details"
			if got := string(c.must(200, "GET", path, "").body); got != details {
				t.Errorf("details %s", got)
			}
			full := string(c.must(200, "GET", "/v3/service_credential_bindings/"+usual+"/details", "").body)
			c.must(200, "PATCH", "/__sim/keys/"+usual, `{"details":`+details+`}`)
			if got := string(c.must(200, "GET", "/v3/service_credential_bindings/"+usual+"/details", "").body); got != details {
				t.Errorf("details by the control %s", got)
			}
			c.must(200, "PATCH", "/__sim/keys/"+usual, `{"details":null,"name":"usual"}`)
			if got := string(c.must(200, "GET", "/v3/service_credential_bindings/"+usual+"/details", "").body); got != full {
				t.Errorf("details again %s, want %s", got, full)
			}
		})
	}
	c := start(t, quick())
	c.must(400, "POST", "/__sim/broker", `{"operation":"bind","answer":"done","details":[]}`)
	c.must(400, "POST", "/__sim/broker", `{"operation":"unbind","answer":"done","details":{}}`)
}

// TestParametersAreNotTold has the backing broker keep parameters back while
// all else works.
func TestParametersAreNotTold(t *testing.T) {
	t.Parallel()
	const bad = "502 10001 CF-ServiceBroker"
	for answer, want := range map[string]string{
		"rejected": bad + "RequestRejected: Service broker error: ours", "error": bad + "BadResponse: Service broker error: ours",
		"gone":         bad + "RequestRejected: The service broker rejected the request. Status Code: 410 Gone, Body: {}",
		"malformed":    bad + "ResponseMalformed: " + malformedResponse,
		"unauthorized": bad + "ApiAuthenticationFailed: " + refusedLogin, "unreachable": bad + "ApiUnreachable: " + unreachable,
		"request-timeout": "504 10001 CF-ServiceBrokerApiTimeout: " + timedOutMessage, "silent": "504 10001 CF-HttpClientTimeout: " + timedOutMessage,
		"done": "200",
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid := c.ready("it", "postgres/small")
			key := c.readyKey("k", guid)
			paths := map[string]string{fetchInstance: "/v3/service_instances/" + guid, fetchBinding: "/v3/service_credential_bindings/" + key}
			for operation, path := range paths {
				c.must(200, "POST", "/__sim/broker", `{"operation":"`+operation+`","answer":"`+answer+`","description":"ours"}`)
				checkAnswer(t, c.do("GET", path+"/parameters", ""), want)
				checkAnswer(t, c.do("GET", path+"/parameters", ""), "200")
			}
			c.must(200, "GET", paths[fetchBinding]+"/details", "")
		})
	}
}

// TestFetchTakesNoOtherInstruction leaves what is meant for changes alone, and
// counts no broker call.
func TestFetchTakesNoOtherInstruction(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	c.must(200, "POST", "/__sim/broker", `{"answer":"rejected"}`)
	c.must(200, "GET", "/v3/service_instances/"+guid+"/parameters", "")
	c.must(400, "POST", "/__sim/broker", `{"operation":"fetch_binding","answer":"accepted"}`)
	for _, call := range c.state().BrokerCalls {
		if strings.HasPrefix(call.Operation, "fetch") {
			t.Errorf("call %+v", call)
		}
	}
	if r := c.must(200, "GET", "/__sim/broker", ""); r.at(0, "hits") != json.Number("0") {
		t.Errorf("instructions %s", r.body)
	}
}

// TestDashboardOfAnUpdate has the backing broker move the dashboard.
func TestDashboardOfAnUpdate(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"done", "accepted"} {
		c := start(t, quick())
		c.must(200, "POST", "/__sim/broker", `{"operation":"provision","answer":"done","dashboard_url":"https://one.example.org"}`)
		c.must(200, "POST", "/__sim/broker", `{"operation":"update","answer":"`+answer+`","dashboard_url":"https://two.example.org"}`)
		guid := c.ready("it", "postgres/small")
		path := "/v3/service_instances/" + guid
		if got := c.must(200, "GET", path, "").str("dashboard_url"); got != "https://one.example.org" {
			t.Errorf("dashboard of the create %q", got)
		}
		for range 2 { // the second update brings none, which changes nothing
			c.job(c.must(202, "PATCH", path, `{"parameters":{}}`).header.Get("Location"), jobComplete)
			if got := c.must(200, "GET", path, "").str("dashboard_url"); got != "https://two.example.org" {
				t.Errorf("%s: dashboard of the update %q", answer, got)
			}
		}
	}
}

// TestRetryAfterIsAUnixTime sets the limiter while the simulator runs; a reset
// takes that back.
func TestRetryAfterIsAUnixTime(t *testing.T) {
	t.Parallel()
	var at clock
	o := quick()
	o.Now = at.now
	c := start(t, o)
	c.must(200, "POST", "/__sim/limits", `{"requests":1,"window_ms":60000,"retry_after":"unix"}`)
	c.must(200, "GET", "/v3/spaces", "")
	r := c.do("GET", "/v3/spaces", "")
	if got, want := r.header.Get("Retry-After"), "1773157829"; r.status != 429 || got != want || r.header.Get("X-RateLimit-Reset") != want {
		t.Errorf("%d with Retry-After %q, want 429 with %q", r.status, got, want)
	}
	for _, bad := range []string{`{"requests":-1}`, `{"window_ms":0}`, `{"retry_after":"soon"}`} {
		c.must(400, "POST", "/__sim/limits", bad)
	}
	c.must(200, "POST", "/__sim/reset", "")
	for range 3 {
		c.must(200, "GET", "/v3/spaces", "")
	}
	o.RateLimit, o.RateWindow, o.RetryAfterUnix = 1, time.Minute, true
	c = start(t, o)
	c.must(200, "GET", "/v3/spaces", "")
	if got := c.do("GET", "/v3/spaces", "").header.Get("Retry-After"); got != "1773157829" {
		t.Errorf("Retry-After %q by the option", got)
	}
}

// TestStuckUpdateIsCleanedUp has the clock of a newer Cloud Controller fail an
// update whose worker has died; the backing broker is asked for nothing.
func TestStuckUpdateIsCleanedUp(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	const tick = `{"cleanup":"stuck-updates","instance":"it"}`
	guid := c.ready("it", "faults/update-stalls")
	path := "/v3/service_instances/" + guid
	job := c.must(202, "PATCH", path, `{"parameters":{}}`).header.Get("Location")
	c.job(job, jobPolling)
	c.touched(tick, "0")
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"worker":"dead"}`)
	c.touched(tick, "1")
	if got, want := c.lastOperation(path, "update failed").str("last_operation", "description"), "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job."; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
	c.job(job, jobFailed)
	c.touched(tick, "0")
	if n := c.calls("it", deprovision); n != 0 {
		t.Errorf("%d deprovisions", n)
	}
}

// TestStuckDeletesAreTakenUpAgain has the clock of a newer Cloud Controller go
// on with deletes whose workers have died, under the same jobs.
func TestStuckDeletesAreTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, recursive := range map[string]bool{"the older way": false, "with a cascade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.RecursiveDelete = recursive
			c := start(t, o)
			const tick = `{"cleanup":"stuck-deletes"}`
			guid := c.ready("it", "postgres/small")
			key := c.readyKey("k", guid)
			c.diesDeleting("unbind", "keys/"+key, "/v3/service_credential_bindings/"+key, tick)
			c.diesDeleting("deprovision", "instances/"+guid, "/v3/service_instances/"+guid, tick)
			if c.calls("it", unbind) != 1 || c.calls("it", deprovision) != 1 {
				t.Errorf("calls %+v", c.state().BrokerCalls)
			}
		})
	}
}

// diesDeleting deletes a resource, whose worker dies while it polls, and has the
// clock bring another.
func (c *cloud) diesDeleting(operation, resource, path, tick string) {
	c.t.Helper()
	c.must(200, "POST", "/__sim/broker", `{"operation":"`+operation+`","answer":"accepted","polls":"in progress"}`)
	job := c.must(202, "DELETE", path, "").header.Get("Location")
	c.lastOperation(path, "delete in progress")
	c.touched(tick, "0")
	// The forced operation has the backing broker done with it.
	c.must(200, "PATCH", "/__sim/"+resource, `{"last_operation":{"type":"delete","state":"in progress"},"job":"FAILED"}`)
	c.job(job, jobFailed)
	c.touched(tick, "1")
	eventually(c.t, "the end of the delete", func() bool { return c.do("GET", path, "").status == 404 })
	c.job(job, jobComplete)
}

func (c *cloud) touched(tick, want string) {
	c.t.Helper()
	if r := c.must(200, "POST", "/__sim/clock", tick); string(r.body) != `{"touched":`+want+`}` {
		c.t.Errorf("%s: %s, want %s", tick, r.body, want)
	}
}

const (
	textKeyTaken    = "422 10008 CF-UnprocessableEntity: The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with name 'key'."
	textKeyDeleting = "422 10008 CF-UnprocessableEntity: The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with the name 'key' that is getting deleted or its deletion failed."
	textKeyBusy     = "422 10008 CF-UnprocessableEntity: There is an operation in progress for the service binding."
	textKeyDeleted  = "422 10008 CF-UnprocessableEntity: The service binding is being deleted"
)

func textDetails(state string) string {
	return "404 10010 CF-ResourceNotFound: " + state
}

// keyStates leads a key to each state of table 3.2: the plan, and whether it
// is deleted. "create initial" needs workers that never come.
func startKeyInState(t *testing.T, state string) (instance, guid string, c *cloud) {
	t.Helper()
	plans := map[string]string{
		"create initial": "postgres/small", "create in progress": "faults/bind-stalls", "create succeeded": "postgres/small",
		"create failed": "faults/bind-fails", "delete in progress": "faults/unbind-stalls", "delete failed": "faults/unbind-fails",
	}
	if state == "create initial" {
		c = start(t, idle())
		instance = c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"postgres","plan":"small"}`).str("guid")
	} else {
		c = start(t, quick())
		instance = c.ready("it", plans[state])
	}
	guid, job := c.createKey("key", instance)
	if strings.HasPrefix(state, "delete") {
		c.job(job, jobComplete)
		c.must(202, "DELETE", "/v3/service_credential_bindings/"+guid, "")
	}
	c.lastOperation("/v3/service_credential_bindings/"+guid, state)
	return instance, guid, c
}

// TestKeyStateTable walks table 3.2 cell by cell: post, details, delete, patch.
func TestKeyStateTable(t *testing.T) {
	t.Parallel()
	table := map[string][4]string{
		"create initial":     {textKeyTaken, textDetails("Creation of service key initial"), textKeyBusy, "200"},
		"create in progress": {textKeyTaken, textDetails("Creation of service key in progress"), "202", "200"},
		"create succeeded":   {textKeyTaken, "200", "202", "200"},
		"create failed":      {"202", textDetails("Creation of service key failed"), "202", "200"},
		"delete in progress": {textKeyDeleting, textDetails("Deletion of service key in progress"), textKeyBusy, textKeyDeleted},
		"delete failed":      {textKeyDeleting, textDetails("Deletion of service key failed"), "202", "200"},
	}
	columns := []struct {
		name string
		send func(c *cloud, instance, guid string) result
	}{
		{"POST same name", func(c *cloud, instance, _ string) result {
			return c.do("POST", "/v3/service_credential_bindings", keyBody("key", instance, ""))
		}},
		{"details", func(c *cloud, _, guid string) result {
			return c.do("GET", "/v3/service_credential_bindings/"+guid+"/details", "")
		}},
		{"DELETE", func(c *cloud, _, guid string) result {
			return c.do("DELETE", "/v3/service_credential_bindings/"+guid, "")
		}},
		{"PATCH metadata", func(c *cloud, _, guid string) result {
			return c.do("PATCH", "/v3/service_credential_bindings/"+guid, `{"metadata":{"annotations":{"a":"b"}}}`)
		}},
	}
	for state, wants := range table {
		for i, column := range columns {
			t.Run(state+"/"+column.name, func(t *testing.T) {
				t.Parallel()
				instance, guid, c := startKeyInState(t, state)
				checkAnswer(t, column.send(c, instance, guid), wants[i])
			})
		}
	}
}

func TestPostOverFailedKey(t *testing.T) {
	t.Parallel()
	instance, old, c := startKeyInState(t, "create failed")
	guid, _ := c.createKey("key", instance)
	if guid == old {
		t.Errorf("the new key has the old GUID")
	}
	eventually(t, "orphan unbind", func() bool { return c.calls("it", unbind) == 1 })
}

func TestKeyDetails(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	instance := c.ready("it", "drain/standard")
	key := c.readyKey("key", instance)
	path := "/v3/service_credential_bindings/" + key + "/details"
	first, second := c.must(200, "GET", path, ""), c.must(200, "GET", path, "")
	if string(first.body) != string(second.body) {
		t.Errorf("details differ between reads: %s and %s", first.body, second.body)
	}
	if !strings.Contains(string(first.body), `"big":9007199254740993`) {
		t.Errorf("big is not exact: %s", first.body)
	}
	password := first.str("credentials", "password")
	want := "postgres://" + key + ":" + password + "@db.example.org:5432/" + instance
	if got := first.str("credentials", "uri"); got != want || password == "" {
		t.Errorf("uri %q, want %q", got, want)
	}
	if first.str("syslog_drain_url") == "" || first.at("volume_mounts", 0, "driver") == nil {
		t.Errorf("drain without its extras: %s", first.body)
	}
	plain := c.must(200, "GET", "/v3/service_credential_bindings/"+c.readyKey("key", c.ready("plain", "postgres/small"))+"/details", "")
	if plain.at("syslog_drain_url") != nil || plain.at("volume_mounts") != nil {
		t.Errorf("postgres with extras: %s", plain.body)
	}
}
