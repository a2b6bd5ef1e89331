package osbtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

func drainsAndVolumes(s suite) {
	const plan = "drain/standard"
	c, id, binding := s.Tenant, s.Ready(plan, ""), s.NewID()
	a := c.Bind(id, binding, plan, "", Async).Want(http.StatusCreated) // its end could not be fetched
	var mounts []struct {
		Driver, Mode string
		ContainerDir string `json:"container_dir"`
		DeviceType   string `json:"device_type"`
		Device       struct {
			VolumeID    string          `json:"volume_id"`
			MountConfig json.RawMessage `json:"mount_config"`
		}
	}
	if err := json.Unmarshal(a.Fields["volume_mounts"], &mounts); err != nil || len(mounts) != 1 {
		c.T.Fatalf("%s: volume_mounts in %s: %v", a.Request, a.Body, err)
	}
	m := mounts[0]
	if m.Driver == "" || m.ContainerDir == "" || m.Mode != "rw" || m.DeviceType != "shared" || m.Device.VolumeID == "" || len(m.Device.MountConfig) == 0 {
		c.T.Errorf("a volume mount that lacks something: %s", a.Fields["volume_mounts"])
	}
	if !strings.HasPrefix(a.Text("syslog_drain_url"), "syslog-tls://") || a.Credentials() == "" {
		c.T.Errorf("%s: %s", a.Request, a.Body)
	}
	a.Has("volume_mounts", string(c.Bind(id, binding, plan, "").Want(http.StatusOK).Fields["volume_mounts"]))
	c.Fetch(BindingPath(id, binding)).Says(http.StatusNotFound, "NotFound")
	c.Bind(s.ready.id, s.ready.binding, s.Bindable, "").Want(http.StatusOK).Lacks("syslog_drain_url", "volume_mounts")
	c.Gone(id, plan)
}

// requiresApp: nothing is left of the bind but what an unbind may take.
func requiresApp(s suite) {
	c, id, binding := s.Tenant, s.Ready("postgres/app-only", ""), s.NewID()
	c.Bind(id, binding, "postgres/app-only", "").Says(422, "RequiresApp")
	c.HasKeys(id)
	c.Unbind(id, binding, "postgres/app-only").Bare(http.StatusOK)
	c.Gone(id, "postgres/app-only")
}

// bindingsOfOne makes several keys of one instance at once. An app makes a binding another one, in whichever place it
// stands.
func bindingsOfOne(s suite) {
	const plan, parameters = "postgres/async-bindings", `{"n":1.50,"big":` + Big + `,"word":"` + Secret + `"}`
	c, id := s.Tenant, s.Ready("postgres/async-bindings", "")
	for i, a := range Together(4, func(i int) Answer { return c.Bind(id, fmt.Sprint("b", i), plan, parameters, Async) }) {
		c.Succeeds(BindingPath(id, fmt.Sprint("b", i)), a.Want(http.StatusAccepted).Operation())
	}
	c.HasKeys(id, "b0", "b1", "b2", "b3")
	seen := map[string]bool{}
	for i := range 4 {
		a := c.Fetch(BindingPath(id, fmt.Sprint("b", i))).Want(http.StatusOK)
		if a.Has("parameters", parameters); seen[a.Credentials()] || !strings.Contains(a.Credentials(), `"big":`+Big) {
			c.T.Errorf("%s: the credentials are another one's, or lack %s: %s", a.Request, Big, a.Credentials())
		}
		seen[a.Credentials()] = true
	}
	for _, key := range c.Row(id).Keys {
		if string(key.Parameters) != parameters {
			c.T.Errorf("the backing broker got the parameters %s, want %s", key.Parameters, parameters)
		}
	}
	c.Bind(id, "b0", plan, strings.Replace(parameters, "1.50", "15e-1", 1)).Want(http.StatusOK)
	body := c.BindingBody("postgres/small", "") // a plan that it does not have, of its offering
	send := func(members ...string) Answer { return c.Send("PUT", BindingPath(id, "app"), edited(body, members...)) }
	send("app_guid", `"app-1"`).Want(http.StatusCreated)
	send("bind_resource", `{"app_guid":"app-1"}`).Want(http.StatusOK)
	for _, members := range [][]string{{}, {"app_guid", `"app-2"`}, {"bind_resource", `{"route":"a.example.org"}`}} {
		send(members...).Says(http.StatusConflict, "Conflict")
	}
	c.Unbind(id, "app", plan).Bare(http.StatusOK)
	send().Want(http.StatusCreated)
	c.Gone(id, plan)
}

