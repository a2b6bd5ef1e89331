package cfsim

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// cannedPage is an answer that something in front of, or inside, a Cloud Foundry is
// known to give. "{host}" in a body stands for the host of the request.
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

// pages are all that a fault may name, with their literal texts (contract,
// sections 2.2, 2.5 and 4).
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

// frontPages are those of the nginx before the Cloud Controller, of the load
// balancer before all, and of maintenance.
func frontPages() map[string]cannedPage {
	html := func(status int, title, server string) cannedPage {
		return cannedPage{status, map[string]string{"Content-Type": "text/html"}, "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" +
			title + "</h1></center>\r\n<hr><center>" + server + "</center>\r\n</body>\r\n</html>\r\n"}
	}
	return map[string]cannedPage{
		"nginx-404":       html(404, "404 Not Found", "nginx"),
		"nginx-413":       html(413, "413 Request Entity Too Large", "nginx"),
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
		failure(403, 10017, "CF-OrgSuspended", "The organization is suspended"),
		failure(403, 10019, "CF-SpaceSuspended", "The space is suspended"),
		failure(422, 10020, "CF-ResourceBeingDeleted", "The space is being deleted"),
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
	// The header is named "Content-Type:" there, so that a client reads a value
	// that begins with the second colon.
	all["cc-20004"] = errorPage(502, 20004, "CF-UaaUnavailable", unavailable).with("Content-Type", ": application/json; charset=utf-8")
	all["cc-20004-controller"] = errorPage(503, 20004, "CF-UaaUnavailable", unavailable)
	return all
}

// brokerPages are what a live call to the backing broker brings (contract 2.5 b).
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
