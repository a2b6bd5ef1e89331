package broker

import (
	"sync"
	"time"
)

// Throttle lets one event for each name pass in a period, so that an outage of
// Cloud Foundry does not fill the log. It may be used concurrently.
type Throttle struct {
	period time.Duration
	mu     sync.Mutex
	last   map[string]time.Time
}

// NewThrottle returns a throttle that has seen nothing yet.
func NewThrottle(period time.Duration) *Throttle {
	return &Throttle{period: period, last: map[string]time.Time{}}
}

// Pass reports whether an event of this name is due, and counts it then.
func (t *Throttle) Pass(name string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[name]; ok && now.Sub(last) < t.period {
		return false
	}
	t.last[name] = now
	return true
}
