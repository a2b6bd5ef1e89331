package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// machine stands for Step Functions: it keeps what was started.
type machine struct {
	mu     sync.Mutex
	starts []broker.Start
	fault  error
}

func (m *machine) Start(_ context.Context, s broker.Start) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return m.fault
	}
	m.starts = append(m.starts, s)
	return nil
}

func (m *machine) take() []broker.Start {
	m.mu.Lock()
	defer m.mu.Unlock()
	starts := m.starts
	m.starts = nil
	return starts
}

// table is a store that can be out of order, and a test's word before each read.
type table struct {
	*brokertest.MemoryStore
	mu    sync.Mutex
	fault error
	panic any
}

func (s *table) Ping(context.Context) error { return s.trouble() }

func (s *table) trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panic != nil {
		panic(s.panic)
	}
	return s.fault
}

func (s *table) set(fault error, panics any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.panic = fault, panics
}

func (s *table) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	if err := s.trouble(); err != nil {
		return broker.Record{}, err
	}
	return s.MemoryStore.Get(ctx, key)
}

func (s *table) Unfinished(ctx context.Context, due time.Time, after string, limit int) (broker.UnfinishedPage, error) {
	if err := s.trouble(); err != nil {
		return broker.UnfinishedPage{}, err
	}
	return s.MemoryStore.Unfinished(ctx, due, after, limit)
}

// logged is a log that may be written and read at the same time.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// rig is the three functions over one store, one Step Functions and one simulated
// Cloud Foundry.
type rig struct {
	api     *API
	poller  *Poller
	janitor *Janitor
	machine *machine
	table   *table
	sim     string
	log     *logged

	mu     sync.Mutex
	copied secrets.Copy
	fault  error
	ahead  time.Duration
}

func newRig(t *testing.T) *rig {
	t.Helper()
	options := cfsim.DefaultOptions()
	options.JobDelay, options.BrokerDelay, options.PollInterval = time.Millisecond, 5*time.Millisecond, time.Millisecond
	sim := cfsim.New(options)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { sim.Close(); server.Close() })
	r := &rig{machine: &machine{}, log: &logged{}, sim: server.URL}
	r.table = &table{MemoryStore: brokertest.NewMemoryStore(r.now)}
	c := config.Demo()
	c.Clients[0].CloudFoundry.API = server.URL
	c.Polling = config.Polling{First: time.Second, Max: time.Second}
	r.copied = secrets.Copy{Config: c, Version: "v1"}
	core := func() *core {
		c := &core{configuration: r.configuration, audits: r.table}
		c.parts = setup.Parts{
			Store: r.table, Workflow: r.machine, Now: r.now, Logger: c.correlated(newLines(r.log)), Process: setup.NewProcessName(), ClaimFirst: true,
		}
		return c
	}
	r.api, r.poller = &API{core: core()}, &Poller{core: core(), sleep: r.sleep}
	r.janitor = &Janitor{core: core(), fetched: map[string]time.Time{}}
	return r
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.ahead)
}

// sleep is short: the simulator needs milliseconds only.
func (r *rig) sleep(ctx context.Context, d time.Duration) error { return broker.Sleep(ctx, d/100) }

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += d
}

func (r *rig) configuration(context.Context) (secrets.Copy, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copied, r.fault
}

func (r *rig) configure(change func(*secrets.Copy), fault error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault = fault; change != nil {
		change(&r.copied)
	}
}

// read returns a file of events/.
func read[T any](t *testing.T, name string) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "events", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var v T
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// send sends a file of events/ to the API.
func (r *rig) send(t *testing.T, name string) events.APIGatewayProxyResponse {
	t.Helper()
	answer, err := r.api.Handle(t.Context(), read[events.APIGatewayProxyRequest](t, name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return answer
}

// drive does what the state machine does, without its waits, until all that was
// started has ended.
func (r *rig) drive(t *testing.T) {
	t.Helper()
	r.driveIn(t.Context(), t)
}

// driveIn calls the poller in a context.
func (r *rig) driveIn(ctx context.Context, t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	pending := r.machine.take()
	for ; len(pending) > 0; pending = append(pending[1:], r.machine.take()...) {
		tick := sfn.NewTick(pending[0])
		for !tick.Done {
			var err error
			if tick, err = r.poller.Handle(ctx, tick); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s did not end; the log: %s", tick.Operation, r.log)
			}
		}
	}
}
