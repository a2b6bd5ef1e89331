package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

// RID-02, RID-04.
func TestTheRequestIdentityComesBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		values []string
		want   string
	}{
		{"a plain one", []string{"4f0e-1"}, "4f0e-1"},
		{"commas and spaces", []string{"a, b,c"}, "a, b,c"},
		{"one that a gateway split at its comma", []string{"a", "b"}, "a,b"},
		{"one that would end the header", []string{"a\r\nSet-Cookie: x=1\x00\x7f"}, "aSet-Cookie: x=1"},
		{"one that is not ASCII", []string{"é\xff"}, "é\xff"},
		{"a very long one", []string{strings.Repeat("x", 5000)}, strings.Repeat("x", maxEcho)},
		{"an empty one", []string{""}, ""},
		{"none", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			w := b.send("GET", "/v2/catalog", "", func(r *http.Request) {
				r.Header["X-Broker-Api-Request-Identity"] = test.values
			})
			if got := w.Header().Get("X-Broker-API-Request-Identity"); got != test.want {
				t.Errorf("identity = %q, want %q", got, test.want)
			}
		})
	}
}

// OID-01 to OID-11, case AUT-08.
func TestOriginatingIdentities(t *testing.T) {
	t.Parallel()
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	huge := "kubernetes " + encoded(`{"a":"`+strings.Repeat("x", maxOriginator)+`"}`)
	for _, test := range []struct {
		name, value  string
		passed, note bool
	}{
		{"Cloud Foundry's", "cloudfoundry " + encoded(`{"user_id":"683"}`), true, false},
		{"an unknown platform's", "nomad " + encoded(`{}`), true, false},
		{"without padding", "kubernetes " + strings.TrimRight(encoded(`{"u":"1"}`), "="), true, false},
		{"none", "", true, false},
		{"no base64", "cloudfoundry !!!", true, true},
		{"no JSON", "cloudfoundry " + encoded("MARKED"), true, true},
		{"no object", "cloudfoundry " + encoded("null"), true, true},
		{"one word", "cloudfoundry", true, true},
		{"three words", "cloudfoundry " + encoded("{}") + " x", true, true},
		{"too large to be kept", huge, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			got := record(b.broker)
			w := b.send("PUT", instanceURL, goodInstance, with("X-Broker-API-Originating-Identity", test.value))
			want := test.value
			if !test.passed {
				want = ""
			}
			if r := (*got).(broker.ProvisionRequest); w.Code != 202 || r.OriginatingIdentity != want {
				t.Errorf("status %d, passed on %d bytes, want %d", w.Code, len(r.OriginatingIdentity), len(want))
			}
			lines := b.lines(t)
			if _, noted := lines[0]["originating_identity"]; len(lines) != 1 || noted != test.note || lines[0]["level"] != "INFO" {
				t.Errorf("log %v, want one INFO line, noted: %v", lines, test.note)
			}
			if test.value != "" && strings.Contains(b.log.String(), test.value) {
				t.Error("the identity is in the log")
			}
		})
	}
}

func TestAnUnreadableOriginatorIsNotedOnPollsToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.broker.poll = func(context.Context, broker.PollRequest) (broker.Poll, error) {
		return broker.Poll{State: "succeeded"}, nil
	}
	b.send("GET", instanceURL+"/last_operation", "", with("X-Broker-API-Originating-Identity", "x"))
	if b.lines(t)[0]["originating_identity"] != "unreadable" {
		t.Errorf("log %s", b.log)
	}
}
