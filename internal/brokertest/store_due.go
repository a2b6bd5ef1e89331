package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// mustUnfinished checks the answer to one query, in order, once the store has caught up.
func (s *storeRoom) mustUnfinished(t *testing.T, due time.Time, limit int, want ...broker.Record) {
	t.Helper()
	var names []broker.Unfinished
	for _, r := range want {
		names = append(names, broker.Unfinished{Key: r.Key, Operation: r.Lifecycle.Operation.ID, Due: r.Due()})
	}
	eventually(t, func(ctx context.Context) string {
		got, err := s.Unfinished(ctx, due, limit)
		if err != nil {
			return fmt.Sprintf("Unfinished: %v", err)
		}
		if d := cmp.Diff(names, got, cmpopts.EquateEmpty()); d != "" {
			return "unfinished (-want +got):\n" + d
		}
		return ""
	})
}

func (s *storeRoom) unfinishedCount(due time.Time, limit, want int) func(context.Context) string {
	return func(ctx context.Context) string {
		got, err := s.Unfinished(ctx, due, limit)
		if err != nil || len(got) != want {
			return fmt.Sprintf("%d unfinished, %v; want %d", len(got), err, want)
		}
		return ""
	}
}

func dueIsInclusive(t *testing.T, s *storeRoom) {
	r := s.mustPut(t, busy(bindingKey("i", "b"), "op", storeEpoch), 0)
	s.mustPut(t, ready(instanceKey("i"), "not running"), 0)
	s.mustUnfinished(t, storeEpoch, 10, r)
	s.mustUnfinished(t, storeEpoch.Add(time.Nanosecond), 10, r)
	s.mustUnfinished(t, storeEpoch.Add(-time.Nanosecond), 10)
	s.mustUnfinished(t, storeEpoch, 0)
}

func unfinishedOrder(t *testing.T, s *storeRoom) {
	var want []broker.Record
	for n := range 12 {
		// Out of order in time and in key, and across the second.
		at := storeEpoch.Add(time.Duration(n*7%12) * 300 * time.Millisecond)
		r := busy(instanceKey(fmt.Sprintf("i%d", n*5%12)), fmt.Sprintf("op-%d", n), at)
		r.Lifecycle.State = []lifecycle.State{lifecycle.Creating, lifecycle.Updating, lifecycle.Deleting}[n%3]
		want = append(want, s.mustPut(t, r, 0))
	}
	ordered := make([]broker.Record, len(want))
	for n, r := range want {
		ordered[n*7%12] = r
	}
	end := storeEpoch.Add(time.Hour)
	s.mustUnfinished(t, end, 100, ordered...)
	s.mustUnfinished(t, end, 12, ordered...)
	s.mustUnfinished(t, end, 5, ordered[:5]...)
	s.mustUnfinished(t, end, 1, ordered[0])
	s.mustUnfinished(t, ordered[6].Due(), 100, ordered[:7]...)
}

func unfinishedEnds(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	ends := []lifecycle.State{
		lifecycle.Ready, lifecycle.CreateFailed, lifecycle.UpdateFailed, lifecycle.DeleteFailed, lifecycle.Gone,
	}
	for n, state := range ends {
		r := busy(key, fmt.Sprintf("op-%d", n), storeEpoch)
		s.mustUnfinished(t, storeEpoch, 10, s.mustPut(t, r, int64(2*n)))
		r.Lifecycle.State = state
		s.mustPut(t, r, int64(2*n)+1)
		s.mustUnfinished(t, storeEpoch.Add(time.Hour), 10)
	}
}

func unfinishedMoves(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	s.mustPut(t, busy(key, "op", storeEpoch), 0)
	later := s.mustPut(t, busy(key, "op", storeEpoch.Add(time.Hour)), 1)
	s.mustUnfinished(t, storeEpoch.Add(time.Minute), 10)
	s.mustUnfinished(t, storeEpoch.Add(time.Hour), 10, later)
	sooner := s.mustPut(t, busy(key, "op", storeEpoch.Add(-time.Hour)), 2)
	s.mustUnfinished(t, storeEpoch.Add(2*time.Hour), 10, sooner)
	same := s.mustPut(t, busy(key, "op", storeEpoch.Add(-time.Hour)), 3)
	s.mustUnfinished(t, storeEpoch.Add(2*time.Hour), 10, same)
}

func unfinishedSuperseded(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	s.mustPut(t, busy(key, "create-1", storeEpoch), 0)
	r := busy(key, "delete-2", storeEpoch)
	r.Lifecycle.State = lifecycle.Deleting
	r = s.mustPut(t, r, 1)
	s.mustUnfinished(t, storeEpoch, 10, r)
}

// unfinishedExpired is about a record that no rule makes, so that no rule is needed
// for it either.
func unfinishedExpired(t *testing.T, s *storeRoom) {
	odd := busy(instanceKey("i"), "op", storeEpoch)
	odd.Lifecycle.ExpiresAt = storeEpoch.Add(time.Hour)
	odd = s.mustPut(t, odd, 0)
	other := s.mustPut(t, busy(instanceKey("j"), "op-j", storeEpoch.Add(time.Minute)), 0)
	s.mustUnfinished(t, storeEpoch.Add(time.Hour), 10, odd, other)
	s.clock.advance(time.Hour)
	s.mustUnfinished(t, storeEpoch.Add(time.Hour), 10, other)
	s.mustUnfinished(t, storeEpoch.Add(time.Hour), 1, other)
}
