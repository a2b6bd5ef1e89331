package loop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/loop"
)

var _ broker.Advancer = (*driver)(nil)

// driver notes every step that it is asked for, and answers with what step returns.
type driver struct {
	step func(ctx context.Context, operation string, n int) (broker.Step, error)

	mu      sync.Mutex
	began   time.Time
	steps   []string
	counts  map[string]int
	at      int
	highest int
}

func newDriver(step func(context.Context, string, int) (broker.Step, error)) *driver {
	return &driver{step: step, began: time.Now(), counts: map[string]int{}}
}

func (d *driver) Advance(ctx context.Context, _ broker.Key, operation string) (broker.Step, error) {
	d.mu.Lock()
	d.counts[operation]++
	n := d.counts[operation]
	d.steps = append(d.steps, fmt.Sprintf("%s at %s", operation, time.Since(d.began)))
	d.at++
	d.highest = max(d.highest, d.at)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.at--
	}()
	return d.step(ctx, operation, n)
}

// saw fails unless these were the steps so far.
func (d *driver) saw(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// pass lets virtual time go by, and everything that is due happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// inBubble runs a test with timers that need no real time.
func inBubble(t *testing.T, o loop.Options, d func() *driver, test func(*testing.T, *loop.Loop, *driver)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		driver := d()
		o.Now = time.Now
		l := loop.New(o)
		l.Use(driver)
		test(t, l, driver)
		l.Close(t.Context())
	})
}

func start(t *testing.T, l *loop.Loop, operation string, delay time.Duration) {
	t.Helper()
	s := broker.Start{Key: broker.Key{Client: "c", InstanceID: "i"}, Operation: operation, Delay: delay}
	if err := l.Start(t.Context(), s); err != nil {
		t.Fatalf("Start: %v", err)
	}
}

// doneAfter waits as long as it is told between n steps.
func doneAfter(n int, wait time.Duration) func() *driver {
	return func() *driver {
		return newDriver(func(_ context.Context, _ string, step int) (broker.Step, error) {
			return broker.Step{Done: step >= n, Wait: wait}, nil
		})
	}
}

func TestStepsFollowTheirWaitsUntilDone(t *testing.T) {
	inBubble(t, loop.Options{}, doneAfter(3, 2*time.Second), func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "op", 5*time.Second)
		pass(time.Hour)
		d.saw(t, "op at 5s", "op at 7s", "op at 9s")
		if n := l.Running(); n != 0 {
			t.Errorf("%d operations run after the end", n)
		}
	})
}

func TestAStartMovesTheNextStepForwardNeverBack(t *testing.T) {
	inBubble(t, loop.Options{}, doneAfter(2, time.Minute), func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "op", 26*time.Second)
		start(t, l, "op", time.Hour)
		pass(time.Second)
		start(t, l, "op", 0)
		pass(time.Second)
		d.saw(t, "op at 1s")
		if n := l.Running(); n != 1 {
			t.Errorf("%d operations run, want 1", n)
		}
		pass(time.Hour)
		d.saw(t, "op at 1s", "op at 1m1s")
	})
}

func TestAStartDuringAStepLeadsToAnotherAtOnce(t *testing.T) {
	block := func() *driver {
		return newDriver(func(_ context.Context, _ string, n int) (broker.Step, error) {
			<-time.After(10 * time.Second)
			return broker.Step{Done: n == 2, Wait: time.Hour}, nil
		})
	}
	inBubble(t, loop.Options{}, block, func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "op", 0)
		pass(time.Second)
		start(t, l, "op", 0)
		start(t, l, "op", 0)
		pass(2 * time.Hour)
		d.saw(t, "op at 0s", "op at 10s")
	})
}

