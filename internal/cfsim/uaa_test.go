package cfsim

import (
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	password := func(user, secret string) url.Values {
		return url.Values{"grant_type": {"password"}, "username": {user}, "password": {secret}}
	}
	tests := map[string]struct {
		form       url.Values
		id, secret string
		status     int
		code       string
	}{
		"the client ferry":              {url.Values{"grant_type": {"client_credentials"}}, "ferry", "ferry", 200, ""},
		"the user admin":                {password("admin", "admin"), "cf", "", 200, ""},
		"a wrong secret":                {url.Values{"grant_type": {"client_credentials"}}, "ferry", "x", 401, "invalid_client"},
		"an unknown client":             {url.Values{"grant_type": {"client_credentials"}}, "x", "x", 401, "invalid_client"},
		"a wrong password":              {password("admin", "x"), "cf", "", 401, "invalid_client"},
		"a grant that cf does not have": {url.Values{"grant_type": {"client_credentials"}}, "cf", "", 401, "invalid_client"},
		"a user through ferry":          {password("admin", "admin"), "ferry", "ferry", 401, "invalid_client"},
		"no grant":                      {url.Values{}, "ferry", "ferry", 400, "invalid_request"},
		"an unknown grant":              {url.Values{"grant_type": {"x"}}, "ferry", "ferry", 400, "unsupported_grant_type"},
		"a strange refresh token":       {url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}}, "cf", "", 401, "invalid_token"},
	}
	c := start(t, quick())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := c.login(test.form, test.id, test.secret)
			if r.status != test.status || r.str("error") != test.code {
				t.Errorf("got %d %s, want %d %s", r.status, r.body, test.status, test.code)
			}
			if refresh := r.at("refresh_token") != nil; refresh != (test.id == "cf" && test.status == 200) {
				t.Errorf("refresh token: %v", refresh)
			}
		})
	}
	if r := c.do("GET", tokenRoute, ""); r.status != 405 || r.str("error") != "method_not_allowed" {
		t.Errorf("GET: %d %s", r.status, r.body)
	}
}

func TestClientInTheForm(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.token = ""
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"ferry"}, "client_secret": {"ferry"}}
	if r := c.do("POST", tokenRoute, form.Encode()); r.status != 200 {
		t.Errorf("got %d %s, want 200", r.status, r.body)
	}
}

func TestRootLeadsToTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.token = ""
	root := c.must(200, "GET", "/", "")
	for _, name := range []string{"uaa", "login"} {
		if got, want := root.str("links", name, "href")+"/oauth/token", c.url+tokenRoute; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got, want := root.str("links", "cloud_controller_v3", "href"), c.url+"/v3"; got != want {
		t.Errorf("cloud_controller_v3 %q, want %q", got, want)
	}
	c.must(200, "GET", "/v3", "")
	if r := c.must(200, "GET", "/v3/info", ""); r.at("rate_limits", "enabled") != false {
		t.Errorf("info %s", r.body)
	}
}

func TestTokenIsChecked(t *testing.T) {
	t.Parallel()
	const wrong, none = "401 1000 CF-InvalidAuthToken: Invalid Auth Token", "401 10002 CF-NotAuthenticated: Authentication error"
	var ahead atomic.Int64
	o := quick()
	o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	c := start(t, o)
	login := c.login(url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {"admin"}}, "cf", "")
	good, refresh := login.str("access_token"), login.str("refresh_token")
	with := func(token, want string) {
		t.Helper()
		c.token = token
		checkAnswer(t, c.do("GET", "/v3/organizations", ""), want)
	}
	with(good, "200")
	with("", none)
	with(strings.ToUpper(good), wrong)
	with(good[:len(good)-4], wrong)
	with("x", wrong)
	with(refresh, wrong)
	checkAnswer(t, c.do("GET", "/v3/service_plans", ""), wrong)
	ahead.Store(int64(accessValidity))
	with(good, wrong)

	again := c.login(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}, "cf", "").str("access_token")
	with(again, "200")
	c.must(200, "POST", "/__sim/tokens/expire", "")
	with(again, wrong)
	if r := c.login(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}, "cf", ""); r.status != 401 || r.str("error") != "invalid_token" {
		t.Errorf("refresh after all expired: %d %s", r.status, r.body)
	}
}

func TestMarketplaceIsPublic(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.token = ""
	c.must(200, "GET", "/v3/service_offerings", "")
	c.must(200, "GET", "/v3/service_plans", "")
}

// TestAudience has a token that was asked for without the Cloud Controller's
// scopes: the UAA gives it, the Cloud Controller refuses it.
func TestAudience(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	login := func(scope string) result {
		return c.login(url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {"admin"}, "scope": {scope}}, "cf", "")
	}
	c.token = login("openid").str("access_token")
	checkAnswer(t, c.do("GET", "/v3/spaces", ""), "401 1000 CF-InvalidAuthToken: Invalid Auth Token")
	narrow := login("cloud_controller.read openid")
	if got := narrow.str("scope"); got != "cloud_controller.read openid" {
		t.Errorf("scope %q", got)
	}
	c.token = narrow.str("access_token")
	c.must(200, "GET", "/v3/spaces", "")
	refused := []result{
		login("uaa.admin"),
		c.login(url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}}, "ferry", "ferry"),
		c.login(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {narrow.str("refresh_token")}, "scope": {"cloud_controller.admin"}}, "cf", ""),
	}
	for at, r := range refused {
		if r.status != 400 || r.str("error") != "invalid_scope" {
			t.Errorf("%d: %d %s", at, r.status, r.body)
		}
	}
}

// TestOneKindOfTokenExpires has the refresh token outlive the access token, and
// the other way round.
func TestOneKindOfTokenExpires(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	first := c.login(url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {"admin"}}, "cf", "")
	refresh := func() result {
		return c.login(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {first.str("refresh_token")}}, "cf", "")
	}
	c.token = first.str("access_token")
	c.must(200, "POST", "/__sim/tokens/expire", `{"kind":"access"}`)
	checkAnswer(t, c.do("GET", "/v3/spaces", ""), "401 1000 CF-InvalidAuthToken: Invalid Auth Token")
	c.token = refresh().str("access_token")
	c.must(200, "GET", "/v3/spaces", "")
	c.must(200, "POST", "/__sim/tokens/expire", `{"kind":"refresh"}`)
	c.must(200, "GET", "/v3/spaces", "")
	if r := refresh(); r.status != 401 || r.str("error") != "invalid_token" {
		t.Errorf("refresh: %d %s", r.status, r.body)
	}
	c.must(400, "POST", "/__sim/tokens/expire", `{"kind":"id"}`)
	c.must(400, "POST", "/__sim/tokens/expire", `{"what":1}`)
}

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
