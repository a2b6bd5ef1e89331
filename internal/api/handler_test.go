package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Each request here has every later fault as well; the first one answers (AUTH-06, "Order" in docs/osb-choices.md).
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	small := func(o *Options) { o.RequestBytes, o.ParametersBytes = 300, 20 }
	refuse := func(b *bench) {
		b.broker.provision = func(context.Context, broker.ProvisionRequest) (broker.Result, error) {
			return broker.Result{}, &broker.Error{Code: broker.CodeConflict, Description: "taken"}
		}
	}
	long := "/v2/service_instances/" + strings.Repeat("x", 901)
	big := `{"parameters":{"a":"` + strings.Repeat("x", 300)
	tests := []struct {
		name, method, target, body string
		options                    []option
		status                     int
		part                       string
	}{
		{"wrong password before a missing version", "TRACE", "/v2/nope", big, []option{as("a", "no"), without("X-Broker-API-Version")}, 401, "credentials"},
		{"a missing version before an unknown path", "TRACE", "/v2/nope", big, []option{without("X-Broker-API-Version")}, 400, "X-Broker-API-Version is missing"},
		{"an old version before an unknown path", "TRACE", "/v2/nope", big, []option{with("X-Broker-API-Version", "1.0")}, 412, "2.17"},
		{"an unknown path before its method", "TRACE", "/v2/nope", big, nil, 404, "path"},
		{"a method before the length of an id", "TRACE", long, big, nil, 405, "method"},
		{"the length of an id before the size of the body", "PUT", long, big, nil, 400, "900 bytes"},
		{"the size of the body before its syntax", "PUT", instanceURL, big, nil, 413, "300 bytes"},
		{"syntax before the types of fields", "PUT", instanceURL, `{"service_id":1,`, nil, 400, "cannot be read"},
		{"types of fields before missing fields", "PUT", instanceURL, `{"parameters":7}`, nil, 400, "parameters must be an object"},
		{"the limit of parameters before missing fields", "PUT", instanceURL, `{"parameters":{"a":"01234567890123456789"}}`, nil, 400, "20 bytes"},
		{"missing fields before the broker", "PUT", instanceURL, `{"service_id":"s"}`, nil, 400, "plan_id"},
		{"the broker at last", "PUT", instanceURL, goodInstance, nil, 409, "taken"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, small)
			refuse(b)
			w := b.send(test.method, test.target, test.body, test.options...)
			described(t, w, test.status, test.part)
			if got := w.Header().Get("X-Broker-API-Request-Identity"); got != "req-1" {
				t.Errorf("request identity = %q, want req-1", got)
			}
		})
	}
}

// unread fails the test when somebody reads the body.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, http.ErrBodyReadAfterClose
}

func (unread) Close() error { return nil }

func TestRequestsAboveTheLimitAreTurnedAwayUnread(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) { o.Clients, o.ConcurrentRequests = o.Clients[:1], 1 })
	inside, release := make(chan struct{}), make(chan struct{})
	b.broker.provision = func(context.Context, broker.ProvisionRequest) (broker.Result, error) {
		close(inside)
		<-release
		return accepted("create-1"), nil
	}
	done := make(chan int)
	go func() { done <- b.send("PUT", instanceURL+asynchronous, goodInstance).Code }()
	<-inside
	ignored := func(r *http.Request) { r.Body = unread{t} }
	w := b.send("PUT", instanceURL, "", ignored)
	described(t, w, 503, "Send it again")
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q, want 1", got)
	}
	described(t, b.send("PUT", instanceURL, "", ignored, as("nobody", "")), 401)
	if w := b.send("GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("/healthz = %d while the broker is full, want 200", w.Code)
	}
	close(release)
	if status := <-done; status != 202 {
		t.Errorf("the request in flight got %d, want 202", status)
	}
	if w := b.send("GET", "/v2/catalog", ""); w.Code != 200 {
		t.Errorf("status = %d after the place was given back, want 200", w.Code)
	}
}

