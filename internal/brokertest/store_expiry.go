package brokertest

import (
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// life is how long tombstones live in these clauses.
const life = 8 * 24 * time.Hour

func expiredGet(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	stored := s.mustPut(t, gone(key, "a", s.clock.now().Add(life)), 0)
	s.clock.advance(life - time.Nanosecond)
	s.mustHold(t, stored)
	s.clock.advance(time.Nanosecond)
	s.mustLack(t, key)
	s.clock.advance(life)
	s.mustLack(t, key)
}

func expiredBinding(t *testing.T, s *storeRoom) {
	short := s.mustPut(t, gone(bindingKey("i", "short"), "a", s.clock.now().Add(time.Hour)), 0)
	long := s.mustPut(t, gone(bindingKey("i", "long"), "a", s.clock.now().Add(2*time.Hour)), 0)
	s.mustList(t, instanceKey("i"), short, long)
	s.clock.advance(time.Hour)
	s.mustList(t, instanceKey("i"), long)
}

func expiredCreate(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	old := fullRecord(key)
	old.Lifecycle.ExpiresAt = s.clock.now().Add(time.Hour)
	s.mustPut(t, old, 0)
	s.mustPut(t, old, 1)
	s.clock.advance(time.Hour)
	s.mustHold(t, s.mustPut(t, ready(key, "new"), 0))
	s.clock.advance(100 * life)
	s.mustUnfinished(t, s.clock.now(), 10)
	got, err := s.Get(t.Context(), key)
	if err != nil || got.Token != "new" || got.Revision != 1 {
		t.Fatalf("Get = token %q revision %d, %v; want the new record", got.Token, got.Revision, err)
	}
}

func expiredUpdate(t *testing.T, s *storeRoom) {
	key := bindingKey("i", "b")
	s.mustPut(t, gone(key, "a", s.clock.now().Add(time.Hour)), 0)
	s.clock.advance(time.Hour)
	s.mustConflict(t, ready(key, "b"), 1, broker.Record{})
	s.mustLack(t, key)
	s.mustList(t, key)
}

func expiryMoves(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	s.mustPut(t, gone(key, "a", s.clock.now().Add(time.Hour)), 0)
	later := s.mustPut(t, gone(key, "b", s.clock.now().Add(3*time.Hour)), 1)
	s.clock.advance(2 * time.Hour)
	s.mustHold(t, later)
	living := s.mustPut(t, ready(key, "c"), 2)
	s.clock.advance(2 * time.Hour)
	s.mustHold(t, living)
	ghost := gone(key, "d", s.clock.now().Add(time.Hour))
	ghost.Lifecycle.State = lifecycle.Ghost
	s.mustHold(t, s.mustPut(t, ghost, 3))
	s.clock.advance(time.Hour)
	s.mustLack(t, key)
}