func sameBindingID(s suite) {
	const hints = "?service_id=x&plan_id=y"
	c, first, second, binding := s.Tenant, s.Ready("postgres/small", ""), s.Ready("postgres/small", ""), s.NewID()
	a, b := c.Bind(first, binding, "postgres/small", `{"a":1}`).Want(http.StatusCreated), c.Bind(second, binding, "postgres/small", `{"a":2}`).Want(http.StatusCreated)
	if a.Credentials() == b.Credentials() {
		c.T.Error("two instances share credentials")
	}
	c.Send("DELETE", BindingPath(first, binding)+hints, "").Bare(http.StatusOK)
	c.Bind(second, binding, "postgres/small", `{"a":2}`).Want(http.StatusOK)
	c.Succeeds(InstancePath(first), c.Send("DELETE", InstancePath(first)+hints+"&"+incomplete, "").Want(http.StatusAccepted).Operation())
	c.Gone(second, "postgres/small")
}

// deleteWithBindings: with one of ours that took its time, and one of somebody else.
func deleteWithBindings(s suite) {
	const plan = "postgres/async-bindings"
	c := s.Tenant
	id, binding := c.Bound(plan)
	c.Stranger(id, "theirs")
	c.Gone(id, plan)
	c.AskedFor(1, "unbind", id, binding)
	c.AskedFor(1, "unbind", id, "theirs")
	c.AskedFor(1, "deprovision", id, "")
	c.Fetch(BindingPath(id, binding)).Says(http.StatusNotFound, "NotFound")
	c.Unbind(id, binding, plan).Bare(http.StatusGone)
}

// bindOfBusy: a held bind waits for a create or an update to end, and is refused without a trace when its time is over;
// an asynchronous one is accepted and waits. Neither can succeed while the instance is being deleted.
func bindOfBusy(s suite) {
	const word = "ConcurrencyError"
	c, stuck := s.Tenant, []subject{creating(s.Tenant), updating(s.Tenant), deleting(s.Tenant)}
	slow := provisioned(c, "postgres/async")
	waiting := c.Bind(slow.id, "b", slow.plan, "", Async).Want(http.StatusAccepted).Operation()
	c.Bind(slow.id, "held", slow.plan, "").Want(http.StatusCreated)
	c.Succeeds(BindingPath(slow.id, "b"), waiting)
	var held []<-chan Answer
	for _, x := range stuck {
		held = append(held, Later(func() Answer {
			return c.Refused(x.id, "b", func() Answer { return c.Bind(x.id, "b", x.plan, "") })
		}))
	}
	for _, answer := range held {
		a := <-answer
		a.Says(422, word)
	}
	c.Refused(stuck[2].id, "b", func() Answer { return c.Bind(stuck[2].id, "b", stuck[2].plan, "", Async) }).Says(422, word)
	c.Force(c.Row(stuck[1].id).GUID, "update", "failed", "FAILED")
	c.Force(c.Row(stuck[2].id).GUID, "delete", "failed", "FAILED")
	c.Fails(stuck[2].path(), stuck[2].operation)
	for _, x := range append(stuck, slow) {
		c.Gone(x.id, x.plan)
	}
}

// besideBindings: what is asked of an instance is accepted while a key of it is at work.
func besideBindings(s suite) {
	c, removed, changed, unbound := s.Tenant, s.Ready("faults/bind-stalls", ""), s.Ready("faults/bind-stalls", ""), s.Ready("postgres/async-bindings", "")
	stopped, waiting, leaving := runningBind(c, removed, "faults/bind-stalls"), runningBind(c, changed, "faults/bind-stalls"), runningUnbind(c, unbound, "postgres/async-bindings")
	c.Gone(removed, "faults/bind-stalls")
	c.Fails(stopped.path(), stopped.operation)
	c.Updated(changed, waiting.plan, `"parameters":{"a":2}`)
	c.Updated(unbound, leaving.plan, `"parameters":{"a":2}`)
	c.Poll(waiting.path(), waiting.operation).Has("state", `"in progress"`)
	c.ForceKey(c.KeyComes(unbound, leaving.binding, "delete", "in progress").GUID, "delete", "failed", "FAILED")
	c.Fails(leaving.path(), leaving.operation)
	c.Gone(changed, waiting.plan)
	c.Gone(unbound, leaving.plan)
}

