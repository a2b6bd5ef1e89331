package acceptance

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
)

// TestDecided has one test for each point under "Decided" in docs/osb-choices.md.
func TestDecided(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"1_finished_deletes_are_remembered_and_superseded_creates_failed": decidedPolls,
		"1_polls_come_from_the_record_when_Cloud_Foundry_is_down":         decidedPollsInOutage,
		"2_requests_never_wait_for_Cloud_Foundry":                         decidedNoWaiting,
		"2_refusals_of_the_backend_become_the_operations_failure":         decidedRefusals,
		"3_absent_things_and_empty_updates_without_the_flag":              decidedWithoutFlag,
		"4_deletes_and_updates_are_accepted_while_something_runs":         decidedOverlaps,
		"5_binds_while_the_instance_is_busy":                              decidedBusyInstance,
		"6_synchronous_binds_that_fail":                                   decidedFailedBinds,
		"7_membership_counts_for_what_is_new":                             decidedMembership,
		"8_keys_of_others_go_with_the_instance":                           decidedForeignKeys,
		"9_empty_parameters_are_no_change":                                decidedEmptyParameters,
		"10_an_originating_identity_that_cannot_be_decoded":               decidedIdentity,
		"11_methods_paths_and_Retry-After":                                decidedRoutes,
		"12_parameters_in_force_are_the_last_ones":                        decidedReplacedParameters,
		"13_log_levels":        decidedLevels,
		"14_numbers_are_exact": decidedNumbers,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t) })
	}
}

// LOI-07, B1, B3, CON-32.
func decidedPolls(t *testing.T) {
	c := start(t)
	s := creating(c)
	deletion := c.delete(s.id, s.plan, async).want(t, http.StatusAccepted).operation()
	c.fails(at(s.id), s.operation, "cancelled")
	c.succeeds(at(s.id), deletion)
	for range 2 { // and again, since nothing is forgotten by being asked
		c.fails(at(s.id), s.operation, "cancelled")
		for _, op := range []string{deletion, "", "no-such-operation"} {
			if a := c.poll(at(s.id), op); a.status != http.StatusOK || a.state() != "succeeded" {
				t.Errorf("%s: %d %s, want 200 succeeded", a.request, a.status, a.body)
			}
		}
	}
	c.poll(at("never-seen"), "").says(t, http.StatusNotFound, "NotFound")
	c.poll(at("never-seen"), "delete-0123").want(t, http.StatusGone)
}

func decidedPollsInOutage(t *testing.T) {
	c := start(t, warnings)
	s, ready := creating(c), readyInstance(c)
	id, binding := c.bound("postgres/small")
	c.disturb(html(http.StatusServiceUnavailable))
	for range 3 {
		if a := c.poll(at(s.id), s.operation); a.status != http.StatusOK || a.state() != "in progress" {
			t.Errorf("%s: %d %s, want in progress", a.request, a.status, a.body)
		}
		c.succeeds(at(ready.id), ready.operation)
		if a := c.poll(bindingAt(id, binding), ""); a.status != http.StatusOK || a.state() != "succeeded" {
			t.Errorf("%s: %d %s, want succeeded", a.request, a.status, a.body)
		}
	}
	c.heal()
}

// html is what stands in front of a Cloud Foundry that is down: a page on every route.
func html(status int) fault {
	return fault{Action: "respond", Status: status, Body: "<html><body>unavailable</body></html>", Headers: map[string]string{"Content-Type": "text/html"}}
}

// HTTP-19: every call to Cloud Foundry is held up; the answers are not.
func decidedNoWaiting(t *testing.T) {
	c := start(t)
	s := readyInstance(c)
	const held = 10 * time.Second
	c.disturb(fault{When: "before", Action: "delay", DelayMS: int(held / time.Millisecond)})
	began := time.Now()
	c.put(c.id(), "postgres/small", "", async).want(t, http.StatusAccepted)
	c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted)
	c.patch(s.id, s.plan, `"parameters":{"a":3}`, async).says(t, http.StatusUnprocessableEntity, "ConcurrencyError")
	c.delete(s.id, s.plan, async).want(t, http.StatusAccepted)
	if took := time.Since(began); took >= held {
		t.Errorf("four requests took %s, as if they had waited for Cloud Foundry", took)
	}
}

