package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// stage is the poller over a broker in memory, with an execution for each operation and a round each minute, in the
// time of a synctest bubble.
type stage struct {
	*testing.T
	poller *Poller
	broker *broker.Broker
	store  *brokertest.MemoryStore
	begin  func(broker.Start)
	// turns counts the poller's invocations.
	turns int
}

const every = 20 * time.Second

// newStage returns one whose executions end with the context.
func newStage(ctx context.Context, t *testing.T, cloud broker.Backend) *stage {
	t.Helper()
	s := &stage{T: t, store: brokertest.NewMemoryStore(time.Now)}
	s.begin = func(start broker.Start) { s.execute(ctx, start) }
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	s.poller = &Poller{core: &core{notes: s.store, parts: setup.Parts{Now: time.Now, Logger: logger}}, sleep: broker.Sleep}
	s.broker = broker.New(broker.Options{
		Store: s.store, Backends: map[string]broker.Backend{brokertest.Client: cloud}, Catalog: brokertest.NewFakeCatalog(),
		Workflow: s, Now: time.Now, Logger: logger, Process: "p", Swept: true,
	})
	return s
}

// Start implements broker.Workflow as the state machine does.
func (s *stage) Start(_ context.Context, start broker.Start) error {
	go s.begin(start)
	return nil
}

func (s *stage) execute(ctx context.Context, start broker.Start) {
	for tick := sfn.NewTick(start); ctx.Err() == nil; {
		s.turns++
		step, err := s.poller.advance(ctx, s.broker, start.Key, start.Operation)
		if err != nil || step.Done {
			return
		}
		if tick = s.poller.leave(ctx, tick, step, every); tick.HandedOver {
			return
		}
		_ = broker.Sleep(ctx, time.Duration(tick.WaitSeconds)*time.Second)
	}
}

// rounds makes a round each minute, as the schedule and the janitor do, until ctx ends.
func (s *stage) rounds(ctx context.Context) {
	for ; ctx.Err() == nil; _ = broker.Sleep(ctx, broker.RoundEvery) {
		go func() {
			began := time.Now()
			_, _ = s.broker.Sweep(ctx, began.Add(broker.RoundTime), func(repeats bool) {
				_ = s.store.PutRound(ctx, broker.RoundNote{Began: began, Repeats: repeats})
			})
		}()
	}
}

// TestAnEndIsNoticedSoon, wherever in the minute the rounds come: a quick create as soon as ever, one that takes
// longer at most 20 s late while it is young, and a minute later on. Where no rounds come, executions notice it.
func TestAnEndIsNoticedSoon(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		takes, late time.Duration
		turns       int
		rounds      bool
	}{
		{2 * time.Second, 0, 1, true},
		{10 * time.Second, 6 * time.Second, 1, true},
		{14 * time.Second, every, 3, true},
		{25 * time.Second, every, 3, true},
		{25 * time.Second, 10 * time.Second, 9, false},
		{40 * time.Second, every, 3, true},
		{100 * time.Second, every, 3, true},
		{299 * time.Second, every, 3, true},
		{20 * time.Minute, time.Minute, 3, true},
	} {
		t.Run(fmt.Sprintf("a create of %s, rounds %t", test.takes, test.rounds), func(t *testing.T) {
			t.Parallel()
			for phase := time.Duration(0); phase < time.Minute; phase += 3 * time.Second {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer synctest.Wait()
					defer cancel()
					s := newStage(ctx, t, brokertest.NewFakeCloud(brokertest.CloudOptions{Now: time.Now, SlowFor: test.takes}))
					if test.rounds {
						go s.rounds(ctx)
					}
					_ = broker.Sleep(ctx, 5*time.Minute+phase)
					key := broker.Key{Client: brokertest.Client, InstanceID: "i"}
					took := s.created(key, max(100*time.Millisecond, test.takes/500))
					if late := took - test.takes; late < 0 || late > test.late+time.Second+test.takes/500 {
						t.Errorf("phase %s: noticed %s late, want at most %s", phase, late, test.late)
					}
					if s.turns > test.turns {
						t.Errorf("phase %s: %d turns of the execution, want at most %d", phase, s.turns, test.turns)
					}
				})
			}
		})
	}
}

