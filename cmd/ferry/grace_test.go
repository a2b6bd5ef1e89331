package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSignalEndsRequestsThatCannotEnd: a bind that would be held far longer than
// the grace is answered before that is over, and the process ends in order.
func TestSignalEndsRequestsThatCannotEnd(t *testing.T) {
	t.Parallel()
	sim := begin(t, nil, "sim", "--listen", "127.0.0.1:0", "--job-delay", "10ms", "--poll-interval", "20ms").url(simulatorListens)
	c := begin(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), "--config", write(t, fmt.Sprintf(configured, sim)))
	p := customer{t, c.url(brokerListens)}
	service, plan := p.choose("faults", "bind-stalls")
	body := fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s"}`, service, plan)
	p.want(http.MethodPut, "/v2/service_instances/i?accepts_incomplete=true", body, http.StatusAccepted)
	p.await("/v2/service_instances/i/last_operation", `"succeeded"`)
	type held struct {
		status int
		answer string
		err    error
	}
	answered := make(chan held, 1)
	go func() {
		status, answer, err := p.send(http.MethodPut, "/v2/service_instances/i/service_bindings/b", body)
		answered <- held{status, answer, err}
	}()
	customer{t, sim}.await("/__sim/state", `"POST /v3/service_credential_bindings":1`)
	c.signal(syscall.SIGTERM)
	got := <-answered
	if got.err != nil || got.status < 500 || !strings.Contains(got.answer, `"description"`) {
		t.Errorf("the held bind got %d %s, %v; want a server error with a description", got.status, got.answer, got.err)
	}
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
