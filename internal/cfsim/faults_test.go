package cfsim

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

const onCreate = `"method":"POST","route":"/v3/service_instances"`

// TestFaultLosesCalls drops and replaces answers, before the call takes effect and after it.
func TestFaultLosesCalls(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]string{"before": "", "after": "it"}, func(c *cloud, when, rows string) {
		body := c.instanceBody("it", "postgres/small", "")
		c.fault(`{` + onCreate + `,"times":1,"when":"` + when + `","action":"drop"}`)
		if r, err := c.try(c.request("POST", instances, body)); err == nil {
			c.t.Errorf("got an answer: %d %s", r.status, r.body)
		}
		c.lists(instances, rows)
		c.reads("/__sim/state", "requests.POST /v3/service_instances=1")
	})
	each(t, quick(), map[string]string{"before": "", "after": "it"}, func(c *cloud, when, rows string) {
		body := c.instanceBody("it", "postgres/small", "")
		c.fault(`{` + onCreate + `,"times":1,"when":"` + when + `","action":"respond","status":502,"headers":{"X-Cf-Routererror":"endpoint_failure"},"body":"<html>"}`)
		r := c.must(502, "POST", instances, body)
		if string(r.body) != "<html>" || r.header.Get("X-Cf-Routererror") != "endpoint_failure" || r.header.Get("Location") != "" {
			c.t.Errorf("got %v %s", r.header, r.body)
		}
		c.lists(instances, rows)
	})
}

