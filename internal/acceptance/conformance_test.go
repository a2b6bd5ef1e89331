package acceptance

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// TestConformance plays the clauses of OSB 2.17 on a process, over plain HTTP (HTTP-18).
func TestConformance(t *testing.T) {
	t.Parallel()
	c := start(t, budget(20*time.Second), func(s *settings) {
		s.config.Clients[0].Catalog.Rotatable = []string{"postgres/small", "postgres/async-bindings"}
		s.config.Limits.ConcurrentRequests = 4000
	})
	osbtest.Run(t, osbtest.Target{
		Tenant: c.Tenant, Other: &c.other, Bindable: "postgres/small", Crowd: 20, Repeats: 5, Beside: 4, Verbatim: true,
		Logged: func(parts ...string) bool { return len(c.journal.find(slog.LevelInfo, parts...)) > 0 },
	})
}

// TestQuirks: what a client's configuration may ask for in the place of our own choice.
func TestQuirks(t *testing.T) {
	t.Parallel()
	c := start(t, func(s *settings) {
		s.config.Clients[0].Quirks.MissingVersion, s.config.Clients[0].Quirks.FinishedDelete = 412, 410
	})
	t.Run("HDR-03 a missing version is 412", func(t *testing.T) {
		c := c.in(t)
		missing := osbtest.Header("X-Broker-API-Version", "")
		c.Send("GET", "/v2/catalog", "", missing).Says(412, "MissingVersion", "X-Broker-API-Version")
		c.other.Send("GET", "/v2/catalog", "", missing).Want(400)
	})
	t.Run("LOI-07 LOB-06 a finished delete that is polled is 410", func(t *testing.T) {
		c := c.in(t)
		id, binding := c.Bound("postgres/small")
		unbind := c.Unbind(id, binding, "postgres/small", osbtest.Async).Want(202).Operation()
		c.Eventually("the unbind ends", func() bool { return c.Poll(bindingAt(id, binding), unbind).Status == 410 })
		remove := c.Deprovision(id, "postgres/small").Want(202).Operation()
		c.Eventually("the delete ends", func() bool { return c.Poll(at(id), remove).Status == 410 })
		c.Poll(at(id), remove).Bare(410)
		id = c.other.Ready("postgres/small", "")
		c.other.Gone(id, "postgres/small")
	})
}

// TestMarketplaceChanges: plans come and go in Cloud Foundry while their instances live.
func TestMarketplaceChanges(t *testing.T) {
	t.Parallel()
	t.Run("CAT-02 CAT-03 CAT-04 CAT-18 PROV-16 a plan leaves and comes back, ids stay", func(t *testing.T) {
		t.Parallel()
		planLeaves(start(t, restless, warnings)) // a fetch may see half a registration
	})
	t.Run("MI-05 MI-13 MI-14 UPD-12 an older instance is brought to the plan's version", func(t *testing.T) {
		t.Parallel()
		maintained(start(t, restless, warnings))
	})
}

func planLeaves(c tenant) {
	const plan = "postgres/large"
	id, binding := c.Bound(plan)
	stays := c.Ready("postgres/small", `{"a":1}`)
	c.Control("POST", "/marketplace", `{"hide":["postgres/large"],"reregister":true}`)
	c.Eventually("the plan leaves the catalog", func() bool { _, found := c.Catalog()[plan]; return !found })
	for name, p := range c.Catalog() {
		if c.Plans[name] != p {
			c.t.Errorf("%s: the ids %+v, before %+v", name, p, c.Plans[name])
		}
	}
	fresh := c.NewID()
	c.Refused(fresh, "", func() answer { return c.Provision(fresh, plan, "") }).Says(400, "BadRequest", "plan")
	// What has the plan goes on with it.
	c.Provision(id, plan, "").Bare(200)
	c.Provision(id, plan, `{"a":2}`).Says(409, "Conflict")
	c.Fetch(at(id)).Want(200)
	c.Bind(id, binding, plan, "").Want(200)
	c.Bind(id, c.NewID(), plan, "").Want(201)
	// Cloud Foundry changes nothing of a plan that is hidden; that is the operation's failure.
	c.Fails(at(id), c.Update(id, plan, `"parameters":{"a":2}`).Want(202).Operation(), "inaccessible plan")
	c.Update(stays, "postgres/small", `"plan_id":"no-such-plan"`).Says(400, "BadRequest", "plan")
	c.Updated(stays, "postgres/small", `"parameters":{"a":2}`)
	c.Unbind(id, binding, plan).Bare(200)
	c.Gone(id, plan)
	c.Gone(stays, "postgres/small")
	c.Control("POST", "/marketplace", `{"show":["postgres/large"]}`)
	c.Eventually("the plan comes back", func() bool { return c.Catalog()[plan] == c.Plans[plan] })
}

