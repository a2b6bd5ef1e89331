package broker

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// clock says what the time is, how long operations and calls may take, and when their drivers come back.
type clock struct {
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
	pace  lifecycle.Pace
	// deadline, tombstoneTTL, settleAfter, requestBudget and callTimeout are those of Options.
	deadline, tombstoneTTL, settleAfter, requestBudget, callTimeout time.Duration
	// lookTimeout bounds a look-up. It changes nothing, so settleAfter does not bound it: what is merely slow is no
	// outage.
	lookTimeout time.Duration
	// swept is Options.Swept.
	swept bool
}

// newClock puts the defaults of the configuration file where a time is missing.
func newClock(o Options) *clock {
	c := &clock{
		now: o.Now, sleep: o.Sleep,
		pace:          lifecycle.Pace{First: positive(o.Pace.First, 2*time.Second), Max: positive(o.Pace.Max, time.Minute)},
		deadline:      positive(o.Deadline, 168*time.Hour),
		tombstoneTTL:  positive(o.TombstoneTTL, 192*time.Hour),
		settleAfter:   positive(o.SettleAfter, 20*time.Minute),
		requestBudget: positive(o.RequestBudget, 26*time.Second),
		lookTimeout:   positive(o.CallTimeout, time.Minute),
		swept:         o.Swept,
	}
	// A call must have ended before it is believed to have no effect any more.
	c.callTimeout = min(c.lookTimeout, c.settleAfter)
	if c.sleep == nil {
		c.sleep = Sleep
	}
	return c
}

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Sleep waits for the time to pass, or returns the context's error once that ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deadlineOf is when an operation on this plan that begins now has had its time.
func (c *clock) deadlineOf(plan Plan) time.Time {
	return c.now().Add(positive(plan.MaximumPollingDuration, c.deadline))
}

// deleteDeadlineOf never ends a delete that may have to wait for a lost POST: a plan in a hurry limits how long a
// platform polls, not whether the delete gets done.
func (c *clock) deleteDeadlineOf(plan Plan) time.Time {
	at := c.deadlineOf(plan)
	if least := c.now().Add(2*c.settleAfter + time.Minute); at.Before(least) {
		return least
	}
	return at
}

// dueAfter is how long the workflow of a new operation may take to show itself. Where rounds take up what is due, it is
// how long others drive the operation at its beginning: the request that is held, or the workflow.
func (c *clock) dueAfter(incomplete bool) time.Duration {
	const grace = 2 * time.Minute
	switch {
	case !c.swept:
		return grace + c.firstDelay(incomplete)
	case incomplete:
		return beginning
	default:
		return c.requestBudget
	}
}

// beginning is how long the workflow drives an operation before rounds may, as well. A workflow that is at it for
// longer does no harm: two drivers are as good as one (docs/protocol.md 3).
const beginning = 20 * time.Second

// firstDelay keeps the workflow off while the request drives the operation itself.
func (c *clock) firstDelay(incomplete bool) time.Duration {
	if incomplete {
		return 0
	}
	return c.requestBudget
}

// remaining is the time left for a call since its intent was written: none outlives its absolute deadline, whatever
// happened to its sender in between.
func (c *clock) remaining(intent time.Time) time.Duration {
	return intent.Add(c.callTimeout).Sub(c.now())
}

// elapsed is how long the record's operation has run.
func (c *clock) elapsed(r Record) time.Duration {
	return max(0, c.now().Sub(r.Lifecycle.Operation.Started))
}

// retryAfter is the number that the operation's driver waits by. Past the deadline its end is due at any moment.
func (c *clock) retryAfter(r Record) int {
	switch {
	case !c.now().Before(r.Lifecycle.Operation.Deadline):
		return lifecycle.Seconds(c.pace.First)
	case c.swept && c.elapsed(r) >= beginning:
		return lifecycle.Seconds(c.bounded(r, c.betweenLooks(r)))
	default:
		return lifecycle.Seconds(c.bounded(r, c.pace.WaitOf(r.Lifecycle, c.now())))
	}
}

const (
	// youngFor is how long an operation counts as young, and soon how long a round takes at most to look at a young one
	// again.
	youngFor = 5 * time.Minute
	soon     = 20 * time.Second
	// RoundEvery is how often rounds of Broker.Sweep begin.
	RoundEvery = time.Minute
	// RoundTime is how long a round goes on looking.
	RoundTime = 50 * time.Second
)

// LooksEvery is how often a round of Broker.Sweep lists what is due while it goes on; longest is that of the pace.
func LooksEvery(longest time.Duration) time.Duration { return max(time.Second, min(soon, longest)) }

func (c *clock) mostBetweenLooks() time.Duration { return LooksEvery(c.pace.Max) }

// betweenLooks is how long rounds let an operation wait between two looks: not long while it is young, then as long as
// the pace says.
func (c *clock) betweenLooks(r Record) time.Duration {
	if c.elapsed(r) < youngFor {
		return c.mostBetweenLooks()
	}
	return max(time.Second, c.pace.WaitOf(r.Lifecycle, c.now()))
}

// dueNow reports whether a round that begins now looks at the operation: one whose looks are further apart than rounds
// is looked at when its time came since the last round, wherever that was in its time. So every round knows it from the
// record alone.
func (c *clock) dueNow(r Record) bool {
	wait, ran := c.betweenLooks(r), c.elapsed(r)
	if wait <= RoundEvery || !c.now().Before(r.Lifecycle.Operation.Deadline) {
		return true
	}
	return ran/wait != max(0, ran-RoundEvery-roundsMayBeLate)/wait
}

// bounded is the wait that a driver may make of a number that came from outside: an hour at most, and never past the
// operation's deadline, at which its end is due.
func (c *clock) bounded(rec Record, wait time.Duration) time.Duration {
	wait = min(wait, lifecycle.LongestWait)
	if left := rec.Lifecycle.Operation.Deadline.Sub(c.now()); left > 0 {
		wait = min(wait, left)
	}
	return wait
}

// stayAway is the wait after trouble: that of the pace, or as long as Cloud Foundry asked for, spread over time. In an
// operation's first hour the spread does not make it longer than the longest wait of the pace: most outages are short.
func (c *clock) stayAway(rec Record, wait, asked time.Duration) time.Duration {
	if c.elapsed(rec) < time.Hour {
		wait = min(wait, max(c.pace.First, c.pace.Max/2))
	}
	// What asks for the longest wait is spread, too, so it may begin a little early.
	wait = min(max(wait, asked), lifecycle.LongestWait*5/6)
	return c.bounded(rec, c.spread(wait, rec))
}

// spread lengthens a wait after trouble by up to its own length, by a part that differs between operations and from one
// time to the next. Operations that were refused together would otherwise all come back in the same instant, for ever.
func (c *clock) spread(wait time.Duration, rec Record) time.Duration {
	most := min(wait, lifecycle.LongestWait-wait)
	if most <= 0 {
		return wait
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(rec.Lifecycle.Operation.ID))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(c.now().UnixNano())))
	return wait + time.Duration(h.Sum64()%uint64(most))
}
