// Package loop is broker.Workflow in the process itself: a timer for each running operation, and a bounded number of
// ticks at a time. A tick may wait for Cloud Foundry as long as a call to it takes; so each client has slots of its
// own, and those whose Cloud Foundry hangs hold up nobody else's operations.
//
// It forgets with its process; whoever starts it lets the broker resume what the store says is unfinished.
package loop

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Options are what a Loop is made of.
type Options struct {
	// Concurrency is how many ticks of one client may run at once; 0 means 32.
	Concurrency int
	// Retry is the pause after a tick that failed; 0 means one second.
	Retry  time.Duration
	Now    func() time.Time
	Logger *slog.Logger
}

// Loop drives operations. Its methods may be called concurrently.
type Loop struct {
	options  Options
	advancer broker.Advancer
	// stopping is closed when no tick may begin any more, aborted when those that run are to end.
	stopping, aborted chan struct{}
	abort             func()

	mu      sync.Mutex
	running map[job]*entry
	slots   map[string]chan struct{} // of each client
	closed  bool
	ticks   sync.WaitGroup
}

// job names one operation of one record.
type job struct {
	key       broker.Key
	operation string
}

type entry struct {
	timer *time.Timer
	at    time.Time
	// busy is true during a tick; again, when a start came meanwhile.
	busy, again bool
}

var _ broker.Workflow = (*Loop)(nil)

// ErrClosed is returned by Start once the loop was closed.
var ErrClosed = fmt.Errorf("the workflow is closed: %w", broker.ErrStopping)

// New returns a loop that does nothing before Use. Options.Now is mandatory.
func New(o Options) *Loop {
	if o.Concurrency <= 0 {
		o.Concurrency = 32
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	aborted := make(chan struct{})
	return &Loop{
		options: o, stopping: make(chan struct{}), aborted: aborted, abort: sync.OnceFunc(func() { close(aborted) }),
		running: map[job]*entry{}, slots: map[string]chan struct{}{},
	}
}

// Use names who does the steps. It must be called once, before the first Start: the broker needs a workflow to be made,
// and the workflow needs the broker.
func (l *Loop) Use(a broker.Advancer) { l.advancer = a }

// Start drives the operation from now on, or from the delay's end. Starting what is driven already moves its next tick
// forward, never back. It returns ErrClosed after Close.
func (l *Loop) Start(_ context.Context, s broker.Start) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	j := job{key: s.Key, operation: s.Operation}
	e, known := l.running[j]
	switch {
	case !known:
		l.schedule(j, &entry{}, s.Delay)
	case e.busy:
		e.again = true
	case e.at.Sub(l.options.Now()) > s.Delay && e.timer.Stop():
		l.schedule(j, e, s.Delay)
	}
	return nil
}

// schedule is called with the lock held.
func (l *Loop) schedule(j job, e *entry, delay time.Duration) {
	l.running[j] = e
	e.at = l.options.Now().Add(delay)
	e.timer = time.AfterFunc(delay, func() { l.tick(j, e) })
}

// tick does one step, once a slot is free.
func (l *Loop) tick(j job, e *entry) {
	slots := l.enter(j, e)
	if slots == nil {
		return
	}
	defer l.ticks.Done()
	select {
	case slots <- struct{}{}:
	case <-l.stopping:
		return
	}
	step := l.advance(j)
	<-slots
	l.leave(j, e, step)
}

// enter returns the slots of the client, or nil once the loop was closed.
func (l *Loop) enter(j job, e *entry) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	e.busy = true
	l.ticks.Add(1)
	slots, ok := l.slots[j.key.Client]
	if !ok {
		slots = make(chan struct{}, l.options.Concurrency)
		l.slots[j.key.Client] = slots
	}
	return slots
}

func (l *Loop) leave(j job, e *entry, step broker.Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.busy = false
	switch {
	case l.closed || step.Done:
		delete(l.running, j)
	case e.again:
		e.again = false
		l.schedule(j, e, 0)
	default:
		l.schedule(j, e, step.Wait)
	}
}

// advance never lets a fault end the operation: it is logged and tried again.
func (l *Loop) advance(j job) (step broker.Step) {
	defer func() {
		if p := recover(); p != nil {
			panicked := broker.Recovered(p)
			l.report(j, panicked, "stack", panicked.Stack)
			step = broker.Step{Wait: l.options.Retry}
		}
	}()
	ctx, cancel := l.untilAborted()
	defer cancel()
	step, err := l.advancer.Advance(ctx, j.key, j.operation)
	if err != nil {
		if ctx.Err() == nil {
			l.report(j, err)
		}
		return broker.Step{Wait: l.options.Retry}
	}
	return step
}

// untilAborted returns the context of one tick. Nobody waits for a tick but Close, which may abort it.
func (l *Loop) untilAborted() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-l.aborted:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (l *Loop) report(j job, err error, more ...any) {
	l.options.Logger.Error("a step of an operation failed; it is tried again", append([]any{
		"client", j.key.Client, "instance_id", j.key.InstanceID, "binding_id", j.key.BindingID,
		"operation", j.operation, "error", err.Error(),
	}, more...)...)
}

// Running returns how many operations are driven.
func (l *Loop) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}

// Close stops all timers, lets running ticks end until the context does, and then cancels them. The operations go on
// when the store is opened again.
func (l *Loop) Close(ctx context.Context) {
	l.shut()
	stop := context.AfterFunc(ctx, l.abort)
	defer stop()
	l.ticks.Wait()
	l.abort()
}

func (l *Loop) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.stopping)
	for _, e := range l.running {
		e.timer.Stop()
	}
	clear(l.running)
}
