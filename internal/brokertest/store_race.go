package brokertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// raceCase prepares a key and returns it with the revision that all writers expect.
type raceCase func(t *testing.T, s *storeRoom) (broker.Key, int64)

func creates(*testing.T, *storeRoom) (broker.Key, int64) { return instanceKey("i"), 0 }

func updates(t *testing.T, s *storeRoom) (broker.Key, int64) {
	key := bindingKey("i", "b")
	s.mustPut(t, ready(key, "a"), 0)
	return key, s.mustPut(t, fullRecord(key), 1).Revision
}

func createsOverExpired(t *testing.T, s *storeRoom) (broker.Key, int64) {
	key := instanceKey("i")
	s.mustPut(t, gone(key, "old", s.clock.now().Add(time.Second)), 0)
	s.clock.advance(time.Second)
	return key, 0
}

// try is one writer's answer.
type try struct {
	record broker.Record
	err    error
}

// raceOf lets n writers loose on one key, a few rounds. Each writes parameters of its
// own, so that a loser can tell whose record it was given.
func raceOf(n int, prepare raceCase) func(*testing.T, *storeRoom) {
	return func(t *testing.T, s *storeRoom) {
		key, revision := prepare(t, s)
		for range 3 {
			tries := s.race(t.Context(), n, func(i int) broker.Record {
				r := ready(key, fmt.Sprintf("writer-%d", i))
				r.Parameters = json.RawMessage(fmt.Sprintf(`{"writer":%d}`, i))
				return r
			}, revision)
			winner := onlyWinner(t, tries)
			if winner.Revision != revision+1 {
				t.Fatalf("the winner has revision %d; want %d", winner.Revision, revision+1)
			}
			s.mustHold(t, winner)
			revision++
		}
	}
}

func (s *storeRoom) race(ctx context.Context, n int, record func(int) broker.Record, revision int64) []try {
	tries := make([]try, n)
	start := make(chan struct{})
	var writers sync.WaitGroup
	for i := range tries {
		writers.Go(func() {
			<-start
			tries[i].record, tries[i].err = s.Put(ctx, record(i), revision)
		})
	}
	close(start)
	writers.Wait()
	return tries
}

// onlyWinner checks that one won and that every other one was told of it.
func onlyWinner(t *testing.T, tries []try) broker.Record {
	t.Helper()
	var winners []broker.Record
	for i, x := range tries {
		if x.err == nil {
			winners = append(winners, x.record)
		} else if !errors.Is(x.err, broker.ErrConflict) {
			t.Fatalf("writer %d: %v; want nil or ErrConflict", i, x.err)
		}
	}
	if len(winners) != 1 {
		t.Fatalf("%d of %d writers won; want 1", len(winners), len(tries))
	}
	for i, x := range tries {
		sameRecord(t, fmt.Sprintf("what writer %d was given", i), x.record, winners[0])
	}
	return winners[0]
}

func noFalseConflicts(t *testing.T, s *storeRoom) {
	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			key := bindingKey("i", fmt.Sprintf("b%d", i))
			for revision := range int64(5) {
				r := ready(key, fmt.Sprintf("%d at %d", i, revision))
				if got, err := s.Put(t.Context(), r, revision); err != nil || got.Token != r.Token {
					t.Errorf("writer %d at revision %d: token %q, %v", i, revision, got.Token, err)
					return
				}
			}
		})
	}
	writers.Wait()
	for i := range 16 {
		r, err := s.Get(t.Context(), bindingKey("i", fmt.Sprintf("b%d", i)))
		if err != nil || r.Revision != 5 {
			t.Errorf("record %d: revision %d, %v; want 5", i, r.Revision, err)
		}
	}
}

// monotonicReads writes with parameters coming and going, while readers check that
// what they see is whole, never older than what they saw, nor than what the writer
// was told.
func monotonicReads(t *testing.T, s *storeRoom) {
	const last = 60
	key := bindingKey("i", "b")
	s.mustPut(t, numbered(key, 1), 0)
	var told sync.Map
	told.Store("revision", int64(1))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for seen := int64(0); seen < last; {
				floor, _ := told.Load("revision")
				r, err := s.Get(t.Context(), key)
				if err != nil || r.Revision < max(seen, floor.(int64)) || !isNumbered(r) {
					t.Errorf("read revision %d (parameters of %d bytes), %v after revision %d was seen and %d told",
						r.Revision, len(r.Parameters), err, seen, floor)
					return
				}
				seen = r.Revision
			}
		})
	}
	all.Go(func() {
		for revision := int64(1); revision < last; revision++ {
			if _, err := s.Put(t.Context(), numbered(key, revision+1), revision); err != nil {
				t.Errorf("write at revision %d: %v", revision, err)
				return
			}
			told.Store("revision", revision+1)
		}
	})
	all.Wait()
}

// numbered has parameters that follow from its revision; every third has none.
func numbered(key broker.Key, revision int64) broker.Record {
	r := ready(key, fmt.Sprint(revision))
	r.Revision = revision
	if revision%3 != 0 {
		r.Parameters = json.RawMessage(fmt.Sprintf(`{"at":%d}`, revision))
	}
	return r
}

func isNumbered(r broker.Record) bool {
	want := numbered(r.Key, r.Revision)
	return r.Token == want.Token && string(r.Parameters) == string(want.Parameters)
}
