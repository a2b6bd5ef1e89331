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
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// estate is a store and a Cloud Foundry with a broker whose operations rounds take up, in the time of a synctest
// bubble. Nothing is started: what is accepted waits for a round.
type estate struct {
	*testing.T
	store *brokertest.MemoryStore
	cloud *brokertest.FakeCloud
	// ports is what the broker calls; a test wraps it.
	ports  *watched
	broker *broker.Broker
	log    bytes.Buffer
	// started are the workflows that the broker began.
	started []broker.Start
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	e := &estate{T: t, store: brokertest.NewMemoryStore(time.Now)}
	e.cloud = brokertest.NewFakeCloud(brokertest.CloudOptions{Now: time.Now, SlowFor: 10 * time.Hour})
	e.renew(nil)
	return e
}

// renew begins a new process, in which each call of a port is made by call, which is told its name; nil: as it is.
func (e *estate) renew(call func(name string, make func())) {
	if call == nil {
		call = func(_ string, make func()) { make() }
	}
	e.ports = &watched{Store: e.store, call: call}
	cloud := &brokertest.Intercepted{Backend: e.cloud}
	cloud.Look = func(ctx context.Context, method string, q broker.Lookup, look brokertest.Look) (l broker.Look, err error) {
		err = errDead
		call(method+" "+q.Name, func() { l, err = look(ctx) })
		return l, err
	}
	cloud.Call = func(ctx context.Context, method string, _ broker.InstanceCall, send brokertest.Call) (a broker.Answer, err error) {
		a, err = broker.Answer{Reply: lifecycle.ReplyUnknown}, errDead
		call(method, func() { a, err = send(ctx) })
		return a, err
	}
	e.broker = broker.New(broker.Options{
		Store: e.ports, Backends: map[string]broker.Backend{brokertest.Client: cloud}, Catalog: brokertest.NewFakeCatalog(),
		Workflow: e, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&e.log, nil)), Process: fmt.Sprint(time.Now()), Swept: true,
	})
}

// Start implements broker.Workflow: nobody drives but rounds.
func (e *estate) Start(_ context.Context, s broker.Start) error {
	e.started = append(e.started, s)
	return nil
}

var errDead = errors.New("the process is dead")

// watched is a store whose calls are made by somebody.
type watched struct {
	broker.Store
	call func(name string, make func())
}

func (w *watched) Get(ctx context.Context, key broker.Key) (r broker.Record, err error) {
	err = errDead
	w.call("Get", func() { r, err = w.Store.Get(ctx, key) })
	return r, err
}

func (w *watched) GetAll(ctx context.Context, keys []broker.Key) (all []broker.Got, err error) {
	err = errDead
	w.call("GetAll", func() { all, err = w.Store.GetAll(ctx, keys) })
	return all, err
}

func (w *watched) Put(ctx context.Context, next broker.Record, revision int64) (r broker.Record, err error) {
	err = errDead
	w.call("Put", func() { r, err = w.Store.Put(ctx, next, revision) })
	return r, err
}

func (w *watched) Unfinished(ctx context.Context, due time.Time, after string, limit int) (page broker.UnfinishedPage, err error) {
	err = errDead
	w.call("Unfinished", func() { page, err = w.Store.Unfinished(ctx, due, after, limit) })
	return page, err
}

// put accepts the create of an instance on a plan.
func (e *estate) put(id, plan string) string {
	e.Helper()
	return e.accepted(putOf(func(q *broker.ProvisionRequest) { q.InstanceID, q.Body.PlanID = id, brokertest.PlanID(plan) }))
}

func (e *estate) accepted(q request) string {
	e.Helper()
	result, err := q(e.Context(), e.broker)
	if err != nil || result.Outcome != broker.OutcomeAccepted {
		e.Fatalf("%+v, %v; want it accepted", result, err)
	}
	return result.Operation
}

