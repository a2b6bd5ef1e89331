package demo

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func tourOf(t *testing.T, url string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Run(t.Context(), Options{
		BrokerURL: url, SimulatorURL: url, Username: "demo", Password: "demo", Out: &out,
		Pause: func(ctx context.Context) error { return ctx.Err() },
	})
	return out.String(), err
}

func TestTourOfARightBroker(t *testing.T) {
	t.Parallel()
	out, err := tourOf(t, newStub(t, nil).URL)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if lines := strings.Count(out, "\n"); lines >= 60 {
		t.Errorf("%d lines, want less than 60", lines)
	}
	if strings.Contains(out, "!!") {
		t.Errorf("a line is marked:\n%s", out)
	}
}

// TestTourNoticesAWrongAnswer spoils one answer of each kind.
func TestTourNoticesAWrongAnswer(t *testing.T) {
	t.Parallel()
	const state = "/__sim/state"
	tests := map[string]struct {
		method, path string
		n            int // which of the same requests
		reply        reply
	}{
		"no catalog":                            {"GET", "/v2/catalog", 1, reply{503, `{}`}},
		"a duplicate create names another":      {"PUT", instance, 4, reply{202, `{"operation":"create-other"}`}},
		"a duplicate create is a conflict":      {"PUT", instance, 2, reply{409, `{}`}},
		"a duplicate create is a server error":  {"PUT", instance, 3, reply{500, `{}`}},
		"another create is accepted":            {"PUT", instance, 6, reply{202, `{"operation":"create-orders-db"}`}},
		"the create fails":                      {"GET", instance + "/last_operation", 1, reply{200, `{"state":"failed"}`}},
		"the create is not known":               {"GET", instance + "/last_operation", 1, reply{404, `{}`}},
		"a create of what exists is refused":    {"PUT", instance, 7, reply{409, `{}`}},
		"another create is taken for the same":  {"PUT", instance, 8, reply{200, `{}`}},
		"a bind without credentials":            {"PUT", binding, 1, reply{201, `{}`}},
		"a duplicate bind gets other ones":      {"PUT", binding, 2, reply{200, `{"credentials":{"password":"y"}}`}},
		"a duplicate bind makes a second key":   {"PUT", binding, 2, reply{201, `{"credentials":{"password":"x"}}`}},
		"a duplicate bind is a server error":    {"PUT", binding, 2, reply{500, `{}`}},
		"a late duplicate bind gets others":     {"PUT", binding, 3, reply{200, `{"credentials":{"password":"y"}}`}},
		"another bind is taken for the same":    {"PUT", binding, 4, reply{200, `{"credentials":{"password":"x"}}`}},
		"an unbind fails":                       {"DELETE", binding, 1, reply{500, `{}`}},
		"a second unbind fails":                 {"DELETE", binding, 2, reply{404, `{}`}},
		"a duplicate delete names another":      {"DELETE", instance, 2, reply{202, `{"operation":"delete-other"}`}},
		"a delete is refused":                   {"DELETE", instance, 1, reply{422, `{}`}},
		"a delete of nothing succeeds":          {"DELETE", instance, 3, reply{200, `{}`}},
		"a delete during a create is refused":   {"DELETE", other, 1, reply{422, `{}`}},
		"the given up create succeeded":         {"GET", other + "/last_operation", 1, reply{200, `{"state":"succeeded"}`}},
		"an answer that is no JSON":             {"PUT", instance, 1, reply{202, `<html>`}},
		"the backing broker was asked twice":    {"GET", state, 1, reply{200, `{"instances":[],"broker_calls":[{"count":1},{"count":1},{"count":1},{"count":2}]}`}},
		"the backing broker was asked too less": {"GET", state, 1, reply{200, `{"instances":[],"broker_calls":[{"count":1}]}`}},
		"an instance is left":                   {"GET", state, 1, reply{200, `{"instances":[{}],"broker_calls":[{"count":1},{"count":1},{"count":1},{"count":1}]}`}},
		"Cloud Foundry says nothing of use":     {"GET", state, 1, reply{200, `<html>`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoiled := false
			server := newStub(t, func(method, path string, n int, r *reply) {
				if method == test.method && path == test.path && n == test.n {
					*r, spoiled = test.reply, true
				}
			})
			out, err := tourOf(t, server.URL)
			if !spoiled {
				t.Fatalf("no such request was made:\n%s", out)
			}
			if !errors.Is(err, ErrUnexpected) || !strings.Contains(out, "!!") {
				t.Errorf("error %v, and no line is marked:\n%s", err, out)
			}
		})
	}
}

func TestTourWithoutABroker(t *testing.T) {
	t.Parallel()
	server := newStub(t, nil)
	server.Close()
	if out, err := tourOf(t, server.URL); !errors.Is(err, ErrUnexpected) {
		t.Errorf("error %v\n%s", err, out)
	}
}

func TestTourEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := newStub(t, func(method, path string, _ int, r *reply) {
		if method == http.MethodGet && strings.HasSuffix(path, "/last_operation") {
			*r = reply{200, `{"state":"in progress"}`}
		}
	})
	var out bytes.Buffer
	err := Run(ctx, Options{BrokerURL: server.URL, SimulatorURL: server.URL, Out: &out, Pause: func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v\n%s", err, &out)
	}
}
