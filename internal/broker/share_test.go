package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

// errMayNotWait is what the border says to a request that may not wait.
var errMayNotWait = errors.New("nobody else may wait")

// waiter is a broker.Waiter that asks the function.
type waiter func() error

// BeginWaiting implements broker.Waiter.
func (w waiter) BeginWaiting() error { return w() }

// full sends a request while nobody else may wait.
func full(q request) request {
	return func(ctx context.Context, b *broker.Broker) (broker.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // for one that waits unasked
		defer cancel()
		return q(broker.WithWaiter(ctx, waiter(func() error { return errMayNotWait })), b)
	}
}

// fetching is a fetch of the binding, of the instance without one.
func fetching(binding string) request {
	return func(ctx context.Context, b *broker.Broker) (result broker.Result, err error) {
		q := broker.FetchRequest{Client: brokertest.Client, InstanceID: "i", BindingID: binding}
		if binding == "" {
			_, err = b.FetchInstance(ctx, q)
		} else {
			_, err = b.FetchBinding(ctx, q)
		}
		return result, err
	}
}

// Law 10 and law 4: what would wait for Cloud Foundry asks first, and is refused without a trace; what is answered from
// the record, or later, never asks.
func TestOnlyWhatWaitsForCloudFoundryAsksToWait(t *testing.T) {
	t.Parallel()
	for _, claimFirst := range []bool{false, true} {
		r := newRun(t, brokertest.ScheduleOptions{Cloud: &brokertest.CloudOptions{}, ClaimFirst: claimFirst})
		refused := func(what string, q request) {
			t.Helper()
			before := r.dump()
			if _, err := full(q).send(r); !errors.Is(err, errMayNotWait) {
				t.Errorf("%s: %v, want it refused", what, err)
			}
			r.unchanged(before)
		}
		answered := func(what string, q request) broker.Result {
			t.Helper()
			result, err := full(q).send(r)
			if errors.Is(err, errMayNotWait) {
				t.Errorf("%s is refused", what)
			}
			return result
		}
		held := func(q *broker.DeleteRequest) { q.AcceptsIncomplete = false }

		with := func(held bool) request {
			return bindWith(func(q *broker.BindRequest) { q.AcceptsIncomplete, q.Body.Parameters = !held, []byte(`{"size":1}`) })
		}
		heir := bindWith(func(q *broker.BindRequest) { q.BindingID, q.Body.PredecessorBindingID = "next", "b" })

		create := answered("a create", putOf(same)).Operation
		refused("a bind that waits for its instance", with(true))
		r.drive(create)
		answered("a create that exists", putOf(same))
		answered("an update", patchOf(same))
		refused("a held bind", with(true))
		bind := answered("a bind in the background", with(false)).Operation
		answered("the same bind while it runs", with(false))
		refused("a held one of the same binding", with(true))
		answered("a bind that is wrong", bindWith(func(q *broker.BindRequest) { q.Body.ServiceID = "other" }))
		r.drive(bind)
		refused("a bind that hands out credentials", with(false))
		refused("a successor that takes the parameters over", heir)
		refused("a fetch of the binding", fetching("b"))
		refused("a fetch of the instance", fetching(""))
		answered("a fetch of what is not there", fetching("none"))
		refused("a held unbind", deleteWith("b", held))
		unbind := answered("an unbind in the background", deleteWith("b", same)).Operation
		refused("a held one of the same binding", deleteWith("b", held))
		r.drive(unbind)
		answered("an unbind of what is gone", deleteWith("b", held))
		answered("a delete", deleteWith("", same))
		for _, operation := range []string{create, bind, unbind} {
			if operation == "" {
				t.Error("an operation was not begun")
			}
		}
	}
}

// Whoever may wait is asked before the claim and never again turned away after it.
func TestABindThatMayWaitIsHeld(t *testing.T) {
	t.Parallel()
	r := newRun(t, quick())
	r.ready()
	asked := 0
	began := func(ctx context.Context) context.Context {
		return broker.WithWaiter(ctx, waiter(func() error {
			if asked++; asked == 1 && r.record(bindingKey()).Revision != 0 {
				t.Error("it is asked after the claim")
			}
			return nil
		}))
	}
	result, err := bindWith(sync)(began(t.Context()), r.Broker)
	if err != nil || result.Binding == nil || asked == 0 {
		t.Errorf("%+v, %v, asked %d times; want the credentials", result, err, asked)
	}
}