func decidedRefusals(t *testing.T) {
	c := start(t)
	id := c.id()
	op := c.put(id, "faults/create-rejected", "", async).want(t, http.StatusAccepted).operation()
	c.fails(at(id), op, "The create is refused by this plan")
	s := readyOn(c, "faults/update-rejected")
	op = c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted).operation()
	c.fails(at(s.id), op, "The update is refused by this plan")
	s = readyOn(c, "faults/delete-rejected")
	op = c.delete(s.id, s.plan, async).want(t, http.StatusAccepted).operation()
	c.fails(at(s.id), op, "The delete is refused by this plan")
	s = readyOn(c, "faults/delete-fails-once")
	op = c.delete(s.id, s.plan, async).want(t, http.StatusAccepted).operation()
	c.fails(at(s.id), op, "The delete fails with this plan")
	c.gone(s.id, s.plan)
	c.nothingLeft(s.id)
}

// B4, B5, C3.
func decidedWithoutFlag(t *testing.T) {
	c := start(t)
	s := readyInstance(c)
	c.delete("absent", s.plan, plain).says(t, http.StatusUnprocessableEntity, "AsyncRequired")
	c.delete("absent", s.plan, async).want(t, http.StatusGone)
	c.send("DELETE", at("absent")+async.query(), "").says(t, http.StatusBadRequest, "BadRequest", "service_id", "plan_id")
	for _, m := range []mode{plain, async} {
		c.unbind(s.id, "absent", s.plan, m).want(t, http.StatusGone)
		c.send("DELETE", bindingAt(s.id, "absent")+m.query(), "").want(t, http.StatusGone)
		c.unbind("absent", "absent", s.plan, m).want(t, http.StatusGone)
	}
	c.patch(s.id, s.plan, "", plain).says(t, http.StatusUnprocessableEntity, "AsyncRequired")
	c.patch(s.id, s.plan, "", async).want(t, http.StatusOK)
	a := c.put(c.id(), s.plan, "", plain)
	a.says(t, http.StatusUnprocessableEntity, "AsyncRequired")
	if got := a.text("description"); got != "This service plan requires client support for asynchronous service operations." {
		t.Errorf("description %q, want the one that platforms compare (ERR-14)", got)
	}
}

// CON-29 to CON-32, CON-39.
func decidedOverlaps(t *testing.T) {
	c := start(t)
	t.Run("DELETE during create", func(t *testing.T) {
		c := c.parallel(t)
		s := creating(c)
		c.gone(s.id, s.plan)
		c.nothingLeft(s.id)
	})
	t.Run("DELETE during update waits for it", func(t *testing.T) {
		c := c.parallel(t)
		s := updating(c)
		op := c.delete(s.id, s.plan, async).want(t, http.StatusAccepted).operation()
		c.fails(at(s.id), s.operation)
		c.force(c.row(s.id).GUID, "update", "succeeded", "COMPLETE")
		c.succeeds(at(s.id), op)
		c.nothingLeft(s.id)
	})
	t.Run("DELETE during bind", func(t *testing.T) {
		c := c.parallel(t)
		s := bindingOn("faults/bind-stalls", false, "in progress")(c)
		op := c.delete(s.id, s.plan, async).want(t, http.StatusAccepted).operation()
		c.fails(bindingAt(s.id, s.binding), s.operation)
		c.succeeds(at(s.id), op)
		c.nothingLeft(s.id)
	})
	t.Run("PATCH during bind", func(t *testing.T) {
		c := c.parallel(t)
		s := bindingOn("faults/bind-stalls", false, "in progress")(c)
		op := c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted).operation()
		c.succeeds(at(s.id), op)
	})
	t.Run("PATCH during unbind", func(t *testing.T) {
		c := c.parallel(t)
		s := bindingOn("faults/unbind-stalls", true, "in progress")(c)
		op := c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted).operation()
		c.succeeds(at(s.id), op)
	})
}

