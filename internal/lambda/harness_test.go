package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/dynamo"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
	"github.com/ferry-broker/ferry/internal/standin"
)

// root is the way from here to the project's top.
var root = filepath.Join("..", "..")

// cloud plays DynamoDB and Secrets Manager.
var cloud = standin.Shared{Root: root}

func TestMain(m *testing.M) { os.Exit(cloud.Main(m)) }

var errDown = errors.New("out of order")

// machine stands for Step Functions: it keeps what was started.
type machine struct {
	mu     sync.Mutex
	starts []broker.Start
	fault  error
	// started counts the calls.
	started int
}

func (m *machine) Start(_ context.Context, s broker.Start) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return m.fault
	}
	m.started++
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

// table is a store that can be out of order.
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

func (s *table) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	if err := s.trouble(); err != nil {
		return nil, err
	}
	return s.MemoryStore.GetAll(ctx, keys)
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

// newLines writes times in one length, so that the bytes of a log can be counted.
func newLines(log *logged) slog.Handler {
	return slog.NewJSONHandler(log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String(slog.TimeKey, "2026-01-01T00:00:00.123456789Z")
		}
		return a
	}})
}

// harness is the three functions over one store, one Step Functions and one simulated Cloud Foundry. Its clock is moved
// by hand, and by whoever sleeps.
type harness struct {
	api     *API
	poller  *Poller
	janitor *Janitor
	machine *machine
	table   *table
	log     *logged
	sim     http.Handler

	mu     sync.Mutex
	at     time.Time
	copied secrets.Copy
	fault  error
	// asked counts the requests that Cloud Foundry got, and spend lets time go by for each call; nil for none.
	asked int
	spend func(call string)
	// held says that its workers do nothing; until is when they go on, zero for never.
	held  bool
	until time.Time
}

// newHarness has a store in memory.
func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{machine: &machine{}, log: &logged{}, at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	sim := cfsim.New(cfsim.Options{Now: h.now})
	h.sim = sim.Handler()
	server := httptest.NewServer(h)
	t.Cleanup(func() { sim.Close(); server.Close() })
	h.table = &table{MemoryStore: brokertest.NewMemoryStore(h.now)}
	c := config.Demo()
	c.Clients[0].CloudFoundry.API = server.URL
	h.copied = secrets.Copy{Config: c, Version: "v1"}
	h.over(h.table, h.table, h.configuration)
	return h
}

// over makes the functions anew over another store and another configuration.
func (h *harness) over(s setup.Store, kept notes, configuration func(context.Context) (secrets.Copy, error)) {
	core := func() *core {
		c := &core{configuration: configuration, notes: kept}
		c.parts = setup.Parts{
			Store: s, Workflow: h.machine, Now: h.now, Sleep: h.sleep, Logger: c.correlated(newLines(h.log)),
			Process: setup.NewProcessName(), ClaimFirst: true, Swept: true,
		}
		return c
	}
	h.api, h.poller = &API{core: core()}, &Poller{core: core(), sleep: h.sleep}
	h.janitor = &Janitor{core: core(), fetched: map[string]time.Time{}}
}

// ServeHTTP is Cloud Foundry's side.
func (h *harness) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	h.mu.Lock()
	h.asked++
	h.mu.Unlock()
	h.spent("call of Cloud Foundry")
	h.sim.ServeHTTP(w, request)
}

func (h *harness) spent(call string) {
	if h.spend != nil {
		h.spend(call)
	}
}

func (h *harness) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *harness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

// sleep takes no time but the clock's, and Cloud Foundry's workers are done with their work afterwards.
func (h *harness) sleep(ctx context.Context, d time.Duration) error {
	h.pass(d)
	if !h.until.IsZero() && !h.now().Before(h.until) {
		h.hold(false)
	}
	h.settle(ctx)
	return ctx.Err()
}

// settle returns once Cloud Foundry's workers have nothing left to do, unless they are held.
func (h *harness) settle(ctx context.Context) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for late := time.After(10 * time.Second); !h.held; {
		state := h.controlled("GET", "state", "").Body.String()
		if !strings.Contains(state, `"state":"in progress"`) && !strings.Contains(state, `"state":"initial"`) {
			return
		}
		select {
		case <-again.C:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hold keeps Cloud Foundry's workers from their work, or lets them do it.
func (h *harness) hold(held bool) {
	h.held, h.until = held, time.Time{}
	h.controlled("POST", "workers", fmt.Sprintf(`{"held":%t}`, held))
}

// control calls the simulator's control.
func (h *harness) control(t *testing.T, what, body string) []byte {
	t.Helper()
	answer := h.controlled("POST", what, body)
	if answer.Code >= 300 {
		t.Fatalf("%s: %d %s", what, answer.Code, answer.Body)
	}
	return answer.Body.Bytes()
}

func (h *harness) controlled(method, what, body string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.sim.ServeHTTP(answer, httptest.NewRequest(method, "/__sim/"+what, strings.NewReader(body)))
	return answer
}

func (h *harness) configuration(context.Context) (secrets.Copy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.copied, h.fault
}

func (h *harness) configure(change func(*secrets.Copy), fault error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault = fault; change != nil {
		h.copied.Config.Clients = slices.Clone(h.copied.Config.Clients)
		change(&h.copied)
	}
}

// read returns a file of events/.
func read[T any](t *testing.T, name string) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "events", name+".json"))
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

