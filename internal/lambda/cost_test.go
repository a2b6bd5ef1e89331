package lambda

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// tally is what something took.
type tally struct {
	// calls of AWS, by their operation.
	calls map[string]int
	// reads and writes are DynamoDB's request units.
	reads, writes float64
	// foundry are the calls of Cloud Foundry, logged the bytes that the functions wrote.
	foundry, logged int
	// function was invoked so many times, and ran for so long in all.
	function string
	invoked  int
	ran      time.Duration
}

// String names the calls of AWS.
func (t tally) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.calls)) {
		if t.calls[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t.calls[name], name))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// kind is one kind of request, tick or task, and the calls that it may take.
type kind struct {
	name   string
	before func() // is not counted
	do     func()
	// want are the calls of AWS, and the number of those of Cloud Foundry.
	want string
	// most bounds the latter where it depends on who comes when; 0 for what does not. It is counted as so many.
	most int
	took tally
}

// accounting is a harness that counts: one environment of each function, with their real clients for DynamoDB and
// Secrets Manager. One tick is one call of the poller.
type accounting struct {
	*tableHarness
	*testing.T
	meter *meter
	// running are the executions that have not ended, as they come to the poller next, the oldest first.
	running []sfn.Tick
	// counts are what the functions did since somebody looked.
	counts tally
	// tag is the catalog's.
	tag []string
}

// newAccounting reads the secret anew once it is of the given age.
func newAccounting(t *testing.T, maxAge time.Duration) *accounting {
	t.Helper()
	m := newMeter()
	a := &accounting{T: t, meter: m, tableHarness: newTableHarness(t, m)}
	m.pass = a.pass
	a.spend = func(call string) { a.pass(lasting[call]) }
	f := a.copied.Config.Clients[0].CloudFoundry
	text := fmt.Sprintf("clients:\n- name: demo\n  credentials: [{username: demo, password: demo}]\n"+
		"  cloud_foundry: {api: %q, org: %q, client_id: %q, client_secret: %q}\n", f.API, f.Org, f.ClientID, f.ClientSecret.Text())
	_, err := secretsmanager.NewFromConfig(a.config).CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
		Name: aws.String(a.name), SecretString: aws.String(text),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*core{a.api.core, a.poller.core, a.janitor.core} {
		c.configuration = secrets.New(secrets.Options{
			Config: a.config, Secret: a.name, MaxAge: maxAge, Now: a.now, Logger: c.parts.Logger,
			LookupEnv: func(string) (string, bool) { return "", false },
		}).Current
	}
	return a
}

// counted returns what do took.
func (a *accounting) counted(do func()) tally {
	a.meter.take()
	asked, logged, started := a.asked, len(a.log.String()), a.machine.started
	a.counts = tally{}
	do()
	took := a.meter.take()
	took.calls["StartExecution"] = a.machine.started - started
	took.foundry, took.logged = a.asked-asked, len(a.log.String())-logged
	took.function, took.invoked, took.ran = a.counts.function, a.counts.invoked, a.counts.ran
	took.ran += time.Duration(took.calls["StartExecution"]) * lasting["StartExecution"]
	return took
}

// invoke calls a function as Lambda does.
func (a *accounting) invoke(function string, handle func(context.Context) error) {
	a.Helper()
	at := a.now()
	a.pass(lasting["our own code"])
	if err := handle(lambdaContext(a.Context(), "8f507cfc-xmpl-4697-b07a-ac58fc914c95", "1-67891233-abcdef012345678912345678")); err != nil {
		a.Fatal(err)
	}
	a.counts = tally{function: function, invoked: a.counts.invoked + 1, ran: a.counts.ran + a.now().Sub(at)}
	for _, start := range a.machine.take() {
		tick := sfn.NewTick(start)
		tick.Swept = false // each turn is a tick; what handing over takes is counted by itself
		a.running = append(a.running, tick)
	}
}

