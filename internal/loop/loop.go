// Package loop is broker.Workflow in the process itself: one schedule and one timer for all operations. What is due is
// driven in crowds, each of operations of one client, which look at their Cloud Foundry together. A tick may wait for
// that as long as a call to it takes; so each client has a bound of its own for the ticks that are under way, and those
// whose Cloud Foundry hangs hold up nobody else's operations.
//
// An operation that waits costs an entry of the schedule, and no goroutine. It forgets with its process; whoever starts
// it lets the broker resume what the store says is unfinished.
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
	// Concurrency is how many ticks of one client may be under way at once; 0 means 400.
	Concurrency int
	// Retry is the pause after a tick that failed; 0 means one second.
	Retry time.Duration
	// Now goes on as the timers of the process do.
	Now    func() time.Time
	Logger *slog.Logger
}

// Loop drives operations. Its methods may be called concurrently.
type Loop struct {
	options  Options
	began    time.Time // the schedule counts from here
	advancer broker.CrowdAdvancer
	// aborted is closed when the ticks that are under way are to end.
	aborted chan struct{}
	abort   func()

	mu      sync.Mutex
	driven  map[job]*entry
	clients map[string]*client
	// timer looks at the schedule at the time of wakes, which is zero when nothing is to be done before a tick ends.
	timer  *time.Timer
	wakes  time.Time
	turns  int // counts what was ever put into a schedule
	closed bool
	crowds sync.WaitGroup
}

// job names one operation of one record.
type job struct {
	key       broker.Key
	operation string
}

var _ broker.Workflow = (*Loop)(nil)

// ErrClosed is returned by Start once the loop was closed.
var ErrClosed = fmt.Errorf("the workflow is closed: %w", broker.ErrStopping)

// New returns a loop that does nothing before Use. Options.Now is mandatory.
func New(o Options) *Loop {
	if o.Concurrency <= 0 {
		o.Concurrency = 400
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	aborted := make(chan struct{})
	return &Loop{
		options: o, began: o.Now(), aborted: aborted, abort: sync.OnceFunc(func() { close(aborted) }),
		driven: map[job]*entry{}, clients: map[string]*client{},
	}
}

// Use names who does the steps. It must be called once, before the first Start: the broker needs a workflow to be made,
// and the workflow needs the broker.
func (l *Loop) Use(a broker.CrowdAdvancer) { l.advancer = a }

// Start drives the operation from now on, or from the delay's end, which is rounded as the waits between ticks are.
// Starting what is driven already moves its next tick forward, never back; during a tick, it lets another one follow at
// once. It returns ErrClosed after Close.
func (l *Loop) Start(_ context.Context, s broker.Start) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	j := job{key: s.Key, operation: s.Operation}
	e, known := l.driven[j]
	switch {
	case !known:
		e = &entry{job: j, index: ticking}
		l.driven[j] = e
		l.schedule(e, s.Delay)
	case e.index == ticking:
		e.again = true
	default:
		if at := roundedUp(l.now(), s.Delay); at.Before(e.at) {
			l.clientOf(e).waiting.remove(e)
			l.schedule(e, s.Delay)
		}
	}
	return nil
}

// Running returns how many operations are driven.
func (l *Loop) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.driven)
}

// Close begins no more ticks, lets those that are under way end until the context does, and then cancels them. The
// operations go on when the store is opened again.
func (l *Loop) Close(ctx context.Context) {
	l.shut()
	stop := context.AfterFunc(ctx, l.abort)
	defer stop()
	l.crowds.Wait()
	l.abort()
}

func (l *Loop) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	clear(l.driven)
	clear(l.clients)
}

// now is the time of the clock when the loop was made, gone on by what has passed since. It never jumps, and two times
// that were rounded to the same instant are equal.
func (l *Loop) now() time.Time { return l.began.Add(l.options.Now().Sub(l.began)).Round(0) }

// schedule lets the next tick of the operation begin after the wait. It is called with the lock held.
func (l *Loop) schedule(e *entry, wait time.Duration) {
	now := l.now()
	l.turns++
	e.at, e.turn = roundedUp(now, wait), l.turns
	c := l.clientOf(e)
	c.waiting.add(e)
	l.wakeFor(c, now)
}

// clientOf is called with the lock held.
func (l *Loop) clientOf(e *entry) *client {
	name := e.job.key.Client
	c, ok := l.clients[name]
	if !ok {
		c = &client{}
		l.clients[name] = c
	}
	return c
}

// wakeFor sets the timer to when the next crowd of the client may begin, unless it goes off before that anyway. It is
// called with the lock held.
func (l *Loop) wakeFor(c *client, now time.Time) {
	at, free := c.next(l.options.Concurrency)
	if !free || !l.wakes.IsZero() && !at.Before(l.wakes) {
		return
	}
	l.wakes = at
	if wait := at.Sub(now); l.timer == nil {
		l.timer = time.AfterFunc(wait, l.wake)
	} else {
		l.timer.Reset(wait)
	}
}

// wake begins the crowds that are due.
func (l *Loop) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	now := l.now()
	l.wakes = time.Time{}
	for _, c := range l.clients {
		for _, crowd := range c.due(now, l.options.Concurrency) {
			l.crowds.Go(func() { l.advance(c, crowd) })
		}
		l.wakeFor(c, now)
	}
}
