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
	"github.com/ferry-broker/ferry/internal/osb"
)

func TestSuccessesOfInstances(t *testing.T) {
	t.Parallel()
	full := func(o broker.Outcome) broker.Result {
		return broker.Result{Outcome: o, Operation: "op-1", RetryAfter: 3, DashboardURL: "https://d/?a=1&b=2",
			Metadata: &osb.InstanceMetadata{Labels: map[string]string{"l": "v"}}}
	}
	const extras = `"dashboard_url":"https://d/?a=1&b=2"`
	const metadata = `"metadata":{"labels":{"l":"v"}}`
	for _, test := range []struct {
		name, method, target string
		result               broker.Result
		status               int
		want, retryAfter     string
	}{
		{"a new create", "PUT", instanceURL, full(broker.OutcomeAccepted), 202, `{` + extras + `,"operation":"op-1",` + metadata + `}`, "3"},
		{"a duplicate create", "PUT", instanceURL, full(broker.OutcomeRunning), 202, `{` + extras + `,"operation":"op-1",` + metadata + `}`, "3"},
		{"what exists", "PUT", instanceURL, full(broker.OutcomeExists), 200, `{` + extras + `,` + metadata + `}`, ""},
		{"what exists and has nothing to tell", "PUT", instanceURL, broker.Result{Outcome: broker.OutcomeExists}, 200, `{}`, ""},
		{"a new update", "PATCH", instanceURL, full(broker.OutcomeAccepted), 202, `{` + extras + `,"operation":"op-1",` + metadata + `}`, "3"},
		{"an update without effect", "PATCH", instanceURL, broker.Result{Outcome: broker.OutcomeExists}, 200, `{}`, ""},
		{"a new delete", "DELETE", instanceURL + hints, full(broker.OutcomeAccepted), 202, `{"operation":"op-1"}`, "3"},
		{"a duplicate delete", "DELETE", instanceURL + hints, full(broker.OutcomeRunning), 202, `{"operation":"op-1"}`, "3"},
		{"a new unbind", "DELETE", bindingURL + hints, full(broker.OutcomeAccepted), 202, `{"operation":"op-1"}`, "3"},
		{"a held unbind", "DELETE", bindingURL, broker.Result{Outcome: broker.OutcomeDeleted}, 200, `{}`, ""},
		{"a hurried poller", "PUT", instanceURL, broker.Result{Outcome: broker.OutcomeAccepted, Operation: "o"}, 202, `{"operation":"o"}`, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.provision = func(context.Context, broker.ProvisionRequest) (broker.Result, error) { return test.result, nil }
			b.broker.update = func(context.Context, broker.UpdateRequest) (broker.Result, error) { return test.result, nil }
			b.broker.deprovision = func(context.Context, broker.DeleteRequest) (broker.Result, error) { return test.result, nil }
			b.broker.unbind = b.broker.deprovision
			w := b.send(test.method, test.target, goodInstance)
			object(t, w)
			if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.want {
				t.Errorf("%d %s, want %d %s", w.Code, got, test.status, test.want)
			}
			if got := w.Header().Get("Retry-After"); got != test.retryAfter {
				t.Errorf("Retry-After = %q, want %q", got, test.retryAfter)
			}
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control = %q, want no-store", got)
			}
		})
	}
}

