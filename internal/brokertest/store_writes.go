package brokertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

func neverPut(t *testing.T, s *storeUnderTest) {
	s.mustLack(t, instanceKey("i"))
	s.mustPut(t, ready(instanceKey("i"), "a"), 0)
	s.mustLack(t, bindingKey("i", "b"))
	s.mustLack(t, instanceKey("j"))
}

func createStores(t *testing.T, s *storeUnderTest) {
	s.mustHold(t, s.mustPut(t, ready(instanceKey("i"), "a"), 0))
}

func createConflicts(t *testing.T, s *storeUnderTest) {
	first := s.mustPut(t, ready(instanceKey("i"), "first"), 0)
	s.mustConflict(t, ready(instanceKey("i"), "second"), 0, first)
	s.mustHold(t, first)
}

func updateStores(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	for revision := range int64(5) {
		s.mustHold(t, s.mustPut(t, ready(key, string(rune('a'+revision))), revision))
	}
}

func updateConflicts(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	s.mustPut(t, ready(key, "a"), 0)
	s.mustPut(t, ready(key, "b"), 1)
	stored := s.mustPut(t, ready(key, "c"), 2)
	for _, revision := range []int64{-1, 0, 1, 2, 4, 1 << 40} {
		s.mustConflict(t, ready(key, "d"), revision, stored)
	}
	s.mustHold(t, stored)
}

func updateOfAbsent(t *testing.T, s *storeUnderTest) {
	s.mustConflict(t, ready(instanceKey("i"), "a"), 1, broker.Record{})
	s.mustLack(t, instanceKey("i"))
}

func innerRevision(t *testing.T, s *storeUnderTest) {
	r := ready(instanceKey("i"), "a")
	r.Revision = 17
	stored := s.mustPut(t, r, 0)
	r.Revision = 1
	s.mustConflict(t, r, 0, stored)
}

func cancelledPut(t *testing.T, s *storeUnderTest) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	key := instanceKey("i")
	if _, err := s.Put(ctx, ready(key, "a"), 0); err == nil {
		t.Fatal("Put with a cancelled context succeeded")
	}
	s.mustLack(t, key)
	stored := s.mustPut(t, ready(key, "b"), 0)
	if _, err := s.Put(ctx, ready(key, "c"), 1); err == nil || errors.Is(err, broker.ErrConflict) {
		t.Fatalf("Put with a cancelled context: %v", err)
	}
	s.mustHold(t, stored)
}

func sharesNothing(t *testing.T, s *storeUnderTest) {
	given := fullRecord(instanceKey("i"))
	stored, err := s.Put(t.Context(), given, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := fullRecord(instanceKey("i"))
	want.Revision = 1
	scribble(given)
	sameRecord(t, "what Put returned, after its argument was scribbled on", stored, want)
	for _, r := range []broker.Record{given, stored} {
		scribble(r)
		s.mustHold(t, want)
	}
	// And two readers do not share.
	one, err := s.Get(t.Context(), want.Key)
	if err != nil {
		t.Fatal(err)
	}
	scribble(one)
	s.mustHold(t, want)
	many, err := s.GetAll(t.Context(), []broker.Key{want.Key})
	if err != nil || many[0].Err != nil {
		t.Fatalf("%v, %v", many, err)
	}
	scribble(many[0].Record)
	s.mustHold(t, want)
}

// scribble writes over all that r points to.
func scribble(r broker.Record) {
	clear(r.Salt)
	clear(r.Parameters)
	clear(r.Context)
	r.Target.PlanID = "scribbled"
	r.Lifecycle.Finished[0].ID = "scribbled"
	r.Lifecycle.OpenCalls[0].Number = -1
}

func bareRecord(t *testing.T, s *storeUnderTest) {
	s.mustHold(t, s.mustPut(t, broker.Record{Key: instanceKey("i")}, 0))
	s.mustHold(t, s.mustPut(t, broker.Record{Key: bindingKey("i", "b")}, 0))
}

func lettersOfParameters(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	texts := []string{
		`{}`, ` { "b" : 1 ,` + "\n\t" + `"a":2 } `, `{"big":9007199254740993,"e":1.0e+0}`,
		`{"html":"<a>&</a>","line":"` + "\u2028" + `","esc":"\u0041\/"}`, `{"x":1,"x":2}`, `null`, `"text"`,
	}
	for i, text := range texts {
		r := ready(key, text)
		r.Parameters = json.RawMessage(text)
		s.mustPut(t, r, int64(i))
		got, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Parameters) != text {
			t.Errorf("parameters %q came back as %q", text, got.Parameters)
		}
	}
}

func parametersChange(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	for i, text := range []string{"", `{"a":1}`, `{"a":1}`, `{"a":2}`, "", "", `{"a":1}`, ""} {
		r := ready(key, "t")
		r.Parameters = json.RawMessage(text)
		stored := s.mustPut(t, r, int64(i))
		s.mustHold(t, stored)
		s.mustConflict(t, r, 0, stored)
	}
}