// request sends a file of events/ to the API, changed, and wants a status.
func (a *accounting) request(status int, name string, changes ...func(*events.APIGatewayProxyRequest)) func() {
	return func() {
		a.invoke("api", func(ctx context.Context) error {
			event := readEvent(a.T, name)
			for _, change := range changes {
				change(&event)
			}
			answer, err := a.api.Handle(ctx, event)
			if answer.StatusCode != status {
				a.Fatalf("%s: %d %s, want %d", name, answer.StatusCode, answer.Body, status)
			}
			if tag := answer.MultiValueHeaders["Etag"]; tag != nil {
				a.tag = tag
			}
			return err
		})
	}
}

// repeating notes that a round looks again and again, which begins when the next turn is near.
func (a *accounting) repeating() {
	if err := a.store.PutRound(a.Context(), broker.RoundNote{Began: a.now().Add(time.Second), Repeats: true}); err != nil {
		a.Fatal(err)
	}
}

// handOver is a turn that ends the oldest execution, and leaves the operation to rounds.
func (a *accounting) handOver() {
	a.running[0].Swept = true
	if a.heldTurn(); a.running[0].HandedOver {
		a.running[0].Swept, a.running[0].HandedOver = false, false
		return
	}
	a.Errorf("%s is not handed over", a.running[0].Operation)
}

// turn is the next turn of the n-th execution, once its wait is over.
func (a *accounting) turn(n int) {
	a.Helper()
	tick := a.running[n]
	_ = a.sleep(a.Context(), time.Duration(tick.WaitSeconds)*time.Second) // only a context that ended
	a.invoke("poller", func(ctx context.Context) (err error) {
		a.running[n], err = a.poller.Handle(ctx, tick)
		return err
	})
	a.running = slices.DeleteFunc(a.running, func(t sfn.Tick) bool { return t.Done })
}

// finish takes all that runs, but for the n oldest, to its end.
func (a *accounting) finish(n int) {
	a.Helper()
	for len(a.running) > n {
		a.turn(n)
	}
}

// sweep has the janitor carry a task out.
func (a *accounting) sweep(task Schedule) func() {
	return func() { a.invoke("janitor", func(ctx context.Context) error { return a.janitor.Handle(ctx, task) }) }
}

// fresh has the environments of requests and executions read what they read once a minute. A round would drive what is
// in flight.
func (a *accounting) fresh() {
	a.request(200, "catalog")()
	a.invoke("poller", func(ctx context.Context) error {
		_, err := a.poller.Handle(ctx, sfn.Tick{Client: "demo", InstanceID: "none", Operation: "none"})
		return err
	})
}

// under moves an event to another path.
func under(old, replacement string) func(*events.APIGatewayProxyRequest) {
	return func(event *events.APIGatewayProxyRequest) {
		event.Path = strings.Replace(event.Path, old, replacement, 1)
	}
}

// fetch makes an event one that only reads.
func fetch(event *events.APIGatewayProxyRequest) {
	event.HTTPMethod, event.Body, event.QueryStringParameters, event.MultiValueQueryStringParameters = "GET", "", nil, nil
}

// counts are all kinds with what they took, in an order that makes one life of them. Environments are warm, and what is
// read anew once a minute has just been read.
func counts(t *testing.T) []kind {
	t.Helper()
	warm, cold := newAccounting(t, 24*time.Hour), newAccounting(t, time.Minute)
	warm.live()
	all := warm.count(warm.fresh, slices.Concat(warm.instances(), warm.bindings(), warm.ends()))
	cold.sweep(Schedule{})() // stores the catalog
	all = append(all, cold.count(func() {}, cold.environments())...)
	for _, n := range []int{1, 1000} {
		many := newAccounting(t, 24*time.Hour)
		many.live()
		all = append(all, many.count(func() {}, many.rounds(n))...)
	}
	return all
}