// sweep makes one round, as the janitor does, and returns what it came to and whether it repeated.
func (e *estate) sweep() (broker.Round, bool) {
	e.Helper()
	repeats := false
	round, err := e.broker.Sweep(e.Context(), time.Now().Add(broker.RoundTime), func(r bool) { repeats = r })
	if err != nil && !errors.Is(err, errDead) {
		e.Fatal(err)
	}
	return round, repeats
}

// sweepFor makes a round each minute for a while.
func (e *estate) sweepFor(d time.Duration) {
	e.Helper()
	for until := time.Now().Add(d); time.Now().Before(until); {
		next := time.Now().Add(broker.RoundEvery)
		e.sweep()
		pass(time.Until(next))
	}
}

// pass lets time go by in a bubble.
func pass(d time.Duration) { _ = broker.Sleep(context.Background(), d) }

// running are the operations that have not ended.
func (e *estate) running() []broker.Unfinished {
	e.Helper()
	page, err := e.store.Unfinished(e.Context(), time.Now().Add(1<<62), "", 1000)
	if err != nil {
		e.Fatal(err)
	}
	return page.Operations
}

// beginning is longer than others drive an operation before rounds do.
const beginning = 25 * time.Second

// TestARoundLooksAsOftenAsThePaceSays, for an operation that Cloud Foundry does not finish, and writes nothing while it
// merely waits.
func TestARoundLooksAsOftenAsThePaceSays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		age     time.Duration
		rounds  int
		looks   int
		repeats bool
	}{
		"its workflow is at it":                       {5 * time.Second, 1, 1, true},
		"young, each 20 s":                            {time.Minute, 1, 3, true},
		"still young":                                 {4 * time.Minute, 1, 3, true},
		"each minute":                                 {6 * time.Minute, 3, 3, false},
		"after an hour once in five rounds":           {2*time.Hour + 30*time.Second, 10, 2, false},
		"and so, wherever in the five minutes it is":  {2*time.Hour + 200*time.Second, 10, 2, false},
		"past its deadline in every round, to end it": {169 * time.Hour, 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEstate(t)
				e.cloud = brokertest.NewFakeCloud(brokertest.CloudOptions{Now: time.Now, Manual: true})
				looks, writes := 0, 0
				e.renew(func(name string, make func()) {
					looks += strings.Count(name, "FindInstances")
					writes += strings.Count(name, "Put")
					make()
				})
				began := time.Now()
				e.put("i", brokertest.PlanSlow)
				if test.age > beginning {
					pass(21 * time.Second)
					e.sweep() // which sends the POST, and notes what it sees
				}
				pass(time.Until(began.Add(test.age)))
				looks, writes = 0, 0
				for n := range test.rounds {
					began := time.Now()
					next := began.Add(broker.RoundEvery)
					if _, repeats := e.sweep(); repeats != test.repeats {
						t.Errorf("round %d repeats: %t", n, repeats)
					}
					if took := time.Since(began); took != 0 && took != 40*time.Second {
						t.Errorf("round %d took %s, and its last look comes 40 s after the first", n, took)
					}
					pass(time.Until(next))
				}
				if looks != test.looks {
					t.Errorf("%d looks in %d rounds, want %d; %v", looks, test.rounds, test.looks, e.running())
				}
				if ended := len(e.running()) == 0; writes > 0 && !ended && test.age > beginning {
					t.Errorf("%d writes while it waited", writes)
				}
			})
		})
	}
}

// TestARoundEndsWithWhatIsDue: what ended at its first look needs no other one.
func TestARoundEndsWithWhatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t)
		e.put("i", brokertest.PlanSmall)
		e.broker.AdvanceAll(t.Context(), e.running(), func(int, broker.Step, error) {})
		pass(21 * time.Second)
		began := time.Now()
		if round, repeats := e.sweep(); repeats || round.Driven != 1 || time.Since(began) != 0 || len(e.running()) > 0 {
			t.Errorf("%+v, repeats %t, took %s", round, repeats, time.Since(began))
		}
	})
}

