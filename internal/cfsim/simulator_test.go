package cfsim

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNotFoundTexts(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	const missing, unknown = "404 10010 CF-ResourceNotFound: ", "404 10000 CF-NotFound: Unknown request"
	for want, lines := range map[string][]string{
		missing + "Service instance not found": {"GET /v3/service_instances/x", "DELETE /v3/service_instances/x", "PATCH /v3/service_instances/x"},
		missing + "Service credential binding not found": {
			"GET /v3/service_credential_bindings/x", "DELETE /v3/service_credential_bindings/x", "GET /v3/service_credential_bindings/x/details",
			"GET /v3/service_credential_bindings/x/parameters",
		},
		missing + "Job not found": {"GET /v3/jobs/x"}, missing + "Space not found": {"GET /v3/spaces/x"}, missing + "Organization not found": {"GET /v3/organizations/x"},
		missing + "Service plan not found":     {"GET /v3/service_plans/x", "GET /v3/service_plans/x/visibility"},
		missing + "Service offering not found": {"GET /v3/service_offerings/x"},
		unknown:                                {"GET /v3/packages", "PUT /v3/service_instances", "GET /elsewhere"},
	} {
		for _, line := range lines {
			method, path, _ := strings.Cut(line, " ")
			c.answers(method, path, "{}", want)
		}
	}
}

func TestEveryAnswerHasARequestID(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	request := c.request("GET", "/v3/info", "")
	request.Header.Set("X-Vcap-Request-Id", "mine-1")
	if got := c.send(request).header.Get("X-Vcap-Request-Id"); !strings.HasPrefix(got, "mine-1::") || len(got) != len("mine-1::")+36 {
		t.Errorf("id %q", got)
	}
	r := c.do("GET", "/nowhere", "")
	if len(r.header.Get("X-Vcap-Request-Id")) != 36 || r.header.Get("Date") == "" {
		t.Errorf("headers %v", r.header)
	}
}

func TestBodyHasALimit(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	r := c.must(413, "POST", instances, `{"name":"`+strings.Repeat("x", maxBody)+`"}`)
	if !strings.Contains(string(r.body), "<html>") {
		t.Errorf("got %s", r.body)
	}
}

func TestAddressesHaveALimit(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	query := "?names=" + strings.Repeat("x", maxAddress-len(instances+"?names="))
	c.must(200, "GET", instances+query, "")
	if r := c.must(414, "GET", instances+query+"x", ""); !strings.Contains(string(r.body), "<html>") {
		t.Errorf("got %s", r.body)
	}
}

// TestCloseStopsWorkers also shows that closing twice is allowed.
func TestCloseStopsWorkers(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	guid, _ := c.create("it", "postgres/small")
	c.sim.Close()
	c.sim.Close()
	c.accepted("POST", instances, c.instanceBody("later", "postgres/small", ""))
	if n := len(c.sim.workers.timers) + len(c.sim.workers.waiting); n != 0 {
		t.Errorf("%d timers and jobs are left, or new", n)
	}
	c.lastOperation(instances+guid, "create initial")
	c.answers("DELETE", instances+guid, "", textDelete)
}

// TestRandomnessHasASeed makes the GUIDs of rows repeatable too.
func TestRandomnessHasASeed(t *testing.T) {
	t.Parallel()
	first := func(seed string) string {
		o := idle()
		o.Random = strings.NewReader(strings.Repeat(seed, 32))
		guid, _ := start(t, o).create("it", "postgres/small")
		return guid
	}
	if a, b, c := first("s"), first("s"), first("t"); a != b || a == c || a == "" {
		t.Errorf("GUIDs %q and %q of one seed, %q of another", a, b, c)
	}
}

// TestMarketplaceIsTheSameAfterARestart compares two simulators, apart from their addresses.
func TestMarketplaceIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	bodies := func() []string {
		c := start(t, quick())
		c.space("work")
		var all []string
		for _, path := range []string{"/v3/organizations", "/v3/spaces", "/v3/service_offerings", "/v3/service_plans?include=service_offering"} {
			body := c.must(200, "GET", path, "").body
			body = regexp.MustCompile(regexp.QuoteMeta(c.url)).ReplaceAll(body, nil)
			all = append(all, regexp.MustCompile(`"(created|updated)_at":"[^"]*"`).ReplaceAllString(string(body), ""))
		}
		return all
	}
	if diff := cmp.Diff(bodies(), bodies()); diff != "" {
		t.Errorf("differs (-first +second):\n%s", diff)
	}
}
