package broker

import (
	"context"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// beginKey is where a context has what WithWaiting gave it.
type beginKey struct{}

// WithWaiting returns a context for one request, in which begin is asked before the
// use case first waits for Cloud Foundry, and before anything is written for it: the
// error of begin is then the use case's, as it is. It may be asked again. Without it
// everybody may wait.
func WithWaiting(ctx context.Context, begin func() error) context.Context {
	return context.WithValue(ctx, beginKey{}, begin)
}

// BeginWaiting asks whether the request may wait for Cloud Foundry from now on. The
// error is the answer to it.
func BeginWaiting(ctx context.Context) error {
	if begin, ok := ctx.Value(beginKey{}).(func() error); ok {
		return begin()
	}
	return nil
}

// checkAndWait is check, and then whether a bind that is held, or reads credentials,
// may wait.
func (p *bind) checkAndWait(rec Record, d lifecycle.Decision) error {
	if err := p.check(rec, d); err != nil {
		return err
	}
	if d.Outcome == lifecycle.Exists || held(d, p.incomplete) {
		return BeginWaiting(p.ctx)
	}
	return nil
}

// held reports whether a decision on a binding keeps the request until the operation,
// or one of its instance, has ended.
func held(d lifecycle.Decision, incomplete bool) bool {
	switch d.Outcome {
	case lifecycle.Accepted, lifecycle.Running, lifecycle.Hold:
		return !incomplete
	default:
		return false
	}
}

// thenWait is check, and then whether an unbind that is held may wait.
func thenWait(ctx context.Context, incomplete bool, check func(lifecycle.Decision) error) func(lifecycle.Decision) error {
	return func(d lifecycle.Decision) error {
		if err := check(d); err != nil || !held(d, incomplete) {
			return err
		}
		return BeginWaiting(ctx)
	}
}
