package cfsim

import (
	"net/http"
	"time"
)

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
