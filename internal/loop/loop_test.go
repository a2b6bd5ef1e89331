package loop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/loop"
)

var _ broker.CrowdAdvancer = (*driver)(nil)

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

func (d *driver) AdvanceAll(ctx context.Context, operations []broker.Unfinished, ended func(int, broker.Step, error)) {
	d.mu.Lock()
	for _, u := range operations {
		d.steps = append(d.steps, fmt.Sprintf("%s at %s", u.Operation, time.Since(d.began)))
	}
	d.at += len(operations)
	d.highest = max(d.highest, d.at)
	d.mu.Unlock()
	var all sync.WaitGroup
	for i, u := range operations {
		all.Go(func() {
			step, err := d.step(ctx, u.Operation, d.count(u.Operation))
			d.mu.Lock()
			d.at--
			d.mu.Unlock()
			ended(i, step, err)
		})
	}
	all.Wait()
}

// count returns which step of the operation this is.
func (d *driver) count(operation string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[operation]++
	return d.counts[operation]
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

// together is a delay after which all that was started before is due at once: time stands still until all have been.
const together = time.Millisecond

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
		start(t, l, "op", 2*time.Hour)
		pass(time.Hour)
		d.saw(t, "op at 1s", "op at 1m5s")
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
				return broker.Step{}, &broker.PanicError{Type: "string", Stack: "main.go:7"}
			}
			return broker.Step{Done: n >= 3, Wait: time.Second}, nil
		})
	}
	o := loop.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	inBubble(t, o, panicking, func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "bad", 0)
		pass(0)
		start(t, l, "good", 500*time.Millisecond)
		pass(time.Minute)
		d.saw(t, "bad at 0s", "good at 500ms", "bad at 1s", "good at 1.5s", "bad at 2s", "good at 2.5s")
		line := `level=ERROR msg="a step of an operation failed; it is tried again" client=c instance_id=i binding_id="" ` +
			`operation=bad error="panic with a value of the type string" stack=main.go:7`
		if n := strings.Count(log.String(), line); n != 2 {
			t.Errorf("%d of 2 panics were logged as they should be:\n%s", n, log.String())
		}
	})
}

// careless breaks the contract of broker.CrowdAdvancer: the first time it says how the first of its operations ended,
// and nothing of the others.
type careless struct {
	*driver
	failed bool
	fail   func()
}

func (c *careless) AdvanceAll(ctx context.Context, operations []broker.Unfinished, ended func(int, broker.Step, error)) {
	if !c.failed {
		c.failed = true
		ended(0, broker.Step{Wait: 2 * time.Second}, nil)
		c.fail()
		return
	}
	c.driver.AdvanceAll(ctx, operations, ended)
}

func TestWhatAnAdvancerForgetsIsTriedAgain(t *testing.T) {
	for name, fail := range map[string]func(){"after a panic": func() { panic("s3cr3t") }, "without a word": func() {}} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o := loop.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			inBubble(t, o, doneAfter(1, 0), func(t *testing.T, l *loop.Loop, d *driver) {
				l.Use(&careless{driver: d, fail: fail})
				start(t, l, "told", together)
				start(t, l, "forgotten", together)
				pass(time.Minute)
				d.saw(t, "forgotten at 1.001s", "told at 2.001s")
				if n := strings.Count(log.String(), "operation=forgotten"); n != 1 || strings.Contains(log.String(), "s3cr3t") {
					t.Errorf("%d lines of what was forgotten, want 1:\n%s", n, log.String())
				}
			})
		})
	}
}

func TestNoMoreStepsThanMayBeUnderWayAndTheOldestFirst(t *testing.T) {
	slow := func() *driver {
		return newDriver(func(context.Context, string, int) (broker.Step, error) {
			<-time.After(time.Second)
			return broker.Step{Done: true}, nil
		})
	}
	inBubble(t, loop.Options{Concurrency: 2}, slow, func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "a", together)
		start(t, l, "b", together)
		start(t, l, "due last", 300*time.Millisecond)
		start(t, l, "due second", 200*time.Millisecond)
		start(t, l, "due first", 100*time.Millisecond)
		pass(time.Hour)
		d.saw(t, "a at 1ms", "b at 1ms", "due first at 1.011s", "due second at 1.011s", "due last at 2.021s")
		if d.highest != 2 {
			t.Errorf("up to %d steps were under way, want 2", d.highest)
		}
	})
}

