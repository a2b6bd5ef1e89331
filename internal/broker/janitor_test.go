package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	locks "sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// crowd is a store with operations that are overdue, some of which cannot be read, and a workflow that notes what it is
// asked to start.
type crowd struct {
	*brokertest.MemoryStore
	broker *broker.Broker
	log    bytes.Buffer
	now    time.Time
	// unreadable are in the index but not to be had, as those of a newer version are.
	unreadable map[broker.Key]bool
	// list changes a page of the index; nil leaves it.
	list func(broker.UnfinishedPage, error) (broker.UnfinishedPage, error)

	mu      locks.Mutex
	started []broker.Start
	// each is called with the number of those started so far; nil for nothing.
	each func(n int) error
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{now: time.Date(2030, time.May, 1, 12, 0, 0, 0, time.UTC), unreadable: map[broker.Key]bool{}}
	clock := func() time.Time { return c.now }
	c.MemoryStore = brokertest.NewMemoryStore(clock)
	c.broker = broker.New(broker.Options{Store: c, Workflow: c, Now: clock, Logger: slog.New(slog.NewTextHandler(&c.log, nil))})
	return c
}

// add stores operations of a client that came one after the other, the last of them overdue since age.
func (c *crowd) add(t *testing.T, client string, n int, age time.Duration) {
	t.Helper()
	for i := range n {
		key := broker.Key{Client: client, InstanceID: fmt.Sprintf("i-%05d", i)}
		r := broker.Record{Key: key, Lifecycle: lifecycle.Record{
			Kind: key.Kind(), State: lifecycle.Creating, Seq: 1,
			Operation: lifecycle.Operation{
				ID: "create-" + key.InstanceID, Verb: lifecycle.Create,
				Due: c.now.Add(-age).Add(time.Duration(i-n) * time.Millisecond),
			},
		}}
		if _, err := c.Put(t.Context(), r, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *crowd) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	if c.unreadable[key] {
		return broker.Record{}, errNewer
	}
	return c.MemoryStore.Get(ctx, key)
}

func (c *crowd) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	all, err := c.MemoryStore.GetAll(ctx, keys)
	for i := range all {
		if c.unreadable[keys[i]] {
			all[i] = broker.Got{Err: errNewer}
		}
	}
	return all, err
}

var errNewer = errors.New("written by a newer Ferry")

func (c *crowd) Unfinished(ctx context.Context, due time.Time, after string, limit int) (broker.UnfinishedPage, error) {
	page, err := c.MemoryStore.Unfinished(ctx, due, after, limit)
	if c.list != nil {
		return c.list(page, err)
	}
	return page, err
}

func (c *crowd) Start(_ context.Context, s broker.Start) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = append(c.started, s)
	if c.each != nil {
		return c.each(len(c.started))
	}
	return nil
}

// restarts checks what a round came to, but for the text of its fault.
func (c *crowd) restarts(ctx context.Context, t *testing.T, workers int, want broker.Round) {
	t.Helper()
	got, err := c.broker.Restart(ctx, workers)
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(broker.Round{}, "Fault")); d != "" || err != nil {
		t.Errorf("round (-want +got):\n%s%v", d, err)
	}
	if failed := want.Failed + want.Unreadable; (got.Fault != nil) != (failed > 0) {
		t.Errorf("the fault of %d that failed: %v", failed, got.Fault)
	}
}

