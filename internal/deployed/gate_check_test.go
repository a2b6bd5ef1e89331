package deployed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/dynamo"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// upstream is what lies behind a gate in the gate's own tests: it counts what arrives.
type upstream struct {
	*httptest.Server
	mu      sync.Mutex
	arrived []string
}

func newUpstream(t *testing.T) *upstream {
	s := &upstream{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.arrived = append(s.arrived, r.Header.Get("X-Amz-Target")+" "+r.URL.RequestURI()+" "+string(body))
		s.mu.Unlock()
		w.Header().Set("X-Upstream", "yes")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *upstream) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrived)
}

// item is a call of DynamoDB about an instance.
func item(id string) string {
	key := base64.StdEncoding.EncodeToString([]byte("demo#" + id))
	return fmt.Sprintf(`{"TableName":"t","Item":{"pk":{"B":%q},"n":{"N":"1"}}}`, key)
}

// answerOf is what a sender gets; status 0 when the answer was lost.
type answerOf struct {
	status int
	kind   string
}

func send(url, target, body string) (answerOf, error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answerOf{}, err
	}
	req.Header.Set("X-Amz-Target", target)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return answerOf{}, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var problem struct {
		Type string `json:"__type"`
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &problem)
	}
	return answerOf{resp.StatusCode, problem.Type}, err
}

const (
	putItem = "DynamoDB_20120810.PutItem"
	getItem = "DynamoDB_20120810.GetItem"
	started = "AWSStepFunctions.StartExecution"
)

// TestGateDoesWhatWasOrdered and leaves alone what the order is not about.
func TestGateDoesWhatWasOrdered(t *testing.T) {
	t.Parallel()
	start := `{"name":"create-1","input":"{\"client\":\"demo\",\"instance_id\":\"one%2F\",\"operation\":\"create-1\"}"}`
	tests := map[string]struct {
		fault        fault
		target, body string
		want         answerOf
		arrives      int
	}{
		"throttle, DynamoDB": {fault{Action: "DynamoDB.PutItem", About: "one", Do: throttle}, putItem, item("one"),
			answerOf{400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}, 0},
		"throttle, Step Functions": {fault{Action: "StepFunctions.StartExecution", About: "one/", Do: throttle}, started, start,
			answerOf{400, "ThrottlingException"}, 0},
		"fail500": {fault{Action: "DynamoDB.PutItem", About: "one", Do: fail500}, putItem, item("one"),
			answerOf{500, "InternalServerError"}, 0},
		"refuse": {fault{Action: "StepFunctions.StartExecution", About: "create-1", Do: refuse}, started, start,
			answerOf{400, "AccessDeniedException"}, 0},
		"lose": {fault{Action: "DynamoDB.PutItem", About: "one", Do: lose}, putItem, item("one"), answerOf{}, 1},
		"what Fits picks": {fault{Fits: func(c call) bool { return strings.Contains(string(c.Body), `"n"`) }, Do: lose},
			putItem, item("one"), answerOf{}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newUpstream(t)
			g := newGate(t, s.URL)
			o := g.order(t, test.fault)
			got, err := send(g.URL(), test.target, test.body)
			if err != nil || got != test.want || s.count() != test.arrives || o.count() != 1 {
				t.Errorf("%+v, %v, %d arrived, %d hits; want %+v, %d arrived, 1 hit", got, err, s.count(), o.count(), test.want, test.arrives)
			}
			for _, other := range [][2]string{{getItem, `{"Key":{"pk":{"B":"eA=="}}}`}, {putItem, `{"Item":{}}`}, {"", "{}"}} {
				if got, err := send(g.URL(), other[0], other[1]); err != nil || got.status != http.StatusAccepted {
					t.Errorf("%s %s was disturbed: %+v, %v", other[0], other[1], got, err)
				}
			}
		})
	}
}