// TestRetryAfterSaysWhenARoundLooks: while others drive the beginning it is their pace, then that of rounds.
func TestRetryAfterSaysWhenARoundLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t)
		began := time.Now()
		operation := e.put("i", brokertest.PlanSlow)
		for _, step := range []struct {
			age  time.Duration
			want int
		}{{0, 2}, {10 * time.Second, 5}, {20 * time.Second, 20}, {4 * time.Minute, 20}, {5 * time.Minute, 60}, {2 * time.Hour, 300}} {
			pass(time.Until(began.Add(step.age)))
			result, err := e.broker.LastOperation(t.Context(), broker.PollRequest{Client: brokertest.Client, InstanceID: "i", Operation: operation})
			if err != nil || result.RetryAfter != step.want {
				t.Errorf("after %s: %+v, %v; want Retry-After %d", step.age, result, err, step.want)
			}
		}
	})
}

// TestHeldRequestsStartNoWorkflow where rounds take up what is due: should the request die, its operation is due when
// its time is over.
func TestHeldRequestsStartNoWorkflow(t *testing.T) {
	t.Parallel()
	swept := func(o *broker.Options) { o.Swept = true }
	for name, test := range map[string]struct {
		request request
		bound   bool
		starts  int
		due     time.Duration
	}{
		"a held bind":   {bindWith(sync), false, 0, 26 * time.Second},
		"a bind":        {bindWith(same), false, 1, 20 * time.Second},
		"a held unbind": {deleteWith("b", syncDelete), true, 0, 26 * time.Second},
		"an unbind":     {deleteWith("b", same), true, 1, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{Configure: swept})
			if test.bound {
				r.drive(r.accepted(r.bind()))
			}
			starts, began := len(r.Started), r.Now()
			a := r.begin("request", test.request)
			for !a.Done() && !r.record(bindingKey()).Lifecycle.Running(r.record(bindingKey()).Lifecycle.Operation.ID) {
				r.Choose(a, brokertest.Proceed)
			}
			if due := r.record(bindingKey()).Lifecycle.Operation.Due.Sub(began); due != test.due {
				t.Errorf("it is due after %s, want %s", due, test.due)
			}
			if test.starts == 0 {
				r.Reach(a, "Sleep")
			} else {
				r.Finish(a)
			}
			if n := len(r.Started) - starts; n != test.starts {
				t.Errorf("%d workflows started, want %d", n, test.starts)
			}
		})
	}
}

// TestRoundsMayDieAnywhere: law 1. Whichever call of a port is the last that a round makes, whether it takes effect or
// not, the rounds after it end every operation, each with one thing made in Cloud Foundry.
func TestRoundsMayDieAnywhere(t *testing.T) {
	t.Parallel()
	for _, takesEffect := range []bool{false, true} {
		t.Run(fmt.Sprintf("its last call takes effect %t", takesEffect), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				died := false
				synctest.Test(t, func(t *testing.T) {
					e := newEstate(t)
					e.threeUnderWay()
					var mu locks.Mutex
					calls := 0
					e.renew(func(_ string, make func()) {
						mu.Lock()
						defer mu.Unlock()
						calls++
						if died = calls >= n; calls < n || calls == n && takesEffect {
							make()
						}
					})
					e.sweep()
					e.renew(nil)
					e.sweepFor(time.Hour)
					e.allEnded(fmt.Sprintf("death at call %d", n))
				})
				if !died {
					if n < 15 {
						t.Errorf("the round had only %d calls", n-1)
					}
					return
				}
			}
		})
	}
}

// threeUnderWay accepts two creates, and a delete of an instance that has a binding, so that they are due.
func (e *estate) threeUnderWay() {
	e.Helper()
	e.put("old", brokertest.PlanSmall)
	e.sweepFor(2 * time.Minute)
	e.accepted(bindWith(func(q *broker.BindRequest) { q.InstanceID = "old" }))
	e.sweepFor(2 * time.Minute)
	e.put("i", brokertest.PlanSmall)
	e.put("j", brokertest.PlanSmall)
	e.accepted(deleteWith("", func(q *broker.DeleteRequest) { q.InstanceID = "old" }))
	pass(21 * time.Second)
}

