package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// upgradeRig is a rig over a table of the stand-in, for items that another wrote.
type upgradeRig struct {
	*rig
	client *dynamodb.Client
	name   string
	broker broker.Store
}

var upgradeTables atomic.Int64

func newUpgradeRig(t *testing.T) *upgradeRig {
	t.Helper()
	config := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(cloud.URL(t)),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}
	r := &upgradeRig{rig: newRig(t), client: dynamodb.NewFromConfig(config), name: fmt.Sprintf("ferry-upgrade-%d", upgradeTables.Add(1))}
	_, err := r.client.CreateTable(t.Context(), dynamo.Table(r.name))
	if _, made := errors.AsType[*types.ResourceInUseException](err); err != nil && !made {
		t.Fatal(err)
	}
	s, err := dynamo.New(dynamo.Options{Config: config, Table: r.name, Now: r.now})
	if err != nil {
		t.Fatal(err)
	}
	r.broker = s
	for _, c := range []*core{r.api.core, r.poller.core, r.janitor.core} {
		c.parts.Store, c.audits = s, s
	}
	r.poller.sleep = atOnce
	return r
}

// atOnce has the poller do one tick a turn.
func atOnce(context.Context, time.Duration) error { return context.DeadlineExceeded }

// load puts a version's items into the table and moves the clock to shortly after the
// operation began. Cloud Foundry has what it had then, but for what comes late.
func (r *upgradeRig) load(t *testing.T, version string, p past) broker.Record {
	t.Helper()
	items := r.items(t, version)
	r.put(t, items...)
	r.goTo(t, items)
	rec := r.get(t, p.key)
	if p.instance && !p.late {
		r.found(t, items, p, rec)
	}
	return rec
}

// found plants what an older version made in Cloud Foundry. The GUID is the
// simulator's, so the items are told of it.
func (r *upgradeRig) found(t *testing.T, items []map[string]types.AttributeValue, p past, rec broker.Record) {
	t.Helper()
	instance := r.get(t, instanceKey)
	row := map[string]any{
		"org": "demo", "space": "postgres", "offering": "postgres", "plan": "small", "name": instanceKey.InstanceID,
		"labels": map[string]string{"ferry-client": "demo"}, "annotations": marks(instance),
	}
	if p.updated { // Cloud Foundry writes the mark and the plan together
		row["plan"] = "large"
		row["annotations"].(map[string]string)["ferry-update"] = instance.Lifecycle.Operation.ID
		row["last_operation"] = map[string]string{"type": "update", "state": "succeeded"}
	}
	if p.keyed {
		row["keys"] = []any{map[string]any{
			"name": bindingKey.BindingID, "labels": map[string]string{"ferry-client": "demo"}, "annotations": marks(rec),
		}}
	}
	body, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	var planted struct{ GUID string }
	if err := json.Unmarshal(r.control(t, "instances", string(body)), &planted); err != nil {
		t.Fatal(err)
	}
	old := instance.Lifecycle.CFGUID
	if old == "" {
		return
	}
	for _, it := range items {
		if body, ok := it["body"].(*types.AttributeValueMemberS); ok {
			it["body"] = &types.AttributeValueMemberS{Value: strings.ReplaceAll(body.Value, old, planted.GUID)}
		}
	}
	r.put(t, items...)
}

// marks are the annotations of what a record's create made.
func marks(r broker.Record) map[string]string {
	return map[string]string{"ferry-operation": r.Lifecycle.CreateOp.ID, "ferry-seq": fmt.Sprint(r.Lifecycle.CreateOp.Seq)}
}

func (r *upgradeRig) get(t *testing.T, key broker.Key) broker.Record {
	t.Helper()
	rec, err := r.broker.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// goTo moves the clock to one second after the latest operation of the items began.
func (r *upgradeRig) goTo(t *testing.T, items []map[string]types.AttributeValue) {
	t.Helper()
	var latest time.Time
	for _, it := range items {
		var body struct {
			Lifecycle struct {
				Operation struct{ Started time.Time }
			}
		}
		if text, ok := it["body"].(*types.AttributeValueMemberS); ok {
			if err := json.Unmarshal([]byte(text.Value), &body); err != nil {
				t.Fatal(err)
			}
		}
		if began := body.Lifecycle.Operation.Started; began.After(latest) {
			latest = began
		}
	}
	if latest.IsZero() {
		t.Fatal("no item tells when it was written")
	}
	r.pass(latest.Add(time.Second).Sub(r.now()))
}

// run does what the state machine does with an execution, without its waits.
func (r *upgradeRig) run(t *testing.T, tick sfn.Tick) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !tick.Done; {
		if time.Now().After(deadline) {
			t.Fatalf("it goes on: %+v; the log: %s", tick, r.log)
		}
		tick = r.turn(t, tick)
	}
	r.drive(t) // what it started itself
}

