package catalog

import (
	"context"
	"errors"
	"sync"
)

// errBroken is what those get who waited for a leader that panicked.
var errBroken = errors.New("the call that was shared ended without a result")

// flight lets callers who want the same thing at the same time share one call.
type flight struct {
	mu      sync.Mutex
	running *turn
}

// turn is one call. Its other fields may be read once done is closed.
type turn struct {
	done chan struct{}
	err  error
	// abandoned: the caller who led ran out of its own time, which says nothing
	// about the rest.
	abandoned bool
}

// do runs call in the context of the first caller and gives its error to all who
// came meanwhile. The call does not outlive the first caller's context, because
// nothing may run on after the invocation that started it; whoever waits longer
// than that caller then takes the lead.
func (f *flight) do(ctx context.Context, call func(context.Context) error) error {
	for {
		t, leads := f.join()
		if leads {
			return f.lead(ctx, t, call)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.done:
			if !t.abandoned {
				return t.err
			}
		}
	}
}

func (f *flight) join() (t *turn, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != nil {
		return f.running, false
	}
	f.running = &turn{done: make(chan struct{}), err: errBroken}
	return f.running, true
}

func (f *flight) lead(ctx context.Context, t *turn, call func(context.Context) error) error {
	defer func() {
		f.mu.Lock()
		f.running = nil
		f.mu.Unlock()
		close(t.done)
	}()
	err := call(ctx)
	t.err, t.abandoned = err, err != nil && ctx.Err() != nil
	return err
}
