package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/catalog"
)

// fakeBroker answers with its functions; where one is nil, with a plain success.
type fakeBroker struct {
	provision   func(context.Context, broker.ProvisionRequest) (broker.Result, error)
	update      func(context.Context, broker.UpdateRequest) (broker.Result, error)
	deprovision func(context.Context, broker.DeleteRequest) (broker.Result, error)
	bind        func(context.Context, broker.BindRequest) (broker.Result, error)
	unbind      func(context.Context, broker.DeleteRequest) (broker.Result, error)
	instance    func(context.Context, broker.FetchRequest) (broker.InstanceBody, error)
	binding     func(context.Context, broker.FetchRequest) (broker.BindingBody, error)
	poll        func(context.Context, broker.PollRequest) (broker.Poll, error)
}

func reply[Q, A any](f func(context.Context, Q) (A, error), ctx context.Context, q Q, standard A) (A, error) {
	if f == nil {
		return standard, nil
	}
	return f(ctx, q)
}

func accepted(operation string) broker.Result {
	return broker.Result{Outcome: broker.OutcomeAccepted, Operation: operation, RetryAfter: 2}
}

func (f *fakeBroker) Provision(ctx context.Context, r broker.ProvisionRequest) (broker.Result, error) {
	return reply(f.provision, ctx, r, accepted("create-1"))
}

func (f *fakeBroker) Update(ctx context.Context, r broker.UpdateRequest) (broker.Result, error) {
	return reply(f.update, ctx, r, accepted("update-1"))
}

func (f *fakeBroker) Deprovision(ctx context.Context, r broker.DeleteRequest) (broker.Result, error) {
	return reply(f.deprovision, ctx, r, accepted("delete-1"))
}

func (f *fakeBroker) Bind(ctx context.Context, r broker.BindRequest) (broker.Result, error) {
	return reply(f.bind, ctx, r, accepted("create-2"))
}

func (f *fakeBroker) Unbind(ctx context.Context, r broker.DeleteRequest) (broker.Result, error) {
	return reply(f.unbind, ctx, r, accepted("delete-2"))
}

func (f *fakeBroker) FetchInstance(ctx context.Context, r broker.FetchRequest) (broker.InstanceBody, error) {
	return reply(f.instance, ctx, r, broker.InstanceBody{ServiceID: "s", PlanID: "p"})
}

func (f *fakeBroker) FetchBinding(ctx context.Context, r broker.FetchRequest) (broker.BindingBody, error) {
	return reply(f.binding, ctx, r, broker.BindingBody{})
}

func (f *fakeBroker) LastOperation(ctx context.Context, r broker.PollRequest) (broker.Poll, error) {
	return reply(f.poll, ctx, r, broker.Poll{State: "succeeded"})
}

type fakeCatalog func(ctx context.Context, client string) (catalog.Document, error)

func (f fakeCatalog) Document(ctx context.Context, client string) (catalog.Document, error) {
	return f(ctx, client)
}

var modified = time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)

func document() catalog.Document {
	return catalog.Document{Body: []byte(`{"services":[]}`), ETag: `"abc"`, Modified: modified}
}

// bench is a handler with fakes around it.
type bench struct {
	handler http.Handler
	broker  *fakeBroker
	log     *bytes.Buffer
}

func newBench(t testing.TB, change ...func(*Options)) *bench {
	t.Helper()
	b := &bench{broker: &fakeBroker{}, log: &bytes.Buffer{}}
	o := Options{
		Broker:  b.broker,
		Catalog: fakeCatalog(func(context.Context, string) (catalog.Document, error) { return document(), nil }),
		Clients: []Client{
			{Name: "alpha", Credentials: []Credential{{Username: "a", Password: "pa"}, {Username: "a", Password: "pa-next"}}},
			{Name: "beta", Credentials: []Credential{{Username: "b", Password: "pb"}}, MissingVersion: 412, FinishedDelete: 410},
		},
		Logger: slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:    func() time.Time { return modified },
	}
	for _, f := range change {
		f(&o)
	}
	b.handler = New(o)
	return b
}

// option changes a request that would otherwise be in order.
type option func(*http.Request)

func with(header, value string) option {
	return func(r *http.Request) { r.Header.Set(header, value) }
}

func without(header string) option { return func(r *http.Request) { r.Header.Del(header) } }

func as(username, password string) option {
	return func(r *http.Request) { r.SetBasicAuth(username, password) }
}