func maintained(c tenant) {
	const plan = "postgres/maintained"
	id := c.Ready(plan, "")
	c.Fetch(at(id)).Want(200).Has("maintenance_info", `{"version":"2.1.0"}`)
	c.Control("POST", "/marketplace", `{"maintenance":{"postgres/maintained":"2.2.0"}}`)
	c.Eventually("the catalog has the new version", func() bool { return c.MaintenanceVersion(plan) == "2.2.0" })
	c.Update(id, plan, osbtest.Version("2.0.0")).Says(422, "MaintenanceInfoConflict")
	c.Update(id, plan, osbtest.Version("2.1.0")).Bare(200) // the one that it has is no change
	members := osbtest.Version("2.2.0") + `,"previous_values":{"plan_id":"stale","maintenance_info":{"version":"0.0.1"}}`
	c.Updated(id, plan, members)
	c.Fetch(at(id)).Want(200).Has("maintenance_info", `{"version":"2.2.0"}`)
	if row := c.Row(id); row.MaintenanceVersion != "2.2.0" {
		c.t.Errorf("Cloud Foundry has the version %s", row.MaintenanceVersion)
	}
	c.Update(id, plan, members).Bare(200)
}

// TestNobodyWaits (HTTP-19): no request of an instance waits for Cloud Foundry, which is held up here.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	c := start(t)
	id := c.Ready("postgres/small", "")
	const held = 10 * time.Second
	c.Disturb(fault{When: "before", Action: "delay", DelayMS: int(held / time.Millisecond)})
	began := time.Now()
	c.Provision(c.NewID(), "postgres/small", "").Want(202)
	c.Update(id, "postgres/small", `"parameters":{"a":2}`).Want(202)
	c.Update(id, "postgres/small", `"parameters":{"a":3}`).Says(422, "ConcurrencyError")
	c.Deprovision(id, "postgres/small").Want(202)
	if took := time.Since(began); took >= held {
		t.Errorf("four requests took %s, as if they had waited for Cloud Foundry", took)
	}
}

// TestMetadata: the simulated backing broker has none for instances, so Cloud Foundry's answer about one whose create
// stalls is replaced by one that says that it has ended (PROV-29, FI-09, UPD-31, CON-10).
func TestMetadata(t *testing.T) {
	t.Parallel()
	c := start(t)
	id, op := c.starts("faults/create-stalls")
	c.Works("provision", id, "")
	guid := c.Row(id).GUID
	row := finished(c.Operator("GET", "/v3/service_instances/"+guid, "").Want(200).Body)
	list := strings.Replace(c.Operator("GET", "/v3/service_instances?names="+id, "").Want(200).Body, "\n", "", -1)
	var page map[string]json.RawMessage
	answer{T: t, Body: list}.Decode(&page)
	c.Disturb(fault{Action: "respond", Status: 200, Body: `{"pagination":` + string(page["pagination"]) + `,"resources":[` + row + `]}`}.On("GET", instances, 0))
	c.Disturb(fault{Action: "respond", Status: 200, Body: row}.On("GET", instance, 0))
	c.Succeeds(at(id), op)
	c.heal()
	c.Force(guid, "create", "succeeded", "COMPLETE")
	for _, a := range []answer{c.Provision(id, "faults/create-stalls", `{"a":1}`), c.Fetch(at(id))} {
		a.Want(http.StatusOK).Has("metadata", `{"labels":{"size":"big"},"attributes":{"zone":"a"}}`)
	}
}

// finished is a row whose create has succeeded, with what the backing broker says of it.
func finished(row string) string {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(row), &fields); err != nil {
		panic(err) // a fault of the test
	}
	fields["broker_provided_metadata"] = json.RawMessage(`{"labels":{"size":"big"},"attributes":{"zone":"a"}}`)
	fields["last_operation"] = json.RawMessage(`{"type":"create","state":"succeeded","description":"","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`)
	text, _ := json.Marshal(fields) // it was JSON before
	return string(text)
}