func largeParameters(t *testing.T, s *storeUnderTest) {
	for _, key := range []broker.Key{instanceKey("i"), bindingKey("i", "b")} {
		r := fullRecord(key)
		r.Parameters = textOf(256 << 10)
		stored := s.mustPut(t, r, 0)
		s.mustHold(t, stored)
		s.mustConflict(t, r, 0, stored)
		r.Parameters = nil
		s.mustHold(t, s.mustPut(t, r, 1))
	}
}

// textOf is a JSON string of n bytes that does not compress.
func textOf(n int) json.RawMessage {
	b := bytes.Repeat([]byte{'"'}, n)
	state := uint32(1)
	for i := range b[1 : n-1] {
		state = state*1664525 + 1013904223
		b[i+1] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[state>>26]
	}
	return b
}

// tooLarge allows a store to take any of the sizes, but not to take it in part.
func tooLarge(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	stored := s.mustPut(t, fullRecord(key), 0)
	for _, n := range []int{380 << 10, 399 << 10, 400 << 10, 401 << 10, 500 << 10, 1 << 20, 3 << 20} {
		r := fullRecord(key)
		r.Parameters = textOf(n)
		got, err := s.Put(t.Context(), r, stored.Revision)
		switch {
		case err == nil:
			r.Revision = stored.Revision + 1
			sameRecord(t, "what Put returned", got, r)
			stored = r
		case !errors.Is(err, broker.ErrTooLarge):
			t.Fatalf("Put of %d bytes: %v; want nil or ErrTooLarge", n, err)
		}
		s.mustHold(t, stored)
	}
	s.mustPut(t, ready(key, "small"), stored.Revision)
}

func closedStore(t *testing.T, s *storeUnderTest) {
	c, ok := s.Store.(io.Closer)
	if !ok {
		t.Skip("this store cannot be closed")
	}
	s.mustPut(t, ready(instanceKey("i"), "a"), 0)
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	calls := map[string]func(context.Context) error{
		"Get":          func(ctx context.Context) error { _, err := s.Get(ctx, instanceKey("i")); return err },
		"GetAll":       func(ctx context.Context) error { _, err := s.GetAll(ctx, []broker.Key{instanceKey("i")}); return err },
		"Put":          func(ctx context.Context) error { _, err := s.Put(ctx, ready(instanceKey("i"), "b"), 1); return err },
		"Bindings":     func(ctx context.Context) error { _, err := s.Bindings(ctx, instanceKey("i")); return err },
		"Unfinished":   func(ctx context.Context) error { _, err := s.Unfinished(ctx, time.Time{}, "", 1); return err },
		"LastAudit":    func(ctx context.Context) error { _, err := s.LastAudit(ctx, "client-a"); return err },
		"PutLastAudit": func(ctx context.Context) error { return s.PutLastAudit(ctx, "client-a", storeEpoch) },
		"Catalog":      func(ctx context.Context) error { _, err := s.Catalog(ctx, "client-a"); return err },
		"PutCatalog": func(ctx context.Context) error {
			_, err := s.PutCatalog(ctx, broker.StoredCatalog{Client: "client-a"}, 0)
			return err
		},
	}
	for name, call := range calls {
		if err := call(t.Context()); err == nil || errors.Is(err, broker.ErrNotFound) || errors.Is(err, broker.ErrConflict) {
			t.Errorf("%s of a closed store: error %v; want one that says so", name, err)
		}
	}
}

// raceCase prepares a key and returns it with the revision that all writers expect.
type raceCase func(t *testing.T, s *storeUnderTest) (broker.Key, int64)

func creates(*testing.T, *storeUnderTest) (broker.Key, int64) { return instanceKey("i"), 0 }

func updates(t *testing.T, s *storeUnderTest) (broker.Key, int64) {
	key := bindingKey("i", "b")
	s.mustPut(t, ready(key, "a"), 0)
	return key, s.mustPut(t, fullRecord(key), 1).Revision
}

func createsOverExpired(t *testing.T, s *storeUnderTest) (broker.Key, int64) {
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

// raceOf lets n writers loose on one key, a few rounds. Each writes parameters of its own, so that a loser can tell
// whose record it was given.
func raceOf(n int, prepare raceCase) func(*testing.T, *storeUnderTest) {
	return func(t *testing.T, s *storeUnderTest) {
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

func (s *storeUnderTest) race(ctx context.Context, n int, record func(int) broker.Record, revision int64) []try {
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

func noFalseConflicts(t *testing.T, s *storeUnderTest) {
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

// monotonicReads writes with parameters coming and going, while readers check that what they see is whole, never older
// than what they saw, nor than what the writer was told.
func monotonicReads(t *testing.T, s *storeUnderTest) {
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