// send sends one request of client alpha with version and identity headers.
func (b *bench) send(method, target, body string, options ...option) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.SetBasicAuth("a", "pa")
	r.Header.Set("X-Broker-API-Version", "2.17")
	r.Header.Set("X-Broker-API-Request-Identity", "req-1")
	for _, o := range options {
		o(r)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

// lines returns the log so far, one line an object.
func (b *bench) lines(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(b.log.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("log line %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// object decodes the body of an answer, which has to be a JSON object.
func object(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", got)
	}
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body == nil {
		t.Fatalf("body %q is no JSON object: %v", w.Body, err)
	}
	return body
}

// described fails unless the answer has the status and a description that holds each of the parts.
func described(t *testing.T, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status = %d, want %d; body %s", w.Code, status, w.Body)
	}
	description, _ := object(t, w)["description"].(string)
	if description == "" {
		t.Errorf("no description in %s", w.Body)
	}
	for _, part := range parts {
		if !strings.Contains(description, part) {
			t.Errorf("description %q lacks %q", description, part)
		}
	}
}

const (
	instanceURL  = "/v2/service_instances/i1"
	bindingURL   = "/v2/service_instances/i1/service_bindings/b1"
	asynchronous = "?accepts_incomplete=true"
	hints        = "?service_id=s&plan_id=p"
	goodInstance = `{"service_id":"s","plan_id":"p","organization_guid":"o","space_guid":"sp"}`
	goodBinding  = `{"service_id":"s","plan_id":"p"}`
)

// A real server treats some methods and answers in its own way.
func TestOverARealConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newBench(t).handler)
	defer server.Close()
	for _, test := range []struct {
		method, target, body string
		status               int
		text                 string
	}{
		{"HEAD", "/v2/catalog", "", 405, ""},
		{"GET", "/v2/catalog", "", 200, `{"services":[]}`},
		{"PUT", "/v2/service_instances/a%2Fb?accepts_incomplete=true", goodInstance, 202, `{"operation":"create-1"}`},
		{"PUT", "/v2//service_instances/x", goodInstance, 404, "description"},
		{"PUT", instanceURL, strings.Repeat(" ", 2<<20), 413, "1048576 bytes"},
		{"GET", "/healthz", "", 200, `{"status":"ok"}`},
	} {
		t.Run(test.method+" "+test.target, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.target, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			request.SetBasicAuth("a", "pa")
			request.Header.Set("X-Broker-API-Version", "2.14")
			request.Header.Set("X-Broker-API-Request-Identity", "a, b")
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.status || !strings.Contains(string(text), test.text) {
				t.Errorf("%d %s, want %d with %s", response.StatusCode, text, test.status, test.text)
			}
			if got := response.Header.Get("X-Broker-API-Request-Identity"); got != "a, b" {
				t.Errorf("request identity = %q", got)
			}
		})
	}
}

// The border's own share of a request: checks, decoding, encoding, the log line.
func BenchmarkHandler(b *testing.B) {
	handler := newBench(b, func(o *Options) { o.Logger = slog.New(slog.DiscardHandler) }).handler
	for _, bench := range []struct{ name, method, target, body string }{
		{"provision", http.MethodPut, instanceURL + asynchronous, goodInstance},
		{"poll", http.MethodGet, instanceURL + "/last_operation?operation=create-1", ""},
		{"catalog", http.MethodGet, "/v2/catalog", ""},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(bench.method, bench.target, strings.NewReader(bench.body))
				r.SetBasicAuth("a", "pa")
				r.Header.Set("X-Broker-API-Version", "2.17")
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, r); w.Code >= 400 {
					b.Fatal(w.Code)
				}
			}
		})
	}
}

// FuzzHandler sends anything: no panic gets out or is logged, every refusal is an OSB error, and the request identity
// comes back.
func FuzzHandler(f *testing.F) {
	for _, seed := range []struct{ method, target, version, password, identity, body string }{
		{"GET", "/v2/catalog", "2.17", "pa", "r", ""},
		{"PUT", instanceURL + asynchronous, "2.13", "pa", "r\r\nx: y", goodInstance},
		{"PATCH", instanceURL, "2.17", "pa", "", `{"service_id":"s","parameters":{"a":1,"a":2}}`},
		{"PUT", bindingURL, "2.17", "pa", "r", `{"service_id":"s","plan_id":"p","bind_resource":{"app_guid":null}}`},
		{"DELETE", "/v2/service_instances/%2e%2e/service_bindings/%ff?service_id=%zz", "2", "pa", "r", "{"},
		{"GET", instanceURL + "/last_operation?operation=a;b", "3.0", "pb", "r", ""},
		{"OPTIONS", "//v2/../healthz", "", "", "r", ""},
		{"GET", "/metrics", "2.17", "pa", "r", ""},
	} {
		f.Add(seed.method, seed.target, seed.version, seed.password, seed.identity, seed.body)
	}
	b := newBench(f, func(o *Options) { o.RequestBytes, o.ParametersBytes = 4096, 512 })
	f.Fuzz(func(t *testing.T, method, target, version, password, identity, body string) {
		location, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip("net/http refuses this request line itself")
		}
		b.log.Reset()
		r := &http.Request{Method: method, URL: location, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
		r.SetBasicAuth("a", password)
		r.Header.Set("X-Broker-API-Version", version)
		r.Header.Set("X-Broker-API-Request-Identity", identity)
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		judge(t, w, identity)
		if strings.Contains(b.log.String(), `"stack"`) {
			t.Errorf("something panicked: %s", b.log)
		}
	})
}

// judge checks what holds for every answer.
func judge(t *testing.T, w *httptest.ResponseRecorder, identity string) {
	t.Helper()
	got := w.Header().Get("X-Broker-API-Request-Identity")
	if strings.ContainsAny(got, "\r\n\x00") || len(got) > maxEcho {
		t.Errorf("the identity %q is not fit for a header", got)
	}
	if plain := strings.Trim(identity, " \t"); printable(plain) && len(plain) <= maxEcho && got != plain {
		t.Errorf("identity = %q, want %q", got, plain)
	}
	var body struct{ Description string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || !strings.HasPrefix(w.Body.String(), "{") {
		t.Fatalf("%d with the body %q: %v", w.Code, w.Body, err)
	}
	if w.Code >= 400 && w.Code != http.StatusGone && body.Description == "" {
		t.Errorf("%d without a description: %s", w.Code, w.Body)
	}
	if w.Code >= 500 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func printable(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
