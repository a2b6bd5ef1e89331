package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

func TestTheLineOfARequest(t *testing.T) {
	t.Parallel()
	now := modified // read once when the budget begins, and once for the line
	b := newBench(t, func(o *Options) { o.Now = func() time.Time { now = now.Add(125 * time.Millisecond); return now } })
	b.send("DELETE", bindingURL+hints+"&accepts_incomplete=true", "")
	b.send("GET", "/v2/nope", "")
	b.send("PUT", instanceURL, goodInstance, as("a", "wrong"))
	b.send("GET", instanceURL+"/last_operation?operation="+strings.Repeat("x", 65), "")
	lines := b.lines(t)
	for _, line := range lines {
		delete(line, "time")
	}
	want := []map[string]any{
		{"level": "INFO", "msg": "request", "request_identity": "req-1", "client": "alpha", "verb": "unbind", "instance_id": "i1", "binding_id": "b1",
			"status": 202.0, "outcome": "accepted", "operation": "delete-2", "duration_ms": 250.0},
		{"level": "INFO", "msg": "request", "request_identity": "req-1", "client": "alpha", "verb": "none", "method": "GET", "path": "/v2/nope",
			"status": 404.0, "outcome": "NotFound", "duration_ms": 125.0},
		{"level": "INFO", "msg": "request", "request_identity": "req-1", "verb": "none", "method": "PUT", "path": instanceURL,
			"status": 401.0, "outcome": "Unauthorized", "duration_ms": 125.0},
		{"level": "INFO", "msg": "request", "request_identity": "req-1", "client": "alpha", "verb": "last_operation", "instance_id": "i1",
			"status": 200.0, "outcome": "succeeded", "duration_ms": 250.0},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// Law 9: every place of a request that can hold a secret holds a marked one.
func TestNoSecretReachesTheLog(t *testing.T) {
	t.Parallel()
	const mark = "S3CRET"
	originator := "kubernetes " + base64.StdEncoding.EncodeToString([]byte(`{"username":"`+mark+`"}`))
	bodies := map[string]string{
		"good":           `{"service_id":"s","plan_id":"p","organization_guid":"o","space_guid":"sp","context":{"x":"S3CRET"},"parameters":{"S3CRET":"S3CRET"}}`,
		"a key twice":    `{"service_id":"s","parameters":{"S3CRET":1,"S3CRET":2}}`,
		"cut":            `{"service_id":"s","parameters":{"S3CRET":"S3CR`,
		"wrong types":    `{"service_id":["S3CRET"],"parameters":"S3CRET"}`,
		"missing fields": `{"parameters":{"S3CRET":"S3CRET"}}`,
		"no JSON":        `password=S3CRET`,
	}
	credentials := broker.BindingBody{KeyDetails: broker.KeyDetails{Credentials: json.RawMessage(`{"password":"S3CRET"}`)}}
	fakes := map[string]fakeBroker{
		"accepts": {},
		"hands out credentials": {
			bind: func(context.Context, broker.BindRequest) (broker.Result, error) {
				return broker.Result{Outcome: broker.OutcomeCreated, Binding: &credentials}, nil
			},
			binding: func(context.Context, broker.FetchRequest) (broker.BindingBody, error) { return credentials, nil },
		},
		"refuses": failing(&broker.Error{Code: broker.CodeConflict, Description: "the S3CRET of a description"}),
		"fails":   failing(errors.New("some cause")),
		"panics": {
			provision: func(_ context.Context, r broker.ProvisionRequest) (broker.Result, error) {
				panic(string(r.Body.Parameters))
			},
			bind: func(_ context.Context, r broker.BindRequest) (broker.Result, error) {
				panic(errors.New(string(r.Body.Parameters)))
			},
			update: func(_ context.Context, r broker.UpdateRequest) (broker.Result, error) { panic(r) },
			unbind: func(context.Context, broker.DeleteRequest) (broker.Result, error) { panic(runtimeError(mark)) },
		},
	}
	query := "?service_id=s&plan_id=p&password=" + mark
	secrets := []option{
		as("a", "pa"), with("X-Broker-API-Originating-Identity", originator), with("Cookie", mark), with("X-Api-Key", mark),
	}
	wrongPassword := append(append([]option{}, secrets...), as("a", mark))
	for name, fake := range fakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			*b.broker = fake
			for _, body := range bodies {
				for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "POST"} {
					for _, target := range []string{instanceURL, bindingURL, instanceURL + "/last_operation", "/v2/catalog", "/v2/nope", "/nope"} {
						b.send(method, target+query, body, secrets...)
						b.send(method, target+query, body, wrongPassword...)
					}
				}
			}
			log := b.log.String()
			for _, word := range []string{mark, "S3CR", base64.StdEncoding.EncodeToString([]byte("a:" + mark)), strings.Fields(originator)[1]} {
				if i := strings.Index(log, word); i >= 0 {
					t.Errorf("%s is in the log: …%s…", word, log[max(0, i-200):min(len(log), i+60)])
				}
			}
		})
	}
}