// turn is one turn of an execution: the task, and the wait behind it.
func (r *upgradeRig) turn(t *testing.T, tick sfn.Tick) sfn.Tick {
	t.Helper()
	next, err := r.poller.Handle(t.Context(), tick)
	if err != nil || next.Turn != tick.Turn+1 || !next.Done && next.WaitSeconds < 1 {
		t.Fatalf("after %+v comes %+v, %v; the log: %s", tick, next, err, r.log)
	}
	r.pass(time.Duration(next.WaitSeconds) * time.Second)
	return next
}

// tick lets the poller do one tick of what was started last, for fixtures.
func (r *upgradeRig) tick(t *testing.T) {
	t.Helper()
	starts := r.machine.take()
	if _, err := r.poller.Handle(t.Context(), sfn.NewTick(starts[len(starts)-1])); err != nil {
		t.Fatal(err)
	}
	r.machine.starts = starts
}

func (r *upgradeRig) sendAsync(t *testing.T, event string) { r.sendQuery(t, event, true) }

// sendQuery sends an event, with accepts_incomplete where it is asked for.
func (r *upgradeRig) sendQuery(t *testing.T, event string, async bool) events.APIGatewayProxyResponse {
	t.Helper()
	request := read[events.APIGatewayProxyRequest](t, event)
	if async {
		if request.QueryStringParameters == nil {
			request.QueryStringParameters, request.MultiValueQueryStringParameters = map[string]string{}, map[string][]string{}
		}
		request.QueryStringParameters["accepts_incomplete"] = "true"
		request.MultiValueQueryStringParameters["accepts_incomplete"] = []string{"true"}
	}
	answer, err := r.api.Handle(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// control calls the simulator's control.
func (r *upgradeRig) control(t *testing.T, what, body string) []byte {
	t.Helper()
	answer, err := fresh().Post(r.sim+"/__sim/"+what, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%s: %d %s, %v", what, answer.StatusCode, text, err)
	}
	return text
}

// asked counts what the backing broker was asked to do.
func (r *upgradeRig) asked(t *testing.T) map[string]int {
	t.Helper()
	answer, err := fresh().Get(r.sim + "/__sim/state")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var state struct {
		BrokerCalls []struct {
			Operation string
			Count     int
		} `json:"broker_calls"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&state); err != nil {
		t.Fatal(err)
	}
	var asked map[string]int
	for _, c := range state.BrokerCalls {
		if asked == nil {
			asked = map[string]int{}
		}
		asked[c.Operation] += c.Count
	}
	return asked
}

func (r *upgradeRig) put(t *testing.T, items ...map[string]types.AttributeValue) {
	t.Helper()
	for _, it := range items {
		if _, err := r.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &r.name, Item: it}); err != nil {
			t.Fatal(err)
		}
	}
}

// stored returns the item of a record as it is in the table.
func (r *upgradeRig) stored(t *testing.T, key broker.Key) map[string]types.AttributeValue {
	t.Helper()
	for _, it := range r.scan(t) {
		pk, sk := it["pk"].(*types.AttributeValueMemberB), it["sk"].(*types.AttributeValueMemberB)
		if string(pk.Value) == key.Client+"#"+key.InstanceID && string(sk.Value) == "instance" {
			return it
		}
	}
	t.Fatalf("no item of %v", key)
	return nil
}

func (r *upgradeRig) scan(t *testing.T) []map[string]types.AttributeValue {
	t.Helper()
	out, err := r.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &r.name, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Items
}

// fresh is a client whose connections nobody else closes: a test server that stops closes
// the idle ones of http.DefaultTransport, whoever is about to use them.
func fresh() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}
