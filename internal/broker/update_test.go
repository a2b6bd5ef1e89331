package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/osb"
)

// TestMaintenanceOfACatalogThatMovedOn [MI-07, UPD-24, ERR-11]: the catalog has another version by now than the
// instance. A PATCH that changes something has to name the catalog's; one that changes nothing is no conflict, since it
// may be a duplicate.
func TestMaintenanceOfACatalogThatMovedOn(t *testing.T) {
	t.Parallel()
	const newer = "2.0.0"
	ready := func(r *run) { r.ready() }
	updateFailed := func(r *run) { r.ready(); r.failed(r.accepted(r.patch(brokertest.PlanLarge))) }
	conflict := string(broker.CodeMaintenanceInfoConflict)
	for name, test := range map[string]struct {
		given               func(*run)
		version, parameters string
		plan                string
		want                string
	}{
		"its own version and nothing else":                  {ready, brokertest.Version, "", "", "exists"},
		"its own version with the parameters in force":      {ready, brokertest.Version, `{"size": 1}`, brokertest.PlanSmall, "exists"},
		"its own version with other parameters":             {ready, brokertest.Version, `{"size": 2}`, "", conflict},
		"its own version with another plan":                 {ready, brokertest.Version, "", brokertest.PlanLarge, conflict},
		"its own version again after an update that failed": {updateFailed, brokertest.Version, "", "", conflict},
		"the catalog's version":                             {ready, newer, "", "", "accepted"},
		"the catalog's version with other parameters":       {ready, newer, `{"size": 2}`, "", "accepted"},
		"the catalog's version with another plan":           {ready, newer, "", brokertest.PlanLarge, "accepted"},
		"neither of them":                                   {ready, "3", "", "", conflict},
		"its own version while it is made":                  {func(r *run) { r.accepted(r.put()) }, brokertest.Version, "", "", string(broker.CodeConcurrency)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			test.given(r)
			plans := brokertest.FakePlans()
			for n := range plans {
				plans[n].MaintenanceVersion = newer
			}
			r.Catalog.Catalog = &brokertest.FakeCatalog{Plans: plans}
			before := r.dump()
			got := r.outcome(patchOf(func(q *broker.UpdateRequest) {
				q.Body.PlanID = ""
				if test.plan != "" {
					q.Body.PlanID = brokertest.PlanID(test.plan)
				}
				q.Body.MaintenanceInfo = &osb.MaintenanceInfo{Version: test.version}
				if test.parameters != "" {
					q.Body.Parameters = json.RawMessage(test.parameters)
				}
			}))
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got != "accepted" {
				r.unchanged(before)
			}
		})
	}
}

// restless is a catalog that is read again between any two look-ups: the first answer about a plan allows everything,
// and the later ones nothing.
type restless struct {
	*brokertest.FakeCatalog
	// asked counts the look-ups of each plan; while it is nil, the catalog is an ordinary one.
	asked map[string]int
}

func (c *restless) Plan(ctx context.Context, client, serviceID, planID string) (broker.Plan, error) {
	plan, err := c.FakeCatalog.Plan(ctx, client, serviceID, planID)
	if c.asked == nil {
		return plan, err
	}
	c.asked[planID]++
	if plan.MaximumPollingDuration = time.Hour; c.asked[planID] > 1 {
		plan.MaximumPollingDuration *= 2
		plan.PlanGUID, plan.MaintenanceVersion = "another-guid", "another-version"
		plan.Bindable, plan.BindingRotatable, plan.BindingsRetrievable, plan.PlanUpdateable = false, false, false, false
	}
	return plan, err
}

// TestOneRequestSeesOneCatalog: a refresh of the catalog between two look-ups of a request cannot mix two plans, since
// each plan is looked up once.
func TestOneRequestSeesOneCatalog(t *testing.T) {
	t.Parallel()
	bound := func(r *run) { r.ready(); r.drive(r.accepted(r.bind())) }
	rotation := func(r *run) *brokertest.Actor { return r.begin("rotation", successor("next", "b", "")) }
	next := bindingKey()
	next.BindingID = "next"
	for name, test := range map[string]struct {
		given   func(*run)
		request func(*run) *brokertest.Actor
		key     broker.Key
	}{
		"PUT":      {func(*run) {}, (*run).put, instanceKey()},
		"PATCH":    {func(r *run) { r.ready() }, func(r *run) *brokertest.Actor { return r.patch(brokertest.PlanLarge) }, instanceKey()},
		"DELETE":   {func(r *run) { r.ready() }, (*run).remove, instanceKey()},
		"bind":     {func(r *run) { r.ready() }, (*run).bind, bindingKey()},
		"rotation": {bound, rotation, next},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			catalog := &restless{FakeCatalog: brokertest.NewFakeCatalog()}
			r := newRun(t, brokertest.ScheduleOptions{Configure: func(o *broker.Options) { o.Catalog = catalog }})
			test.given(r)
			catalog.asked = map[string]int{}
			r.accepted(test.request(r))
			for plan, n := range catalog.asked {
				if n != 1 {
					t.Errorf("the plan %s was looked up %d times", plan, n)
				}
			}
			rec := r.record(test.key)
			if got := rec.Lifecycle.Operation.Deadline.Sub(rec.Lifecycle.Operation.Started); got != time.Hour {
				t.Errorf("the operation has %v, want the hour of the plan that allowed it", got)
			}
			a := rec.Attributes
			if rec.Target != nil {
				a = *rec.Target
			}
			if a.PlanGUID == "another-guid" || a.MaintenanceVersion == "another-version" {
				t.Errorf("the record has %+v, of a plan that was not asked for permission", a)
			}
		})
	}
}

