package acceptance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestConformanceBind: PUT …/service_bindings/:binding_id. What it is answered in each state
// stands in TestTableOfBindings.
func TestConformanceBind(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.hold([]clause{
		{"BIND-01 CON-49 an unknown instance is 404", func(c tenant) {
			c.bind(c.id(), c.id(), "postgres/small", "", plain).says(c.t, 404, "NotFound")
			c.bind(c.id(), c.id(), "postgres/small", "", async).says(c.t, 404, "NotFound")
		}},
		{"BIND-02 BIND-03 BIND-45 CAT-39 a plan that cannot be bound", notBindable},
		{"BIND-04 BIND-11 mandatory fields", mandatoryOfBind},
		{"BIND-12 BIND-43 unknown ids, plans of other offerings, parameters that are none", invalidBinds},
		{"BIND-05 BIND-06 BIND-07 BIND-08 BIND-44 what a binding is for", purposes},
		{"BIND-09 parameters reach the backing broker as they came", parametersOfBind},
		{"BIND-13 BIND-24 BIND-25 ASY-05 CON-40 201 with the credentials", boundAtOnce},
		{"BIND-14 BIND-23 CON-44 ready: 200 with the same credentials", boundAgain},
		{"BIND-15 BIND-16 BIND-17 BIND-40 LIM-03 ASY-11 CON-41 202 without binding data, with one operation", boundLater},
		{"BIND-18 CON-43 CON-45 other attributes: 409", otherBindings},
		{"BIND-19 BIND-22 ERR-10 ERR-14 RequiresApp", requiresApp},
		{"BIND-26 each binding has credentials of its own", ownCredentials},
		{"BIND-28 BIND-33 BIND-34 FB-08 log drains and volumes", drainsAndVolumes},
		{"BIND-36 FB-10 nothing needed to connect stands in metadata", func(c tenant) {
			id, binding := c.bound("postgres/small")
			c.bind(id, binding, "postgres/small", "", plain).want(c.t, 200).lacks(c.t, "metadata")
			c.send("GET", bindingAt(id, binding), "").want(c.t, 200).lacks(c.t, "metadata")
		}},
		{"BIND-43 the plan of the request may lag behind", laggingPlan},
		{"BIND-46 CON-42 ASY-01 a slow bind is held until it is done", heldBind},
		{"BIND-20 CON-05 CON-46 CON-03 binds of one instance do not refuse each other", bindsTogether},
		{"CON-51 one binding id under two instances is two bindings", sameBindingID},
		{"CON-48 a failed bind may be sent again", bindAfterFailure},
		{"ERR-13 a bind that the backing broker refuses is 500 and leaves nothing", refusedBind},
		{"FB-12 no asynchronous bind where a binding cannot be fetched", func(c tenant) {
			c.bind(c.ready("drain/standard", ""), c.id(), "drain/standard", "", async).want(c.t, 201)
		}},
	})
	t.Run("CON-50 CON-02 CON-03 CON-04 ERR-09 bind of an instance that is busy", func(t *testing.T) {
		t.Parallel()
		bindOfBusy(start(t, budget(2*time.Second)))
	})
}

func notBindable(c tenant) {
	for _, plan := range []string{"postgres/no-bindings", "queue/standard"} {
		id := c.ready(plan, "")
		c.traceless(c.t, id, "b", func() answer { return c.bind(id, "b", plan, "", plain) }).says(c.t, 400, "BadRequest", "bindings")
	}
}

func mandatoryOfBind(c tenant) {
	id := c.one()
	for _, field := range []string{"service_id", "plan_id"} {
		for _, value := range []string{"", `""`, "null", "1"} {
			body := edited(c.bindBody("postgres/small", ""), field, value)
			c.traceless(c.t, id, "b", func() answer { return c.send("PUT", bindingAt(id, "b"), body) }).says(c.t, 400, "BadRequest", field)
		}
	}
	c.send("PUT", bindingAt(id, "b"), "{").says(c.t, 400, "BadRequest")
}

func invalidBinds(c tenant) {
	id := c.one()
	for _, members := range [][]string{
		{"service_id", `"nope"`}, {"plan_id", `"nope"`}, {"plan_id", quoted(c.plan("queue/standard").plan)}, {"service_id", quoted(c.plan("queue/standard").service)},
		{"parameters", "[]"}, {"bind_resource", "[]"}, {"app_guid", "1"}, {"context", "1"},
	} {
		body := edited(c.bindBody("postgres/small", ""), members...)
		c.traceless(c.t, id, "b", func() answer { return c.send("PUT", bindingAt(id, "b"), body) }).says(c.t, 400, "BadRequest")
	}
}