// TestPathsAndMethodsThatDoNotExist: HTTP-20. A known path with another method is 405 with Allow, any other path 404;
// both only after 401, and never a redirect.
func TestPathsAndMethodsThatDoNotExist(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct {
		method, target string
		status         int
		allow          string
	}{
		{"GET", "/v2", 404, ""},
		{"GET", "/v2/", 404, ""},
		{"GET", "/v2/catalog/", 404, ""},
		{"GET", "/v2//catalog", 404, ""},
		{"GET", "/v2/./catalog", 404, ""},
		{"GET", "/v2/x/../catalog", 404, ""},
		{"GET", "/v2/%2e%2e/catalog", 404, ""},
		{"PUT", "/v2/service_instances/%2e%2e", 404, ""},
		{"PUT", "/v2/service_instances/%2E", 404, ""},
		{"PUT", "/v2/service_instances/", 404, ""},
		{"PUT", "/v2/service_instances", 404, ""},
		{"PUT", "/v2/service_instances//service_bindings/b1", 404, ""},
		{"PUT", "/v2/service_instances/i1/service_bindings/", 404, ""},
		{"GET", "/v2/service_instances/i1/nope", 404, ""},
		{"GET", "/v2/service_instances/i1/nope/b1", 404, ""},
		{"GET", bindingURL + "/nope", 404, ""},
		{"GET", bindingURL + "/last_operation/more", 404, ""},
		{"GET", "/V2/catalog", 404, ""},
		{"GET", "/", 404, ""},
		{"GET", "//v2/catalog", 404, ""},
		{"GET", "/favicon.ico", 404, ""},
		{"GET", "/healthz/", 404, ""},
		{"OPTIONS", "*", 404, ""},
		{"POST", "/v2/catalog", 405, "GET"},
		{"HEAD", "/v2/catalog", 405, "GET"},
		{"OPTIONS", instanceURL, 405, "GET, PUT, PATCH, DELETE"},
		{"PATCH", bindingURL, 405, "GET, PUT, DELETE"},
		{"PUT", instanceURL + "/last_operation", 405, "GET"},
		{"get", bindingURL + "/last_operation", 405, "GET"},
		{"POST", "/healthz", 405, "GET, HEAD"},
	} {
		t.Run(test.method+" "+test.target, func(t *testing.T) {
			w := b.send(test.method, test.target, "{}")
			described(t, w, test.status)
			if got := w.Header().Get("Allow"); got != test.allow {
				t.Errorf("Allow = %q, want %q", got, test.allow)
			}
			if w.Header().Get("Location") != "" {
				t.Error("the answer redirects")
			}
		})
	}
}

// HTTP-13: an id may hold any character and is decoded exactly once.
func TestIDsArriveByteForByte(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ escaped, want string }{
		{"plain-id_1.~", "plain-id_1.~"},
		{"a%2Fb", "a/b"},
		{"a%20b", "a b"},
		{"a+b", "a+b"},
		{"a%3Fx=1", "a?x=1"},
		{"a%23b", "a#b"},
		{"a%252Fb", "a%2Fb"},
		{"%E2%82%AC", "€"},
		{"%FF", "\xff"},
		{"..a", "..a"},
		{"%2e%2e%2f", "../"},
		{"last_operation", "last_operation"},
		{strings.Repeat("x", 900), strings.Repeat("x", 900)},
	} {
		t.Run(test.escaped[:min(len(test.escaped), 20)], func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var got broker.FetchRequest
			b.broker.binding = func(_ context.Context, r broker.FetchRequest) (broker.BindingBody, error) {
				got = r
				return broker.BindingBody{}, nil
			}
			w := b.send("GET", "/v2/service_instances/"+test.escaped+"/service_bindings/"+test.escaped+"?service_id=x", "")
			want := broker.FetchRequest{Client: "alpha", InstanceID: test.want, BindingID: test.want}
			if diff := cmp.Diff(want, got); w.Code != 200 || diff != "" {
				t.Errorf("status %d, request (-want +got):\n%s", w.Code, diff)
			}
		})
	}
}

func TestIDsAboveTheLimitAreNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := strings.Repeat("x", 901)
	described(t, b.send("DELETE", "/v2/service_instances/"+long+hints, ""), 400, "instance id", "900")
	described(t, b.send("DELETE", "/v2/service_instances/i/service_bindings/"+long+hints, ""), 400, "binding id", "900")
	if line := b.lines(t)[0]; line["instance_id"] == nil || line["status"] != float64(http.StatusBadRequest) {
		t.Errorf("log line %v lacks the id or the status", line)
	}
}

// HDR-01 to HDR-06, case AUT-04.
func TestVersionHeader(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct {
		name, value string
		status      int
	}{
		{"today's", "2.17", 200},
		{"an older 2.x", "2.13", 200},
		{"a 2.x to come", "2.99", 200},
		{"empty", "", 400},
		{"blank", "  ", 400},
		{"major alone", "2", 400},
		{"three numbers", "2.17.1", 400},
		{"letters behind it", "2.17junk", 400},
		{"letters alone", "latest", 400},
		{"a sign", "+2.17", 400},
		{"no minor", "2.", 400},
		{"major 1", "1.0", 412},
		{"major 3", "3.0", 412},
		{"major 20", "20.17", 412},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			w := b.send("GET", "/v2/catalog", "", with("X-Broker-API-Version", test.value))
			if test.status == 200 {
				if w.Code != 200 {
					t.Errorf("status = %d, want 200", w.Code)
				}
				return
			}
			described(t, w, test.status, "2.17")
		})
	}
	t.Run("missing, for a client with the quirk", func(t *testing.T) {
		described(t, b.send("GET", "/v2/catalog", "", as("b", "pb"), without("X-Broker-API-Version")), 412, "X-Broker-API-Version")
	})
	t.Run("malformed, for a client with the quirk", func(t *testing.T) {
		described(t, b.send("GET", "/v2/catalog", "", as("b", "pb"), with("X-Broker-API-Version", "two")), 400)
	})
}

