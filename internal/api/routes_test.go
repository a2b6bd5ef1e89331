package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// HTTP-20, Decided 11.
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