func TestTwoRecordsMayHaveOperationsOfOneName(t *testing.T) {
	inBubble(t, loop.Options{}, doneAfter(2, time.Second), func(t *testing.T, l *loop.Loop, d *driver) {
		for _, id := range []string{"i", "j"} {
			s := broker.Start{Key: broker.Key{Client: "c", InstanceID: id}, Operation: "op"}
			if err := l.Start(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if n := l.Running(); n != 2 {
			t.Errorf("%d operations run, want 2", n)
		}
		pass(time.Minute)
	})
}

func TestErrorsAreTriedAgainAndLogged(t *testing.T) {
	var log bytes.Buffer
	failing := func() *driver {
		return newDriver(func(_ context.Context, _ string, n int) (broker.Step, error) {
			if n < 3 {
				return broker.Step{Done: true}, errors.New("the store is away")
			}
			return broker.Step{Done: true}, nil
		})
	}
	o := loop.Options{Retry: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	inBubble(t, o, failing, func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "op", 0)
		pass(time.Minute)
		d.saw(t, "op at 0s", "op at 3s", "op at 6s")
		if n := strings.Count(log.String(), "the store is away"); n != 2 {
			t.Errorf("%d of 2 errors were logged:\n%s", n, log.String())
		}
	})
}

func TestAPanicIsLoggedAndOthersGoOn(t *testing.T) {
	var log bytes.Buffer
	panicking := func() *driver {
		return newDriver(func(_ context.Context, operation string, n int) (broker.Step, error) {
			if operation == "bad" && n < 3 {
				panic("s3cr3t")
			}
			return broker.Step{Done: n >= 3, Wait: time.Second}, nil
		})
	}
	o := loop.Options{Concurrency: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	inBubble(t, o, panicking, func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "bad", 0)
		pass(0)
		start(t, l, "good", 500*time.Millisecond)
		pass(time.Minute)
		d.saw(t, "bad at 0s", "good at 500ms", "bad at 1s", "good at 1.5s", "bad at 2s", "good at 2.5s")
		if n := strings.Count(log.String(), "panic with a value of the type string"); n != 2 || strings.Contains(log.String(), "s3cr3t") {
			t.Errorf("%d of 2 panics were logged by their type alone:\n%s", n, log.String())
		}
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "operation=bad") {
			t.Errorf("the log does not say whose panic it was:\n%s", log.String())
		}
	})
}

func TestNoMoreStepsThanSlots(t *testing.T) {
	slow := func() *driver {
		return newDriver(func(context.Context, string, int) (broker.Step, error) {
			<-time.After(time.Second)
			return broker.Step{Done: true}, nil
		})
	}
	inBubble(t, loop.Options{Concurrency: 3}, slow, func(t *testing.T, l *loop.Loop, d *driver) {
		for n := range 20 {
			start(t, l, fmt.Sprintf("op-%d", n), 0)
		}
		pass(6500 * time.Millisecond)
		if d.highest != 3 {
			t.Errorf("up to %d steps ran at once, want 3", d.highest)
		}
		if n := l.Running(); n != 2 {
			t.Errorf("%d operations are left after six rounds of three, want 2", n)
		}
		pass(time.Second)
		if n := l.Running(); n != 0 {
			t.Errorf("%d operations are left", n)
		}
	})
}