// CON-50, A11.
func decidedBusyInstance(t *testing.T) {
	c := start(t, budget(2*time.Second))
	t.Run("asynchronous, during create and update", func(t *testing.T) {
		c := c.parallel(t)
		s, binding := created(c, "postgres/async"), c.id()
		op := c.bind(s.id, binding, s.plan, "", async).want(t, http.StatusAccepted).operation()
		c.succeeds(bindingAt(s.id, binding), op)
		c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted)
		binding = c.id()
		op = c.bind(s.id, binding, s.plan, "", async).want(t, http.StatusAccepted).operation()
		c.succeeds(bindingAt(s.id, binding), op)
	})
	t.Run("synchronous, held until the instance is there", func(t *testing.T) {
		c := c.parallel(t)
		s := created(c, "postgres/async")
		c.bind(s.id, c.id(), s.plan, "", plain).want(t, http.StatusCreated)
		c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted)
		c.bind(s.id, c.id(), s.plan, "", plain).want(t, http.StatusCreated)
	})
	for name, bring := range map[string]func(tenant) subject{"creating": creating, "updating": updating, "deleting": deleting} {
		t.Run("synchronous, and refused without a trace: "+name, func(t *testing.T) {
			c := c.parallel(t)
			s := bring(c)
			binding := c.id()
			a := c.traceless(t, s.id, binding, func() answer { return c.bind(s.id, binding, s.plan, "", plain) })
			a.says(t, http.StatusUnprocessableEntity, "ConcurrencyError")
			c.poll(bindingAt(s.id, binding), "").says(t, http.StatusNotFound, "NotFound")
		})
	}
	t.Run("deleting, asynchronous", func(t *testing.T) {
		c := c.parallel(t)
		s := deleting(c)
		c.bind(s.id, c.id(), s.plan, "", async).says(t, http.StatusUnprocessableEntity, "ConcurrencyError")
	})
	t.Run("the work of the request itself", func(t *testing.T) {
		c := c.parallel(t)
		id := c.ready("faults/bind-stalls", "")
		c.bind(id, c.id(), "faults/bind-stalls", "", plain).says(t, http.StatusInternalServerError, "OutOfTime")
	})
}

// B (bind table), ERR-10, CON-54.
func decidedFailedBinds(t *testing.T) {
	c := start(t)
	for plan, why := range map[string]string{"faults/bind-rejected": "The bind is refused by this plan", "faults/bind-fails": "The bind fails with this plan"} {
		t.Run(plan, func(t *testing.T) {
			c := c.parallel(t)
			id, binding := c.ready(plan, ""), c.id()
			c.bind(id, binding, plan, "", plain).says(t, http.StatusInternalServerError, "Backend", why)
			if row := c.row(id); len(row.Keys) != 0 {
				t.Errorf("leftovers: %+v", row.Keys)
			}
			c.unbind(id, binding, plan, plain).want(t, http.StatusOK)
		})
	}
	t.Run("cancelled by an unbind", func(t *testing.T) {
		c := c.parallel(t)
		id, binding := c.ready("faults/bind-stalls", ""), c.id()
		held := later(func() answer { return c.bind(id, binding, "faults/bind-stalls", "", plain) })
		c.works("bind", id, binding)
		c.unbind(id, binding, "faults/bind-stalls", plain).want(t, http.StatusOK)
		(<-held).says(t, http.StatusUnprocessableEntity, "ConcurrencyError")
		if row := c.row(id); len(row.Keys) != 0 {
			t.Errorf("leftovers: %+v", row.Keys)
		}
	})
	t.Run("RequiresApp", func(t *testing.T) {
		c := c.parallel(t)
		id, binding := c.ready("postgres/app-only", ""), c.id()
		a := c.bind(id, binding, "postgres/app-only", "", plain)
		a.says(t, http.StatusUnprocessableEntity, "RequiresApp")
		if got := a.text("description"); got != "This service supports generation of credentials through binding an application only." {
			t.Errorf("description %q, want the one that platforms compare (ERR-14)", got)
		}
		if row := c.row(id); len(row.Keys) != 0 {
			t.Errorf("leftovers: %+v", row.Keys)
		}
	})
}

// CAT-04.
func decidedMembership(t *testing.T) {
	c := start(t, func(s *settings) {
		for i := range s.config.Clients {
			s.config.Clients[i].CatalogRefresh = 50 * time.Millisecond
		}
	})
	const plan = "postgres/small"
	id := c.ready(plan, `{"a":1}`)
	c.control("POST", "/marketplace", `{"hide":["postgres/small"]}`)
	c.eventually("the plan leaves the catalog", func() bool { _, found := c.catalog()[plan]; return !found })
	fresh := c.id()
	c.traceless(t, fresh, "", func() answer { return c.put(fresh, plan, "", async) }).says(t, http.StatusBadRequest, "BadRequest", "plan")
	c.put(id, plan, `{"a":1}`, async).want(t, http.StatusOK)
	c.put(id, plan, `{"a":2}`, async).says(t, http.StatusConflict, "Conflict")
	c.send("GET", at(id), "").want(t, http.StatusOK)
	// Taken, and then refused by Cloud Foundry itself, which has such a rule.
	op := c.patch(id, plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted).operation()
	c.fails(at(id), op, "inaccessible plan")
	c.patch(id, "postgres/large", fmt.Sprintf(`"plan_id":%q`, "no-such-plan"), async).says(t, http.StatusBadRequest, "BadRequest", "plan")
	binding := c.id()
	c.bind(id, binding, plan, "", plain).want(t, http.StatusCreated)
	c.unbind(id, binding, plan, plain).want(t, http.StatusOK)
	c.gone(id, plan)
	c.nothingLeft(id)
}

