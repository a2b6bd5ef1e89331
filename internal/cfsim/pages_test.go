package cfsim

import (
	"fmt"
	"strings"
	"testing"
)

// TestPages strikes with every page, and compares those whose text the
// contract quotes with the text.
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
	c := start(t, quick())
	host := strings.TrimPrefix(c.url, "http://")
	for name, p := range pages() {
		c.must(200, "POST", "/__sim/faults", `{"route":"/v3/spaces","times":1,"page":"`+name+`"}`)
		r := c.do("GET", "/v3/spaces", "")
		if r.status != p.status {
			t.Errorf("%s: status %d, want %d", name, r.status, p.status)
		}
		if want, there := quoted[name]; there && string(r.body) != strings.ReplaceAll(want, "HOST", host) {
			t.Errorf("%s: %q, want %q", name, r.body, want)
		}
	}
	for name := range quoted {
		if _, known := pageNamed(name); !known {
			t.Errorf("there is no page %s", name)
		}
	}
}

func cfBody(code int, title, detail string) string {
	return fmt.Sprintf(`{"errors":[{"code":%d,"title":"%s","detail":"%s"}]}`, code, title, detail)
}

// TestHeadersOfPages has what clients look at beside status and body.
func TestHeadersOfPages(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ status, header, value string }{
		"gorouter-404":              {"404", "X-Cf-RouterError", "unknown_route"},
		"gorouter-503-no-endpoints": {"503", "X-Cf-RouterError", "no_endpoints"},
		"gorouter-502":              {"502", "X-Cf-RouterError", "endpoint_failure (EOF)"},
		"nginx-413":                 {"413", "Content-Type", "text/html"},
		"nginx-429":                 {"429", "Retry-After", ""},
		"cc-10013":                  {"429", "Content-Type", "text/plain; charset=utf-8"},
		"cc-10016-broker":           {"429", "Retry-After", "30"},
		"cc-20008":                  {"429", "Retry-After", "5"},
		"cc-20004":                  {"502", "Content-Type", ": application/json; charset=utf-8"},
		"cc-20004-controller":       {"503", "Content-Type", "application/json; charset=utf-8"},
		"cc-10016-unique":           {"422", "Retry-After", ""},
	}
	c := start(t, quick())
	for name, test := range tests {
		c.must(200, "POST", "/__sim/faults", `{"route":"/v3/spaces","times":1,"page":"`+name+`"}`)
		r := c.do("GET", "/v3/spaces", "")
		if got := r.header.Get(test.header); got != test.value || fmt.Sprint(r.status) != test.status {
			t.Errorf("%s: %d with %s %q, want %s with %q", name, r.status, test.header, got, test.status, test.value)
		}
	}
}

// TestPageAfterTheFact loses the answer of a create that took effect, behind a
// page with a header of the test's own.
func TestPageAfterTheFact(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	body := c.instanceBody("it", "postgres/small", "")
	c.must(200, "POST", "/__sim/faults", `{"method":"POST","route":"/v3/service_instances","times":1,"when":"after","page":"lb-504","headers":{"Retry-After":"7"}}`)
	r := c.do("POST", "/v3/service_instances", body)
	if r.status != 504 || r.header.Get("Retry-After") != "7" || !strings.Contains(string(r.body), "504 Gateway Time-out") {
		t.Errorf("got %d %v %s", r.status, r.header, r.body)
	}
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), textTaken)
}

func TestPagesAreListedAndChecked(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	if r := c.must(200, "GET", "/__sim/pages", ""); r.str("maintenance-503", "body") != "API down for maintenance" {
		t.Errorf("pages %s", r.body)
	}
	for body, part := range map[string]string{
		`{"page":"gorouter-418"}`:                   "gorouter-418",
		`{"page":"gorouter-404","action":"drop"}`:   "all that a fault responds with",
		`{"page":"gorouter-404","body":"and more"}`: "all that a fault responds with",
	} {
		if r := c.must(400, "POST", "/__sim/faults", body); !strings.Contains(r.str("error"), part) {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}