// count lets all kinds happen, each after what may be needed before, and holds what they took against what they may
// take.
func (a *accounting) count(fresh func(), kinds []kind) []kind {
	a.Helper()
	for i, k := range kinds {
		if k.before != nil {
			k.before()
		}
		fresh()
		took := a.counted(k.do)
		for tries := 0; k.most > 0 && took.foundry > k.most && tries < 5; tries++ {
			a.pass(time.Minute)
			took = a.counted(k.do)
		}
		if k.most > 0 && took.foundry <= k.most {
			took.foundry = k.most
			took.ran += mostLists * lasting["call of Cloud Foundry"]
		}
		kinds[i].took = took
		if got := fmt.Sprintf("%v; %d", took, took.foundry); got != k.want {
			a.Errorf("%s takes %s calls of Cloud Foundry, want %s", k.name, got, k.want)
		}
	}
	return kinds
}

// live lives a life, so that every environment knows its clients' logins, catalog, org and spaces.
func (a *accounting) live() {
	other := under(instanceKey.InstanceID, "warm")
	for _, step := range []func(){
		a.request(200, "catalog"), a.request(202, "provision", other), a.request(201, "bind", other), a.request(202, "unbind", other, async),
		a.request(202, "deprovision", other), a.sweep(Schedule{}), a.sweep(Schedule{Task: TaskAudit}),
	} {
		step()
		a.finish(0)
	}
}

// quickly lets Cloud Foundry's workers come once the quickest operation takes that long.
func (a *accounting) quickly(do func()) func() {
	return func() {
		a.hold(true)
		a.until = a.now().Add(quick)
		do()
	}
}

// heldTurn is the next turn of the oldest execution while Cloud Foundry's workers do nothing.
func (a *accounting) heldTurn() { a.hold(true); a.turn(0) }

func (a *accounting) idleTurn() { a.turn(0) }

// lastTurn lets Cloud Foundry do its work, and wants the turn to be the last one.
func (a *accounting) lastTurn() {
	a.hold(false)
	running := len(a.running)
	if a.turn(0); len(a.running) == running {
		a.Errorf("%s goes on", a.running[0].Operation)
	}
}

func (a *accounting) instances() []kind {
	known := func(event *events.APIGatewayProxyRequest) { event.MultiValueHeaders["If-None-Match"] = a.tag }
	return []kind{
		{name: "catalog", do: a.request(200, "catalog"), want: "nothing; 0"},
		{name: "catalog that the platform has already (304)", do: a.request(304, "catalog", known), want: "nothing; 0"},
		{name: "request without valid credentials (401)", do: a.request(401, "unauthorised"), want: "nothing; 0"},
		{name: "create, accepted", do: a.request(202, "provision"), want: "1 PutItem, 1 StartExecution; 0"},
		{name: "the same create again while it runs", do: a.request(202, "provision"), want: "1 PutItem refused; 0"},
		{name: "a create of that id that differs (409)", do: a.request(409, "provision-different"), want: "1 PutItem refused; 0"},
		{name: "poll of an instance", do: a.request(200, "last-operation"), want: "1 GetItem; 0"},
		{name: "create: first tick (POST)", do: a.heldTurn, want: "1 GetItem, 2 PutItem; 1"},
		{name: "create: a tick that sees the row first", do: a.idleTurn, want: "1 GetItem, 1 PutItem; 1"},
		{name: "create: a tick that changes nothing", do: a.idleTurn, want: "1 GetItem; 1"},
		{name: "create: a tick that hands over", before: a.repeating, do: a.handOver, want: "2 GetItem; 1"},
		{name: "create: last tick", do: a.lastTurn, want: "1 GetItem, 1 PutItem; 1"},
		{name: "poll of an instance that is done", do: a.request(200, "last-operation"), want: "1 GetItem; 0"},
		{name: "the same create again when it is done", do: a.request(200, "provision"), want: "1 PutItem refused; 0"},
		{name: "fetch of an instance", do: a.request(200, "provision", fetch), want: "1 GetItem; 1"},
	}
}