// B7.
func decidedForeignKeys(t *testing.T) {
	c := start(t)
	id := c.ready("postgres/small", "")
	body := fmt.Sprintf(`{"type":"key","name":"somebody-elses","relationships":{"service_instance":{"data":{"guid":%q}}}}`, c.row(id).GUID)
	c.operator("POST", keys, body).want(t, http.StatusAccepted)
	c.keyComes(id, "somebody-elses", "create", "succeeded")
	c.gone(id, "postgres/small")
	c.nothingLeft(id)
	if len(c.journal.find(slog.LevelInfo, "somebody-elses")) == 0 {
		t.Error("no line at INFO names the key of somebody else")
	}
}

// G2, CON-21.
func decidedEmptyParameters(t *testing.T) {
	c := start(t)
	s := readyInstance(c)
	for _, rest := range []string{"", `"parameters":{}`, `"parameters":null`, fmt.Sprintf(`"plan_id":%q`, c.plan(s.plan).plan), `"context":{"platform":"x"}`} {
		c.patch(s.id, s.plan, rest, async).want(t, http.StatusOK)
	}
	c.askedFor(0, "update", s.id, "")
	c.put(s.id, s.plan, s.parameters, async).want(t, http.StatusOK)
	op := c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted).operation()
	c.succeeds(at(s.id), op)
	c.askedFor(1, "update", s.id, "")
}

// OID-10, C4.
func decidedIdentity(t *testing.T) {
	c := start(t)
	for _, value := range []string{"kubernetes not-base64", "kubernetes", "kubernetes bm90IGpzb24=", "\xff\xfe"} {
		id := c.id()
		set := func(r *http.Request) { r.Header.Set("X-Broker-API-Originating-Identity", value) }
		a := c.send("PUT", at(id)+async.query(), c.createBody("postgres/small", ""), set)
		c.succeeds(at(id), a.want(t, http.StatusAccepted).operation())
		if len(c.journal.find(slog.LevelInfo, id, "originating_identity=unreadable")) == 0 {
			t.Errorf("nothing is logged of the identity %q", value)
		}
	}
}

// HTTP-20, AUTH-06; fit checks every Retry-After.
func decidedRoutes(t *testing.T) {
	c := start(t)
	nobody := c
	nobody.secret = "wrong"
	for path, allow := range map[string]string{
		"/v2/catalog": "GET", at("x"): "GET, PUT, PATCH, DELETE", at("x") + "/last_operation": "GET",
		bindingAt("x", "y"): "GET, PUT, DELETE", bindingAt("x", "y") + "/last_operation": "GET",
	} {
		for _, method := range []string{"POST", "OPTIONS", "TRACE", "BREW"} {
			a := c.send(method, path, "")
			a.says(t, http.StatusMethodNotAllowed, "MethodNotAllowed")
			if got := a.header.Get("Allow"); got != allow {
				t.Errorf("%s: Allow %q, want %q", a.request, got, allow)
			}
			nobody.send(method, path, "").says(t, http.StatusUnauthorized, "Unauthorized")
		}
	}
	for _, path := range []string{
		"/v2", "/v2/", "/v2/other", "/v2/catalog/", "/v2/catalog/x", "/v2/service_instances", "/v2/service_instances/",
		at("x") + "/", at("x") + "/other", at("x") + "/service_bindings", at("x") + "/service_bindings/", bindingAt("x", "y") + "/z",
		"/v2//catalog", "//v2/catalog", "/v2/./catalog", "/v2/../v2/catalog", "/v2/service_instances//service_bindings/y",
		"/v2/service_instances/..", "/v2/service_instances/%2e%2e", "/v2/service_instances/.", at("x") + "/service_bindings/%2E", "/v2/service_instances/x/../y",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			a := c.send(method, path, "")
			a.says(t, http.StatusNotFound, "NotFound")
			if strings.HasPrefix(path, "/v2/") {
				nobody.send(method, path, "").says(t, http.StatusUnauthorized, "Unauthorized")
			}
		}
	}
	if c.cf().BrokerCalls == nil || len(c.cf().Instances) != 0 {
		t.Errorf("something came of it: %+v", c.cf().Instances)
	}
}

