package cfsim

import (
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// rateLimiter counts the requests of each login, or address, in windows that
// begin with the first of them. It is guarded by the simulator's mutex.
type rateLimiter struct {
	limit   int // 0 for none
	window  time.Duration
	unix    bool // Retry-After is a Unix time
	windows map[string]rateWindow
}

type rateWindow struct {
	ends time.Time
	used int
}

func newRateLimiter(limit int, window time.Duration, unix bool) *rateLimiter {
	if window <= 0 {
		window = time.Second
	}
	return &rateLimiter{limit: limit, window: window, unix: unix, windows: map[string]rateWindow{}}
}

// take counts one request and returns the window it falls into.
func (l *rateLimiter) take(who string, now time.Time) rateWindow {
	w := l.windows[who]
	if !now.Before(w.ends) {
		w = rateWindow{ends: now.Add(l.window)}
	}
	w.used++
	l.windows[who] = w
	return w
}

// unlimited tells which routes the limiter lets through uncounted. The UAA is
// another component.
func unlimited(pattern string) bool {
	return pattern == "/" || pattern == "/v3" || pattern == healthRoute || strings.HasPrefix(pattern, uaaPrefix)
}

// limited counts a request. It returns the headers that tell of the limit, nil
// where there is none, and the refusal when it is used up.
func (s *Simulator) limited(found route, c *call) (http.Header, *answer) {
	now := s.options.Now()
	who := c.caller
	if who == "" {
		who = "address " + address(c.request)
	}
	s.mu.Lock()
	if s.limiter.limit <= 0 || s.options.Korifi || unlimited(found.pattern) {
		s.mu.Unlock()
		return nil, nil
	}
	limit, unix, w := s.limiter.limit, s.limiter.unix, s.limiter.take(who, now)
	s.mu.Unlock()
	reset := strconv.FormatInt(int64(math.Ceil(float64(w.ends.UnixMilli())/1000)), 10)
	header := http.Header{}
	header.Set("X-Ratelimit-Limit", strconv.Itoa(limit))
	header.Set("X-Ratelimit-Remaining", strconv.Itoa(max(0, limit-w.used)))
	header.Set("X-Ratelimit-Reset", reset)
	if w.used <= limit {
		return header, nil
	}
	refusal := rateRefusal(c.caller != "", w.ends.Sub(now))
	if unix {
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

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// What Retry-After holds while the rate limiter refuses.
const (
	retrySeconds = "seconds"
	retryUnix    = "unix"
)

// changeLimits sets the rate limiter while the simulator runs; what is left out
// stays. All windows begin anew.
func (s *Simulator) changeLimits(r *http.Request) (any, error) {
	var change struct {
		Requests   *int    `json:"requests"` // of a login in each window; 0 for any number
		WindowMS   *int    `json:"window_ms"`
		RetryAfter *string `json:"retry_after"`
	}
	if err := readControl(r, &change); err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) error { return refusedControl(http.StatusBadRequest, format, args...) }
	switch {
	case change.Requests != nil && *change.Requests < 0:
		return nil, bad("There cannot be fewer than 0 requests.")
	case change.WindowMS != nil && *change.WindowMS < 1:
		return nil, bad("A window has at least one millisecond, not %d.", *change.WindowMS)
	case change.RetryAfter != nil && *change.RetryAfter != retrySeconds && *change.RetryAfter != retryUnix:
		return nil, bad("Retry-After holds seconds or a unix time, not %q.", *change.RetryAfter)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if change.Requests != nil {
		s.limiter.limit = *change.Requests
	}
	if change.WindowMS != nil {
		s.limiter.window = time.Duration(*change.WindowMS) * time.Millisecond
	}
	if change.RetryAfter != nil {
		s.limiter.unix = *change.RetryAfter == retryUnix
	}
	clear(s.limiter.windows)
	return struct{}{}, nil
}