func TestSuccessesOfBindings(t *testing.T) {
	t.Parallel()
	body := broker.BindingBody{
		KeyDetails: broker.KeyDetails{
			Credentials:    json.RawMessage(`{"uri":"p://u:<&>@h","big":9007199254740993,"e":1.0}`),
			SyslogDrainURL: "syslog://d", VolumeMounts: json.RawMessage(`[{"mode":"r"}]`),
		},
		Parameters: json.RawMessage(`{"name":"n"}`),
	}
	const data = `{"credentials":{"uri":"p://u:<&>@h","big":9007199254740993,"e":1.0},"syslog_drain_url":"syslog://d","volume_mounts":[{"mode":"r"}]`
	for _, test := range []struct {
		name   string
		result broker.Result
		status int
		want   string
	}{
		{"a held bind", broker.Result{Outcome: broker.OutcomeCreated, Operation: "o", Binding: &body}, 201, data + "}"},
		{"a duplicate bind", broker.Result{Outcome: broker.OutcomeExists, Operation: "o", Binding: &body}, 200, data + "}"},
		{"a binding without credentials", broker.Result{Outcome: broker.OutcomeCreated, Binding: &broker.BindingBody{KeyDetails: broker.KeyDetails{Credentials: json.RawMessage("null")}}}, 201, "{}"},
		{"an accepted bind, whose data must wait", broker.Result{Outcome: broker.OutcomeAccepted, Operation: "o", Binding: &body, RetryAfter: 1}, 202, `{"operation":"o"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.bind = func(context.Context, broker.BindRequest) (broker.Result, error) { return test.result, nil }
			w := b.send("PUT", bindingURL, goodBinding)
			if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.want {
				t.Errorf("%d %s, want %d %s", w.Code, got, test.status, test.want)
			}
		})
	}
	t.Run("a fetched binding has its parameters", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.broker.binding = func(context.Context, broker.FetchRequest) (broker.BindingBody, error) { return body, nil }
		w := b.send("GET", bindingURL, "")
		if got, want := strings.TrimSpace(w.Body.String()), data+`,"parameters":{"name":"n"}}`; w.Code != 200 || got != want {
			t.Errorf("%d %s, want 200 %s", w.Code, got, want)
		}
	})
}

func TestAFetchedInstance(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.broker.instance = func(context.Context, broker.FetchRequest) (broker.InstanceBody, error) {
		return broker.InstanceBody{ServiceID: "s", PlanID: "p", DashboardURL: "https://d", Parameters: json.RawMessage(`{"n":1}`), MaintenanceVersion: "2.1.0"}, nil
	}
	const want = `{"service_id":"s","plan_id":"p","dashboard_url":"https://d","parameters":{"n":1},"maintenance_info":{"version":"2.1.0"}}`
	if w := b.send("GET", instanceURL, ""); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("%d %s, want 200 %s", w.Code, w.Body, want)
	}
}

func TestAnswersThatWouldDeceiveThePlatformAreFaults(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]broker.Result{
		"a bind that is done but has no body":  {Outcome: broker.OutcomeExists},
		"an outcome that nobody knows":         {Outcome: "perhaps"},
		"no outcome":                           {},
		"credentials that are not JSON at all": {Outcome: broker.OutcomeCreated, Binding: &broker.BindingBody{KeyDetails: broker.KeyDetails{Credentials: json.RawMessage(`S3CRET`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.bind = func(context.Context, broker.BindRequest) (broker.Result, error) { return result, nil }
			w := b.send("PUT", bindingURL, goodBinding)
			described(t, w, 500, "operator")
			if line := b.lines(t)[0]; line["level"] != "ERROR" || line["error"] == nil {
				t.Errorf("log line %v, want an ERROR with its cause", line)
			}
			if strings.Contains(w.Body.String()+b.log.String(), "S3CRET") {
				t.Error("credentials show")
			}
		})
	}
}

// LOI-01 to LOI-26, LOB-01 to LOB-17.
func TestPolls(t *testing.T) {
	t.Parallel()
	no := false
	client := func(name string) option { return as(name, "p"+name) }
	failed := broker.Poll{State: osb.Failed, Description: "why", InstanceUsable: &no, UpdateRepeatable: &no, RetryAfter: 9}
	for _, test := range []struct {
		name, target     string
		client           string
		poll             broker.Poll
		status           int
		want, retryAfter string
	}{
		{"in progress", instanceURL, "a", broker.Poll{State: osb.InProgress, RetryAfter: 5}, 200, `{"state":"in progress"}`, "5"},
		{"in progress with much to say", instanceURL, "a", broker.Poll{State: osb.InProgress, Description: "half", RetryAfter: 999, InstanceUsable: &no}, 200, `{"state":"in progress","description":"half"}`, "300"},
		{"succeeded", instanceURL, "a", broker.Poll{State: osb.Succeeded, RetryAfter: 9}, 200, `{"state":"succeeded"}`, ""},
		{"a failed instance", instanceURL, "a", failed, 200, `{"state":"failed","description":"why","instance_usable":false,"update_repeatable":false}`, ""},
		{"a failed binding", bindingURL, "a", failed, 200, `{"state":"failed","description":"why"}`, ""},
		{"a finished delete", instanceURL, "a", broker.Poll{State: osb.Succeeded, DeleteDone: true}, 200, `{"state":"succeeded"}`, ""},
		{"a finished delete for a client with the quirk", instanceURL, "b", broker.Poll{State: osb.Succeeded, DeleteDone: true}, 410, `{}`, ""},
		{"a finished unbind for a client with the quirk", bindingURL, "b", broker.Poll{State: osb.Succeeded, DeleteDone: true}, 410, `{}`, ""},
		{"a finished create for a client with the quirk", instanceURL, "b", broker.Poll{State: osb.Succeeded}, 200, `{"state":"succeeded"}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.poll = func(context.Context, broker.PollRequest) (broker.Poll, error) { return test.poll, nil }
			w := b.send("GET", test.target+"/last_operation", "", client(test.client))
			object(t, w)
			if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.want {
				t.Errorf("%d %s, want %d %s", w.Code, got, test.status, test.want)
			}
			if got := w.Header().Get("Retry-After"); got != test.retryAfter {
				t.Errorf("Retry-After = %q, want %q", got, test.retryAfter)
			}
		})
	}
}

func TestAPollPassesItsOperationAndNothingElse(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]broker.PollRequest{
		instanceURL + "/last_operation":                                         {Client: "alpha", InstanceID: "i1"},
		instanceURL + "/last_operation?operation=a%2Bb%20c&service_id=&plan_id": {Client: "alpha", InstanceID: "i1", Operation: "a+b c"},
		bindingURL + "/last_operation?operation=x&operation=y":                  {Client: "alpha", InstanceID: "i1", BindingID: "b1", Operation: "x"},
	} {
		b := newBench(t)
		var got broker.PollRequest
		b.broker.poll = func(_ context.Context, r broker.PollRequest) (broker.Poll, error) {
			got = r
			return broker.Poll{State: osb.Succeeded}, nil
		}
		w := b.send("GET", target, "")
		if diff := cmp.Diff(want, got); w.Code != 200 || diff != "" {
			t.Errorf("%s: status %d, request (-want +got):\n%s", target, w.Code, diff)
		}
	}
}

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
	if line["level"] != "ERROR" || !strings.Contains(stack, "write_test.go") || !strings.Contains(line["error"].(string), "runtime.boundsError") {
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