// allEnded fails unless both creates have succeeded with one POST each, and nothing else is left.
func (e *estate) allEnded(when string) {
	e.Helper()
	if running := e.running(); len(running) > 0 {
		e.Errorf("%s: %v go on", when, running)
	}
	for _, id := range []string{"i", "j"} {
		r, err := e.store.Get(e.Context(), broker.Key{Client: brokertest.Client, InstanceID: id})
		if err != nil || r.Lifecycle.State != lifecycle.Ready {
			e.Errorf("%s: %s is %s, %v", when, id, r.Lifecycle.State, err)
		}
		if n := e.cloud.EffectsOf(id).Posts; n != 1 {
			e.Errorf("%s: %d POSTs for %s", when, n, id)
		}
	}
	if left := e.cloud.Left(); len(left) != 2 {
		e.Errorf("%s: Cloud Foundry holds %s", when, e.cloud.Describe())
	}
}

// TestTwoRoundsAtOnce make one thing of each operation: both read before either writes.
func TestTwoRoundsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t)
		e.threeUnderWay()
		var both locks.WaitGroup
		both.Add(2)
		e.renew(func(name string, make func()) {
			make()
			if name == "GetAll" && time.Now().Nanosecond() == 0 {
				pass(time.Second) // so that the other one has read, too
			}
		})
		for range 2 {
			go func() { defer both.Done(); e.sweep() }()
		}
		both.Wait()
		e.renew(nil)
		e.sweepFor(time.Hour)
		e.allEnded("two rounds")
	})
}

// TestRoundsAndWorkflowsOfAnEarlierVersion take turns: a version that is rolled back to restarts workflows, and what it
// has put off is taken up when that is over.
func TestRoundsAndWorkflowsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t)
		e.threeUnderWay()
		before := len(e.started)
		old := broker.New(broker.Options{Store: e.store, Workflow: e, Now: time.Now, Catalog: brokertest.NewFakeCatalog()})
		if round, err := old.Restart(t.Context(), 1); err != nil || round.Restarted != 3 || len(e.started) != before+3 {
			t.Fatalf("%+v, %v, %d started", round, err, len(e.started)-before)
		}
		if round, _ := e.sweep(); round.Driven != 0 {
			t.Errorf("a round drove %+v that the other version has just restarted", round)
		}
		e.sweepFor(time.Hour)
		e.allEnded("afterwards")
	})
}

// TestOneOfACrowdHarmsNobodyElse: neither a record that cannot be read, nor a panic, nor a Cloud Foundry that hangs.
func TestOneOfACrowdHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t)
		for _, id := range []string{"i", "j", "panics", "newer", "absent"} {
			e.put(id, brokertest.PlanSmall)
		}
		operations := e.running()
		e.renew(func(name string, make func()) {
			if name == "FindInstances panics" {
				panic("s3cr3t")
			}
			make()
		})
		e.ports.Store = newer{e.store}
		ended := map[string]string{}
		var mu locks.Mutex
		for range 2 {
			e.broker.AdvanceAll(t.Context(), operations, func(i int, step broker.Step, err error) {
				mu.Lock()
				defer mu.Unlock()
				ended[operations[i].Key.InstanceID] = fmt.Sprintf("%t %v", step.Done, err)
			})
		}
		want := map[string]string{
			"i": "true <nil>", "j": "true <nil>", "absent": "true <nil>",
			"panics": "false panic with a value of the type string", "newer": "false written by a newer Ferry",
		}
		if d := cmp.Diff(want, ended); d != "" {
			t.Errorf("ended (-want +got):\n%s", d)
		}
	})
}

// newer is a store with a record that cannot be read, and one that has gone.
type newer struct{ broker.Store }

func (n newer) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	all, err := n.Store.GetAll(ctx, keys)
	for i, key := range keys {
		switch key.InstanceID {
		case "newer":
			all[i] = broker.Got{Err: errors.New("written by a newer Ferry")}
		case "absent":
			all[i] = broker.Got{Err: broker.ErrNotFound}
		}
	}
	return all, err
}