func readEvent(t *testing.T, name string) events.APIGatewayProxyRequest {
	t.Helper()
	return read[events.APIGatewayProxyRequest](t, name)
}

// send sends a file of events/ to the API, changed.
func (h *harness) send(t *testing.T, name string, changes ...func(*events.APIGatewayProxyRequest)) events.APIGatewayProxyResponse {
	t.Helper()
	event := readEvent(t, name)
	for _, change := range changes {
		change(&event)
	}
	answer, err := h.api.Handle(t.Context(), event)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return answer
}

// async has the platform accept that the answer comes later.
func async(event *events.APIGatewayProxyRequest) {
	event.QueryStringParameters = map[string]string{"accepts_incomplete": "true"}
	for name, values := range event.MultiValueQueryStringParameters {
		event.QueryStringParameters[name] = values[0]
	}
	event.MultiValueQueryStringParameters = nil
}

// drive does what the state machine does, until all that was started has ended.
func (h *harness) drive(ctx context.Context, t *testing.T) {
	t.Helper()
	pending := h.machine.take()
	for ; len(pending) > 0; pending = append(pending[1:], h.machine.take()...) {
		h.run(ctx, t, sfn.NewTick(pending[0]))
	}
}

// run takes an execution to its end.
func (h *harness) run(ctx context.Context, t *testing.T, tick sfn.Tick) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !tick.Done; {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not end; the log: %s", tick.Operation, h.log)
		}
		tick = h.turn(ctx, t, tick)
	}
}

// turn is one turn of an execution: the task, and the wait behind it.
func (h *harness) turn(ctx context.Context, t *testing.T, tick sfn.Tick) sfn.Tick {
	t.Helper()
	next, err := h.poller.Handle(ctx, tick)
	if err != nil || next.Turn != tick.Turn+1 || !next.Done && next.WaitSeconds < 1 {
		t.Fatalf("after %+v comes %+v, %v; the log: %s", tick, next, err, h.log)
	}
	_ = h.sleep(ctx, time.Duration(next.WaitSeconds)*time.Second) // only a context that ended
	return next
}

// credentials are good enough for the stand-in.
func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
}

// tableHarness is a harness over a table of the stand-in.
type tableHarness struct {
	*harness
	config aws.Config
	client *dynamodb.Client
	name   string
	store  *dynamo.Store
}

var tables atomic.Int64

// newTableHarness calls AWS through an HTTP client, nil for the SDK's own. The poller does one tick a turn.
func newTableHarness(t *testing.T, client aws.HTTPClient) *tableHarness {
	t.Helper()
	h := &tableHarness{harness: newHarness(t), name: fmt.Sprintf("ferry-lambda-%d", tables.Add(1)), config: aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(cloud.URL(t)), HTTPClient: client, Credentials: aws.CredentialsProviderFunc(credentials),
	}}
	h.client = dynamodb.NewFromConfig(h.config)
	_, err := h.client.CreateTable(t.Context(), standin.Table(h.name))
	if _, made := errors.AsType[*types.ResourceInUseException](err); err != nil && !made {
		t.Fatal(err)
	}
	if h.store, err = dynamo.New(dynamo.Options{Config: h.config, Table: h.name, Now: h.now, Deadlines: time.Now}); err != nil {
		t.Fatal(err)
	}
	h.over(h.store, h.store, h.configuration)
	h.poller.sleep = func(context.Context, time.Duration) error { return context.DeadlineExceeded }
	return h
}

// get returns a record.
func (h *tableHarness) get(t *testing.T, key broker.Key) broker.Record {
	t.Helper()
	rec, err := h.store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// put writes items as they are.
func (h *tableHarness) put(t *testing.T, items ...map[string]types.AttributeValue) {
	t.Helper()
	for _, it := range items {
		if _, err := h.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &h.name, Item: it}); err != nil {
			t.Fatal(err)
		}
	}
}

// scan returns all items as they are.
func (h *tableHarness) scan(t *testing.T) []map[string]types.AttributeValue {
	t.Helper()
	out, err := h.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &h.name, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Items
}