func purposes(c tenant) {
	id, body := c.one(), c.bindBody("postgres/small", "")
	send := func(binding string, members ...string) answer {
		return c.send("PUT", bindingAt(id, binding), edited(body, members...))
	}
	// Nothing said in every way of saying nothing.
	send("key").want(c.t, 201)
	for _, members := range [][]string{
		{"app_guid", `""`}, {"app_guid", "null"}, {"bind_resource", "{}"}, {"bind_resource", `{"app_guid":""}`},
		{"bind_resource", `{"space_guid":"s","app_annotations":{"a":"b"},"credential_client_id":"c"}`},
		{"context", `{"platform":"cloudfoundry","organization_guid":"o","organization_name":"n","space_guid":"s","space_name":"n"}`},
		{"context", `{"platform":"kubernetes","namespace":"n","clusterid":"c"}`},
	} {
		send("key", members...).want(c.t, 200)
	}
	// An app, in either place.
	send("app", "app_guid", `"app-1"`).want(c.t, 201)
	send("app", "bind_resource", `{"app_guid":"app-1"}`).want(c.t, 200)
	for _, members := range [][]string{{}, {"app_guid", `"app-2"`}, {"bind_resource", `{"route":"a.example.org"}`}} {
		send("app", members...).want(c.t, 409)
	}
}

func parametersOfBind(c tenant) {
	id, binding := c.one(), c.id()
	const parameters = `{"n":1.0,"s":"3","big":9007199254740993}`
	c.bind(id, binding, "postgres/small", parameters, plain).want(c.t, 201)
	if got := string(c.row(id).Keys[0].Parameters); got != parameters {
		c.t.Errorf("the backing broker got %s, want %s", got, parameters)
	}
	c.bind(id, binding, "postgres/small", `{"big":9007199254740993,"s":"3","n":1}`, plain).want(c.t, 200)
}

func boundAtOnce(c tenant) {
	id := c.one()
	a := c.bind(id, c.id(), "postgres/small", "", plain).want(c.t, 201)
	if a.lacks(c.t, "operation"); !strings.Contains(a.credentials(), "postgres://") {
		c.t.Errorf("%s: %s", a.request, a.body)
	}
}

func boundAgain(c tenant) {
	id, binding := c.one(), c.id()
	first := c.bind(id, binding, "postgres/small", `{"a":1}`, plain).want(c.t, 201)
	for _, m := range []mode{plain, async} {
		again := c.bind(id, binding, "postgres/small", `{"a":1.0}`, m).want(c.t, 200)
		if again.lacks(c.t, "operation"); again.credentials() != first.credentials() {
			c.t.Errorf("%s: %s, want the credentials of %s", again.request, again.body, first.body)
		}
	}
	c.askedFor(1, "bind", id, binding)
}

func boundLater(c tenant) {
	s := bindingOn("faults/bind-stalls", false, "in progress")(c)
	for _, parameters := range []string{`{"a":1}`, `{"a":1e0}`} {
		a := c.bind(s.id, s.binding, s.plan, parameters, async).want(c.t, 202)
		a.lacks(c.t, "credentials", "metadata", "endpoints", "syslog_drain_url", "volume_mounts", "parameters")
		if a.operation() != s.operation || len(a.operation()) > 10000 || a.header.Get("Retry-After") == "" {
			c.t.Errorf("%s: %s, want the operation %s", a.request, a.body, s.operation)
		}
	}
	c.askedFor(1, "bind", s.id, s.binding)
}

func otherBindings(c tenant) {
	ready, running := bindingOn("postgres/small", false, "succeeded")(c), bindingOn("faults/bind-stalls", false, "in progress")(c)
	for _, s := range []subject{ready, running} {
		body := c.bindBody(s.plan, s.parameters)
		for _, members := range [][]string{
			{"parameters", `{"a":2}`}, {"parameters", ""}, {"app_guid", `"app"`}, {"bind_resource", `{"route":"a.example.org"}`},
			{"plan_id", quoted(c.plan("postgres/large").plan)}, {"service_id", quoted(c.plan("queue/standard").service)},
		} {
			for _, m := range []mode{async, plain} {
				c.send("PUT", bindingAt(s.id, s.binding)+m.query(), edited(body, members...)).says(c.t, 409, "Conflict")
			}
		}
	}
}

func requiresApp(c tenant) {
	id, binding := c.ready("postgres/app-only", ""), c.id()
	a := c.bind(id, binding, "postgres/app-only", "", plain)
	a.says(c.t, 422, "RequiresApp")
	a.has(c.t, "description", `"This service supports generation of credentials through binding an application only."`)
	c.unbind(id, binding, "postgres/app-only", plain)
	c.gone(id, "postgres/app-only")
}

func ownCredentials(c tenant) {
	id := c.one()
	first, second := c.bind(id, c.id(), "postgres/small", "", plain).want(c.t, 201), c.bind(id, c.id(), "postgres/small", "", plain).want(c.t, 201)
	if first.credentials() == second.credentials() {
		c.t.Errorf("two bindings have the credentials %s", first.credentials())
	}
	if n := len(c.row(id).Keys); n != 2 {
		c.t.Errorf("Cloud Foundry has %d keys", n)
	}
}

