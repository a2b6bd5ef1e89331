package brokertest

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// gate stops the actor of ctx before a call and lets it go as chosen. lost is what a lost call returns. Without an
// actor the call is made.
func gate[T any](ctx context.Context, s *Scheduler, call string, lost T, do func(context.Context) (T, error)) (T, error) {
	a := ActorOf(ctx)
	if a == nil {
		return do(ctx)
	}
	a.expires = s.expiry(ctx)
	choice := a.ask(call)
	if !a.expires.IsZero() && s.clock.After(a.expires) {
		return lost, fmt.Errorf("%s: %w", call, context.DeadlineExceeded)
	}
	if err := ctx.Err(); err != nil {
		return lost, err
	}
	switch choice {
	case Drop:
		return lost, ErrLost
	case Delay:
		s.postpone(a, call, func() { _, _ = do(context.WithoutCancel(ctx)) })
		return lost, ErrLost
	default: // the call is made
	}
	v, err := do(ctx)
	switch choice {
	case Lose:
		return lost, ErrLost
	case KillAfter:
		runtime.Goexit()
	case Pause:
		a.ask(call + " answered")
	default: // it is answered at once
	}
	return v, err
}

// expiry is when the context of a call ends, in virtual time: deadlines that the Broker sets are as long as they say,
// only counted from another clock. It is rounded down, so that a call never counts as alive for longer than it is.
func (s *Scheduler) expiry(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return s.clock.Add(time.Until(deadline).Truncate(time.Second))
}

// postpone keeps a call for later. It takes effect within SettleAfter of its intent, CallTimeout before which its
// sender gave up, or never.
func (s *Scheduler) postpone(a *Actor, call string, do func()) {
	s.Late = append(s.Late, &LateCall{
		Name: a.Name + ": " + call, Until: a.expires.Add(SettleAfter - CallTimeout), do: do,
	})
}

type gatedStore struct {
	broker.Store
	s *Scheduler
}

// Get is a step of the schedule.
func (g gatedStore) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	return gate(ctx, g.s, "Get "+string(key.Kind()), broker.Record{}, func(ctx context.Context) (broker.Record, error) {
		return g.Store.Get(ctx, key)
	})
}

// Put is a step of the schedule.
func (g gatedStore) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	return gate(ctx, g.s, "Put", broker.Record{}, func(ctx context.Context) (broker.Record, error) {
		stored, err := g.Store.Put(ctx, r, revision)
		if a := ActorOf(ctx); a != nil && err == nil {
			a.Writes++
		}
		return stored, err
	})
}

// GetAll is a step of the schedule.
func (g gatedStore) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	return gate(ctx, g.s, "GetAll", nil, func(ctx context.Context) ([]broker.Got, error) {
		return g.Store.GetAll(ctx, keys)
	})
}

// Bindings is a step of the schedule.
func (g gatedStore) Bindings(ctx context.Context, instance broker.Key) ([]broker.Record, error) {
	return gate(ctx, g.s, "Bindings", nil, func(ctx context.Context) ([]broker.Record, error) {
		return g.Store.Bindings(ctx, instance)
	})
}

// Unfinished is a step of the schedule.
func (g gatedStore) Unfinished(ctx context.Context, due time.Time, after string, limit int) (broker.UnfinishedPage, error) {
	return gate(ctx, g.s, "Unfinished", broker.UnfinishedPage{}, func(ctx context.Context) (broker.UnfinishedPage, error) {
		return g.Store.Unfinished(ctx, due, after, limit)
	})
}

type gatedWorkflow struct{ s *Scheduler }

// Start is a step of the schedule.
func (g gatedWorkflow) Start(ctx context.Context, start broker.Start) error {
	_, err := gate(ctx, g.s, "Start", struct{}{}, func(ctx context.Context) (struct{}, error) {
		g.s.Started = append(g.s.Started, start)
		if a := ActorOf(ctx); a != nil {
			a.Starts++
		}
		return struct{}{}, nil
	})
	return err
}

// gatedBackend stops actors before the calls of b that a request or tick makes.
func gatedBackend(s *Scheduler, b broker.Backend) broker.Backend {
	return gatedReads{s: s, Backend: &Intercepted{
		Backend: b,
		Look: func(ctx context.Context, method string, _ broker.Lookup, look Look) (broker.Look, error) {
			return gate(ctx, s, method, broker.Look{}, look)
		},
		Call: func(ctx context.Context, method string, _ broker.InstanceCall, call Call) (broker.Answer, error) {
			return gate(ctx, s, method, broker.Answer{Reply: lifecycle.ReplyUnknown}, call)
		},
	}}
}

// gatedReads are the calls that an Intercepted passes on.
type gatedReads struct {
	broker.Backend
	s *Scheduler
}

// Job is a step of the schedule.
func (g gatedReads) Job(ctx context.Context, guid string) (broker.JobStatus, error) {
	unclear := broker.JobStatus{State: lifecycle.JobUnclear}
	return gate(ctx, g.s, "Job", unclear, func(ctx context.Context) (broker.JobStatus, error) {
		return g.Backend.Job(ctx, guid)
	})
}

// KeyDetails is a step of the schedule.
func (g gatedReads) KeyDetails(ctx context.Context, guid, offering string) (broker.KeyDetails, error) {
	return gate(ctx, g.s, "KeyDetails", broker.KeyDetails{}, func(ctx context.Context) (broker.KeyDetails, error) {
		return g.Backend.KeyDetails(ctx, guid, offering)
	})
}