func heldBindEnds(s suite) {
	const plan = "faults/bind-stalls"
	c, id, binding := s.Tenant, s.Ready("faults/bind-stalls", ""), s.NewID()
	held := Later(func() Answer { return c.Bind(id, binding, plan, "") })
	c.Works("bind", id, binding)
	c.Unbind(id, binding, plan).Bare(http.StatusOK)
	a := <-held
	a.Says(422, "ConcurrencyError")
	c.HasKeys(id)
	held = Later(func() Answer { return c.Bind(id, binding+"2", plan, "") })
	c.Works("bind", id, binding+"2")
	c.Gone(id, plan)
	if a := <-held; a.Status != http.StatusUnprocessableEntity && a.Status != http.StatusInternalServerError {
		c.T.Errorf("%s: %d %s, want a refusal", a.Request, a.Status, a.Body)
	}
}

// rotate sends a bind that names its predecessor, and further members of the body.
func (c Client) rotate(id, binding, predecessor, members string, changes ...Change) Answer {
	c.T.Helper()
	if members != "" {
		members = "," + members
	}
	return c.Send(http.MethodPut, BindingPath(id, binding), fmt.Sprintf(`{"predecessor_binding_id":%q%s}`, predecessor, members), changes...)
}

// rotations: the successor is a binding of its own, and both work. What the request leaves out is the predecessor's.
func rotations(s suite) {
	const plan, parameters = "postgres/async-bindings", `{"role":"reader","n":1.50}`
	c, id := s.Tenant, s.Ready("postgres/async-bindings", "")
	for _, o := range c.offerings() {
		for _, p := range o.Plans {
			want := map[string]string{"postgres/small": "true", plan: "true"}[o.Name+"/"+p.Name]
			if string(p.BindingRotatable) != want {
				c.T.Errorf("%s/%s: binding_rotatable %q, want %q", o.Name, p.Name, p.BindingRotatable, want)
			}
		}
	}
	old := c.Bind(id, "old", plan, parameters).Want(http.StatusCreated)
	p := c.Plan(plan)
	ids := fmt.Sprintf(`"service_id":%q,"plan_id":%q`, p.ServiceID, p.PlanID)
	next := c.rotate(id, "next", "old", "").Want(http.StatusCreated)
	c.Fetch(BindingPath(id, "next")).Has("parameters", parameters)
	for _, again := range []Answer{c.rotate(id, "next", "old", ""), c.rotate(id, "next", "old", ids), c.rotate(id, "next", "old", "", Async)} {
		if again.Want(http.StatusOK); again.Credentials() != next.Credentials() || again.Credentials() == old.Credentials() {
			c.T.Errorf("%s: the credentials %s, want %s", again.Request, again.Credentials(), next.Credentials())
		}
	}
	c.rotate(id, "next", "next", "").Says(http.StatusConflict, "Conflict")
	c.rotate(id, "next", "old", `"parameters":{"a":1}`).Says(http.StatusConflict, "Conflict")
	c.Bind(id, "next", plan, parameters).Says(http.StatusConflict, "Conflict")
	later := c.rotate(id, "later", "next", "", Async).Want(http.StatusAccepted)
	c.Succeeds(BindingPath(id, "later"), later.Operation())
	c.Fetch(BindingPath(id, "later")).Has("parameters", parameters) // inherited twice
	c.rotate(id, "other", "next", `"parameters":{"role":"writer"}`).Want(http.StatusCreated)
	c.Fetch(BindingPath(id, "other")).Has("parameters", `{"role":"writer"}`)
	if again := c.Bind(id, "old", plan, parameters).Want(http.StatusOK); again.Credentials() != old.Credentials() {
		c.T.Error("the predecessor's credentials have changed")
	}
	c.HasKeys(id, "old", "next", "later", "other")
	c.Unbind(id, "old", plan).Bare(http.StatusOK)
	if a := c.Fetch(BindingPath(id, "next")).Want(http.StatusOK); a.Credentials() != next.Credentials() {
		c.T.Error("without its predecessor the successor has other credentials")
	}
	c.Gone(id, plan)
}

