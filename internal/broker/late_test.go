package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

// TestASlowStore: a request whose time is over before anything has begun for it is sent again, and leaves no trace;
// only one that is held may have begun something.
func TestASlowStore(t *testing.T) {
	t.Parallel()
	poll := func(r *run) *brokertest.Actor {
		return r.Go("poll", func(ctx context.Context) (any, error) {
			return r.Broker.LastOperation(ctx, broker.PollRequest{Client: brokertest.Client, InstanceID: "i"})
		})
	}
	patch := func(r *run) *brokertest.Actor { return r.patch(brokertest.PlanLarge) }
	for name, test := range map[string]struct {
		request func(*run) *brokertest.Actor
		calls   int // of the store, that are answered in time
	}{
		"PUT": {(*run).put, 0}, "poll": {poll, 0},
		"DELETE": {(*run).remove, 0}, "DELETE before its claim": {(*run).remove, 1},
		"PATCH": {patch, 0}, "PATCH before its claim": {patch, 1},
		"bind": {(*run).bind, 0}, "bind that knows no instance yet": {(*run).bind, 1}, "bind before its claim": {(*run).bind, 2},
		"held bind": {(*run).heldBind, 0}, "held bind before its claim": {(*run).heldBind, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			r.ready()
			before := r.dump()
			a := test.request(r)
			for range test.calls {
				r.Choose(a, brokertest.Proceed)
			}
			r.Expire(a)
			r.Choose(a, brokertest.Drop)
			r.Finish(a)
			var e *broker.Error
			if !errors.As(a.Err, &e) || e.Code != broker.CodeUnavailable || e.RetryAfter == 0 {
				t.Errorf("%v, want it unavailable, with Retry-After", a.Err)
			}
			r.unchanged(before)
		})
	}
}

// TestRetryAfterEndsWithTheOperation (Decided 11): until the deadline the time to wait does not lead beyond it, and
// after it the end is due at any moment.
func TestRetryAfterEndsWithTheOperation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deadline, elapsed time.Duration
		want              int
	}{
		"a deadline far away":         {168 * time.Hour, 2 * time.Hour, 300},
		"shortly before the deadline": {90 * time.Second, 80 * time.Second, 10},
		"an hour before":              {3 * time.Hour, 3*time.Hour - 70*time.Second, 70},
		"less than a second before":   {90 * time.Second, 89900 * time.Millisecond, 1},
		"after the deadline":          {3 * time.Hour, 3*time.Hour + time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{Deadline: test.deadline})
			op := r.accepted(r.put())
			r.Advance(test.elapsed)
			again, err := putOf(same).send(r)
			p, pollErr := r.polled(op)
			if err != nil || pollErr != nil || p.RetryAfter != test.want || again.RetryAfter != test.want {
				t.Errorf("a poll says %d (%v), a duplicate %d (%v), want %d", p.RetryAfter, pollErr, again.RetryAfter, err, test.want)
			}
		})
	}
}
