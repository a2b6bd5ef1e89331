package broker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// hidden is a Cloud Foundry that does not show a plan for a while: so many calls that name a plan are refused.
type hidden struct {
	broker.Backend
	refuse int
	calls  int
}

func (h *hidden) refused(c broker.InstanceCall) bool {
	if c.PlanGUID != "" {
		h.calls++
	}
	return c.PlanGUID != "" && h.calls <= h.refuse
}

func stale() (broker.Answer, error) {
	return broker.Answer{
		Reply: lifecycle.ReplyRefused, StalePlan: true, Description: "Invalid service plan. Ensure that it exists.",
	}, errors.New("422")
}

func (h *hidden) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	if h.refused(c) {
		return stale()
	}
	return h.Backend.CreateInstance(ctx, c)
}

func (h *hidden) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	if h.refused(c) {
		return stale()
	}
	return h.Backend.UpdateInstance(ctx, guid, c)
}

// TestAPlanThatWasRefused [R17]: the marketplace is read again. While it shows the plan, one more try is made, and then
// the refusal stands.
func TestAPlanThatWasRefused(t *testing.T) {
	t.Parallel()
	create := func(r *run) string { return r.accepted(r.put()) }
	update := func(r *run) string { return r.accepted(r.patch(brokertest.PlanLarge)) }
	for name, test := range map[string]struct {
		request  func(*run) string
		given    func(*run)
		refuse   int // calls, counted from the request on
		refreshs error
		gone     bool // the marketplace, read again, does not show the plan
		want     osb.OperationState
		calls    int
	}{
		"a create, refused once":                   {create, nil, 1, nil, false, osb.Succeeded, 2},
		"a create, refused twice":                  {create, nil, 2, nil, false, osb.Failed, 2},
		"a create of a plan that is not shown":     {create, nil, 1, nil, true, osb.Failed, 1},
		"a create while the marketplace is silent": {create, nil, 5, errors.New("503"), false, osb.Succeeded, 6},
		"an update, refused once":                  {update, func(r *run) { r.ready() }, 1, nil, false, osb.Succeeded, 2},
		"an update, refused twice":                 {update, func(r *run) { r.ready() }, 2, nil, false, osb.Failed, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := &hidden{}
			r := newRun(t, brokertest.ScheduleOptions{Backend: func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend {
				cloud.Backend = b
				return cloud
			}})
			if test.given != nil {
				test.given(r)
			}
			cloud.calls, cloud.refuse = 0, test.refuse
			catalog := brokertest.NewFakeCatalog()
			catalog.OnRefresh = func() error {
				if test.gone {
					catalog.Plans = nil
				}
				return test.refreshs
			}
			r.Catalog.Catalog = catalog
			op := test.request(r)
			r.drive(op)
			r.wants(op, test.want)
			if cloud.calls != test.calls {
				t.Errorf("%d calls, want %d", cloud.calls, test.calls)
			}
		})
	}
}