// TestLongWaitsAreRoundedUp: the bubble's clock begins at midnight, and the step that waits is at three seconds.
func TestLongWaitsAreRoundedUp(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{
		9999 * time.Millisecond: 12999 * time.Millisecond, // exact
		10 * time.Second:        13125 * time.Millisecond, // each 0.625 s
		59 * time.Second:        62500 * time.Millisecond, // each 2.5 s
		time.Minute:             65 * time.Second,         // each 5 s
		119 * time.Second:       125 * time.Second,
		5 * time.Minute:         320 * time.Second, // each 20 s
	} {
		t.Run(wait.String(), func(t *testing.T) {
			inBubble(t, loop.Options{}, doneAfter(2, wait), func(t *testing.T, l *loop.Loop, d *driver) {
				start(t, l, "op", 3*time.Second)
				pass(2 * time.Hour)
				d.saw(t, "op at 3s", "op at "+want.String())
			})
		})
	}
}

// TestAClientThatHangsHoldsUpNobodyElse: its Cloud Foundry answers nothing, and each of its ticks waits as long as it
// may. It has more than may be under way.
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
		for n := range 1000 {
			s := broker.Start{Key: broker.Key{Client: fmt.Sprintf("client-%d", n%2), InstanceID: "i"}, Operation: fmt.Sprintf("hangs-%d", n)}
			if err := l.Start(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		d.mu.Lock()
		if d.at != 800 {
			t.Errorf("%d ticks are under way, want 400 of each of two clients", d.at)
		}
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

// crowds answers all that it is asked together after 200 ms: wait a minute.
type crowds struct {
	mu                         sync.Mutex
	calls, ticks, largest      int
	underWay, most, goroutines int
}

func (c *crowds) AdvanceAll(_ context.Context, operations []broker.Unfinished, ended func(int, broker.Step, error)) {
	c.note(1, len(operations))
	<-time.After(200 * time.Millisecond)
	for i := range operations {
		ended(i, broker.Step{Wait: time.Minute}, nil)
	}
	c.note(-1, 0)
}

func (c *crowds) note(began, operations int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls += max(began, 0)
	c.underWay += began
	c.ticks += operations
	c.largest = max(c.largest, operations)
	c.most = max(c.most, c.underWay)
	c.goroutines = max(c.goroutines, runtime.NumGoroutine())
}

// TestTenThousandInFlightAreDrivenInCrowds: they begin one after another over a minute, and each is to be looked at
// again a minute after a look. Each five seconds 833 or less of them are due, which are five crowds.
func TestTenThousandInFlightAreDrivenInCrowds(t *testing.T) {
	inBubble(t, loop.Options{}, func() *driver { return nil }, func(t *testing.T, l *loop.Loop, _ *driver) {
		const many, minutes = 10_000, 10
		c := &crowds{}
		l.Use(c)
		for n := range many {
			start(t, l, fmt.Sprintf("op-%d", n), 0)
			if n%100 == 99 {
				pass(100 * time.Minute / many)
			}
		}
		pass(2*time.Minute + time.Second)
		c.mu.Lock()
		c.calls, c.ticks, c.largest, c.most = 0, 0, 0, 0
		c.mu.Unlock()
		pass(minutes * time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		t.Logf("%d calls for %d ticks, up to %d operations each and %d at once; up to %d goroutines", c.calls, c.ticks, c.largest, c.most, c.goroutines)
		if c.ticks < many*(minutes-1) || c.ticks > many*minutes {
			t.Errorf("%d ticks in %d minutes of %d operations", c.ticks, minutes, many)
		}
		if c.calls > 12*5*minutes || c.largest != 200 || c.most != 2 {
			t.Errorf("%d calls, up to %d operations each and %d at once; want at most %d, 200 and 2", c.calls, c.largest, c.most, 12*5*minutes)
		}
		if c.goroutines > many/4 {
			t.Errorf("up to %d goroutines", c.goroutines)
		}
	})
}

func TestCloseLetsARunningStepEnd(t *testing.T) {
	var ended atomic.Int64
	slow := func() *driver {
		return newDriver(func(ctx context.Context, operation string, _ int) (broker.Step, error) {
			if operation == "quick" {
				return broker.Step{Wait: 3 * time.Second}, nil
			}
			select {
			case <-time.After(10 * time.Second):
				ended.Add(1)
			case <-ctx.Done():
			}
			return broker.Step{Wait: time.Second}, nil
		})
	}
	inBubble(t, loop.Options{Concurrency: 2}, slow, func(t *testing.T, l *loop.Loop, d *driver) {
		start(t, l, "quick", together)
		start(t, l, "running", together)
		pass(time.Second)
		start(t, l, "running too", together)
		start(t, l, "waiting for a place", together)
		start(t, l, "waiting for its time", time.Hour)
		pass(time.Second)
		l.Close(t.Context())
		if n := ended.Load(); n != 2 {
			t.Errorf("Close waited for %d of 2 steps", n)
		}
		pass(2 * time.Hour)
		d.saw(t, "quick at 1ms", "running at 1ms", "running too at 1.001s")
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