func drainsAndVolumes(c tenant) {
	id, binding := c.bound("drain/standard")
	a := c.bind(id, binding, "drain/standard", "", plain).want(c.t, 200)
	var mounts []struct {
		Driver, Mode string
		ContainerDir string `json:"container_dir"`
		DeviceType   string `json:"device_type"`
		Device       struct {
			VolumeID    string          `json:"volume_id"`
			MountConfig json.RawMessage `json:"mount_config"`
		}
	}
	if err := json.Unmarshal(a.fields["volume_mounts"], &mounts); err != nil || len(mounts) != 1 {
		c.t.Fatalf("%s: volume_mounts in %s: %v", a.request, a.body, err)
	}
	m := mounts[0]
	if m.Driver == "" || m.ContainerDir == "" || m.Mode != "rw" || m.DeviceType != "shared" || m.Device.VolumeID == "" || len(m.Device.MountConfig) == 0 {
		c.t.Errorf("a volume mount that lacks something: %s", a.fields["volume_mounts"])
	}
	if !strings.HasPrefix(a.text("syslog_drain_url"), "syslog-tls://") || a.credentials() == "" {
		c.t.Errorf("%s: %s", a.request, a.body)
	}
	plainID, plainBinding := c.bound("postgres/small") // an offering that requires neither
	c.bind(plainID, plainBinding, "postgres/small", "", plain).want(c.t, 200).lacks(c.t, "syslog_drain_url", "volume_mounts")
}

func laggingPlan(c tenant) {
	id := c.one()
	c.changed(id, "postgres/small", `"plan_id":`+quoted(c.plan("postgres/large").plan))
	c.bind(id, c.id(), "postgres/small", "", plain).want(c.t, 201)
	c.bind(id, c.id(), "postgres/large", "", plain).want(c.t, 201)
}

func heldBind(c tenant) {
	const plan = "postgres/async-bindings"
	id, binding := c.ready(plan, ""), c.id()
	answers := together(3, func(int) answer { return c.bind(id, binding, plan, "", plain) })
	for _, a := range answers {
		if a.status != 201 && a.status != 200 || a.credentials() == "" || a.credentials() != answers[0].credentials() {
			c.t.Errorf("%s: %d %s, want the credentials", a.request, a.status, a.body)
		}
	}
	c.askedFor(1, "bind", id, binding)
}

func bindsTogether(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.ready(plan, "")
	for i, a := range together(4, func(i int) answer { return c.bind(id, string(rune('a'+i)), plan, "", async) }) {
		c.succeeds(bindingAt(id, string(rune('a'+i))), a.want(c.t, 202).operation())
	}
	if n := len(c.row(id).Keys); n != 4 {
		c.t.Errorf("Cloud Foundry has %d keys", n)
	}
}

func sameBindingID(c tenant) {
	first, second, binding := c.one(), c.one(), c.id()
	a, b := c.bind(first, binding, "postgres/small", `{"a":1}`, plain).want(c.t, 201), c.bind(second, binding, "postgres/small", `{"a":2}`, plain).want(c.t, 201)
	if a.credentials() == b.credentials() {
		c.t.Error("two instances share credentials")
	}
	c.unbind(first, binding, "postgres/small", plain).want(c.t, 200)
	c.bind(second, binding, "postgres/small", `{"a":2}`, plain).want(c.t, 200)
}

func bindAfterFailure(c tenant) {
	s := bindingOn("faults/bind-fails", false, "failed")(c)
	again := c.bind(s.id, s.binding, s.plan, s.parameters, async).want(c.t, 202)
	if again.operation() == s.operation {
		c.t.Errorf("%s: the operation that failed", again.request)
	}
	c.fails(bindingAt(s.id, s.binding), again.operation())
	c.bind(s.id, s.binding, s.plan, `{"a":9}`, async).says(c.t, 409, "Conflict")
}

func bindOfBusy(c tenant) {
	const word = "ConcurrencyError"
	for _, s := range []subject{creating(c), updating(c)} { // held to the end of the budget, without a trace
		c.traceless(c.t, s.id, "b", func() answer { return c.bind(s.id, "b", s.plan, "", plain) }).says(c.t, 422, word)
	}
	s := deleting(c)
	for _, m := range []mode{plain, async} {
		a := c.traceless(c.t, s.id, "b", func() answer { return c.bind(s.id, "b", s.plan, "", m) })
		a.says(c.t, 422, word)
		a.has(c.t, "description", `"The Service Broker does not support concurrent requests that mutate the same resource."`)
	}
	slow := c.id() // an asynchronous one is accepted and waits
	create := c.put(slow, "postgres/async", "", async).want(c.t, 202).operation()
	bind := c.bind(slow, "b", "postgres/async", "", async).want(c.t, 202).operation()
	c.succeeds(at(slow), create)
	c.succeeds(bindingAt(slow, "b"), bind)
}

func refusedBind(c tenant) {
	id, binding := c.ready("faults/bind-rejected", ""), c.id()
	c.bind(id, binding, "faults/bind-rejected", "", plain).says(c.t, http.StatusInternalServerError, "Backend", "refused by this plan")
	c.eventually("nothing is left", func() bool { return len(c.row(id).Keys) == 0 })
	c.send("GET", bindingAt(id, binding), "").want(c.t, 404)
}
