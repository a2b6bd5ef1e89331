package cfsim

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Where instances and keys are.
const (
	instances = "/v3/service_instances/"
	keys      = "/v3/service_credential_bindings/"
)

func (c *cloud) org(name string) string { return fixedGUID("organization", name) }

// space makes a space in the organization ferry, or finds it.
func (c *cloud) space(name string) string {
	c.t.Helper()
	found := c.do("GET", "/v3/spaces?names="+name+"&organization_guids="+c.org("ferry"), "").str("resources", 0, "guid")
	if found != "" {
		return found
	}
	return c.must(201, "POST", "/v3/spaces", spaceBody(name, c.org("ferry"))).str("guid")
}

func spaceBody(name, org string) string {
	return `{"name":"` + name + `","relationships":{"organization":{"data":{"guid":"` + org + `"}}}}`
}

func (c *cloud) planGUID(name string) string {
	c.t.Helper()
	offeringName, planName, _ := strings.Cut(name, "/")
	guid := c.do("GET", "/v3/service_plans?names="+planName+"&service_offering_names="+offeringName, "").str("resources", 0, "guid")
	if guid == "" {
		c.t.Fatalf("no plan %s", name)
	}
	return guid
}

// planPatch writes PLAN(x/y) out.
func (c *cloud) planPatch(body string) string {
	name, isPlan := strings.CutPrefix(body, "PLAN(")
	if !isPlan {
		return body
	}
	return `{"relationships":{"service_plan":{"data":{"guid":"` + c.planGUID(strings.TrimSuffix(name, ")")) + `"}}}}`
}

// instanceBody is a create in the space "work"; more is appended to its fields.
func (c *cloud) instanceBody(name, plan, more string) string {
	c.t.Helper()
	return `{"type":"managed","name":"` + name + `","relationships":{"space":{"data":{"guid":"` + c.space("work") + `"}},` +
		`"service_plan":{"data":{"guid":"` + c.planGUID(plan) + `"}}}` + more + `}`
}

// create posts an instance and returns its GUID and the path of its job.
func (c *cloud) create(name, plan string) (guid, job string) {
	c.t.Helper()
	job = c.accepted("POST", "/v3/service_instances", c.instanceBody(name, plan, ""))
	return c.do("GET", "/v3/service_instances?names="+name, "").str("resources", 0, "guid"), job
}

// ready creates an instance and waits for it.
func (c *cloud) ready(name, plan string) string {
	c.t.Helper()
	guid, job := c.create(name, plan)
	c.job(job, jobComplete)
	return guid
}

func keyBody(name, instance, more string) string {
	return `{"type":"key","name":"` + name + `","relationships":{"service_instance":{"data":{"guid":"` + instance + `"}}}` + more + `}`
}

func (c *cloud) createKey(name, instance string) (guid, job string) {
	c.t.Helper()
	job = c.accepted("POST", "/v3/service_credential_bindings", keyBody(name, instance, ""))
	return c.do("GET", "/v3/service_credential_bindings?names="+name+"&service_instance_guids="+instance, "").str("resources", 0, "guid"), job
}

func (c *cloud) readyKey(name, instance string) string {
	c.t.Helper()
	guid, job := c.createKey(name, instance)
	c.job(job, jobComplete)
	return guid
}

// rolePost is the body of a role for a user that is given as JSON.
func rolePost(kind, place, guid, user string) string {
	return `{"type":"` + kind + `","relationships":{"` + place + `":{"data":{"guid":"` + guid + `"}},"user":{"data":` + user + `}}}`
}

// operate sends the request that has the backing broker do an operation for an instance "it" of a plan, and returns the
// paths of what it is about and of its job. The backing broker was asked for nothing before.
func (c *cloud) operate(operation, plan string) (path, job string) {
	c.t.Helper()
	if operation == provision {
		guid, job := c.create("it", plan)
		return instances + guid, job
	}
	guid := c.plantAt("ferry/work", "it", plan, map[bool]string{true: `,"keys":[{"name":"k"}]`}[operation == unbind])
	switch operation {
	case update:
		return instances + guid, c.accepted("PATCH", instances+guid, `{"parameters":{}}`)
	case deprovision:
		return instances + guid, c.accepted("DELETE", instances+guid, "")
	case bind:
		key, job := c.createKey("k", guid)
		return keys + key, job
	}
	key := keys + c.do("GET", keys, "").str("resources", 0, "guid")
	return key, c.accepted("DELETE", key, "")
}

// plant writes an instance "it" of postgres/small into ferry/work.
func (c *cloud) plant(more string) string {
	c.t.Helper()
	return c.plantAt("ferry/work", "it", "postgres/small", more)
}