func (a *accounting) bindings() []kind {
	poll := under("/last_operation", "/service_bindings/"+bindingKey.BindingID+"/last_operation")
	other := under(bindingKey.BindingID, "other")
	return []kind{
		{name: "bind, asynchronous, accepted", do: a.request(202, "bind", async), want: "1 GetItem, 1 PutItem, 1 StartExecution; 0"},
		{name: "the same bind again while it runs", do: a.request(202, "bind", async), want: "2 GetItem, 1 PutItem refused; 0"},
		{name: "poll of a binding", do: a.request(200, "last-operation", poll), want: "2 GetItem; 0"},
		{name: "bind: first tick (POST)", do: a.heldTurn, want: "2 GetItem, 2 PutItem; 1"},
		{name: "bind: a tick that sees the key first", do: a.idleTurn, want: "2 GetItem, 1 PutItem; 1"},
		{name: "bind: a tick that changes nothing", do: a.idleTurn, want: "2 GetItem; 1"},
		{name: "bind: last tick", do: a.lastTurn, want: "2 GetItem, 1 PutItem; 1"},
		{name: "the same bind again when it is done", do: a.request(200, "bind", async), want: "2 GetItem, 1 PutItem refused; 1"},
		{name: "fetch of a binding", do: a.request(200, "bind", fetch), want: "2 GetItem; 2"},
		{name: "bind, held for 2 s until it is done", do: a.quickly(a.request(201, "bind", other)),
			want: "18 GetItem, 5 PutItem; 9"},
		{name: "the same held bind again when it is done", do: a.request(200, "bind", other), want: "2 GetItem, 1 PutItem refused; 1"},
		{name: "unbind, held for 2 s until it is done", do: a.quickly(a.request(200, "unbind", other)),
			want: "19 GetItem, 4 PutItem; 12"},
		{name: "unbind, asynchronous, accepted", do: a.request(202, "unbind", async), want: "2 GetItem, 1 PutItem, 1 StartExecution; 0"},
		{name: "the same unbind again while it runs", do: a.request(202, "unbind", async), want: "2 GetItem; 0"},
		{name: "unbind: first tick (DELETE)", do: a.heldTurn, want: "2 GetItem, 2 PutItem; 2"},
		{name: "unbind: a tick that changes nothing", do: a.idleTurn, want: "2 GetItem; 1"},
		{name: "unbind: last tick", do: a.lastTurn, want: "2 GetItem, 1 PutItem; 4"},
	}
}

func (a *accounting) ends() []kind {
	return []kind{
		{name: "update, accepted", before: a.request(201, "bind"), do: a.request(202, "update"), want: "1 GetItem, 1 PutItem, 1 StartExecution; 0"},
		{name: "the same update again while it runs", do: a.request(202, "update"), want: "1 GetItem; 0"},
		{name: "update: first tick (PATCH)", do: a.heldTurn, want: "1 GetItem, 2 PutItem; 2"},
		{name: "update: a tick that changes nothing", do: a.idleTurn, want: "1 GetItem; 2"},
		{name: "update: last tick", do: a.lastTurn, want: "1 GetItem, 1 PutItem; 1"},
		{name: "delete, accepted", do: a.request(202, "deprovision"), want: "1 GetItem, 1 PutItem, 1 StartExecution; 0"},
		{name: "the same delete again while it runs", do: a.request(202, "deprovision"), want: "1 GetItem; 0"},
		{name: "delete: first tick (one binding left)", do: a.idleTurn, want: "4 GetItem, 1 PutItem, 1 Query, 1 StartExecution; 1"},
		{name: "delete: the unbind that it began", do: func() { a.finish(1) }, want: "4 GetItem, 3 PutItem; 6"},
		{name: "delete: next tick (DELETE)", do: a.heldTurn, want: "1 GetItem, 2 PutItem, 1 Query; 3"},
		{name: "delete: a tick that changes nothing", do: a.idleTurn, want: "1 GetItem; 1"},
		{name: "delete: last tick", do: a.lastTurn, want: "1 GetItem, 1 PutItem; 4"},
		{name: "poll of an instance that is gone", do: a.request(200, "last-operation"), want: "1 GetItem; 0"},
		{name: "the same delete again when it is done (410)", do: a.request(410, "deprovision"), want: "1 GetItem, 1 PutItem; 0"},
		{name: "janitor's round with nothing due", before: a.sweep(Schedule{}), do: a.sweep(Schedule{}), want: "1 PutItem, 4 Query; 0"},
		{name: "janitor's audit of an empty Cloud Foundry", do: a.sweep(Schedule{Task: TaskAudit}), want: "1 PutItem; 1"},
	}
}

