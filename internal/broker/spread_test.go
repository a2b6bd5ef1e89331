package broker

import (
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestSpread: operations that were refused together do not come back together.
func TestSpread(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	c := newClock(Options{Now: func() time.Time { return now }})
	seen := map[time.Duration]bool{}
	for _, id := range []string{"create-1", "create-2", "create-3", "create-4"} {
		rec := Record{Lifecycle: lifecycle.Record{Operation: lifecycle.Operation{ID: id}}}
		for range 2 {
			wait := c.spread(time.Minute, rec)
			if wait < time.Minute || wait >= 2*time.Minute || seen[wait] {
				t.Errorf("%s waits %v, others %v; want each its own, from one to two minutes", id, wait, seen)
			}
			seen[wait] = true
			now = now.Add(time.Second)
		}
	}
	if wait := c.spread(0, Record{}); wait != 0 {
		t.Errorf("no wait became %v", wait)
	}
}