// plantAt writes an instance that was not asked for into "ORG/SPACE".
func (c *cloud) plantAt(place, name, plan, more string) string {
	c.t.Helper()
	org, space, _ := strings.Cut(place, "/")
	offering, plan, _ := strings.Cut(plan, "/")
	return c.must(200, "POST", "/__sim/instances", `{"org":"`+org+`","space":"`+space+`","name":"`+name+`","offering":"`+offering+`","plan":"`+plan+`"`+more+`}`).str("guid")
}

// force puts a row, as "instances/GUID" or "keys/GUID", into a state.
func (c *cloud) force(row, json string) { c.t.Helper(); c.must(200, "PATCH", "/__sim/"+row, json) }

// instruct tells the backing broker what to answer.
func (c *cloud) instruct(json string) { c.t.Helper(); c.must(200, "POST", "/__sim/broker", json) }

// fault adds one.
func (c *cloud) fault(json string) { c.t.Helper(); c.must(200, "POST", "/__sim/faults", json) }

// conditions changes what holds in a cloud.
func (c *cloud) conditions(json string) { c.t.Helper(); c.must(200, "POST", "/__sim/conditions", json) }

// market changes the marketplace.
func (c *cloud) market(json string) { c.t.Helper(); c.must(200, "POST", "/__sim/marketplace", json) }

// workers are kept from taking up jobs, or let go.
func (c *cloud) workers(held bool) {
	c.t.Helper()
	c.must(200, "POST", "/__sim/workers", fmt.Sprintf(`{"held":%t}`, held))
}

// touched runs a clean-up of the clock, and compares how many rows it was about.
func (c *cloud) touched(cleanup string, want int) {
	c.t.Helper()
	c.must(200, "POST", "/__sim/clock", `{"cleanup":"`+cleanup+`","instance":"it"}`).reads(c.t, "touched="+strconv.Itoa(want))
}

// job waits until a job has a state, and fails the test when it ends otherwise.
func (c *cloud) job(location, state string) result {
	c.t.Helper()
	var last result
	eventually(c.t, "job "+state, func() bool {
		last = c.must(200, "GET", location, "")
		got := last.str("state")
		if got != state && (got == jobComplete || got == jobFailed) {
			c.t.Fatalf("job ended as %s %s, want %s", got, last.body, state)
		}
		return got == state
	})
	return last
}

// fails waits until a job has failed, and compares its first error, written as "code title: detail".
func (c *cloud) fails(job, want string) {
	c.t.Helper()
	if got := jobError(c.job(job, jobFailed)); got != want {
		c.t.Errorf("job failed with %q, want %q", got, want)
	}
}

// jobError renders the first error of a job.
func jobError(r result) string {
	return fmt.Sprint(r.at("errors", 0, "code")) + " " + r.str("errors", 0, "title") + ": " + r.str("errors", 0, "detail")
}

// lastOperation waits until a resource has one, written as "type state".
func (c *cloud) lastOperation(path, want string) result {
	c.t.Helper()
	var last result
	eventually(c.t, path+" "+want, func() bool {
		last = c.must(200, "GET", path, "")
		return last.str("last_operation", "type")+" "+last.str("last_operation", "state") == want
	})
	return last
}

// described waits until a resource has a last operation, and compares its description.
func (c *cloud) described(path, last, want string) {
	c.t.Helper()
	if got := c.lastOperation(path, last).str("last_operation", "description"); got != want {
		c.t.Errorf("%s: description %q, want %q", path, got, want)
	}
}

// gone waits until a resource is not found any more.
func (c *cloud) gone(path string) {
	c.t.Helper()
	eventually(c.t, "the end of "+path, func() bool { return c.do("GET", path, "").status == 404 })
}

// asked waits until the backing broker was asked that often for an instance.
func (c *cloud) asked(instance, operation string, times int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%s of %s, %d times", operation, instance, times), func() bool {
		n := c.calls(instance, operation)
		if n > times {
			c.t.Fatalf("%d times %s of %s, want %d", n, operation, instance, times)
		}
		return n == times
	})
}

// eventually polls a condition that workers bring about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		<-time.After(time.Millisecond)
	}
}

// state is what GET /__sim/state says, as far as tests look into it by code.
func (c *cloud) state() (state struct {
	Instances   []struct{ Name string }
	Requests    map[string]int
	BrokerCalls []stateCall `json:"broker_calls"`
}) {
	c.t.Helper()
	if r := c.must(200, "GET", "/__sim/state", ""); !r.into(&state) {
		c.t.Fatalf("state: %s", r.body)
	}
	return state
}

// calls counts what the backing broker was asked for an instance.
func (c *cloud) calls(instance, operation string) int {
	c.t.Helper()
	n := 0
	for _, call := range c.state().BrokerCalls {
		if call.Instance == instance && call.Operation == operation {
			n += call.Count
		}
	}
	return n
}