// TestACrowdReadsBeforeItLooks: docs/protocol.md 3.9 and 7. The own records come first, then the instances of bindings,
// then every look-up, then the writes.
func TestACrowdReadsBeforeItLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t)
		e.put("i", brokertest.PlanSmall)
		e.sweepFor(2 * time.Minute)
		e.accepted(bindWith(same))
		e.put("j", brokertest.PlanSmall)
		e.broker.AdvanceAll(t.Context(), e.running(), func(int, broker.Step, error) {}) // sends the POSTs
		var calls []string
		var mu locks.Mutex
		e.renew(func(name string, make func()) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, strings.TrimRight(name, " "))
			make()
		})
		e.broker.AdvanceAll(t.Context(), e.running(), func(_ int, step broker.Step, err error) {
			if err != nil || !step.Done {
				t.Errorf("%+v, %v", step, err)
			}
		})
		if len(calls) != 6 || calls[0] != "GetAll" || calls[1] != "GetAll" || strings.Contains(strings.Join(calls[2:], " "), "Get") {
			t.Errorf("the calls are %v", calls)
		}
	})
}

// TestAClientThatHangsHoldsUpNoOther: a round drives each client by itself.
func TestAClientThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := brokertest.NewMemoryStore(time.Now)
		hangs := &brokertest.Intercepted{Backend: brokertest.NewFakeCloud(brokertest.CloudOptions{Now: time.Now})}
		hangs.Call = func(ctx context.Context, _ string, _ broker.InstanceCall, _ brokertest.Call) (broker.Answer, error) {
			<-ctx.Done()
			return broker.Answer{Reply: lifecycle.ReplyUnknown}, ctx.Err()
		}
		b := broker.New(broker.Options{
			Store: store, Catalog: brokertest.NewFakeCatalog(), Workflow: &estate{}, Now: time.Now, Swept: true,
			Backends: map[string]broker.Backend{"hangs": hangs, brokertest.Client: brokertest.NewFakeCloud(brokertest.CloudOptions{Now: time.Now})},
		})
		for n := range 700 {
			for _, client := range []string{"hangs", brokertest.Client} {
				_, err := putOf(func(q *broker.ProvisionRequest) { q.Client, q.InstanceID = client, fmt.Sprint(n) })(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		pass(21 * time.Second)
		go func() { _, _ = b.Sweep(t.Context(), time.Now().Add(broker.RoundTime), func(bool) {}) }()
		pass(25 * time.Second)
		counts := map[string]int{}
		for _, r := range store.All() {
			if r.Lifecycle.State == lifecycle.Ready {
				counts[r.Key.Client]++
			}
		}
		if counts[brokertest.Client] != 700 || counts["hangs"] != 0 {
			t.Errorf("ready after half a minute: %v", counts)
		}
		pass(10 * time.Minute) // the round ends
	})
}

// TestNextLook: an execution leaves its operation to rounds only where one is sure to look soon.
func TestNextLook(t *testing.T) {
	t.Parallel()
	began := time.Date(2030, time.May, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		note  broker.RoundNote
		after time.Duration
		want  time.Duration
		known bool
	}{
		"there never was one":                {broker.RoundNote{}, 0, 0, false},
		"one that repeats looks soon":        {broker.RoundNote{Began: began, Repeats: true}, 5 * time.Second, 20 * time.Second, true},
		"but for the next one, when sooner":  {broker.RoundNote{Began: began, Repeats: true}, 50 * time.Second, 10 * time.Second, true},
		"after one that ended comes another": {broker.RoundNote{Began: began}, 5 * time.Second, 55 * time.Second, true},
		"which may be a little late":         {broker.RoundNote{Began: began}, 70 * time.Second, 0, true},
		"but not much":                       {broker.RoundNote{Began: began}, 76 * time.Second, 0, false},
		"a clock that is behind knows none":  {broker.RoundNote{Began: began}, -time.Second, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, known := test.note.NextLook(began.Add(test.after), 20*time.Second); got != test.want || known != test.known {
				t.Errorf("%s, %t; want %s, %t", got, known, test.want, test.known)
			}
		})
	}
}
