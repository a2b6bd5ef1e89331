package cfsim

import (
	"net/url"
	"testing"
)

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