// TestFaultDelaysEffect gives up on a call that is held up; it takes effect all the same.
func TestFaultDelaysEffect(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/small", "")
	c.fault(`{` + onCreate + `,"times":1,"when":"before","action":"delay","delay_ms":1000}`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.try(c.request("POST", "/v3/service_instances", body).WithContext(ctx)); err == nil {
		t.Fatal("the call came back at once")
	}
	if n := len(c.state().Instances); n != 0 {
		t.Errorf("%d rows before the delay is over", n)
	}
	eventually(t, "late row", func() bool { return len(c.state().Instances) == 1 })
}

func TestFaultDelaysAnswer(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/small", "")
	c.fault(`{` + onCreate + `,"times":1,"when":"after","action":"delay","delay_ms":100}`)
	answered := make(chan result, 1)
	request := c.request("POST", "/v3/service_instances", body)
	begin := time.Now()
	go func() {
		r, err := c.try(request)
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	eventually(t, "row before the answer", func() bool { return len(c.state().Instances) == 1 })
	if r := <-answered; r.status != 202 || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("answer %d after %v", r.status, time.Since(begin))
	}
}

func TestFaultMatches(t *testing.T) {
	t.Parallel()
	type matching struct {
		fault string
		hit   bool
	}
	each(t, quick(), map[string]matching{
		"any method and route":          {`{"method":"*","route":"*","action":"respond","status":599}`, true},
		"route with a GUID":             {`{"route":"/v3/service_instances/:guid","action":"respond","status":599}`, true},
		"route as it is in the request": {`{"route":"/v3/service_instances/abc","action":"respond","status":599}`, true},
		"another route":                 {`{"route":"/v3/service_instances","action":"respond","status":599}`, false},
		"another method":                {`{"method":"DELETE","route":"*","action":"respond","status":599}`, false},
		"part of the body":              {`{"match":"needle","action":"respond","status":599}`, true},
		"part of the URL":               {`{"match":"fields[space]=gu","action":"respond","status":599}`, true},
		"neither":                       {`{"match":"elsewhere","action":"respond","status":599}`, false},
	}, func(c *cloud, _ string, test matching) {
		c.fault(test.fault)
		c.must(map[bool]int{true: 599, false: 404}[test.hit], "PATCH", "/v3/service_instances/abc?fields%5Bspace%5D=guid", `{"name":"needle"}`)
		c.must(200, "DELETE", "/__sim/faults", "")
		c.must(404, "PATCH", "/v3/service_instances/abc", `{}`)
	})
}

func TestFaultIsUsedUp(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.fault(`{"method":"GET","route":"/v3/spaces","times":2,"action":"respond"}`)
	c.fault(`{"method":"GET","route":"/v3/info","times":0,"action":"respond","status":429}`)
	c.must(503, "GET", "/v3/spaces", "")
	c.must(429, "GET", "/v3/info", "")
	c.reads("/__sim/faults", "#=2", "0.route=/v3/spaces", "0.hits=1")
	c.must(503, "GET", "/v3/spaces", "")
	c.must(200, "GET", "/v3/spaces", "")
	c.reads("/__sim/faults", "#=1", "0.route=/v3/info")
}

func TestFaultOnTokens(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	for _, name := range []string{"/uaa/oauth/token", "/oauth/token"} {
		c.fault(`{"method":"POST","route":"` + name + `","times":1,"action":"respond","status":503}`)
		for _, want := range []string{"503", "200"} {
			checkAnswer(t, c.login(url.Values{"grant_type": {"client_credentials"}}, "ferry", "ferry"), want)
		}
	}
}

// TestCloseEndsDelays keeps a held-up call from taking effect later.
func TestCloseEndsDelays(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.fault(`{"method":"GET","route":"/v3/info","action":"delay","delay_ms":3600000}`)
	failed := make(chan error, 1)
	request := c.request("GET", "/v3/info", "")
	go func() {
		_, err := c.try(request)
		failed <- err
	}()
	eventually(t, "hit", func() bool { return c.state().Requests["GET /v3/info"] == 1 })
	c.sim.Close()
	if err := <-failed; err == nil {
		t.Error("the call was answered")
	}
}

// TestPages strikes with every page, compares those whose text docs/cf-contract.md quotes with the text, and looks at
// the headers that clients look at.
func TestPages(t *testing.T) {
	t.Parallel()
	quoted := map[string]string{
		"gorouter-404":                  "404 Not Found: Requested route ('HOST') does not exist.\n",
		"gorouter-502":                  "502 Bad Gateway: Registered endpoint failed to handle the request.\n",
		"gorouter-503-no-endpoints":     "503 Service Unavailable: Requested route ('HOST') has no available endpoints.\n",
		"gorouter-503-connection-limit": "503 Service Unavailable: Requested route ('HOST') has reached the connection limit.\n",
		"maintenance-503":               "API down for maintenance",
		"uaa-503":                       `{"error":"uaa_unavailable","error_description":"UAA intentionally in limited mode, operation not permitted. Please try later."}`,
		"cc-1000":                       cfBody(1000, "CF-InvalidAuthToken", "Invalid Auth Token"),
		"cc-10002":                      cfBody(10002, "CF-NotAuthenticated", "Authentication error"),
		"cc-10001":                      cfBody(10001, "UnknownError", "An unknown error occurred."),
		"cc-10003":                      cfBody(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"),
		"cc-10011":                      cfBody(10011, "CF-DatabaseError", "Database error"),
		"cc-10013":                      cfBody(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded"),
		"cc-10014": cfBody(10014, "CF-IPBasedRateLimitExceeded",
			"Rate Limit Exceeded: Unauthenticated requests from this IP address have exceeded the limit. Please log in."),
		"cc-10015":            cfBody(10015, "CF-ServiceUnavailable", "Database connection failure"),
		"cc-10015-credhub":    cfBody(10015, "CF-ServiceUnavailable", "Fetching credentials from CredHub failed; reason: connection refused"),
		"cc-10016-broker":     cfBody(10016, "CF-ServiceBrokerRateLimitExceeded", "Service broker concurrent request limit exceeded"),
		"cc-10081":            cfBody(10081, "CF-InternalServerError", "Error while processing encrypted data"),
		"cc-20004":            cfBody(20004, "CF-UaaUnavailable", "The UAA service is currently unavailable"),
		"cc-20008":            cfBody(20008, "CF-UaaRateLimited", "The UAA is currently rate limited. Please try again later"),
		"broker-bad-response": cfBody(10001, "CF-ServiceBrokerBadResponse", badResponse),
		"broker-timeout":      cfBody(10001, "CF-HttpClientTimeout", "The request to the service broker timed out"),
	}
	headers := map[string][2]string{
		"gorouter-404":              {"X-Cf-RouterError", "unknown_route"},
		"gorouter-503-no-endpoints": {"X-Cf-RouterError", "no_endpoints"},
		"gorouter-502":              {"X-Cf-RouterError", "endpoint_failure (EOF)"},
		"nginx-413":                 {"Content-Type", "text/html"},
		"nginx-414":                 {"Content-Type", "text/html"},
		"nginx-429":                 {"Retry-After", ""},
		"cc-10013":                  {"Content-Type", "text/plain; charset=utf-8"},
		"cc-10016-broker":           {"Retry-After", "30"},
		"cc-20008":                  {"Retry-After", "5"},
		"cc-20004":                  {"Content-Type", ": application/json; charset=utf-8"},
		"cc-20004-controller":       {"Content-Type", "application/json; charset=utf-8"},
		"cc-10016-unique":           {"Retry-After", ""},
	}
	c := start(t, quick())
	host := strings.TrimPrefix(c.url, "http://")
	for name, p := range pages() {
		c.fault(`{"route":"/v3/spaces","times":1,"page":"` + name + `"}`)
		r := c.do("GET", "/v3/spaces", "")
		if r.status != p.status {
			t.Errorf("%s: status %d, want %d", name, r.status, p.status)
		}
		if want, there := quoted[name]; there && string(r.body) != strings.ReplaceAll(want, "HOST", host) {
			t.Errorf("%s: %q, want %q", name, r.body, want)
		}
		if want, there := headers[name]; there && r.header.Get(want[0]) != want[1] {
			t.Errorf("%s: %s %q, want %q", name, want[0], r.header.Get(want[0]), want[1])
		}
		delete(quoted, name)
		delete(headers, name)
	}
	if len(quoted)+len(headers) > 0 {
		t.Errorf("there are no pages for %v and %v", quoted, headers)
	}
	c.reads("/__sim/pages", "maintenance-503.body=API down for maintenance", "cc-10013.status=429", "cc-20004-controller.status=503", "cc-10016-unique.status=422")
}

func cfBody(code int, title, detail string) string {
	return fmt.Sprintf(`{"errors":[{"code":%d,"title":"%s","detail":"%s"}]}`, code, title, detail)
}

// TestPageAfterTheFact loses the answer of a create that took effect, behind a page with a header of the test's own.
func TestPageAfterTheFact(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	body := c.instanceBody("it", "postgres/small", "")
	c.fault(`{` + onCreate + `,"times":1,"when":"after","page":"lb-504","headers":{"Retry-After":"7"}}`)
	r := c.must(504, "POST", instances, body)
	if r.header.Get("Retry-After") != "7" || !strings.Contains(string(r.body), "504 Gateway Time-out") {
		t.Errorf("got %v %s", r.header, r.body)
	}
	c.answers("POST", instances, body, textTaken)
}
