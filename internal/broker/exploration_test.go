package broker_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

var (
	replay = flag.Uint64("schedule.seed", 0, "play only the schedule of this seed, and print it")
	count  = flag.Int("schedule.count", 600, "how many schedules each exploration plays")
)

// TestSchedulesOfAnInstance plays creates, updates and deletes of one instance by several platforms at once.
func TestSchedulesOfAnInstance(t *testing.T) {
	t.Parallel()
	explore(t, 150, func(e *explorer) {
		e.allowInstance()
		e.allow("PUT of another plan", func(ctx context.Context) (broker.Result, error) {
			return e.Broker.Provision(ctx, provisionOf(brokertest.PlanLarge))
		})
		e.allow("PATCH to large", func(ctx context.Context) (broker.Result, error) {
			return e.Broker.Update(ctx, updateTo(brokertest.PlanLarge))
		})
		e.allow("PATCH to small", func(ctx context.Context) (broker.Result, error) {
			return e.Broker.Update(ctx, updateTo(brokertest.PlanSmall))
		})
	})
}

// TestSchedulesOfABinding plays binds, unbinds, deletes and re-creations of their instance.
func TestSchedulesOfABinding(t *testing.T) {
	t.Parallel()
	explore(t, 220, func(e *explorer) {
		e.budget = 8
		e.opening = []int{0, 2} // PUT, bind
		e.allowInstance()
		e.allow("bind", func(ctx context.Context) (broker.Result, error) {
			return e.Broker.Bind(ctx, bindOf(brokertest.PlanSmall))
		})
		e.allow("held bind", func(ctx context.Context) (broker.Result, error) {
			q := bindOf(brokertest.PlanSmall)
			q.AcceptsIncomplete = false
			return e.Broker.Bind(ctx, q)
		})
		e.allow("unbind", func(ctx context.Context) (broker.Result, error) {
			return e.Broker.Unbind(ctx, deleteOf("b"))
		})
		e.allow("held unbind", func(ctx context.Context) (broker.Result, error) {
			q := deleteOf("b")
			q.AcceptsIncomplete = false
			return e.Broker.Unbind(ctx, q)
		})
	})
}

func (e *explorer) allowInstance() {
	e.allow("PUT", func(ctx context.Context) (broker.Result, error) {
		return e.Broker.Provision(ctx, provisionOf(brokertest.PlanSmall))
	})
	e.allow("DELETE", func(ctx context.Context) (broker.Result, error) {
		return e.Broker.Deprovision(ctx, deleteOf(""))
	})
}

// explore plays schedules until one of them breaks a law.
func explore(t *testing.T, steps int, menu func(*explorer)) {
	t.Helper()
	if *replay != 0 {
		play(t, *replay, steps, menu)
		return
	}
	for _, seed := range []uint64{4232, 5172, 14517} { // each broke a law once
		play(t, seed, steps, menu)
	}
	const shards = 2
	var broken atomic.Bool
	for shard := range shards {
		t.Run(fmt.Sprintf("shard %d", shard), func(t *testing.T) {
			t.Parallel()
			for seed := 1 + shard; seed <= *count && !broken.Load(); seed += shards {
				if !play(t, uint64(seed), steps, menu) {
					broken.Store(true)
				}
			}
		})
	}
}

// play plays one schedule and reports whether the laws held.
func play(t *testing.T, seed uint64, steps int, menu func(*explorer)) bool {
	t.Helper()
	e := newExplorer(seed)
	menu(e)
	e.run(steps)
	if len(e.violations) > 0 {
		t.Errorf("seed %d breaks the laws (replay it with -schedule.seed=%d):\n%s\n\n%s",
			seed, seed, strings.Join(e.violations, "\n"), strings.Join(e.Trace, "\n"))
	} else if *replay != 0 {
		t.Logf("seed %d:\n%s", seed, strings.Join(e.Trace, "\n"))
	}
	return len(e.violations) == 0
}
