package acceptance

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/catalog"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// sandbox is a whole broker that one goroutine drives. Its time stands still but in pass, which a held request calls
// while it waits: what is due runs then.
type sandbox struct {
	t       *testing.T
	now     time.Time
	store   *brokertest.MemoryStore
	clouds  map[string]*brokertest.FakeCloud
	broker  *broker.Broker
	handler http.Handler
	drivers []*driver
	// accepted are the polls of every operation that a platform was promised.
	accepted []*wanted
	// sent are the requests so far, for repetition.
	sent []*wanted
	// began is when the request in hand came; slept, whether it was held.
	began time.Time
	slept bool
}

// driver is the workflow of one operation.
type driver struct {
	broker.Start
	at   time.Time
	done bool
}

// The two platforms: every answer of the second is as its quirks want it.
const (
	plainClient, quirkyClient = "plain", "quirky"
	// held is how long a request may wait, in the sandbox's time.
	held = 26 * time.Second
	keep = 192 * time.Hour
	// secretWord is in every secret that must not be logged.
	secretWord = "s3cret"
)

// claimFirst is the broker's option, which no answer may depend on.
func newSandbox(t *testing.T, market *catalog.Service, claimFirst bool) *sandbox {
	s := &sandbox{t: t, now: time.Unix(1_700_000_000, 0).UTC(), clouds: map[string]*brokertest.FakeCloud{}}
	now := func() time.Time { return s.now }
	s.store = brokertest.NewMemoryStore(now)
	backends := map[string]broker.Backend{}
	for _, client := range []string{plainClient, quirkyClient} {
		s.clouds[client] = brokertest.NewFakeCloud(brokertest.CloudOptions{Now: now})
		backends[client] = s.clouds[client]
	}
	logger := slog.New(watcher{t})
	random := rand.NewChaCha8([32]byte{})
	s.broker = broker.New(broker.Options{
		Store: s.store, Backends: backends, Catalog: market, Workflow: s,
		Now: now, Sleep: s.sleep, Random: random, Logger: logger, RequestBudget: held, TombstoneTTL: keep,
		Process: "sandbox", OnlyProcess: true, ClaimFirst: claimFirst,
	})
	s.handler = api.New(api.Options{
		Broker: s.broker, Catalog: market, Logger: logger, Now: now, Random: random,
		RequestBytes: 4096, ParametersBytes: 512, RequestBudget: time.Hour, // sleep has the real one
		Clients: []api.Client{
			{Name: plainClient, Credentials: []api.Credential{{Username: plainClient, Password: secretWord}}},
			{Name: quirkyClient, Credentials: []api.Credential{{Username: quirkyClient, Password: secretWord}},
				MissingVersion: http.StatusPreconditionFailed, FinishedDelete: http.StatusGone},
		},
	})
	return s
}

// marketOf is a catalog that has been fetched and never changes.
func marketOf(tb testing.TB) *catalog.Service {
	tb.Helper()
	now := func() time.Time { return time.Unix(1_600_000_000, 0).UTC() }
	fetch := func(ctx context.Context) (broker.Marketplace, error) {
		m, err := brokertest.NewFakeCloud(brokertest.CloudOptions{Now: now}).Marketplace(ctx)
		for i := range m.Offerings {
			m.Offerings[i].AllowContextUpdates = true
		}
		m.Offerings[0].Plans[0].CreateSchema = json.RawMessage(`{"$schema":"http://json-schema.org/draft-04/schema#",` +
			`"type":"object","properties":{"size":{"type":"number","maximum":9007199254740992}}}`)
		return m, err
	}
	o := catalog.Options{Store: brokertest.NewMemoryStore(now), Now: now}
	for _, client := range []string{plainClient, quirkyClient} {
		o.Sources = append(o.Sources, catalog.Source{
			Client: client, IDs: catalog.IDsBroker, Rotatable: []string{brokertest.OfferingDB}, Fetch: fetch,
		})
	}
	market := catalog.New(o)
	for _, source := range o.Sources {
		if err := market.Refresh(tb.Context(), source.Client); err != nil {
			tb.Fatal(err)
		}
	}
	return market
}

// Start implements broker.Workflow.
func (s *sandbox) Start(_ context.Context, start broker.Start) error {
	s.drivers = append(s.drivers, &driver{Start: start, at: s.now.Add(start.Delay)})
	return nil
}

// sleep is how a held request waits.
func (s *sandbox) sleep(_ context.Context, d time.Duration) error {
	s.slept = true
	s.pass(d)
	if s.now.Sub(s.began) > held {
		return context.DeadlineExceeded
	}
	return nil
}