// environments are what an environment takes beside the events, for one client.
func (a *accounting) environments() []kind {
	hour := func() {
		a.sweep(read[Schedule](a.T, "schedule-audit"))()
		for range 60 {
			a.pass(time.Minute)
			a.sweep(Schedule{})()
		}
	}
	prepare := func(function string, prepare func(context.Context)) func() {
		return func() { a.invoke(function, func(ctx context.Context) error { prepare(ctx); return nil }) }
	}
	return []kind{
		{name: "start of an environment of the API", do: prepare("api", a.api.prepare), want: "2 GetItem, 1 GetSecretValue; 0"},
		{name: "start of an environment of the poller", do: prepare("poller", a.poller.prepare), want: "2 GetItem, 1 GetSecretValue; 0"},
		{name: "create: first tick of an environment, in a space that exists not yet", before: a.request(202, "provision"), do: a.idleTurn,
			want: "1 GetItem, 2 PutItem; 6"},
		{name: "request that is the first after a minute (a catalog)", before: func() { a.finish(0); a.pass(time.Minute) },
			do: a.request(200, "catalog"), want: "1 GetItem, 1 GetSecretValue; 0"},
		{name: "janitor's hour with nothing due", before: func() { a.sweep(Schedule{Task: TaskAudit})(); hour() }, do: hour,
			want: "1 GetItem, 60 GetSecretValue, 61 PutItem, 240 Query; 30"},
	}
}

// mostLists is how often a round asks Cloud Foundry for each look at 1,000 operations at the most: 200 are driven
// together, for which two or three lists are enough. How many ask for the same list depends on who comes when.
const mostLists = 12

// mostListsOfTenThousand is what TestTenThousandInFlight allows for each look: three calls a second, in three looks a
// minute.
const mostListsOfTenThousand = 60

// rounds are the janitor's while creates wait, by their number and age.
func (a *accounting) rounds(n int) []kind {
	name, spend, began := "janitor's round: one waits, ", a.spend, time.Time{}
	if n > 1 {
		name = "janitor's round: " + number(float64(n)) + " wait, "
	}
	// No time passes while they begin, side by side.
	begin := func() {
		a.hold(true)
		a.meter.pass, a.spend = nil, nil
		for i := range n {
			a.request(202, "provision", under(instanceKey.InstanceID, fmt.Sprintf("0a9e7f6c-3a52-4b42-9f3b-%012d", i)))()
		}
		a.running = nil // rounds drive them
		began = a.now()
		a.pass(dueAfter - early)
		a.sweep(Schedule{})() // sends, and looks again
		if a.meter.pass = a.pass; n == 1 {
			a.spend = spend
		}
	}
	aged := func(age time.Duration) func() {
		return func() {
			a.pass(began.Add(age - time.Minute).Sub(a.now()))
			a.sweep(Schedule{})() // logs in again, and the like
			a.pass(began.Add(age).Sub(a.now()))
		}
	}
	most := func(looks int) int { return looks * mostLists * (n / 1000) }
	batches := (n + 99) / 100
	return []kind{
		{name: name + "younger than 5 min", before: begin, do: a.sweep(Schedule{}), most: most(3),
			want: fmt.Sprintf("%d BatchGetItem, 1 PutItem, 12 Query; %d", 3*batches, max(3, most(3)))},
		{name: name + "older than 5 min", before: aged(6 * time.Minute), do: a.sweep(Schedule{}), most: most(1),
			want: fmt.Sprintf("%d BatchGetItem, 1 PutItem, 4 Query; %d", batches, max(1, most(1)))},
		{name: name + "older than an hour, not their turn", before: aged(time.Hour + 150*time.Second), do: a.sweep(Schedule{}),
			want: fmt.Sprintf("%d BatchGetItem, 1 PutItem, 4 Query; 0", batches)},
	}
}