// TestAClientThatHangsHoldsUpNobodyElse: its Cloud Foundry answers nothing, and each of its ticks waits as long as it
// may.
func TestAClientThatHangsHoldsUpNobodyElse(t *testing.T) {
	hanging := func() *driver {
		return newDriver(func(ctx context.Context, operation string, n int) (broker.Step, error) {
			if strings.HasPrefix(operation, "hangs") {
				<-ctx.Done()
			}
			return broker.Step{Done: n >= 3, Wait: time.Second}, nil
		})
	}
	inBubble(t, loop.Options{}, hanging, func(t *testing.T, l *loop.Loop, d *driver) {
		for n := range 80 {
			s := broker.Start{Key: broker.Key{Client: fmt.Sprintf("client-%d", n%2), InstanceID: "i"}, Operation: fmt.Sprintf("hangs-%d", n)}
			if err := l.Start(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		d.mu.Lock()
		d.steps = nil
		d.mu.Unlock()
		start(t, l, "create", 0)
		pass(2 * time.Second)
		d.saw(t, "create at 1s", "create at 2s", "create at 3s")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.Close(ctx)
	})
}

func TestThousandsOfOperationsEnd(t *testing.T) {
	inBubble(t, loop.Options{Concurrency: 8}, doneAfter(4, 2*time.Second), func(t *testing.T, l *loop.Loop, d *driver) {
		const many = 5000
		for n := range many {
			start(t, l, fmt.Sprintf("op-%d", n), time.Duration(n%7)*time.Millisecond)
		}
		if n := l.Running(); n != many {
			t.Errorf("%d operations run, want %d", n, many)
		}
		pass(time.Minute)
		if n := l.Running(); n != 0 || len(d.steps) != 4*many {
			t.Errorf("%d operations are left after %d steps, want none after %d", n, len(d.steps), 4*many)
		}
	})
}

func TestCloseLetsARunningStepEnd(t *testing.T) {
	var ended bool
	slow := func() *driver {
		return newDriver(func(ctx context.Context, _ string, _ int) (broker.Step, error) {
			select {
			case <-time.After(10 * time.Second):
				ended = true
			case <-ctx.Done():
			}
			return broker.Step{Wait: time.Second}, nil
		})
	}
	inBubble(t, loop.Options{Concurrency: 1}, slow, func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "running", 0)
		pass(time.Second)
		start(t, l, "waiting for a slot", 0)
		start(t, l, "waiting for its time", time.Hour)
		pass(time.Second)
		l.Close(t.Context())
		if !ended {
			t.Error("Close did not wait for the step")
		}
		pass(2 * time.Hour)
		d.saw(t, "running at 0s")
		if err := l.Start(t.Context(), broker.Start{Operation: "late"}); !errors.Is(err, loop.ErrClosed) {
			t.Errorf("Start after Close: %v, want ErrClosed", err)
		}
		if n := l.Running(); n != 0 {
			t.Errorf("%d operations run after Close", n)
		}
	})
}

func TestCloseCancelsAStepWhenItsContextEnds(t *testing.T) {
	var log bytes.Buffer
	endless := func() *driver {
		return newDriver(func(ctx context.Context, _ string, _ int) (broker.Step, error) {
			<-ctx.Done()
			return broker.Step{}, ctx.Err()
		})
	}
	o := loop.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	inBubble(t, o, endless, func(t *testing.T, l *loop.Loop, _ *driver) {
		start(t, l, "op", 0)
		pass(time.Second)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		l.Close(ctx)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("Close took %s, want the 5s of its context", took)
		}
		if log.Len() != 0 {
			t.Errorf("the end of the process was logged as a fault:\n%s", log.String())
		}
	})
}

func TestTheContextOfAStartDoesNotEndTheSteps(t *testing.T) {
	inBubble(t, loop.Options{}, doneAfter(2, time.Second), func(t *testing.T, l *loop.Loop, d *driver) {
		ctx, cancel := context.WithCancel(t.Context())
		if err := l.Start(ctx, broker.Start{Operation: "op"}); err != nil {
			t.Fatal(err)
		}
		cancel()
		pass(time.Minute)
		d.saw(t, "op at 0s", "op at 1s")
	})
}

// TestManyStartersAtOnce is for the race detector: real time, real goroutines.
func TestManyStartersAtOnce(t *testing.T) {
	t.Parallel()
	done := make(chan string, 1000)
	d := newDriver(func(_ context.Context, operation string, n int) (broker.Step, error) {
		if n < 3 {
			return broker.Step{}, nil
		}
		done <- operation
		return broker.Step{Done: true}, nil
	})
	l := loop.New(loop.Options{Concurrency: 4, Now: time.Now})
	l.Use(d)
	var starters sync.WaitGroup
	for n := range 50 {
		starters.Go(func() { start(t, l, fmt.Sprintf("op-%d", n%25), time.Duration(n%3)*time.Millisecond) })
	}
	starters.Wait()
	seen := map[string]bool{}
	for len(seen) < 25 {
		select {
		case op := <-done:
			seen[op] = true
		case <-time.After(30 * time.Second):
			t.Fatal("not all operations ended")
		}
	}
	l.Close(t.Context())
}