func TestGateSkipsCountsAndIsLifted(t *testing.T) {
	t.Parallel()
	s := newUpstream(t)
	g := newGate(t, s.URL)
	statuses := func(n int) (got []int) {
		for range n {
			answer, err := send(g.URL(), putItem, item("one"))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, answer.status)
		}
		return got
	}
	g.order(t, fault{About: "one", Skip: 1, Times: 2, Do: fail500})
	if diff := cmp.Diff([]int{202, 500, 500, 202}, statuses(4)); diff != "" {
		t.Error(diff)
	}
	always := g.order(t, fault{About: "one", Do: throttle})
	if diff := cmp.Diff([]int{400, 400, 400}, statuses(3)); diff != "" {
		t.Error(diff)
	}
	g.lift(always)
	if diff := cmp.Diff([]int{202}, statuses(1)); diff != "" {
		t.Error(diff)
	}
	if all, met := g.calls("one"), always.count(); len(all) != 8 || met != 3 || all[1].Met == nil || all[0].Met != nil {
		t.Errorf("%d calls written down, %d met the last fault; want 8 and 3", len(all), met)
	}
	if none := g.calls("two"); len(none) != 0 {
		t.Errorf("%d calls about what nobody asked for", len(none))
	}
}

func TestGateHoldsUntilReleased(t *testing.T) {
	t.Parallel()
	s := newUpstream(t)
	g := newGate(t, s.URL)
	held := g.order(t, fault{About: "one", Times: 1, Do: hold})
	answered := make(chan answerOf, 1)
	go func() {
		got, _ := send(g.URL(), putItem, item("one"))
		answered <- got
	}()
	held.awaits(t, 20*time.Second)
	if got, err := send(g.URL(), putItem, item("two")); err != nil || got.status != 202 {
		t.Errorf("another instance's call: %+v, %v", got, err)
	}
	select {
	case got := <-answered:
		t.Fatalf("answered while it was held: %+v", got)
	default:
	}
	if s.count() != 1 {
		t.Errorf("%d arrived while one was held, want 1", s.count())
	}
	held.release()
	if got := <-answered; got.status != 202 || s.count() != 2 {
		t.Errorf("released: %+v, %d arrived", got, s.count())
	}
}

