package cfsim

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNotFoundTexts(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	tests := map[string]string{
		"GET /v3/service_instances/x":                      textNotFound,
		"DELETE /v3/service_instances/x":                   textNotFound,
		"PATCH /v3/service_instances/x":                    textNotFound,
		"GET /v3/service_credential_bindings/x":            "404 10010 CF-ResourceNotFound: Service credential binding not found",
		"DELETE /v3/service_credential_bindings/x":         "404 10010 CF-ResourceNotFound: Service credential binding not found",
		"GET /v3/service_credential_bindings/x/details":    "404 10010 CF-ResourceNotFound: Service credential binding not found",
		"GET /v3/service_credential_bindings/x/parameters": "404 10010 CF-ResourceNotFound: Service credential binding not found",
		"GET /v3/jobs/x":                                   "404 10010 CF-ResourceNotFound: Job not found",
		"GET /v3/spaces/x":                                 "404 10010 CF-ResourceNotFound: Space not found",
		"GET /v3/organizations/x":                          "404 10010 CF-ResourceNotFound: Organization not found",
		"GET /v3/service_plans/x":                          "404 10010 CF-ResourceNotFound: Service plan not found",
		"GET /v3/service_offerings/x":                      "404 10010 CF-ResourceNotFound: Service offering not found",
		"GET /v3/service_plans/x/visibility":               "404 10010 CF-ResourceNotFound: Service plan not found",
		"GET /v3/packages":                                 "404 10000 CF-NotFound: Unknown request",
		"PUT /v3/service_instances":                        "404 10000 CF-NotFound: Unknown request",
		"GET /elsewhere":                                   "404 10000 CF-NotFound: Unknown request",
	}
	for line, want := range tests {
		t.Run(line, func(t *testing.T) {
			method, path, _ := strings.Cut(line, " ")
			checkAnswer(t, c.do(method, path, "{}"), want)
		})
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
	r := c.do("POST", "/v3/service_instances", `{"name":"`+strings.Repeat("x", maxBody)+`"}`)
	if r.status != 413 || !strings.Contains(string(r.body), "<html>") {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

// TestCloseStopsWorkers also shows that closing twice is allowed.
func TestCloseStopsWorkers(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	guid, _ := c.create("it", "postgres/small")
	c.sim.Close()
	c.sim.Close()
	if n := len(c.sim.workers.timers) + len(c.sim.workers.waiting); n != 0 {
		t.Errorf("%d timers and jobs are left", n)
	}
	c.must(202, "POST", "/v3/service_instances", c.instanceBody("later", "postgres/small", ""))
	if n := len(c.sim.workers.timers) + len(c.sim.workers.waiting); n != 0 {
		t.Errorf("%d timers and jobs are new", n)
	}
	c.lastOperation("/v3/service_instances/"+guid, "create initial")
	if r := c.do(http.MethodDelete, "/v3/service_instances/"+guid, ""); r.status != 422 {
		t.Errorf("delete: %d, want 422", r.status)
	}
}

// TestRandomnessHasASeed makes the GUIDs of rows repeatable too.
func TestRandomnessHasASeed(t *testing.T) {
	t.Parallel()
	first := func(seed string) string {
		o := idle()
		o.Random = strings.NewReader(seed)
		guid, _ := start(t, o).create("it", "postgres/small")
		return guid
	}
	seed := strings.Repeat("s", 32)
	if a, b := first(seed), first(seed); a != b || a == "" {
		t.Errorf("GUIDs %q and %q of one seed", a, b)
	}
	if a, b := first(seed), first(strings.Repeat("t", 32)); a == b {
		t.Errorf("GUID %q of two seeds", a)
	}
}

// TestMarketplaceIsTheSameAfterARestart compares two simulators, apart from
// their addresses.
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
