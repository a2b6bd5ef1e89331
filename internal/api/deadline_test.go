package api

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// left sends a request with parent as its context and returns how long the use case was given.
func left(t *testing.T, budget time.Duration, parent context.Context) time.Duration {
	t.Helper()
	start := time.Now()
	b := newBench(t, func(o *Options) { o.RequestBudget = budget; o.Now = func() time.Time { return start } })
	var given time.Duration
	b.broker.bind = func(ctx context.Context, _ broker.BindRequest) (broker.Result, error) {
		deadline, ok := ctx.Deadline()
		if !ok {
			t.Error("the use case has no deadline")
		}
		given = deadline.Sub(start)
		return accepted("o"), ctx.Err()
	}
	w := b.send("PUT", bindingURL, goodBinding, func(r *http.Request) { *r = *r.WithContext(parent) })
	if w.Code != 202 {
		t.Errorf("status = %d, want 202: the platform's leaving must not stop the work", w.Code)
	}
	return given
}

func TestTheBudgetOfARequest(t *testing.T) {
	t.Parallel()
	within := func(got, want time.Duration) bool { return got >= want && got < want+2*time.Second }
	if got := left(t, 20*time.Second, t.Context()); !within(got, 20*time.Second) {
		t.Errorf("given %s, want the budget of 20 s", got)
	}
	if got := left(t, 0, t.Context()); !within(got, 26*time.Second) {
		t.Errorf("given %s, want the default of 26 s", got)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got := left(t, 20*time.Second, short); got < 9*time.Second || got > 9900*time.Millisecond {
		t.Errorf("given %s, want half a second less than Lambda's 10 s", got)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if got := left(t, 20*time.Second, gone); !within(got, 20*time.Second) {
		t.Errorf("given %s after the platform hung up, want 20 s", got)
	}
}

// TestTheBudgetBeginsWithTheRequest: what a login waits to be checked is part of it, and so it is of the time that
// Lambda gives.
func TestTheBudgetBeginsWithTheRequest(t *testing.T) {
	t.Parallel()
	start := time.Now()
	limited, cancel := context.WithDeadline(t.Context(), start.Add(29*time.Second))
	defer cancel()
	for name, test := range map[string]struct {
		parent context.Context
		budget time.Duration
		want   time.Duration
	}{
		"the budget": {t.Context(), 20 * time.Second, 10 * time.Second},
		"Lambda's":   {limited, time.Minute, 18500 * time.Millisecond},
	} {
		asked := false
		clock := func() time.Time {
			if asked {
				return start.Add(10 * time.Second)
			}
			asked = true
			return start
		}
		b := newBench(t, func(o *Options) { o.RequestBudget, o.Now = test.budget, clock })
		b.broker.bind = func(ctx context.Context, _ broker.BindRequest) (broker.Result, error) {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) > test.want {
				t.Errorf("%s: given %s, want at most %s", name, time.Until(deadline), test.want)
			}
			return accepted("o"), ctx.Err()
		}
		b.send("PUT", bindingURL, goodBinding, func(r *http.Request) { *r = *r.WithContext(test.parent) })
	}
}

func TestTheEndOfTheBudgetIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) { o.RequestBudget = time.Millisecond })
	b.broker.provision = func(ctx context.Context, _ broker.ProvisionRequest) (broker.Result, error) {
		<-ctx.Done()
		return broker.Result{}, ctx.Err()
	}
	w := b.send("PUT", instanceURL, goodInstance)
	described(t, w, 503, "again")
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After = %q, want 1", w.Header().Get("Retry-After"))
	}
}

func TestStoppingEndsRequestsInFlight(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	b := newBench(t, func(o *Options) { o.Stop = stop })
	b.broker.provision = func(ctx context.Context, _ broker.ProvisionRequest) (broker.Result, error) {
		close(stop)
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("context ended with %v, want Canceled", ctx.Err())
		}
		return broker.Result{}, ctx.Err()
	}
	described(t, b.send("PUT", instanceURL, goodInstance), 503, "again")
}