// TestGateReadsWhatTheProductSends keeps the gate's reading and the clients' writing together.
func TestGateReadsWhatTheProductSends(t *testing.T) {
	t.Parallel()
	s := newUpstream(t)
	g := newGate(t, s.URL)
	config := aws.Config{Region: "us-east-1", BaseEndpoint: new(g.URL()), Credentials: aws.CredentialsProviderFunc(credentials)}
	table, err := dynamo.New(dynamo.Options{Config: config, Table: "t", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	key := broker.Key{Client: "demo", InstanceID: "shop/db #1", BindingID: "b"}
	// On a loaded machine a client may give up before the gate has noted its call, or ask again.
	for _, ask := range []func(){
		func() { _, _ = table.Get(t.Context(), key) },
		func() { _, _ = table.GetAll(t.Context(), []broker.Key{key, {Client: "demo", InstanceID: "other"}}) },
		func() { _, _ = table.Put(t.Context(), broker.Record{Key: key}, 0) },
		func() { _, _ = table.Bindings(t.Context(), key) },
		func() {
			_ = sfn.New(sfn.Options{Config: config, StateMachine: "m"}).Start(t.Context(), broker.Start{Key: key, Operation: "bind-1", Restart: 2})
		},
		func() {
			_, _ = secrets.New(secrets.Options{Config: config, Secret: "arn:s", Now: time.Now}).Current(t.Context())
		},
	} {
		for before := len(g.calls("")); len(g.calls("")) == before; {
			ask()
		}
	}
	type seen struct {
		Action string
		About  []string
	}
	var got []seen
	for _, c := range g.calls("") {
		if next := (seen{c.Action, c.About}); len(got) == 0 || got[len(got)-1].Action != next.Action {
			got = append(got, next)
		}
	}
	want := []seen{
		{"DynamoDB.GetItem", []string{"shop/db #1", "b"}},
		{"DynamoDB.BatchGetItem", []string{"shop/db #1", "b", "other"}},
		{"DynamoDB.PutItem", []string{"shop/db #1", "b"}},
		{"DynamoDB.Query", []string{"shop/db #1"}},
		{"StepFunctions.StartExecution", []string{"bind-1-r2", "bind-1", "shop/db #1", "b"}},
		{"SecretsManager.GetSecretValue", []string{"arn:s"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const senderVariable = "FERRY_TEST_GATE"

// TestGateSender is no test of its own: the others run it in a process that the gate may end. It sends one call and
// prints the status.
func TestGateSender(t *testing.T) {
	url, asked := os.LookupEnv(senderVariable)
	if !asked {
		return
	}
	got, err := send(url, putItem, item("one"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("status=%d\n", got.status)
}

// outcome is how a sender ended.
type outcome struct {
	code   int // -1: by a signal
	output string
}

// sendFrom lets a process of its own send one call.
func sendFrom(t *testing.T, url, function string) outcome {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^TestGateSender$", "-test.count=1")
	c.Env = append(os.Environ(), senderVariable+"="+url, "AWS_LAMBDA_FUNCTION_NAME="+function)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	err = c.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return outcome{c.ProcessState.ExitCode(), output.String()}
}

func TestGateEndsTheSender(t *testing.T) {
	t.Parallel()
	requireProcesses(t)
	tests := map[string]struct {
		do      disturbance
		code    int
		arrives int
		output  string // a part of it
	}{
		"killed before the call":  {killBefore, -1, 0, ""},
		"killed after the call":   {killAfter, -1, 1, ""},
		"crashed before the call": {crash, 2, 0, "SIGABRT"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newUpstream(t)
			g := newGate(t, s.URL)
			o := g.order(t, fault{From: "Poller", Times: 1, Do: test.do})
			got := sendFrom(t, g.URL(), "stack-PollerFunction-1")
			if got.code != test.code || !strings.Contains(got.output, test.output) || strings.Contains(got.output, "status=") {
				t.Errorf("exit code %d, want %d; output: %s", got.code, test.code, got.output)
			}
			if s.count() != test.arrives || o.count() != 1 {
				t.Errorf("%d arrived, %d hits; want %d and 1", s.count(), o.count(), test.arrives)
			}
		})
	}
}

func TestGateKnowsWhoSent(t *testing.T) {
	t.Parallel()
	requireProcesses(t)
	s := newUpstream(t)
	g := newGate(t, s.URL)
	o := g.order(t, fault{From: "PollerFunction", Do: fail500})
	api, poller := sendFrom(t, g.URL(), "stack-ApiFunction-1"), sendFrom(t, g.URL(), "stack-PollerFunction-2")
	if !strings.Contains(api.output, "status=202") || !strings.Contains(poller.output, "status=500") || o.count() != 1 {
		t.Errorf("the api: %s; the poller: %s", api.output, poller.output)
	}
	all := g.calls("one")
	if len(all) != 2 || all[0].From != "stack-ApiFunction-1" || all[1].From != "stack-PollerFunction-2" {
		t.Errorf("written down: %+v", all)
	}
}

// TestGateKillsNoStranger: what does not descend from the guarded process lives.
func TestGateKillsNoStranger(t *testing.T) {
	t.Parallel()
	requireProcesses(t)
	s := newUpstream(t)
	g := newGate(t, s.URL)
	g.guard(1 << 30)
	o := &ordered{fault: fault{Do: killBefore}, met: make(chan struct{}), released: make(chan struct{})}
	g.mu.Lock()
	g.faults = append(g.faults, o)
	g.mu.Unlock()
	if got := sendFrom(t, g.URL(), "a stranger"); got.code != 0 || !strings.Contains(got.output, "status=0") || o.fate() == nil {
		t.Errorf("exit code %d, output %s, fate %v; want it to live, and the order to fail", got.code, got.output, o.fate())
	}
}
