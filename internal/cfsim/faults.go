package cfsim

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// When a fault strikes, and what it does.
const (
	faultBefore = "before"
	faultAfter  = "after"

	faultDrop    = "drop"
	faultDelay   = "delay"
	faultRespond = "respond"
)

// fault is a disturbance of requests that match it.
type fault struct {
	ID      string            `json:"id"`
	Method  string            `json:"method"`
	Route   string            `json:"route"`
	Match   string            `json:"match"`
	Times   int               `json:"times"`
	When    string            `json:"when"`
	Action  string            `json:"action"`
	DelayMS int               `json:"delay_ms"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Page    string            `json:"page"` // in place of status, headers and body
	Hits    int               `json:"hits"`
}

// faults are those that wait for requests. They have a lock of their own, because a request meets them before the
// controller's is taken.
type faults struct {
	mu     sync.Mutex
	last   int
	active []*fault
}

// disturb calls handle as the first matching fault lets it. The request is not bound to its caller here: its body was
// read before, and nothing looks at its context, so that a request that is held up takes effect in the end even when
// nobody waits for the answer.
func (l *faults) disturb(c *call, pattern string, closed <-chan struct{}, handle func() *answer) *answer {
	f, found := l.take(c, pattern)
	if !found {
		return handle()
	}
	delay := time.Duration(f.DelayMS) * time.Millisecond
	if f.When == faultBefore {
		pause(delay, closed)
		if f.Action == faultDelay {
			return handle()
		}
		return f.strike(c.request)
	}
	a := handle()
	pause(delay, closed)
	if f.Action == faultDelay {
		return a
	}
	return f.strike(c.request)
}

// take returns the first fault that matches, counts the hit, and drops the fault when it is used up.
func (l *faults) take(c *call, pattern string) (fault, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.active {
		if !f.matches(c, pattern) {
			continue
		}
		f.Hits++
		if f.Times > 0 && f.Hits >= f.Times {
			l.active = slices.Delete(slices.Clone(l.active), i, i+1)
		}
		return *f, true
	}
	return fault{}, false
}

func (f *fault) matches(c *call, pattern string) bool {
	r := c.request
	route := f.Route == "*" || f.Route == pattern || f.Route == r.URL.Path || "/uaa"+f.Route == pattern
	if !route || f.Method != "*" && !strings.EqualFold(f.Method, r.Method) {
		return false
	}
	uri := r.URL.RequestURI()
	return f.Match == "" || strings.Contains(string(c.body), f.Match) || strings.Contains(uri, f.Match) || strings.Contains(unescape(uri), f.Match)
}

// strike gives the fault's own answer, or none.
func (f *fault) strike(r *http.Request) *answer {
	if f.Action == faultDrop {
		panic(http.ErrAbortHandler) // the way to tell net/http to close the connection
	}
	a := newAnswer(f.Status, "", []byte(f.Body))
	if p, named := pageNamed(f.Page); named {
		a = p.answer(r)
	}
	for name, value := range f.Headers {
		a.header.Set(name, value)
	}
	return a
}

func (l *faults) add(f fault) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	f.ID = "fault-" + strconv.Itoa(l.last)
	f.Hits = 0
	l.active = append(l.active, &f)
	return f.ID
}

// list returns copies of the faults that are left.
func (l *faults) list() []fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]fault, 0, len(l.active))
	for _, f := range l.active {
		copied := *f
		if copied.Headers == nil {
			copied.Headers = map[string]string{}
		}
		list = append(list, copied)
	}
	return list
}

func (l *faults) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = nil
}

// addFault is POST /__sim/faults.
func addFault(c *controlCall) (any, error) {
	f := fault{Method: "*", Route: "*", When: faultBefore, Status: http.StatusServiceUnavailable}
	if err := c.read(&f); err != nil {
		return nil, err
	}
	if f.Page != "" && f.Action == "" {
		f.Action = faultRespond
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return map[string]string{"id": c.faults.add(f)}, nil
}

// check says what is wrong with a fault, in a sentence.
func (f *fault) check() error {
	methods := []string{"*", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	switch {
	case !slices.Contains(methods, strings.ToUpper(f.Method)):
		return badInput("The method of a fault is an HTTP method or *, not %q.", f.Method)
	case f.Route != "*" && !strings.HasPrefix(f.Route, "/"):
		return badInput("The route of a fault is a pattern like /v3/service_instances/:guid or *, not %q.", f.Route)
	case f.When != faultBefore && f.When != faultAfter:
		return badInput("A fault happens before or after, not %q.", f.When)
	case f.Action != faultDrop && f.Action != faultDelay && f.Action != faultRespond:
		return badInput("The action of a fault is drop, delay or respond, not %q.", f.Action)
	case f.Times < 0 || f.DelayMS < 0:
		return badInput("The times and delay_ms of a fault cannot be negative.")
	case f.Action == faultRespond && (f.Status < 200 || f.Status > 599):
		return badInput("The status of a fault is between 200 and 599, not %d.", f.Status)
	case f.Page != "" && (f.Action != faultRespond || f.Body != ""):
		return badInput("A page is all that a fault responds with; only headers may be added.")
	}
	if _, known := pageNamed(f.Page); !known && f.Page != "" {
		return badInput("There is no page %q; GET %s/pages lists them.", f.Page, controlPrefix)
	}
	return nil
}

func listFaults(c *controlCall) (any, error) { return c.faults.list(), nil }

func clearFaults(c *controlCall) (any, error) {
	c.faults.clear()
	return nil, nil
}

// pageView is a page as the control lists it.
type pageView struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

func listPages(*controlCall) (any, error) {
	list := map[string]pageView{}
	for name, p := range pages() {
		list[name] = pageView{p.status, p.headers, p.body}
	}
	return list, nil
}

// cannedPage is an answer that something in front of, or inside, a Cloud Foundry is known to give. "{host}" in a body
// stands for the host of the request.
type cannedPage struct {
	status  int
	headers map[string]string
	body    string
}

// pageNamed returns a page by name.
func pageNamed(name string) (cannedPage, bool) {
	p, known := pages()[name]
	return p, known
}

// pages are all that a fault may name, with their literal texts (docs/cf-contract.md 2.2, 2.5 and 4).
func pages() map[string]cannedPage {
	all := map[string]cannedPage{}
	for _, group := range []map[string]cannedPage{routerPages(), frontPages(), uaaPages(), controllerPages(), brokerPages(), strangePages()} {
		maps.Copy(all, group)
	}
	return all
}

// routerPages are gorouter's.
func routerPages() map[string]cannedPage {
	routed := func(status int, reason, body string) cannedPage {
		return cannedPage{status, map[string]string{
			"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "X-Cf-RouterError": reason,
		}, body + "\n"}
	}
	const unavailable = "503 Service Unavailable: Requested route ('{host}') has "
	return map[string]cannedPage{
		"gorouter-404":                  routed(404, "unknown_route", "404 Not Found: Requested route ('{host}') does not exist."),
		"gorouter-502":                  routed(502, "endpoint_failure (EOF)", "502 Bad Gateway: Registered endpoint failed to handle the request."),
		"gorouter-503-no-endpoints":     routed(503, "no_endpoints", unavailable+"no available endpoints."),
		"gorouter-503-connection-limit": routed(503, "Connection limit reached", unavailable+"reached the connection limit."),
		"gorouter-496":                  routed(496, "endpoint_failure (tls: certificate required)", "496 SSL Certificate Required"),
		"gorouter-499":                  routed(499, "endpoint_failure (context canceled)", "499 Request Cancelled"),
		"gorouter-525":                  routed(525, "endpoint_failure (tls: handshake failure)", "525 SSL Handshake Failed"),
		"gorouter-526":                  routed(526, "endpoint_failure (x509: unknown authority)", "526 Invalid SSL Certificate"),
	}
}

// frontPages are those of the nginx before the Cloud Controller, of the load balancer before all, and of maintenance.
func frontPages() map[string]cannedPage {
	html := func(status int, title, server string) cannedPage {
		return cannedPage{status, map[string]string{"Content-Type": "text/html"}, "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" +
			title + "</h1></center>\r\n<hr><center>" + server + "</center>\r\n</body>\r\n</html>\r\n"}
	}
	return map[string]cannedPage{
		"nginx-404":       html(404, "404 Not Found", "nginx"),
		"nginx-413":       html(413, "413 Request Entity Too Large", "nginx"),
		"nginx-414":       html(414, "414 Request-URI Too Large", "nginx"),
		"nginx-429":       html(429, "429 Too Many Requests", "nginx"),
		"nginx-500":       html(500, "500 Internal Server Error", "nginx"),
		"nginx-502":       html(502, "502 Bad Gateway", "nginx"),
		"nginx-503":       html(503, "503 Service Temporarily Unavailable", "nginx"),
		"nginx-504":       html(504, "504 Gateway Time-out", "nginx"),
		"lb-504":          html(504, "504 Gateway Time-out", "load balancer"),
		"maintenance-503": {503, map[string]string{"Content-Type": "text/plain"}, "API down for maintenance"},
	}
}

// uaaPages are the UAA's.
func uaaPages() map[string]cannedPage {
	failed := func(status int, name, text string) cannedPage {
		return cannedPage{status, map[string]string{"Content-Type": "application/json"}, `{"error":"` + name + `","error_description":"` + text + `"}`}
	}
	limited := cannedPage{429, map[string]string{"Content-Type": "text/html"}, "429 - Too Many Request - Request limited by Rate Limiter configuration"}
	return map[string]cannedPage{
		"uaa-400-invalid-grant":   failed(400, "invalid_grant", "Bad credentials"),
		"uaa-401-client":          failed(401, "invalid_client", "Bad credentials"),
		"uaa-401-unauthorized":    failed(401, "unauthorized", "Bad credentials"),
		"uaa-401-locked":          failed(401, "unauthorized", "Your account has been locked because of too many failed attempts to login."),
		"uaa-401-password-change": failed(401, "unauthorized", "password change required"),
		"uaa-401-revoked":         failed(401, "invalid_token", "Invalid refresh token: revocable signature mismatch"),
		"uaa-429":                 limited,
		"uaa-503":                 failed(503, "uaa_unavailable", "UAA intentionally in limited mode, operation not permitted. Please try later."),
	}
}

// errorPage is an error as the Cloud Controller writes it.
func errorPage(status, code int, title, detail string) cannedPage {
	a := errorAnswer(failure(status, code, title, detail))
	return cannedPage{status, map[string]string{"Content-Type": a.header.Get("Content-Type")}, string(a.body)}
}

func (p cannedPage) with(header, value string) cannedPage {
	p.headers = maps.Clone(p.headers)
	p.headers[header] = value
	return p
}

// controllerPages are errors of the Cloud Controller, named cc-CODE.
func controllerPages() map[string]cannedPage {
	all := map[string]cannedPage{}
	for _, e := range []*apiError{
		invalidToken(), notAuthenticated(), notAuthorized(),
		failure(500, 10001, "UnknownError", "An unknown error occurred."),
		failure(500, 10011, "CF-DatabaseError", "Database error"),
		failure(503, 10015, "CF-ServiceUnavailable", "Database connection failure"),
		orgSuspended(), spaceSuspended(), beingDeleted("space"),
		failure(500, 10081, "CF-InternalServerError", "Error while processing encrypted data"),
		failure(403, 330002, "CF-FeatureDisabled", "Feature Disabled: "+featureInstances),
	} {
		all["cc-"+strconv.Itoa(e.Code)] = errorPage(e.status, e.Code, e.Title, e.Detail)
	}
	plain := func(a *answer) cannedPage {
		return cannedPage{a.status, map[string]string{"Content-Type": a.header.Get("Content-Type"), "Retry-After": a.header.Get("Retry-After")}, string(a.body)}
	}
	const unavailable = "The UAA service is currently unavailable"
	all["cc-10013"] = plain(rateRefusal(true, 1))
	all["cc-10014"] = plain(rateRefusal(false, 1))
	all["cc-10015-credhub"] = errorPage(503, 10015, "CF-ServiceUnavailable", "Fetching credentials from CredHub failed; reason: connection refused")
	all["cc-10016-broker"] = errorPage(429, 10016, "CF-ServiceBrokerRateLimitExceeded", "Service broker concurrent request limit exceeded").with("Retry-After", "30")
	all["cc-10016-unique"] = errorPage(422, 10016, "CF-UniquenessError", "Label could not be saved: it was set by another request")
	all["cc-20008"] = errorPage(429, 20008, "CF-UaaRateLimited", "The UAA is currently rate limited. Please try again later").with("Retry-After", "5")
	// The header is named "Content-Type:" there, so that a client reads a value that begins with the second colon.
	all["cc-20004"] = errorPage(502, 20004, "CF-UaaUnavailable", unavailable).with("Content-Type", ": application/json; charset=utf-8")
	all["cc-20004-controller"] = errorPage(503, 20004, "CF-UaaUnavailable", unavailable)
	return all
}

// brokerPages are what a live call to the backing broker brings (docs/cf-contract.md 2.5).
func brokerPages() map[string]cannedPage {
	bad := func(title, detail string) cannedPage { return errorPage(502, 10001, title, detail) }
	return map[string]cannedPage{
		"broker-bad-response": bad("CF-ServiceBrokerBadResponse", badResponse),
		"broker-malformed":    bad("CF-ServiceBrokerResponseMalformed", malformedResponse),
		"broker-rejected":     bad("CF-ServiceBrokerRequestRejected", rejectedRequest),
		"broker-unreachable":  bad("CF-ServiceBrokerApiUnreachable", unreachable),
		"broker-unauthorized": bad("CF-ServiceBrokerApiAuthenticationFailed", refusedLogin),
		"broker-timeout":      errorPage(504, 10001, "CF-HttpClientTimeout", timedOutMessage),
		"broker-api-timeout":  errorPage(504, 10001, "CF-ServiceBrokerApiTimeout", timedOutMessage),
	}
}

// strangePages look like success and are none.
func strangePages() map[string]cannedPage {
	json := map[string]string{"Content-Type": "application/json; charset=utf-8"}
	return map[string]cannedPage{
		"empty-200": {200, json, ""},
		"html-200":  {200, map[string]string{"Content-Type": "text/html"}, "<html><head><title>Sign in</title></head><body>Sign in to the network</body></html>"},
		"half-200":  {200, json, `{"pagination":{"total_results":1,"total_pages":1},"resources":[{"guid":"`},
	}
}

// answer is the page as sent to whoever asked for r.
func (p cannedPage) answer(r *http.Request) *answer {
	a := newAnswer(p.status, "", []byte(strings.ReplaceAll(p.body, "{host}", r.Host)))
	for name, value := range p.headers {
		a.header.Set(name, value)
	}
	return a
}
