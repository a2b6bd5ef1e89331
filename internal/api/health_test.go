package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestHealthNeedsNoCredentialsAndNoVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, target := range []string{"/healthz", "/readyz"} {
		w := b.send("GET", target, "", without("Authorization"), without("X-Broker-API-Version"))
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != `{"status":"ok"}` {
			t.Errorf("%s = %d %s", target, w.Code, got)
		}
		if got := w.Header().Get("X-Broker-API-Request-Identity"); got != "req-1" {
			t.Errorf("%s: request identity %q", target, got)
		}
	}
	for _, line := range b.lines(t) {
		if line["level"] != "DEBUG" {
			t.Errorf("a health check is logged at %v, want DEBUG", line["level"])
		}
	}
}

func TestReadinessNamesThePart(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) {
		o.Ready = func(ctx context.Context) error {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("the check has no deadline")
			}
			return errors.New("the store cannot be read")
		}
	})
	w := b.send("GET", "/readyz", "")
	if body := object(t, w); w.Code != 503 || body["reason"] != "the store cannot be read" {
		t.Errorf("%d %v", w.Code, body)
	}
	if w := b.send("GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("/healthz = %d, want 200: the process lives", w.Code)
	}
}

func TestMetricsAreGuarded(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = fmt.Fprint(w, "ferry_up 1\n")
	})
	open := func(o *Options) { o.Metrics = page }
	locked := func(o *Options) {
		o.Metrics, o.MetricsCredentials = page, []Credential{{Username: "m", Password: "pm"}}
	}
	useless := func(o *Options) { o.Metrics, o.MetricsCredentials = page, []Credential{{Username: "m"}} }
	from := func(address string) option { return func(r *http.Request) { r.RemoteAddr = address } }
	for _, test := range []struct {
		name    string
		change  func(*Options)
		options []option
		status  int
	}{
		{"no metrics", func(*Options) {}, []option{from("127.0.0.1:1")}, 404},
		{"from this machine", open, []option{from("127.0.0.1:1")}, 200},
		{"from this machine over IPv6", open, []option{from("[::1]:1")}, 200},
		{"from this machine, IPv4 in IPv6", open, []option{from("[::ffff:127.0.0.1]:1")}, 200},
		{"from elsewhere", open, []option{from("192.0.2.1:1")}, 403},
		{"from elsewhere with a platform's password", open, []option{from("192.0.2.1:1"), as("a", "pa")}, 403},
		{"from nowhere", open, []option{from("")}, 403},
		{"from elsewhere through a proxy here", open, []option{from("127.0.0.1:1"), with("X-Forwarded-For", "192.0.2.1")}, 403},
		{"with the password from elsewhere", locked, []option{from("192.0.2.1:1"), as("m", "pm")}, 200},
		{"without the password from this machine", locked, []option{from("127.0.0.1:1"), without("Authorization")}, 401},
		{"with a platform's password", locked, []option{from("127.0.0.1:1"), as("a", "pa")}, 401},
		{"with an empty password that none is", useless, []option{from("127.0.0.1:1"), as("m", "")}, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newBench(t, test.change).send("GET", "/metrics", "", test.options...)
			if test.status != 200 {
				described(t, w, test.status)
				return
			}
			if w.Code != 200 || w.Body.String() != "ferry_up 1\n" || w.Header().Get("Content-Type") != "text/plain" {
				t.Errorf("%d %q of type %q", w.Code, w.Body, w.Header().Get("Content-Type"))
			}
		})
	}
	if w := newBench(t, open).send("GET", "/v2/catalog", "", as("m", "pm")); w.Code != 401 {
		t.Errorf("the password of the metrics opens /v2: %d", w.Code)
	}
}