// created accepts a create that takes a while, and returns how long it took to be ready, as seen every so often.
func (s *stage) created(key broker.Key, often time.Duration) time.Duration {
	s.Helper()
	began := time.Now()
	_, err := s.broker.Provision(s.Context(), broker.ProvisionRequest{
		Call: broker.Call{Client: key.Client, AcceptsIncomplete: true}, InstanceID: key.InstanceID,
		Body: osb.ProvisionRequest{
			ServiceID: brokertest.ServiceDB, PlanID: brokertest.PlanID(brokertest.PlanSlow), OrganizationGUID: "o", SpaceGUID: "s",
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	for {
		_ = broker.Sleep(s.Context(), often)
		r, err := s.store.Get(s.Context(), key)
		if err != nil || time.Since(began) > time.Hour {
			s.Fatalf("%+v, %v", r.Lifecycle, err)
		}
		if r.Lifecycle.State == lifecycle.Ready {
			return time.Since(began)
		}
	}
}

// inFlight stores creates that Cloud Foundry works on, and what it shows of them.
func (h *harness) inFlight(t *testing.T, n int) (guids []string) {
	t.Helper()
	h.hold(true)
	for i := range n {
		key := broker.Key{Client: "demo", InstanceID: fmt.Sprintf("3f0c8c5e-8f0e-4c8a-9d4e-%012d", i)}
		id := fmt.Sprintf("create-%032d", i)
		var row struct{ GUID string }
		body := fmt.Sprintf(`{"org":"demo","space":"postgres","name":%q,"offering":"postgres","plan":"small",
			"annotations":{"ferry-operation":%q,"ferry-seq":"1"},"labels":{"ferry-client":"demo"},
			"last_operation":{"type":"create","state":"in progress"}}`, key.InstanceID, id)
		if err := json.Unmarshal(h.control(t, "instances", body), &row); err != nil {
			t.Fatal(err)
		}
		guids = append(guids, row.GUID)
		_, err := h.table.Put(t.Context(), broker.Record{Key: key, Attributes: broker.Attributes{OfferingName: "postgres"}, Lifecycle: lifecycle.Record{
			Kind: key.Kind(), State: lifecycle.Creating, Seq: 1, GUIDs: []string{row.GUID},
			Operation: lifecycle.Operation{
				ID: id, Verb: lifecycle.Create, Seq: 1, Started: h.now(), Deadline: h.now().Add(168 * time.Hour), Due: h.now(),
				Calls: 1, Answered: 1, CreatedWithoutJob: true,
			},
		}}, 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	return guids
}

// minutes makes a round each minute.
func (h *harness) minutes(t *testing.T, n int) {
	t.Helper()
	for range n {
		next := h.now().Add(time.Minute)
		if err := h.janitor.Handle(t.Context(), Schedule{}); err != nil {
			t.Fatalf("%v; the log: %.2000s", err, h.log)
		}
		h.pass(next.Sub(h.now()))
	}
}

// TestTenThousandInFlight cost Cloud Foundry three calls a second at most, while they are young and later on, and the
// table not one write. Under the race detector they are fewer; `make in-flight` is without it.
func TestTenThousandInFlight(t *testing.T) {
	t.Parallel()
	n := 10_000 / raced
	h := newHarness(t)
	h.inFlight(t, n)
	before := h.table.All()
	for _, part := range []struct {
		name    string
		minutes int
		most    float64
	}{{"young", 1, 3}, {"older", 1, 1.2}} {
		asked := h.asked
		h.minutes(t, part.minutes)
		h.pass(5 * time.Minute)
		if rate := float64(h.asked-asked) / (60 * float64(part.minutes)); rate > part.most {
			t.Errorf("%s: %.2f calls a second, want at most %v", part.name, rate, part.most)
		} else {
			t.Logf("%s: %.2f calls a second with %d in flight", part.name, rate, n)
		}
	}
	if diff := cmp.Diff(before, h.table.All()); diff != "" {
		t.Errorf("what merely waits was written (-before +now):\n%.2000s", diff)
	}
}

// TestALimiterIsNotMet by a thousand in flight, in an hour at 2,000 requests; and every operation ends.
func TestALimiterIsNotMet(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.control(t, "limits", `{"requests":2000,"window_ms":3600000}`)
	guids := h.inFlight(t, 1000/raced)
	refused, sim := 0, h.sim
	h.sim = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		if sim.ServeHTTP(answer, r); answer.Code == http.StatusTooManyRequests {
			refused++
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
	asked := h.asked
	h.minutes(t, 58)
	for _, guid := range guids {
		if answer := h.controlled("PATCH", "instances/"+guid, `{"last_operation":{"type":"create","state":"succeeded"}}`); answer.Code >= 300 {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	}
	h.minutes(t, 2)
	t.Logf("%d calls in an hour", h.asked-asked)
	if refused > 0 {
		t.Errorf("%d calls were refused", refused)
	}
	if page, err := h.table.Unfinished(t.Context(), h.now().Add(time.Hour), "", 10); err != nil || len(page.Operations) > 0 {
		t.Errorf("%v go on, %v", page.Operations, err)
	}
}
