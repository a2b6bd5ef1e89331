package cfsim

import (
	"net/url"
	"strings"
	"testing"
)

const textBadToken = "401 1000 CF-InvalidAuthToken: Invalid Auth Token"

// form is a request for a token, from its encoding; password and refresh are the grants of users.
func form(encoded string) url.Values {
	values, _ := url.ParseQuery(encoded)
	return values
}

func password(scope string) url.Values {
	return form("grant_type=password&username=admin&password=admin&scope=" + url.QueryEscape(scope))
}

func refresh(token string) url.Values { return form("grant_type=refresh_token&refresh_token=" + token) }

// TestLogin has what the token endpoint answers to each grant, with the errors of docs/cf-contract.md 1.3.
func TestLogin(t *testing.T) {
	t.Parallel()
	const badCredentials, grantType = "error=invalid_client error_description=Bad credentials", "error=invalid_client error_description=Unauthorized grant type"
	c := start(t, quick())
	for _, test := range []struct {
		form, id, secret string
		status           string
		want             string
	}{
		{"grant_type=client_credentials", "ferry", "ferry", "200", "token_type=bearer refresh_token="},
		{"grant_type=password&username=admin&password=admin", "cf", "", "200", "token_type=bearer"},
		{"grant_type=client_credentials", "ferry", "x", "401", badCredentials},
		{"grant_type=client_credentials", "x", "x", "401", badCredentials},
		{"grant_type=password&username=admin&password=x", "cf", "", "401", badCredentials},
		{"grant_type=client_credentials", "cf", "", "401", grantType},
		{"grant_type=password&username=admin&password=admin", "ferry", "ferry", "401", grantType},
		{"grant_type=refresh_token&refresh_token=x", "ferry", "ferry", "401", grantType},
		{"", "ferry", "ferry", "400", "error=invalid_request error_description=Missing grant type"},
		{"grant_type=x", "ferry", "ferry", "400", "error=unsupported_grant_type error_description=Unsupported grant type: x"},
		{"grant_type=refresh_token&refresh_token=x", "cf", "", "401",
			"error=invalid_token error_description=The token expired, was revoked, or the token ID is incorrect."},
	} {
		r := c.login(form(test.form), test.id, test.secret)
		checkAnswer(t, r, test.status)
		first, second, _ := strings.Cut(test.want, " ")
		r.reads(t, first)
		if second != "" {
			r.reads(t, second)
		}
		challenge := strings.HasPrefix(r.header.Get("Www-Authenticate"), `Basic realm="UAA/client", error="unauthorized"`)
		if challenge != (test.want == badCredentials) {
			t.Errorf("%s: challenge %q", test.form, r.header.Get("Www-Authenticate"))
		}
		if has := r.at("refresh_token") != nil; has != (test.id == "cf" && test.status == "200") {
			t.Errorf("%s: refresh token %v", test.form, has)
		}
	}
	c.must(405, "GET", tokenRoute, "").reads(t, "error=method_not_allowed", "error_description=Request method 'GET' not supported")
	c.token = ""
	c.must(200, "POST", tokenRoute, "grant_type=client_credentials&client_id=ferry&client_secret=ferry")
}

func TestRootLeadsToTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.token = ""
	uaa := strings.TrimSuffix(c.url+tokenRoute, "/oauth/token")
	c.reads("/", "links.uaa.href="+uaa, "links.login.href="+uaa, "links.cloud_controller_v3.href="+c.url+"/v3")
	c.must(200, "GET", "/v3", "")
	c.reads("/v3/info", "rate_limits.enabled=false")
	c.must(200, "GET", "/v3/service_offerings", "") // the marketplace is public
	c.must(200, "GET", "/v3/service_plans", "")
}

func TestTokenIsChecked(t *testing.T) {
	t.Parallel()
	var at clock
	o := quick()
	o.Now = at.now
	c := start(t, o)
	login := c.login(password(""), "cf", "")
	good, refreshing := login.str("access_token"), login.str("refresh_token")
	with := func(token, want string) {
		t.Helper()
		c.token = token
		c.answers("GET", "/v3/organizations", "", want)
	}
	with(good, "200")
	with("", "401 10002 CF-NotAuthenticated: Authentication error")
	for _, wrong := range []string{strings.ToUpper(good), good[:len(good)-4], "x", refreshing} {
		with(wrong, textBadToken)
	}
	c.answers("GET", "/v3/service_plans", "", textBadToken)
	at.move(accessValidity)
	with(good, textBadToken)

	again := c.login(refresh(refreshing), "cf", "").str("access_token")
	with(again, "200")
	c.must(200, "POST", "/__sim/tokens/expire", "")
	with(again, textBadToken)
	checkAnswer(t, c.login(refresh(refreshing), "cf", ""), "401")
}

// TestAudience has a token that was asked for without the Cloud Controller's scopes: the UAA gives it, the Cloud
// Controller refuses it.
func TestAudience(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.token = c.login(password("openid"), "cf", "").str("access_token")
	c.answers("GET", "/v3/spaces", "", textBadToken)
	narrow := c.login(password("cloud_controller.read openid"), "cf", "")
	narrow.reads(t, "scope=cloud_controller.read openid")
	c.token = narrow.str("access_token")
	c.answers("GET", "/v3/spaces", "", "200")
	wider := refresh(narrow.str("refresh_token"))
	wider.Set("scope", "cloud_controller.admin")
	for _, r := range []result{
		c.login(password("uaa.admin"), "cf", ""), c.login(form("grant_type=client_credentials&scope=openid"), "ferry", "ferry"), c.login(wider, "cf", ""),
	} {
		checkAnswer(t, r, "400")
		r.reads(t, "error=invalid_scope")
	}
}

// TestOneKindOfTokenExpires has the refresh token outlive the access token, and the other way round.
func TestOneKindOfTokenExpires(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	first := c.login(password(""), "cf", "")
	again := refresh(first.str("refresh_token"))
	c.token = first.str("access_token")
	c.must(200, "POST", "/__sim/tokens/expire", `{"kind":"access"}`)
	c.answers("GET", "/v3/spaces", "", textBadToken)
	c.token = c.login(again, "cf", "").str("access_token")
	c.answers("GET", "/v3/spaces", "", "200")
	c.must(200, "POST", "/__sim/tokens/expire", `{"kind":"refresh"}`)
	c.answers("GET", "/v3/spaces", "", "200")
	checkAnswer(t, c.login(again, "cf", ""), "401")
}
