package catalog

import (
	"sync"
	"time"
)

// warnEvery is how often one kind of trouble of one client is logged at most.
const warnEvery = time.Minute

// throttle lets one message a minute through.
type throttle struct {
	mu   sync.Mutex
	next time.Time
}

func (t *throttle) allow(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		return false
	}
	t.next = now.Add(warnEvery)
	return true
}