// meter is the functions' way to DynamoDB and Secrets Manager, as an HTTP client: it passes everything on to the
// stand-in and counts it.
type meter struct {
	next *awshttp.BuildableClient
	// pass lets the time go by that a call is taken to last; nil: none.
	pass func(time.Duration)

	mu     sync.Mutex
	counts tally
	// items are DynamoDB's, as they were written by here.
	items map[string]attributes
}

// newMeter uses a connection for each call: on one that it kept, the stand-in loses answers of its own accord, and the
// SDK's repetitions would be counted.
func newMeter() *meter {
	once := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.DisableKeepAlives = true })
	return &meter{next: once, counts: tally{calls: map[string]int{}}, items: map[string]attributes{}}
}

// lasting is how long calls are taken to last, and an invocation beside its calls. None of it was measured on AWS.
var lasting = map[string]time.Duration{
	"GetItem": 5 * time.Millisecond, "PutItem": 5 * time.Millisecond, "PutItem refused": 5 * time.Millisecond, "Query": 5 * time.Millisecond,
	"StartExecution": 30 * time.Millisecond, "GetSecretValue": 30 * time.Millisecond, "BatchGetItem": 10 * time.Millisecond,
	"call of Cloud Foundry": 150 * time.Millisecond, "our own code": 10 * time.Millisecond,
}

// Do implements aws.HTTPClient.
func (m *meter) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer, err := m.next.Do(r)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(content))
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return answer, m.count(operation, body, content)
}

// count counts a call, and DynamoDB's units. What it knows of items it saw being written: no answer says how large the
// item is that refused a write.
func (m *meter) count(operation string, body, content []byte) error {
	var question struct {
		Item           attributes
		ConsistentRead bool
		RequestItems   map[string]struct {
			Keys           []attributes
			ConsistentRead bool
		}
	}
	var answer struct {
		Item      attributes
		Items     []attributes
		Responses map[string][]attributes
		Type      string `json:"__type"`
	}
	if operation != "GetSecretValue" {
		if err := errors.Join(json.Unmarshal(body, &question), json.Unmarshal(content, &answer)); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch old := m.items[question.Item.key()]; {
	case operation == "GetItem":
		m.counts.reads += units(answer.Item.size(), readUnit)
	case operation == "BatchGetItem":
		for table, asked := range question.RequestItems {
			m.counts.reads += batchUnits(len(asked.Keys), answer.Responses[table], asked.ConsistentRead)
		}
	case operation == "Query":
		m.counts.reads += queryUnits(answer.Items, question.ConsistentRead)
	case operation == "PutItem" && strings.HasSuffix(answer.Type, "ConditionalCheckFailedException"):
		m.counts.writes += units(old.size(), writeUnit)
		operation += " refused"
	case operation == "PutItem" && answer.Type == "":
		m.counts.writes += writeUnits(old, question.Item)
		m.items[question.Item.key()] = question.Item
	}
	m.counts.calls[operation]++
	if m.pass != nil {
		m.pass(lasting[operation])
	}
	return nil
}

// take returns what was counted since the last take.
func (m *meter) take() tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.counts
	m.counts = tally{calls: map[string]int{}}
	return counts
}

// attributes are an item as DynamoDB's protocol has it: a type and a value each.
type attributes map[string]map[string]string

// size is what DynamoDB bills an item for: names and values; a number takes a byte for two digits and one more.
func (a attributes) size() int {
	n := 0
	for name, value := range a {
		n += len(name)
		for kind, text := range value {
			switch kind {
			case "B":
				raw, _ := base64.StdEncoding.DecodeString(text)
				n += len(raw)
			case "N":
				n += (len(strings.Trim(strings.ReplaceAll(text, ".", ""), "0"))+1)/2 + 1
			default:
				n += len(text)
			}
		}
	}
	return n
}

// key tells items apart.
func (a attributes) key() string { return a["pk"]["B"] + " " + a["sk"]["B"] }