// pass lets time pass, and everything happen that is due in it.
func (s *sandbox) pass(d time.Duration) {
	until := s.now.Add(d)
	for next := s.due(); next != nil && !next.at.After(until); next = s.due() {
		s.now = maxTime(s.now, next.at)
		s.tick(next)
	}
	s.now = maxTime(s.now, until)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// due is the driver whose turn is next; nil when all are done.
func (s *sandbox) due() (next *driver) {
	for _, d := range s.drivers {
		if !d.done && (next == nil || d.at.Before(next.at)) {
			next = d
		}
	}
	return next
}

func (s *sandbox) tick(d *driver) {
	step, err := s.broker.Advance(s.t.Context(), d.Key, d.Operation)
	if err != nil {
		s.t.Fatalf("the tick of %s: %v", d.Operation, err)
	}
	d.done = d.done || step.Done
	d.at = s.now.Add(max(step.Wait, time.Millisecond))
}

// rest drives every operation to its end, which none may take long to reach.
func (s *sandbox) rest() {
	s.t.Helper()
	limit := s.now.Add(time.Hour)
	for next := s.due(); next != nil; next = s.due() {
		if next.at.After(limit) {
			s.t.Fatalf("%s does not end", next.Operation)
		}
		s.pass(max(0, next.at.Sub(s.now)))
	}
}

// remember keeps what a platform was promised.
func (s *sandbox) remember(q *wanted, w *httptest.ResponseRecorder) {
	if w.Code != http.StatusAccepted {
		return
	}
	path, _, _ := strings.Cut(q.target, "?")
	s.accepted = append(s.accepted, &wanted{
		method: http.MethodGet, target: path + "/last_operation?operation=" + operationOf(w), header: q.header,
	})
}

// polled polls every operation that was accepted, after all have had their time.
func (s *sandbox) polled() {
	s.t.Helper()
	for _, q := range s.accepted {
		w, _ := s.send(q)
		s.judge(q, w)
		var body struct{ State string }
		_ = json.Unmarshal(w.Body.Bytes(), &body) // judge has said so
		if done := w.Code == http.StatusGone || body.State == "succeeded" || body.State == "failed"; !done {
			s.t.Errorf("GET %s: %d %s; the operation has not ended", q.target, w.Code, w.Body)
		}
	}
}

// consistent compares what the clouds hold with what the records say. Nothing runs.
func (s *sandbox) consistent() {
	s.t.Helper()
	there := map[broker.Key]string{}
	for client, cloud := range s.clouds {
		names := map[string]string{}
		for _, row := range cloud.Left() {
			key := broker.Key{Client: client, InstanceID: row.Name}
			if row.Instance != "" {
				key = broker.Key{Client: client, InstanceID: names[row.Instance], BindingID: row.Name}
			}
			names[row.GUID] = row.Name
			if row.Living() {
				there[key] = row.GUID
			}
		}
	}
	records := s.dump().records
	for key, record := range records {
		if state := record.Lifecycle.State; state == lifecycle.Ready || state == lifecycle.UpdateFailed {
			if there[key] != record.Lifecycle.CFGUID {
				s.t.Errorf("%v is %s as %q, and Cloud Foundry has %q", key, state, record.Lifecycle.CFGUID, there[key])
			}
			delete(there, key)
		} else if state.Busy() {
			s.t.Errorf("%v is still %s", key, state)
		}
	}
	for key, guid := range there {
		s.t.Errorf("Cloud Foundry holds %v as %s, whose record is %q", key, guid, records[key].Lifecycle.State)
	}
}

// state is all that the broker and its Cloud Foundries hold.
type state struct {
	records map[broker.Key]broker.Record
	rows    map[string][]brokertest.Left
}

func (s *sandbox) dump() state {
	d := state{records: map[broker.Key]broker.Record{}, rows: map[string][]brokertest.Left{}}
	for _, r := range s.store.All() {
		d.records[r.Key] = r
	}
	for client, cloud := range s.clouds {
		d.rows[client] = cloud.Left()
	}
	return d
}

func (before state) clone() state {
	return state{records: maps.Clone(before.records), rows: maps.Clone(before.rows)}
}

func (before state) equal(after state) bool { return reflect.DeepEqual(before, after) }

// watcher reads the log: on a healthy day nothing is for the operator, nothing panics, and no secret is in it.
type watcher struct{ t *testing.T }

func (w watcher) Enabled(context.Context, slog.Level) bool { return true }
func (w watcher) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w watcher) WithGroup(string) slog.Handler            { return w }

func (w watcher) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		line.WriteString(" " + a.String())
		return true
	})
	if text := line.String(); r.Level > slog.LevelInfo || strings.Contains(text, secretWord) {
		w.t.Errorf("it was logged: %s %s%s", r.Level, r.Message, text)
	}
	return nil
}
