package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

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
	successor := func(r *run) *brokertest.Actor {
		return r.Go("rotation", func(ctx context.Context) (any, error) {
			q := bindOf(brokertest.PlanSmall)
			q.BindingID, q.Body.PredecessorBindingID = "next", "b"
			return r.Broker.Bind(ctx, q)
		})
	}
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
		"rotation": {bound, successor, next},
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