// runtimeError is a fault as the Go runtime raises it, with a text of its own.
type runtimeError string

func (e runtimeError) Error() string { return string(e) }
func (runtimeError) RuntimeError()   {}

func TestAPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.broker.instance = func(context.Context, broker.FetchRequest) (broker.InstanceBody, error) {
		var empty []broker.InstanceBody
		return empty[len(empty)], nil
	}
	w := b.send("GET", instanceURL, "")
	described(t, w, 500, "operator")
	if got := w.Header().Get("X-Broker-API-Request-Identity"); got != "req-1" {
		t.Errorf("request identity = %q", got)
	}
	line := b.lines(t)[0]
	stack, _ := line["stack"].(string)
	if line["level"] != "ERROR" || !strings.Contains(stack, "log_test.go") || !strings.Contains(line["error"].(string), "runtime.boundsError") {
		t.Errorf("log line %v, want an ERROR that says where and what", line)
	}
	if w := b.send("GET", "/v2/catalog", ""); w.Code != 200 {
		t.Errorf("status = %d after a panic, want 200", w.Code)
	}
}

type event struct {
	Verb    string
	Status  int
	Outcome string
	Took    time.Duration
	Twice   bool
}

// recorder keeps what it is told and panics when asked to.
type recorder struct {
	events []event
	panics bool
}

func (r *recorder) Request(verb string, status int, outcome string, took time.Duration) {
	r.events = append(r.events, event{verb, status, outcome, took, false})
	if r.panics {
		panic("the observer")
	}
}

func (r *recorder) Duplicate(verb string) {
	r.events = append(r.events, event{Verb: verb, Twice: true})
}

func TestTheObserverHearsOfEveryRequestUnderV2(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	now := modified
	b := newBench(t, func(o *Options) {
		o.Observer = r
		o.Now = func() time.Time { now = now.Add(time.Second); return now }
	})
	b.broker.provision = func(context.Context, broker.ProvisionRequest) (broker.Result, error) {
		return broker.Result{Outcome: broker.OutcomeRunning, Operation: "o"}, nil
	}
	b.broker.unbind = func(context.Context, broker.DeleteRequest) (broker.Result, error) { panic("x") }
	b.send("PUT", instanceURL, goodInstance)
	b.send("PATCH", instanceURL, "{}")
	b.send("DELETE", bindingURL, "")
	b.send("GET", "/v2/catalog", "", as("a", "x"))
	b.send("GET", "/healthz", "")
	b.send("GET", "/nope", "")
	want := []event{
		{"provision", 202, "running", 2 * time.Second, false}, {Verb: "provision", Twice: true},
		{"update", 400, "BadRequest", 2 * time.Second, false},
		{"unbind", 500, "Internal", 2 * time.Second, false},
		{"none", 401, "Unauthorized", time.Second, false},
	}
	if diff := cmp.Diff(want, r.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAnObserverThatPanicsDoesNoHarm(t *testing.T) {
	t.Parallel()
	r := &recorder{panics: true}
	b := newBench(t, func(o *Options) { o.Observer = r })
	w := b.send("PUT", instanceURL, goodInstance)
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusAccepted || got != `{"operation":"create-1"}` {
		t.Errorf("%d %s, want 202 and one body", w.Code, got)
	}
	if len(r.events) != 1 {
		t.Errorf("the observer was told %d times, want once", len(r.events))
	}
}