// entry is what the index due holds of an item; nil for nothing.
func (a attributes) entry() attributes {
	if a["due_shard"] == nil || a["due_at"] == nil {
		return nil
	}
	e := attributes{}
	for _, name := range []string{"pk", "sk", "due_shard", "due_at", "operation", "expires"} {
		if a[name] != nil {
			e[name] = a[name]
		}
	}
	return e
}

const (
	readUnit  = 4096
	writeUnit = 1024
)

func units(bytes, unit int) float64 { return max(1, math.Ceil(float64(bytes)/float64(unit))) }

// writeUnits is what it takes to put an item in the place of another, either of which may be nil: the larger one of the
// two counts, and so does what changes in the index.
func writeUnits(old, next attributes) float64 {
	n := units(max(old.size(), next.size()), writeUnit)
	was, is := old.entry(), next.entry()
	switch {
	case was == nil && is == nil, was != nil && is != nil && maps.EqualFunc(was, is, maps.Equal):
		return n
	case was == nil:
		return n + units(is.size(), writeUnit)
	case is == nil:
		return n + units(was.size(), writeUnit)
	case was["due_shard"]["N"] == is["due_shard"]["N"] && was["due_at"]["N"] == is["due_at"]["N"]:
		return n + units(max(was.size(), is.size()), writeUnit)
	default: // another key in the index: the entry is deleted there and written anew
		return n + units(was.size(), writeUnit) + units(is.size(), writeUnit)
	}
}

// queryUnits is what reading these items together takes.
func queryUnits(items []attributes, consistent bool) float64 {
	bytes := 0
	for _, it := range items {
		bytes += it.size()
	}
	if n := units(bytes, readUnit); consistent {
		return n
	}
	return units(bytes, readUnit) / 2
}

// batchUnits is what reading so many items by their keys takes, of which these are there: each counts by itself.
func batchUnits(keys int, found []attributes, consistent bool) (n float64) {
	for _, it := range found {
		n += queryUnits([]attributes{it}, consistent)
	}
	return n + float64(keys-len(found))*queryUnits(nil, consistent)
}

// TestUnits holds the rules against the examples of DynamoDB's documentation.
func TestUnits(t *testing.T) {
	t.Parallel()
	item := func(bytes int, due string) attributes {
		a := attributes{"body": {"S": strings.Repeat("x", bytes-4)}}
		if due != "" {
			a["due_shard"], a["due_at"] = map[string]string{"N": "1"}, map[string]string{"N": due}
		}
		return a
	}
	for name, test := range map[string]struct{ got, want float64 }{
		"a read of nothing":                        {units(0, readUnit), 1},
		"a read of 4 KB":                           {units(4096, readUnit), 1},
		"a read of a byte more":                    {units(4097, readUnit), 2},
		"a new item of 1 KB":                       {writeUnits(nil, item(1024, "")), 1},
		"a larger one in its place":                {writeUnits(item(1024, ""), item(1025, "")), 2},
		"a smaller one in its place":               {writeUnits(item(1025, ""), item(10, "")), 2},
		"a new item that is in the index":          {writeUnits(nil, item(500, "1.5")), 2},
		"one that leaves the index":                {writeUnits(item(500, "1.5"), item(500, "")), 2},
		"one that moves in the index":              {writeUnits(item(500, "1.5"), item(500, "2.5")), 3},
		"one whose entry stays":                    {writeUnits(item(500, "1.5"), item(600, "1.5")), 1},
		"a query that finds nothing, eventually":   {queryUnits(nil, false), 0.5},
		"a query that is strongly consistent":      {queryUnits([]attributes{item(4000, ""), item(4000, "")}, true), 2},
		"two items by their keys, a third is gone": {batchUnits(3, []attributes{item(10, ""), item(4097, "")}, true), 4},
		"a number of eight digits, three bytes":    {float64(attributes{"n": {"N": "1767225600.000"}, "b": {"B": "AAAA"}}.size()), 1 + 5 + 1 + 3},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", name, test.got, test.want)
		}
	}
}
