package cfsim

import (
	"strings"
	"testing"
	"time"
)

// TestR13EveryOperationTakesTooLong has the description of each kind of
// operation that is given up. The plan allows three seconds.
func TestR13EveryOperationTakesTooLong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ method, last, word string }{
		update:      {"PATCH", "update failed", "update"},
		deprovision: {"DELETE", "delete failed", "deprovision"},
		bind:        {"POST", "create failed", "bind"},
		unbind:      {"DELETE", "delete failed", "unbind"},
	}
	for operation, test := range tests {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.PollInterval = time.Hour // the limit is reached before the first poll
			c := start(t, o)
			guid := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"faults","plan":"hurried","keys":[{"name":"a"}]}`).str("guid")
			key := c.do("GET", "/v3/service_credential_bindings", "").str("resources", 0, "guid")
			c.instruct(`{"operation":"` + operation + `","answer":"accepted","polls":"in progress"}`)
			path, job := "/v3/service_instances/"+guid, ""
			switch operation {
			case bind:
				key, job = c.createKey("b", guid)
				path = "/v3/service_credential_bindings/" + key
			case unbind:
				path = "/v3/service_credential_bindings/" + key
				job = c.must(202, test.method, path, "").header.Get("Location")
			case deprovision:
				c.job(c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "").header.Get("Location"), jobComplete)
				job = c.must(202, test.method, path, "").header.Get("Location")
			default:
				job = c.must(202, test.method, path, `{"parameters":{}}`).header.Get("Location")
			}
			if got, want := jobError(c.job(job, jobFailed)), "290006 CF-JobTimeout: The job execution has timed out."; got != want {
				t.Errorf("job %q, want %q", got, want)
			}
			row := c.lastOperation(path, test.last)
			if got, want := row.str("last_operation", "description"), "Service Broker failed to "+test.word+" within the required time."; got != want {
				t.Errorf("description %q, want %q", got, want)
			}
			if operation == bind {
				eventually(t, "unbind of the orphan", func() bool { return c.calls("it", unbind) == 1 })
			}
		})
	}
}

// TestKeysVanishUnderTheirJobs has the rows of keys go while jobs wait, and a
// second unbind start beside the first.
func TestKeysVanishUnderTheirJobs(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/unbind-stalls")
	stalled, gone := c.readyKey("stalled", guid), c.readyKey("gone", guid)
	c.workers(true)
	unbindTwice := func(key string) (first, second string) {
		path := "/v3/service_credential_bindings/" + key
		return c.must(202, "DELETE", path, "").header.Get("Location"), c.must(202, "DELETE", path, "").header.Get("Location")
	}
	c.instruct(`{"operation":"unbind","binding":"gone","answer":"gone"}`)
	_, second := unbindTwice(stalled)
	_, vanished := unbindTwice(gone)
	c.workers(false)
	if got, want := jobError(c.job(second, jobFailed)), "10009 CF-UnableToPerform: unbind could not be completed: There is an operation in progress for the service binding."; got != want {
		t.Errorf("job %q, want %q", got, want)
	}
	c.job(vanished, jobComplete)

	c.workers(true)
	other := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"other","offering":"postgres","plan":"small"}`).str("guid")
	key, job := c.createKey("late", other)
	c.must(204, "DELETE", "/v3/service_instances/"+other+"?purge=true", "")
	c.workers(false)
	if got, want := jobError(c.job(job, jobFailed)), "10010 CF-ResourceNotFound: The binding could not be found: "+key; got != want {
		t.Errorf("job %q, want %q", got, want)
	}
}

// TestFieldsOfInstances has every field of the list, and those of one instance
// refused where they are not allowed.
func TestFieldsOfInstances(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant("")
	query := "?fields[space]=guid,name,relationships.organization&fields[space.organization]=name,guid&fields[service_plan]=guid,name,relationships.service_offering" +
		"&fields[service_plan.service_offering]=name,guid,description,documentation_url,tags,relationships.service_broker&fields[service_plan.service_offering.service_broker]=name,guid"
	r := c.must(200, "GET", "/v3/service_instances"+query, "")
	got := []string{
		r.str("included", "spaces", 0, "relationships", "organization", "data", "guid"), r.str("included", "organizations", 0, "name"),
		r.str("included", "service_plans", 0, "name"), r.str("included", "service_offerings", 0, "name"), r.str("included", "service_brokers", 0, "name"),
	}
	if want := c.org("ferry") + " ferry small postgres backing-broker"; strings.Join(got, " ") != want {
		t.Errorf("included %q, want %q", got, want)
	}
	checkAnswer(t, c.do("GET", "/v3/service_instances/"+guid+"?fields[space]=relationships.organization", ""),
		"400 10005 CF-BadQueryParameter: The query parameter is invalid: Fields valid keys for 'space' are: 'guid', 'name'")
	const unknown = "400 10005 CF-BadQueryParameter: The query parameter is invalid: Unknown query parameter(s): 'fields[colour]'. Valid parameters are: "
	if got := c.do("GET", "/v3/service_instances?fields[colour]=x", "").cfErr(); !strings.HasPrefix(got, unknown) {
		t.Errorf("an unknown field: %s", got)
	}
	for _, order := range []string{"name", "-created_at", "updated_at"} {
		for _, path := range []string{"service_instances", "service_credential_bindings", "service_plans", "service_offerings", "spaces", "organizations"} {
			c.must(200, "GET", "/v3/"+path+"?order_by="+order, "")
		}
	}
}

// TestForcedVerbs has every kind of job made to fail without a reason.
func TestForcedVerbs(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.workers(true)
	guid := c.plant(`,"keys":[{"name":"a"}]`)
	key := c.do("GET", "/v3/service_credential_bindings", "").str("resources", 0, "guid")
	_, bound := c.createKey("b", guid)
	fail := func(path, job, verb string) {
		t.Helper()
		c.must(200, "PATCH", "/__sim/"+path, `{"job":"FAILED"}`)
		if got, want := jobError(c.job(job, jobFailed)), "10009 CF-UnableToPerform: "+verb+" could not be completed: The job was made to fail."; got != want {
			t.Errorf("job %q, want %q", got, want)
		}
	}
	b := c.do("GET", "/v3/service_credential_bindings?names=b", "").str("resources", 0, "guid")
	fail("keys/"+b, bound, "bind")
	fail("keys/"+key, c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "").header.Get("Location"), "unbind")
	fail("instances/"+guid, c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), "delete")
	fail("instances/"+guid, c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"parameters":{}}`).header.Get("Location"), "update")
	other, job := c.create("other", "postgres/small")
	fail("instances/"+other, job, "provision")
}