// TestUpdateRules: UPD-05 to UPD-33, and "Updates, parameters and errors" in docs/osb-choices.md.
func TestUpdateRules(t *testing.T) {
	t.Parallel()
	params := func(text string) func(*broker.UpdateRequest) {
		return func(q *broker.UpdateRequest) { q.Body.Parameters = json.RawMessage(text) }
	}
	for name, test := range map[string]struct {
		change func(*broker.UpdateRequest)
		want   string
	}{
		"UPD-32 the plan that it has": {same[broker.UpdateRequest], "exists"},
		"UPD-06 no plan":              {func(q *broker.UpdateRequest) { q.Body.PlanID = "" }, "exists"},
		"UPD-35 null parameters":      {params(`null`), "exists"},
		"UPD-35 empty parameters":     {params(`{}`), "exists"},
		"the parameters in force":     {params(`{"size":1.0}`), "exists"},
		"other parameters":            {params(`{"size":2}`), "accepted"},
		"UPD-05 another plan":         {toLarge, "accepted"},
		"the maintenance version it has": {func(q *broker.UpdateRequest) {
			q.Body.MaintenanceInfo = &osb.MaintenanceInfo{Version: brokertest.Version}
		}, "exists"},
		"UPD-34 wrong previous values": {func(q *broker.UpdateRequest) { q.Body.PreviousValues = json.RawMessage(`{"plan_id":"x"}`) }, "exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{})
			before := r.dump()
			got := r.outcome(patchOf(test.change))
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got == "exists" {
				r.unchanged(before)
			}
		})
	}
}

// TestWhatAnUpdateLedToIsInForce: a PUT compares with it, a repeated PATCH is 200.
func TestWhatAnUpdateLedToIsInForce(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	r.drive(r.accepted(r.patch(brokertest.PlanLarge)))
	for what, got := range map[string][2]string{
		"the same PATCH":            {r.outcome(patchOf(toLarge)), "exists"},
		"a PUT of the updated plan": {r.outcome(putOf(large)), "exists"},
		"a PUT of the first plan":   {r.outcome(putOf(same)), "Conflict"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", what, got[0], got[1])
		}
	}
	if left := r.left(1); left[0].Plan != brokertest.PlanLarge || left[0].Parameters != `{"size": 1}` {
		t.Errorf("the cloud has %+v", left[0])
	}
}

func TestAnUpdateThatThePlanForbids(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	created, err := putOf(func(q *broker.ProvisionRequest) {
		q.Body.ServiceID, q.Body.PlanID = brokertest.ServicePlain, brokertest.PlanID(brokertest.PlanPlain)
	}).send(r)
	if err != nil {
		t.Fatal(err)
	}
	r.drive(created.Operation)
	before := r.dump()
	_, err = patchOf(func(q *broker.UpdateRequest) {
		q.Body.ServiceID, q.Body.PlanID = brokertest.ServicePlain, brokertest.PlanID(brokertest.PlanOther)
	}).send(r)
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Code != broker.CodeUnprocessable || e.UpdateRepeatable == nil || *e.UpdateRepeatable {
		t.Errorf("UPD-33: %v; want 422 with update_repeatable false", err)
	}
	r.unchanged(before)
}

// TestTheContextOfAnUpdateIsKept, also when there is nothing to carry out.
func TestTheContextOfAnUpdateIsKept(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	const text = `{"platform":"cloudfoundry","instance_name":"new"}`
	got := r.outcome(patchOf(func(q *broker.UpdateRequest) { q.Body.Context = json.RawMessage(text) }))
	if kept := string(r.record(instanceKey()).Context); got != "exists" || kept != text {
		t.Errorf("%s, context %s", got, kept)
	}
	if n := r.Cloud.EffectsOf("i").Patches; n != 0 {
		t.Errorf("%d PATCHes were sent", n)
	}
}