func decidedReplacedParameters(t *testing.T) {
	c := start(t)
	const plan = "postgres/small"
	id := c.ready(plan, `{"a":1,"b":2}`)
	op := c.patch(id, plan, `"parameters":{"a":3}`, async).want(t, http.StatusAccepted).operation()
	c.succeeds(at(id), op)
	c.put(id, plan, `{"a":3}`, async).want(t, http.StatusOK)
	c.put(id, plan, `{"a":3,"b":2}`, async).says(t, http.StatusConflict, "Conflict")
	c.put(id, plan, `{"a":1,"b":2}`, async).says(t, http.StatusConflict, "Conflict")
	c.patch(id, plan, `"parameters":{"a":3}`, async).want(t, http.StatusOK) // CON-24
	op = c.patch(id, "postgres/large", fmt.Sprintf(`"plan_id":%q`, c.plan("postgres/large").plan), async).want(t, http.StatusAccepted).operation()
	c.succeeds(at(id), op)
	c.put(id, "postgres/large", `{"a":3}`, async).want(t, http.StatusOK)
	c.put(id, plan, `{"a":3}`, async).says(t, http.StatusConflict, "Conflict")
	if row := c.row(id); row.Plan != "large" || string(row.Parameters) != `{"a":3}` {
		t.Errorf("Cloud Foundry has plan %s and parameters %s", row.Plan, row.Parameters)
	}
	c.patch(id, plan, `"parameters":{"x":{"k":1,"k":2}}`, async).says(t, http.StatusBadRequest, "BadRequest")
}

func decidedLevels(t *testing.T) {
	t.Run("what a platform or a backing broker causes is INFO", func(t *testing.T) {
		c := start(t) // its end checks that nothing was louder
		s := createFailed(c)
		if len(c.journal.find(slog.LevelInfo, s.operation, "state=failed")) != 1 {
			t.Error("the failed operation is not logged once at INFO")
		}
		c.put(s.id, s.plan, `{"a":3}`, async).want(t, http.StatusConflict)
		c.send("PUT", at("x"), "{").want(t, http.StatusBadRequest)
	})
	t.Run("a Cloud Foundry that cannot be reached is WARN", func(t *testing.T) {
		c := start(t, warnings)
		s := creating(c)
		c.disturb(html(http.StatusServiceUnavailable))
		c.eventually("a warning", func() bool { return len(c.journal.find(slog.LevelWarn, s.id)) > 0 })
		c.heal()
	})
	t.Run("an operation past its deadline is WARN", func(t *testing.T) {
		c := start(t, warnings, func(s *settings) {
			s.config.Operations.Deadline, s.config.Operations.SettleAfter = time.Second, 500*time.Millisecond
			s.config.Operations.TombstoneTTL = time.Hour
		})
		s := creating(c)
		c.fails(at(s.id), s.operation)
		if len(c.journal.find(slog.LevelWarn, s.operation)) != 1 {
			t.Error("the operation past its deadline is not logged once at WARN")
		}
	})
	t.Run("refused credentials are WARN", func(t *testing.T) {
		c := start(t, warnings, func(s *settings) { s.config.Clients[1].CloudFoundry.ClientSecret = config.NewSecret("wrong") })
		c.eventually("a warning", func() bool { return len(c.journal.find(slog.LevelWarn, "second")) > 0 })
	})
}

// CON-63, interface.md section 4.
func decidedNumbers(t *testing.T) {
	c := start(t)
	const plan, raw = "postgres/small", `{"n": 1.0, "big": 9007199254740993, "e": [1E2, -0, 0.10]}`
	id := c.id()
	op := c.put(id, plan, raw, async).want(t, http.StatusAccepted).operation()
	c.succeeds(at(id), op)
	for _, same := range []string{
		`{"n":1,"big":9007199254740993,"e":[100,0,0.1]}`, `{"e":[1e2,0,1e-1],"big":9007199254740993.0,"n":1e0}`,
	} {
		c.put(id, plan, same, async).want(t, http.StatusOK)
	}
	for _, other := range []string{
		`{"n":1,"big":9007199254740992,"e":[100,0,0.1]}`, `{"n":"1","big":9007199254740993,"e":[100,0,0.1]}`, `{"n":1,"big":9007199254740993,"e":[0,100,0.1]}`,
	} {
		c.put(id, plan, other, async).says(t, http.StatusConflict, "Conflict")
	}
	if got := strings.ReplaceAll(string(c.row(id).Parameters), " ", ""); got != strings.ReplaceAll(raw, " ", "") {
		t.Errorf("the backing broker got %s, want %s letter for letter", got, raw)
	}
}
