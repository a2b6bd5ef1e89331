package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Each request here has every later fault as well; the first one answers (C3, AUTH-06).
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
