// Package singleflight lets callers who want the same thing at the same time share one call.
//
// It differs from golang.org/x/sync/singleflight in what Ferry needs of it: a call has a context, those who wait for it
// can give up, and it never runs on after the invocation that started it.
package singleflight

import (
	"context"
	"errors"
	"sync"
)

// ErrNoResult is what those get who waited for a call that panicked.
var ErrNoResult = errors.New("the call that was shared ended without a result")

// Group shares calls of one kind. The zero value is ready.
type Group struct {
	mu      sync.Mutex
	running *call
}

// call is one call. Its other fields may be read once done is closed.
type call struct {
	done chan struct{}
	err  error
	// abandoned: it failed when its caller ran out of time, which says nothing about the others.
	abandoned bool
}

// Do runs work in the context of the first caller and gives its error to all who came meanwhile. Work does not outlive
// that context, because nothing may run on after the invocation that started it. When it was cut short, one of those
// who still wait runs it again. Who waits longer than its own context gets the error of that.
func (g *Group) Do(ctx context.Context, work func(context.Context) error) error {
	for {
		c, first := g.join()
		if first {
			return g.run(ctx, c, work)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			if !c.abandoned {
				return c.err
			}
		}
	}
}

// join returns the running call, or a new one that the caller has to run.
func (g *Group) join() (c *call, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running != nil {
		return g.running, false
	}
	g.running = &call{done: make(chan struct{}), err: ErrNoResult}
	return g.running, true
}

func (g *Group) run(ctx context.Context, c *call, work func(context.Context) error) error {
	defer func() {
		g.mu.Lock()
		g.running = nil
		g.mu.Unlock()
		close(c.done)
	}()
	err := work(ctx)
	c.err, c.abandoned = err, err != nil && ctx.Err() != nil
	return err
}