func noPredecessor(s suite) {
	c, id := s.Tenant, s.Ready("postgres/large", "") // its bindings are not rotatable
	c.Bind(id, "large", "postgres/large", "").Want(http.StatusCreated)
	failed := failedBind(c, s.Ready("faults/bind-fails", ""), "faults/bind-fails")
	gone := goneBinding(c, s.Ready("postgres/async-bindings", ""), "postgres/async-bindings")
	for _, test := range []struct{ id, predecessor, says string }{
		{s.ready.id, "nowhere", "predecessor_binding_id"}, {gone.id, gone.binding, "predecessor_binding_id"}, {gone.id, s.ready.binding, "predecessor_binding_id"},
		{id, "large", "cannot be rotated"}, {failed.id, failed.binding, "predecessor_binding_id"},
	} {
		c.Refused(test.id, "next", func() Answer { return c.rotate(test.id, "next", test.predecessor, "") }).Says(http.StatusBadRequest, "BadRequest", test.says)
	}
	c.rotate(c.NewID(), "next", "nowhere", "").Says(http.StatusNotFound, "NotFound")
	c.Gone(id, "postgres/large")
	c.Gone(failed.id, failed.plan)
	c.Gone(gone.id, gone.plan)
}

// between are the clauses about two clients of one broker.
var between = []clause{
	{"HTTP-15 AUTH-01 two platforms never see each other's instances", twoPlatforms},
}

// twoPlatforms: the same ids are two things in two orgs.
func twoPlatforms(s suite) {
	one, two := s.Tenant, *s.Other
	id, binding := one.Bound("postgres/small")
	one.Traceless(id, binding, func() {
		theirs := s
		theirs.Tenant = two
		for _, r := range theirs.routes(id, binding) {
			switch r.name {
			case "catalog", "provision":
			case "deprovision", "unbind":
				theirs.send(r).Bare(http.StatusGone)
			default:
				theirs.send(r).Says(http.StatusNotFound, "NotFound")
			}
		}
	})
	two.Succeeds(InstancePath(id), two.Provision(id, "postgres/large", `{"mine":2}`).Want(http.StatusAccepted).Operation())
	a, b := one.Bind(id, binding, "postgres/small", "").Want(http.StatusOK), two.Bind(id, binding, "postgres/large", "").Want(http.StatusCreated)
	if a.Credentials() == b.Credentials() || one.Row(id).GUID == two.Row(id).GUID || one.Row(id).Plan != "small" {
		one.T.Error("two platforms share credentials or an instance")
	}
	one.Gone(id, "postgres/small")
	two.Fetch(BindingPath(id, binding)).Want(http.StatusOK)
	two.Gone(id, "postgres/large")
}

// logged are the clauses that look into the broker's log.
var logged = []clause{
	{"RID-03 the request identity stands in the log", func(s suite) {
		identity := "audit-" + s.NewID()
		s.Send("GET", "/v2/catalog", "", Header("X-Broker-API-Request-Identity", identity)).Want(http.StatusOK)
		s.Eventually("the log has the identity", func() bool { return s.Logged(identity) })
	}},
	{"OID-02 OID-04 OID-05 OID-06 OID-07 OID-08 OID-09 OID-10 the originator is audited by id alone", originators},
}

func originators(s suite) {
	id := s.NewID()
	user := "pat-" + id
	body := edited(s.InstanceBody("postgres/small", ""), "context", `{"platform":"kubernetes","namespace":"n","clusterid":"c"}`)
	originator := func(value string) Change { return Header("X-Broker-API-Originating-Identity", value) }
	op := s.Send("PUT", InstancePath(id)+"?"+incomplete, body, originator(kubernetes(user))).Want(http.StatusAccepted).Operation()
	cf := basic(`{"user_id":"cf-` + user + `","user_name":"secret name of ` + user + `"}`)
	s.Send("GET", InstancePath(id)+"/last_operation", "", originator("cloudfoundry"+strings.TrimPrefix(cf, "Basic"))).Want(http.StatusOK)
	s.Send("GET", InstancePath(id), "", originator("kubernetes not-base64"))
	for _, parts := range [][]string{{"uid-" + user}, {"cf-" + user}, {id, "originating_identity=unreadable"}} {
		s.Eventually("the log tells "+strings.Join(parts, ", "), func() bool { return s.Logged(parts...) })
	}
	for _, secret := range []string{"secret name of " + user, kubernetes(user), "username"} {
		if s.Logged(secret) {
			s.T.Errorf("the log tells %s", secret)
		}
	}
	s.Succeeds(InstancePath(id), op)
	s.Gone(id, "postgres/small")
}