func behind(t *testing.T, path string) func(*Options) {
	t.Helper()
	b, err := ParseBasePath(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.BasePath = b }
}

func TestWhatABasePathMayBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "/": "", "//": "", "/broker": "/broker", "/broker/": "/broker", "/broker//": "/broker",
		"/a/b.c~-_": "/a/b.c~-_", "/a%20b": "/a%20b", "/v2": "/v2",
	} {
		if got, err := ParseBasePath(text); err != nil || got.String() != want {
			t.Errorf("%q is %q, %v, want %q", text, got.String(), err, want)
		}
	}
	for _, text := range []string{
		"broker", "//broker", "/a//b", "/a/../b", "/./a", "/%2e%2E", "/a b", "/a?b", "/a#b", "/a%", "/a%4", "/ü", "/a\n", "https://host/broker",
		"/" + strings.Repeat("x", 200),
	} {
		if got, err := ParseBasePath(text); err == nil {
			t.Errorf("%q is taken, as %q", text, got.String())
		} else if !strings.Contains(err.Error(), "no part empty, . or ..") || !strings.Contains(err.Error(), strconv.Itoa(maxBasePath)+" bytes") {
			t.Errorf("%q: the error does not name every rule: %v", text, err)
		}
	}
}

// HTTP-20: OSB is below the base path and nowhere else; who asks elsewhere is told which URL to register.
func TestTheBasePathStandsBeforeEverything(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		base, method, target string
		status               int
		tells                string
	}{
		{"/broker", "GET", "/broker/v2/catalog", 200, ""},
		{"/broker/", "GET", "/broker/v2/catalog", 200, ""},
		{"/broker", "GET", "/%62roker/v2/catalog", 200, ""},
		{"/a%20b/c", "GET", "/a%20b/%63/v2/catalog", 200, ""},
		{"/v2", "GET", "/v2/v2/catalog", 200, ""},
		{"/broker", "PUT", "/broker/v2/service_instances/a%2Fb" + asynchronous, 202, ""},
		{"/broker", "GET", "/v2/catalog", 404, "followed by /broker, without /v2"},
		{"/broker", "GET", "/other/v2/catalog", 404, "followed by /broker, without /v2"},
		{"/broker", "GET", "/BROKER/v2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "/brokers/v2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "/broker%2Fv2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "/broker//v2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "//broker/v2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "/broker", 404, "followed by /broker"},
		{"/broker", "GET", "/broker/", 404, "followed by /broker"},
		{"/broker", "GET", "/broker/v2/nope", 404, "followed by /broker"},
		{"/v2", "GET", "/v2/catalog", 404, "followed by /v2, without /v2"},
		{"", "GET", "/broker/v2/catalog", 404, "without /broker and without /v2"},
		{"", "GET", "/broker/v2/catalog", 404, "--base-path /broker"},
		{"", "GET", "/a%20b/v2/catalog", 404, "by its URL without /v2"},
		{"", "GET", "/$(x)/v2/catalog", 404, "by its URL without /v2"},
		{"/broker", "GET", "/healthz", 200, ""},
		{"/broker", "GET", "/broker/healthz", 200, ""},
		{"/broker", "GET", "/readyz", 200, ""},
		{"/broker", "GET", "/broker/readyz", 200, ""},
		{"/broker", "GET", "/broker/metrics", 404, "followed by /broker"},
		{"/broker", "GET", "/other/healthz", 404, "followed by /broker"},
	} {
		t.Run(test.base+" "+test.target, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, behind(t, test.base))
			id := ""
			b.broker.provision = func(_ context.Context, r broker.ProvisionRequest) (broker.Result, error) {
				id = r.InstanceID
				return accepted("create-1"), nil
			}
			w := b.send(test.method, test.target, goodInstance)
			if w.Code != test.status {
				t.Fatalf("status = %d, want %d; body %s", w.Code, test.status, w.Body)
			}
			if test.tells != "" {
				described(t, w, test.status, test.tells)
			}
			if test.method == "PUT" && id != "a/b" {
				t.Errorf("the instance id arrives as %q", id)
			}
		})
	}
}

