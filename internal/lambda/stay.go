package lambda

import (
	"context"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// A turn of the state machine is three states, which cost as much as twenty seconds of
// the poller (docs/aws-cost.md). So the short waits, with which every operation begins,
// are spent in the function.
const (
	shortWait = 6 * time.Second
	stayFor   = 15 * time.Second
	// longestTick is a look-up and a call of Cloud Foundry that both take all their time.
	longestTick = 120 * time.Second
)

// advance makes one step, and those that follow within a short time. What a later
// step fails with, the whole of it fails with: the state machine begins again, and
// each step may run twice.
func (p *Poller) advance(ctx context.Context, by broker.Advancer, key broker.Key, operation string) (broker.Step, error) {
	began := p.core.now()
	for {
		step, err := by.Advance(ctx, key, operation)
		if err != nil || step.Done {
			return step, err
		}
		wait := max(step.Wait, time.Second)
		if !p.stays(ctx, began, wait) || p.core.sleep(ctx, wait) != nil {
			return step, nil
		}
	}
}

// stays reports whether the next step is worth waiting for, and has time enough for
// calls that take all of theirs.
func (p *Poller) stays(ctx context.Context, began time.Time, wait time.Duration) bool {
	next := p.core.now().Add(wait)
	if wait > shortWait || next.Sub(began) > stayFor {
		return false
	}
	deadline, limited := ctx.Deadline()
	return !limited || deadline.Sub(next) >= longestTick
}
