package cfsim

import (
	"net/url"
	"strings"
	"testing"
)

// TestUAATexts has the token endpoint's errors of section 1.3.
func TestUAATexts(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	tests := []struct {
		form       url.Values
		id, secret string
		status     int
		want       string
	}{
		{url.Values{"grant_type": {"client_credentials"}}, "ferry", "x", 401, `{"error":"invalid_client","error_description":"Bad credentials"}`},
		{url.Values{"grant_type": {"client_credentials"}}, "cf", "", 401, `{"error":"invalid_client","error_description":"Unauthorized grant type"}`},
		{url.Values{}, "ferry", "ferry", 400, `{"error":"invalid_request","error_description":"Missing grant type"}`},
		{url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}}, "cf", "", 401,
			`{"error":"invalid_token","error_description":"The token expired, was revoked, or the token ID is incorrect."}`},
	}
	for _, test := range tests {
		if r := c.login(test.form, test.id, test.secret); r.status != test.status || string(r.body) != test.want {
			t.Errorf("%v: %d %s, want %d %s", test.form, r.status, r.body, test.status, test.want)
		}
	}
	if r := c.do("GET", tokenRoute, ""); string(r.body) != `{"error":"method_not_allowed","error_description":"Request method 'GET' not supported"}` {
		t.Errorf("GET: %s", r.body)
	}
	bad := c.login(url.Values{"grant_type": {"client_credentials"}}, "ferry", "x")
	if got := bad.header.Get("Www-Authenticate"); !strings.HasPrefix(got, `Basic realm="UAA/client", error="unauthorized"`) {
		t.Errorf("challenge %q", got)
	}
}

// TestRemainingTexts has refusals that no other table walks.
func TestRemainingTexts(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	guid := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"postgres","plan":"maintained","maintenance_version":"2.0.0"}`).str("guid")
	c.must(200, "POST", "/__sim/marketplace", `{"hide":["postgres/maintained"]}`)
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, `{"maintenance_info":{"version":"2.1.0"}}`),
		unprocessableText+"Cannot update maintenance_info of a service instance that belongs to inaccessible plan")
	withApp := strings.Replace(keyBody("a", guid, ""), `"relationships":{`, `"relationships":{"app":{"data":{"guid":"x"}},`, 1)
	checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", withApp), unprocessableText+"Relationships Unknown field(s): 'app'")
	checkAnswer(t, c.do("GET", "/v3/service_instances?label_selector="+strings.Repeat("a,", 50)+"a", ""),
		"400 10005 CF-BadQueryParameter: The query parameter is invalid: Invalid label_selector value: too many requirements (maximum is 50)")
	checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", strings.Replace(keyBody("a", guid, ""), `"`+guid+`"`, `7`, 1)),
		unprocessableText+"Relationships Service instance guid must be a string")
	checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", strings.Replace(keyBody("a", guid, ""), guid, strings.Repeat("x", 201), 1)),
		unprocessableText+"Relationships Service instance guid must be between 1 and 200 characters")
	checkAnswer(t, c.do("POST", "/v3/roles", `{"type":"organization_user","relationships":{"user":{"data":{"guid":"me"}},"organization":{"data":{"guid":"x"}}}}`),
		unprocessableText+"Invalid organization. Ensure that the organization exists and you have access to it.")
	checkAnswer(t, c.do("POST", "/v3/roles", `{"type":"space_developer","relationships":{"user":{"data":{"guid":"me"}},"space":{"data":{"guid":"x"}}}}`),
		unprocessableText+"Invalid space. Ensure that the space exists and you have access to it.")
}

// TestResetForgetsWhatWasStaged has a reset end everything that a test set up.
func TestResetForgetsWhatWasStaged(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Now, o.RateLimit = new(clock).now, 4 // the time stands: one window is all there is
	c := start(t, o)
	c.workers(true)
	c.instruct(`{"answer":"rejected","times":0}`)
	c.conditions(`{"broker_busy":true}`)
	for c.do("GET", "/v3/spaces", "").status == 200 {
	}
	c.must(200, "POST", "/__sim/reset", "")
	body := c.instanceBody("it", "postgres/small", "")
	c.must(200, "POST", "/__sim/reset", "")
	job := c.must(202, "POST", "/v3/service_instances", body).header.Get("Location")
	eventually(t, "provision", func() bool { return c.calls("it", provision) == 1 })
	c.job(job, jobComplete)
}
