package broker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

// halting is a workflow that can be stopped; it fails after it has noted what for.
type halting struct {
	broker.Workflow
	r       *run
	stopped []broker.Start
}

func (h *halting) Stop(_ context.Context, s broker.Start) error {
	if rec := h.r.record(s.Key); rec.Lifecycle.Running(s.Operation) {
		h.r.t.Errorf("the workflow of %s is stopped while it runs", s.Operation)
	}
	h.stopped = append(h.stopped, s)
	return errors.New("throttled")
}

// TestAHeldRequestStopsItsWorkflow: the execution of a held request waits for its request's death, and costs less when
// it is not waited out. Only whoever began it, and saw the operation end, stops it; that it cannot is nobody's trouble.
func TestAHeldRequestStopsItsWorkflow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request func(*run) request
		want    bool
	}{
		"a bind that ended":     {func(*run) request { return bindWith(sync) }, true},
		"an asynchronous bind":  {func(*run) request { return bindWith(same) }, false},
		"a duplicate of a bind": {func(r *run) request { r.bound(); return bindWith(sync) }, false},
		"an unbind that ended": {func(r *run) request {
			r.bound()
			return deleteWith("b", func(q *broker.DeleteRequest) { q.AcceptsIncomplete = false })
		}, true},
		"an asynchronous unbind":       {func(r *run) request { r.bound(); return deleteWith("b", same) }, false},
		"an instance has no held call": {func(*run) request { return deleteWith("", same) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, quick())
			r.ready()
			q := test.request(r)
			h := &halting{Workflow: r.Workflow.Workflow, r: r}
			r.Workflow.Workflow = h
			before := len(r.Started)
			if _, err := q.send(r); err != nil {
				t.Fatal(err)
			}
			var want []broker.Start
			if test.want {
				want = r.Started[before:]
			}
			if diff := cmp.Diff(want, h.stopped); diff != "" {
				t.Errorf("stopped (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAHeldRequestOutOfTimeLeavesItsWorkflow: it is what the operation goes on with.
func TestAHeldRequestOutOfTimeLeavesItsWorkflow(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	r.ready()
	h := &halting{Workflow: r.Workflow.Workflow, r: r}
	r.Workflow.Workflow = h
	a := r.Reach(r.heldBind(), "Sleep")
	r.Expire(a)
	r.refused(a, broker.CodeOutOfTime)
	if len(h.stopped) != 0 {
		t.Errorf("stopped %+v", h.stopped)
	}
}

func (r *run) bound() {
	r.t.Helper()
	if _, err := bindWith(sync).send(r); err != nil {
		r.t.Fatal(err)
	}
}

// TestAHeldDuplicateStopsNothing: the workflow is that of the request which began it.
func TestAHeldDuplicateStopsNothing(t *testing.T) {
	t.Parallel()
	held := func(q *broker.DeleteRequest) { q.AcceptsIncomplete = false }
	for name, test := range map[string]struct {
		running   func(*run) *brokertest.Actor
		duplicate request
	}{
		"of a bind":    {(*run).heldBind, bindWith(sync)},
		"of an unbind": {func(r *run) *brokertest.Actor { r.bound(); return r.Go("unbind", deleteWith("b", held).on(r)) }, deleteWith("b", held)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, quick())
			r.ready()
			h := &halting{Workflow: r.Workflow.Workflow, r: r}
			first := r.Reach(test.running(r), "Sleep")
			r.Workflow.Workflow = h
			duplicate := r.Reach(r.Go("duplicate", test.duplicate.on(r)), "Sleep")
			if _, err := r.settled(first); err != nil || len(h.stopped) != 1 {
				t.Errorf("the first: %v, stopped %+v", err, h.stopped)
			}
			if _, err := r.settled(duplicate); err != nil || len(h.stopped) != 1 {
				t.Errorf("the duplicate: %v, stopped %+v", err, h.stopped)
			}
		})
	}
}

// TestAHeldRequestThatFailedStopsItsWorkflow: there is nothing left to drive.
func TestAHeldRequestThatFailedStopsItsWorkflow(t *testing.T) {
	t.Parallel()
	r := newRun(t, quick())
	q := provisionOf(brokertest.PlanAppOnly)
	result, err := r.Broker.Provision(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	r.drive(result.Operation)
	h := &halting{Workflow: r.Workflow.Workflow, r: r}
	r.Workflow.Workflow = h
	_, err = r.settled(r.Go("bind", bindWith(func(q *broker.BindRequest) {
		q.AcceptsIncomplete, q.Body.PlanID = false, brokertest.PlanID(brokertest.PlanAppOnly)
	}).on(r)))
	if broker.CodeOf(err) != broker.CodeRequiresApp || len(h.stopped) != 1 {
		t.Errorf("%v, stopped %+v", err, h.stopped)
	}
}

// TestAHeldBindOverADeadStore is told at once, as every other request.
func TestAHeldBindOverADeadStore(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	r.ready()
	a := r.Reach(r.heldBind(), "Sleep")
	r.Choose(a, brokertest.Proceed)
	for n := 0; n < 20 && !a.Done() && a.At != "Sleep"; n++ {
		r.Choose(a, brokertest.Drop)
	}
	r.refused(a, broker.CodeUnavailable)
}

// on is the request as an actor makes it.
func (q request) on(r *run) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) { return q(ctx, r.Broker) }
}