// TestWhatCannotBeRestartedKeepsNobody: law 5. The oldest overdue operations come first in every round, and nothing
// ever moves those that cannot be served.
func TestWhatCannotBeRestartedKeepsNobody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(c *crowd)
		want  broker.Round
		say   string
	}{
		"records of a newer version, after a roll-back": {func(c *crowd) {
			for i := range 2500 {
				c.unreadable[broker.Key{Client: "old", InstanceID: fmt.Sprintf("i-%05d", i)}] = true
			}
		}, broker.Round{Restarted: 12, Failed: 2500}, `failed=2500 unreadable=0 restarted=12 error="operation create-i-`},
		"operations that cannot be started": {func(c *crowd) {
			c.each = func(int) error {
				if c.started[len(c.started)-1].Key.Client == "old" {
					return errors.New("throttled")
				}
				return nil
			}
		}, broker.Round{Restarted: 12, Failed: 2500}, "throttled"},
		"operations that end in a panic, whose value nobody sees": {func(c *crowd) {
			c.each = func(int) error {
				if c.started[len(c.started)-1].Key.Client == "old" {
					panic("s3cr3t")
				}
				return nil
			}
		}, broker.Round{Restarted: 12, Failed: 2500}, "panic with a value of the type string"},
		"entries of the index that cannot be read": {func(c *crowd) {
			c.list = func(page broker.UnfinishedPage, err error) (broker.UnfinishedPage, error) {
				for len(page.Operations) > 0 && page.Operations[0].Key.Client == "old" {
					page.Operations, page.Unreadable, page.Fault = page.Operations[1:], page.Unreadable+1, errors.New("malformed item")
				}
				return page, err
			}
		}, broker.Round{Restarted: 12, Unreadable: 2500}, `failed=0 unreadable=2500 restarted=12 error="malformed item"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t)
			c.add(t, "old", 2500, time.Hour)
			c.add(t, "a", 12, time.Minute)
			test.spoil(c)
			c.restarts(t.Context(), t, 4, test.want)
			if text := c.log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, test.say) || strings.Contains(text, "s3cr3t") {
				t.Errorf("want one warning with %s, not\n%.4000s", test.say, text)
			}
		})
	}
}

// TestAllThatIsOverdueIsRestartedInOneRound, by workers that do not get into each other's way, and no second time while
// it may still show itself.
func TestAllThatIsOverdueIsRestartedInOneRound(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.add(t, "a", 3000, time.Hour)
	c.restarts(t.Context(), t, 8, broker.Round{Restarted: 3000})
	c.restarts(t.Context(), t, 8, broker.Round{})
	seen := map[string]bool{}
	for _, s := range c.started {
		seen[s.Operation] = true
	}
	if len(seen) != 3000 || len(c.started) != 3000 {
		t.Errorf("%d starts of %d operations", len(c.started), len(seen))
	}
}

// TestClientsTakeTurnsInARound: the one with a thousand older operations is not served before the one with two.
func TestClientsTakeTurnsInARound(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.add(t, "many", 1500, time.Hour)
	c.add(t, "few", 2, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	c.each = func(n int) error {
		if n == 5 {
			cancel() // the round's time is over
		}
		return nil
	}
	c.restarts(ctx, t, 1, broker.Round{Restarted: 5, Left: 1497})
	var clients []string
	for _, s := range c.started {
		clients = append(clients, s.Key.Client)
	}
	if d := cmp.Diff([]string{"few", "many", "few", "many", "many"}, clients); d != "" {
		t.Errorf("in turn (-want +got):\n%s", d)
	}
	if strings.Contains(c.log.String(), "level=WARN") {
		t.Errorf("that time is over is no fault:\n%s", c.log.String())
	}
}

// TestALaggingIndexRestartsNothing: what it still lists may have moved on, have ended, be another operation's by now or
// be gone.
func TestALaggingIndexRestartsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *broker.Record){
		"the operation has shown itself since": func(r *broker.Record) { r.Lifecycle.Operation.Due = r.Lifecycle.Operation.Due.Add(2 * time.Hour) },
		"it has ended":                         func(r *broker.Record) { r.Lifecycle.State = lifecycle.Ready },
		"another one has taken its place":      func(r *broker.Record) { r.Lifecycle.Operation.ID = "delete-1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t)
			c.add(t, "a", 1, time.Hour)
			stale, err := c.MemoryStore.Unfinished(t.Context(), c.now, "", 1)
			if err != nil || len(stale.Operations) != 1 {
				t.Fatal(stale, err)
			}
			c.list = func(broker.UnfinishedPage, error) (broker.UnfinishedPage, error) { return stale, nil }
			r, err := c.Get(t.Context(), stale.Operations[0].Key)
			if err != nil {
				t.Fatal(err)
			}
			change(&r)
			if _, err := c.Put(t.Context(), r, r.Revision); err != nil {
				t.Fatal(err)
			}
			before := c.All()
			c.restarts(t.Context(), t, 1, broker.Round{})
			if d := cmp.Diff(before, c.All()); d != "" || len(c.started) > 0 {
				t.Errorf("started %+v; the store (-before +now):\n%s", c.started, d)
			}
		})
	}
}

// TestResumeReadsPageAfterPage, and past what it cannot read: a process that takes the store over drives what it can.
func TestResumeReadsPageAfterPage(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.add(t, "a", 2500, 0)
	c.list = func(page broker.UnfinishedPage, err error) (broker.UnfinishedPage, error) {
		page.Operations, page.Unreadable, page.Fault = page.Operations[1:], 1, errors.New("malformed item")
		return page, err
	}
	n, err := c.broker.Resume(t.Context())
	if n != 2497 || len(c.started) != 2497 || err != nil {
		t.Errorf("%d resumed, %d started, %v", n, len(c.started), err)
	}
	if text := c.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "unreadable=3") {
		t.Errorf("want one warning, not\n%s", text)
	}
}

// pass lets every execution that was started make its steps, and the janitor its rounds, for a while. An execution that
// has ended makes none.
func (r *run) pass(operation string, d time.Duration) {
	r.t.Helper()
	next, ended := map[int]time.Time{}, map[int]bool{}
	for until := r.Now().Add(d); r.Now().Before(until); r.Advance(time.Second) {
		for i := range r.Started {
			if ended[i] || r.Now().Before(next[i]) {
				continue
			}
			step := r.step(operation)
			next[i], ended[i] = r.Now().Add(max(step.Wait, time.Second)), step.Done
		}
		if r.Now().Second() == 0 {
			r.Finish(r.Go("janitor", func(ctx context.Context) (any, error) { return r.Broker.Restart(ctx, 1) }))
		}
	}
}

// moody says that Cloud Foundry does not answer, or asks to be left alone, and counts its POSTs.
type moody struct {
	away  bool
	busy  time.Duration
	posts int
}

func newMoodyRun(t *testing.T) (*run, *moody) {
	t.Helper()
	r, m := newRun(t, brokertest.ScheduleOptions{}), &moody{}
	cloud := r.intercepted()
	cloud.Look = func(ctx context.Context, _ string, _ broker.Lookup, look brokertest.Look) (broker.Look, error) {
		if m.away {
			return broker.Look{}, errors.New("no route to host")
		}
		return look(ctx)
	}
	cloud.Call = func(ctx context.Context, _ string, _ broker.InstanceCall, call brokertest.Call) (broker.Answer, error) {
		m.posts++
		switch {
		case m.busy > 0:
			return broker.Answer{Reply: lifecycle.ReplyBusy, RetryAfter: m.busy}, errors.New("429")
		case m.away:
			return broker.Answer{Reply: lifecycle.ReplyUnknown, RetryAfter: time.Hour}, errors.New("503 from somebody else")
		default:
			return call(ctx)
		}
	}
	return r, m
}

// TestTheJanitorLeavesTheLivingAlone: an operation whose driver waits, for whatever reason and however long, is not
// started a second time.
func TestTheJanitorLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before func(*run, *moody)
		posts  int
	}{
		"Cloud Foundry takes its time":                      {func(*run, *moody) {}, 1},
		"Cloud Foundry is away":                             {func(r *run, m *moody) { r.step(r.Started[0].Operation); m.away = true }, 1},
		"Cloud Foundry asks to be left alone for an hour":   {func(_ *run, m *moody) { m.busy = time.Hour }, 2},
		"somebody in front of it does, and may have passed": {func(_ *run, m *moody) { m.away = true }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, m := newMoodyRun(t)
			op := r.accepted(r.put())
			test.before(r, m)
			r.pass(op, 100*time.Minute)
			if len(r.Started) != 1 {
				t.Errorf("%d executions, want one: %+v", len(r.Started), r.Started)
			}
			if m.posts > test.posts {
				t.Errorf("%d POSTs, want at most %d", m.posts, test.posts)
			}
			m.away, m.busy = false, 0
			r.pass(op, 2*time.Hour)
			r.Cloud.FinishAll()
			r.pass(op, time.Hour)
			r.wants(op, "succeeded")
		})
	}
}

// deaf is a workflow that cannot be started.
type deaf struct{}

func (deaf) Start(context.Context, broker.Start) error { return errors.New("throttled") }

// TestAWorkflowThatDoesNotStart: the request is accepted all the same, and the janitor starts the workflow later.
func TestAWorkflowThatDoesNotStart(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	workflow := r.Workflow.Workflow
	r.Workflow.Workflow = deaf{}
	op := r.accepted(r.put())
	r.Workflow.Workflow = workflow
	restart := func(want int) {
		t.Helper()
		if round, err := r.Broker.Restart(t.Context(), 1); err != nil || round != (broker.Round{Restarted: want}) {
			t.Errorf("Restart = %+v, %v; want %d", round, err, want)
		}
	}
	restart(0)
	r.Advance(3 * time.Minute)
	restart(1)
	restart(0)
	want := []broker.Start{{Key: instanceKey(), Operation: op, Restart: 1}}
	if diff := cmp.Diff(want, r.Started); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	r.drive(op)
	r.Advance(time.Hour)
	restart(0)
}

// TestResume: a process that takes a store over drives what it finds, once each.
func TestResume(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	op := r.accepted(r.bind())
	r.Started = nil
	before := r.Store.All()
	n, err := r.Broker.Resume(t.Context())
	if err != nil || n != 1 {
		t.Errorf("Resume = %d, %v; want 1", n, err)
	}
	if diff := cmp.Diff([]broker.Start{{Key: bindingKey(), Operation: op}}, r.Started); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, r.Store.All()); diff != "" {
		t.Errorf("Resume wrote (-before +after):\n%s", diff)
	}
}
