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
