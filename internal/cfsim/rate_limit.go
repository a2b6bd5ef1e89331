package cfsim

import (
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// rateLimiter counts the requests of each login, or address, in windows that begin with the first of them.
type rateLimiter struct {
	mu      sync.Mutex
	limit   int // 0 for none
	window  time.Duration
	unix    bool // Retry-After is a Unix time
	windows map[string]rateWindow
}

type rateWindow struct {
	ends time.Time
	used int
}

func newRateLimiter(o Options) *rateLimiter {
	l := &rateLimiter{}
	l.reset(o)
	return l
}

// reset takes back what the control has changed, and begins all windows anew.
func (l *rateLimiter) reset(o Options) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.window, l.unix, l.windows = o.RateLimit, o.RateWindow, o.RetryAfterUnix, map[string]rateWindow{}
	if l.window <= 0 {
		l.window = time.Second
	}
}

// limit counts a request. It returns the headers that tell of the limit, nil where there is none, and the refusal when
// the limit is used up. Some routes are not counted, the UAA's among them: it is another component.
func (c *call) limit(pattern string) (http.Header, *answer) {
	if c.options.Korifi || pattern == "/" || pattern == "/v3" || pattern == healthRoute || strings.HasPrefix(pattern, uaaPrefix) {
		return nil, nil
	}
	if c.caller != "" {
		return c.limiter.count(c.caller, true, c.now())
	}
	return c.limiter.count("address "+address(c.request), false, c.now())
}

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (l *rateLimiter) count(who string, known bool, now time.Time) (http.Header, *answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit <= 0 {
		return nil, nil
	}
	w := l.windows[who]
	if !now.Before(w.ends) {
		w = rateWindow{ends: now.Add(l.window)}
	}
	w.used++
	l.windows[who] = w
	reset := strconv.FormatInt(int64(math.Ceil(float64(w.ends.UnixMilli())/1000)), 10)
	header := http.Header{}
	header.Set("X-Ratelimit-Limit", strconv.Itoa(l.limit))
	header.Set("X-Ratelimit-Remaining", strconv.Itoa(max(0, l.limit-w.used)))
	header.Set("X-Ratelimit-Reset", reset)
	if w.used <= l.limit {
		return header, nil
	}
	refusal := rateRefusal(known, w.ends.Sub(now))
	if l.unix {
		refusal.header.Set("Retry-After", reset)
	}
	return header, refusal
}

// rateRefusal is JSON that is called plain text, as the real one sends it.
func rateRefusal(known bool, wait time.Duration) *answer {
	err := failure(http.StatusTooManyRequests, 10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")
	if !known {
		err = failure(http.StatusTooManyRequests, 10014, "CF-IPBasedRateLimitExceeded",
			"Rate Limit Exceeded: Unauthenticated requests from this IP address have exceeded the limit. Please log in.")
	}
	a := errorAnswer(err)
	a.header.Set("Content-Type", "text/plain; charset=utf-8")
	a.header.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	return a
}

// info is what GET /v3/info says of the limit.
func (l *rateLimiter) info() map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return map[string]any{"enabled": l.limit > 0, "general_limit": l.limit, "reset_interval_in_minutes": int(l.window.Minutes())}
}

// What Retry-After holds while the rate limiter refuses.
const (
	retrySeconds = "seconds"
	retryUnix    = "unix"
)

// limitChange is what the control takes; what is left out stays.
type limitChange struct {
	Requests   *int    `json:"requests"` // of a login in each window; 0 for any number
	WindowMS   *int    `json:"window_ms"`
	RetryAfter *string `json:"retry_after"`
}

// changeLimits is POST /__sim/limits: it sets the rate limiter while the simulator runs.
func changeLimits(c *controlCall) (any, error) {
	var change limitChange
	if err := c.read(&change); err != nil {
		return nil, err
	}
	switch {
	case change.Requests != nil && *change.Requests < 0:
		return nil, badInput("There cannot be fewer than 0 requests.")
	case change.WindowMS != nil && *change.WindowMS < 1:
		return nil, badInput("A window has at least one millisecond, not %d.", *change.WindowMS)
	case change.RetryAfter != nil && *change.RetryAfter != retrySeconds && *change.RetryAfter != retryUnix:
		return nil, badInput("Retry-After holds seconds or a unix time, not %q.", *change.RetryAfter)
	}
	c.limiter.change(change)
	return nil, nil
}

// change applies what the control wants. All windows begin anew.
func (l *rateLimiter) change(change limitChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if change.Requests != nil {
		l.limit = *change.Requests
	}
	if change.WindowMS != nil {
		l.window = time.Duration(*change.WindowMS) * time.Millisecond
	}
	if change.RetryAfter != nil {
		l.unix = *change.RetryAfter == retryUnix
	}
	clear(l.windows)
}