// AUTH-01: what is below the base path is for those who log in, what is not is nobody's, and only the former counts as
// a request.
func TestTheBasePathOpensNothing(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	b := newBench(t, behind(t, "/broker"), func(o *Options) { o.Observer = r })
	described(t, b.send("GET", "/broker/v2/nope", "", without("Authorization")), 401)
	described(t, b.send("GET", "/v2/catalog", "", without("Authorization")), 404)
	if len(r.events) != 1 || r.events[0].Status != 401 {
		t.Errorf("observed %v, want the request below the base path", r.events)
	}
}

// left sends a request with parent as its context and returns how long the use case was given.
func left(t *testing.T, budget time.Duration, parent context.Context) time.Duration {
	t.Helper()
	start := time.Now()
	b := newBench(t, func(o *Options) { o.RequestBudget = budget; o.Now = func() time.Time { return start } })
	var given time.Duration
	b.broker.bind = func(ctx context.Context, _ broker.BindRequest) (broker.Result, error) {
		deadline, ok := ctx.Deadline()
		if !ok {
			t.Error("the use case has no deadline")
		}
		given = deadline.Sub(start)
		return accepted("o"), ctx.Err()
	}
	w := b.send("PUT", bindingURL, goodBinding, func(r *http.Request) { *r = *r.WithContext(parent) })
	if w.Code != 202 {
		t.Errorf("status = %d, want 202: the platform's leaving must not stop the work", w.Code)
	}
	return given
}

func TestTheBudgetOfARequest(t *testing.T) {
	t.Parallel()
	within := func(got, want time.Duration) bool { return got >= want && got < want+2*time.Second }
	if got := left(t, 20*time.Second, t.Context()); !within(got, 20*time.Second) {
		t.Errorf("given %s, want the budget of 20 s", got)
	}
	if got := left(t, 0, t.Context()); !within(got, 26*time.Second) {
		t.Errorf("given %s, want the default of 26 s", got)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got := left(t, 20*time.Second, short); got < 9*time.Second || got > 9900*time.Millisecond {
		t.Errorf("given %s, want half a second less than Lambda's 10 s", got)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if got := left(t, 20*time.Second, gone); !within(got, 20*time.Second) {
		t.Errorf("given %s after the platform hung up, want 20 s", got)
	}
}

// TestTheBudgetBeginsWithTheRequest: what a login waits to be checked is part of it, and so it is of the time that
// Lambda gives.
func TestTheBudgetBeginsWithTheRequest(t *testing.T) {
	t.Parallel()
	start := time.Now()
	limited, cancel := context.WithDeadline(t.Context(), start.Add(29*time.Second))
	defer cancel()
	for name, test := range map[string]struct {
		parent context.Context
		budget time.Duration
		want   time.Duration
	}{
		"the budget": {t.Context(), 20 * time.Second, 10 * time.Second},
		"Lambda's":   {limited, time.Minute, 18500 * time.Millisecond},
	} {
		asked := false
		clock := func() time.Time {
			if asked {
				return start.Add(10 * time.Second)
			}
			asked = true
			return start
		}
		b := newBench(t, func(o *Options) { o.RequestBudget, o.Now = test.budget, clock })
		b.broker.bind = func(ctx context.Context, _ broker.BindRequest) (broker.Result, error) {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) > test.want {
				t.Errorf("%s: given %s, want at most %s", name, time.Until(deadline), test.want)
			}
			return accepted("o"), ctx.Err()
		}
		b.send("PUT", bindingURL, goodBinding, func(r *http.Request) { *r = *r.WithContext(test.parent) })
	}
}

func TestTheEndOfTheBudgetIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) { o.RequestBudget = time.Millisecond })
	b.broker.provision = func(ctx context.Context, _ broker.ProvisionRequest) (broker.Result, error) {
		<-ctx.Done()
		return broker.Result{}, ctx.Err()
	}
	w := b.send("PUT", instanceURL, goodInstance)
	described(t, w, 503, "again")
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After = %q, want 1", w.Header().Get("Retry-After"))
	}
}

func TestStoppingEndsRequestsInFlight(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	b := newBench(t, func(o *Options) { o.Stop = stop })
	b.broker.provision = func(ctx context.Context, _ broker.ProvisionRequest) (broker.Result, error) {
		close(stop)
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("context ended with %v, want Canceled", ctx.Err())
		}
		return broker.Result{}, ctx.Err()
	}
	described(t, b.send("PUT", instanceURL, goodInstance), 503, "again")
}
