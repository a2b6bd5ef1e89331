package cfsim

import (
	"strconv"
	"testing"
	"time"
)

func TestRateLimit(t *testing.T) {
	t.Parallel()
	var at clock
	o := quick()
	o.Now, o.RateLimit, o.RateWindow = at.now, 3, 90*time.Second
	c := start(t, o)
	for left := 2; left >= 0; left-- {
		r := c.must(200, "GET", "/v3/spaces", "")
		if got := r.header.Get("X-RateLimit-Remaining"); got != strconv.Itoa(left) || r.header.Get("X-RateLimit-Limit") != "3" {
			t.Errorf("remaining %q of %q, want %d of 3", got, r.header.Get("X-RateLimit-Limit"), left)
		}
		if got, want := r.header.Get("X-RateLimit-Reset"), strconv.FormatInt(at.now().Add(90*time.Second).Unix(), 10); got != want {
			t.Errorf("reset %q, want %q", got, want)
		}
	}
	at.move(30500 * time.Millisecond)
	r := c.do("GET", "/v3/spaces", "")
	checkAnswer(t, r, "429 10013 CF-RateLimitExceeded: Rate Limit Exceeded")
	if r.header.Get("Retry-After") != "60" || r.header.Get("Content-Type") != "text/plain; charset=utf-8" || r.header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("headers %v", r.header)
	}
	for _, path := range []string{"/", "/v3", "/healthz"} {
		if r := c.must(200, "GET", path, ""); r.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s is counted", path)
		}
	}
	at.move(59500 * time.Millisecond)
	c.must(200, "GET", "/v3/spaces", "")
}

func TestRateLimitOfStrangers(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Now, o.RateLimit = new(clock).now, 1
	c := start(t, o)
	stranger := &cloud{t: t, sim: c.sim, url: c.url, http: c.http}
	info := stranger.must(200, "GET", "/v3/info", "")
	if info.at("rate_limits", "enabled") != true || info.str("rate_limits", "general_limit") != "" {
		t.Errorf("info %s", info.body)
	}
	r := stranger.do("GET", "/v3/info", "")
	checkAnswer(t, r, "429 10014 CF-IPBasedRateLimitExceeded: Rate Limit Exceeded: Unauthenticated requests from this IP address have exceeded the limit. Please log in.")
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	c.must(200, "GET", "/v3/spaces", "")
}

func TestNoRateLimit(t *testing.T) {
	t.Parallel()
	korifi := quick()
	korifi.RateLimit, korifi.Korifi = 1, true
	for name, o := range map[string]Options{"none asked for": quick(), "none with Korifi": korifi} {
		c := start(t, o)
		for range 3 {
			if r := c.must(200, "GET", "/v3/spaces", ""); r.header.Get("X-RateLimit-Limit") != "" {
				t.Errorf("%s: headers %v", name, r.header)
			}
		}
	}
}

// TestRetryAfterIsAUnixTime sets the limiter while the simulator runs; a reset
// takes that back.
func TestRetryAfterIsAUnixTime(t *testing.T) {
	t.Parallel()
	var at clock
	o := quick()
	o.Now = at.now
	c := start(t, o)
	c.must(200, "POST", "/__sim/limits", `{"requests":1,"window_ms":60000,"retry_after":"unix"}`)
	c.must(200, "GET", "/v3/spaces", "")
	r := c.do("GET", "/v3/spaces", "")
	if got, want := r.header.Get("Retry-After"), "1773157829"; r.status != 429 || got != want || r.header.Get("X-RateLimit-Reset") != want {
		t.Errorf("%d with Retry-After %q, want 429 with %q", r.status, got, want)
	}
	for _, bad := range []string{`{"requests":-1}`, `{"window_ms":0}`, `{"retry_after":"soon"}`} {
		c.must(400, "POST", "/__sim/limits", bad)
	}
	c.must(200, "POST", "/__sim/reset", "")
	for range 3 {
		c.must(200, "GET", "/v3/spaces", "")
	}
	o.RateLimit, o.RateWindow, o.RetryAfterUnix = 1, time.Minute, true
	c = start(t, o)
	c.must(200, "GET", "/v3/spaces", "")
	if got := c.do("GET", "/v3/spaces", "").header.Get("Retry-After"); got != "1773157829" {
		t.Errorf("Retry-After %q by the option", got)
	}
}
