package cfsim

import (
	"strconv"
	"testing"
	"time"
)

// headers compares headers of an answer, given as name and value in turn.
func (r result) headers(t *testing.T, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := r.header.Get(pairs[i]); got != pairs[i+1] {
			t.Errorf("%s %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	var at clock
	o := quick()
	o.Now, o.RateLimit, o.RateWindow = at.now, 3, 90*time.Second
	c := start(t, o)
	reset := strconv.FormatInt(at.now().Add(90*time.Second).Unix(), 10)
	for _, left := range []string{"2", "1", "0"} {
		c.must(200, "GET", "/v3/spaces", "").headers(t, "X-RateLimit-Limit", "3", "X-RateLimit-Remaining", left, "X-RateLimit-Reset", reset)
	}
	at.move(30500 * time.Millisecond)
	r := c.do("GET", "/v3/spaces", "")
	checkAnswer(t, r, "429 10013 CF-RateLimitExceeded: Rate Limit Exceeded")
	r.headers(t, "Retry-After", "60", "Content-Type", "text/plain; charset=utf-8", "X-RateLimit-Remaining", "0")
	for _, path := range []string{"/", "/v3", "/healthz"} { // are not counted
		c.must(200, "GET", path, "").headers(t, "X-RateLimit-Limit", "")
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
	stranger.reads("/v3/info", "rate_limits.enabled=true", "rate_limits.general_limit=1")
	r := stranger.do("GET", "/v3/info", "")
	checkAnswer(t, r, "429 10014 CF-IPBasedRateLimitExceeded: Rate Limit Exceeded: Unauthenticated requests from this IP address have exceeded the limit. Please log in.")
	r.headers(t, "Retry-After", "1")
	c.must(200, "GET", "/v3/spaces", "")
}

func TestNoRateLimit(t *testing.T) {
	t.Parallel()
	limited := korifi()
	limited.RateLimit = 1
	for _, o := range []Options{quick(), limited} {
		c := start(t, o)
		for range 3 {
			c.must(200, "GET", "/v3/spaces", "").headers(t, "X-RateLimit-Limit", "")
		}
	}
}

// TestRetryAfterIsAUnixTime sets the limiter while the simulator runs, and by the options; a reset takes the former
// back.
func TestRetryAfterIsAUnixTime(t *testing.T) {
	t.Parallel()
	var at clock
	o := quick()
	o.Now = at.now
	c := start(t, o)
	c.must(200, "POST", "/__sim/limits", `{"requests":1,"window_ms":60000,"retry_after":"unix"}`)
	c.must(200, "GET", "/v3/spaces", "")
	c.must(429, "GET", "/v3/spaces", "").headers(t, "Retry-After", "1773157829", "X-RateLimit-Reset", "1773157829")
	c.must(200, "POST", "/__sim/limits", `{}`) // all windows begin again
	c.must(200, "GET", "/v3/spaces", "")
	c.must(429, "GET", "/v3/spaces", "")
	c.must(200, "POST", "/__sim/reset", "")
	for range 3 {
		c.must(200, "GET", "/v3/spaces", "")
	}
	o.RateLimit, o.RateWindow, o.RetryAfterUnix = 1, time.Minute, true
	c = start(t, o)
	c.must(200, "GET", "/v3/spaces", "")
	c.must(429, "GET", "/v3/spaces", "").headers(t, "Retry-After", "1773157829")
}
