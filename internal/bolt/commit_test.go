package bolt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// inFlight starts a put and returns where its error will arrive. Within a bubble of synctest.
func inFlight(ctx context.Context, s *Store, r broker.Record, revision int64) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(ctx, r, revision)
		done <- err
	}()
	synctest.Wait()
	return done
}

// occupied lets the committer hang in a commit, which changes nothing, until release is called.
func occupied(t *testing.T, s *Store) (release func()) {
	t.Helper()
	wait, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.submit(t.Context(), 0, func(*batch) error { <-wait; return nil })
	}()
	synctest.Wait()
	return func() {
		close(wait)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	for name, clause := range map[string]func(*testing.T){
		"writes that wait share one commit, and a condition that fails harms none": writesShareACommit,
		"a write cancelled while it waits is not written":                          cancelledInTime,
		"a write cancelled after it was taken up is answered as what became of it": cancelledTooLate,
		"a refused write alone costs no commit":                                    refusedAlone,
		"Close carries out what was submitted":                                     closeCarriesOut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, clause)
		})
	}
}

func writesShareACommit(t *testing.T) {
	s := openAt(t, t.TempDir(), time.Now)
	release := occupied(t, s)
	var good, bad []<-chan error
	for n := range 20 {
		good = append(good, inFlight(t.Context(), s, plain(bindingOf(n+1), "good", `{"x":1}`), 0))
		bad = append(bad, inFlight(t.Context(), s, plain(bindingOf(n+100), "bad", `{"x":1}`), 7))
	}
	release()
	for n := range good {
		if err := <-good[n]; err != nil {
			t.Errorf("write %d: %v", n, err)
		}
		if err := <-bad[n]; !errors.Is(err, broker.ErrConflict) {
			t.Errorf("refused write %d: %v; want ErrConflict", n, err)
		}
	}
	if got, want := s.Stats(), (Stats{Commits: 1, Writes: 20}); got != want {
		t.Errorf("Stats = %+v; want %+v", got, want)
	}
	checkIndexes(t, s)
}

func cancelledInTime(t *testing.T) {
	s := openAt(t, t.TempDir(), time.Now)
	release := occupied(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := inFlight(ctx, s, plain(bindingOf(1), "a", ""), 0)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled write: %v", err)
	}
	release()
	if _, err := s.Get(t.Context(), bindingOf(1)); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("Get: %v; want ErrNotFound", err)
	}
}

func cancelledTooLate(t *testing.T) {
	s := openAt(t, t.TempDir(), time.Now)
	p, err := newPut(plain(bindingOf(1), "a", ""), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	wait, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.submit(ctx, 0, func(b *batch) error { <-wait; return p.apply(b) })
	}()
	synctest.Wait()
	cancel()
	synctest.Wait()
	close(wait)
	if err := <-done; err != nil {
		t.Errorf("the write: %v; want nil, for it is stored", err)
	}
	if _, err := s.Get(t.Context(), bindingOf(1)); err != nil {
		t.Errorf("Get: %v", err)
	}
}

func refusedAlone(t *testing.T) {
	s := openAt(t, t.TempDir(), time.Now)
	if _, err := s.Put(t.Context(), plain(bindingOf(1), "a", `{"x":1}`), 3); !errors.Is(err, broker.ErrConflict) {
		t.Fatal(err)
	}
	if got := s.Stats(); got != (Stats{}) {
		t.Errorf("Stats = %+v; want none", got)
	}
}

func closeCarriesOut(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, time.Now)
	release := occupied(t, s)
	done := inFlight(t.Context(), s, plain(bindingOf(1), "a", ""), 0)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	release()
	if err := errors.Join(<-done, <-closed, s.Close()); err != nil {
		t.Fatal(err)
	}
	_, purge := s.Purge(t.Context())
	_, put := s.Put(t.Context(), plain(bindingOf(1), "a", ""), 0)
	_, get := s.Get(t.Context(), bindingOf(1))
	for _, err := range []error{s.Ping(t.Context()), purge, put, get} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v; want ErrClosed", err)
		}
	}
	if _, err := openAt(t, dir, time.Now).Get(t.Context(), bindingOf(1)); err != nil {
		t.Errorf("Get after opening again: %v", err)
	}
}

// TestFailedCommit: one that finds the disk full changes nothing, and the next one works.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir(), time.Now)
	mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
	s.db.MaxSize = 1
	large := plain(bindingOf(1), "b", `{"x":"`+strings.Repeat("y", 300<<10)+`"}`)
	if _, err := s.Put(t.Context(), large, 1); err == nil || errors.Is(err, broker.ErrConflict) {
		t.Fatalf("Put: %v; want a fault", err)
	}
	s.db.MaxSize = 0
	r, err := s.Get(t.Context(), bindingOf(1))
	if err != nil || r.Revision != 1 || string(r.Parameters) != `{"x":1}` {
		t.Errorf("revision %d, %q, %v; want the record as it was", r.Revision, r.Parameters, err)
	}
	mustPut(t, s, large, 1)
	checkIndexes(t, s)
}

// visible makes a commit that the store has not been told of: bbolt shows one between its two syncs.
func visible(t *testing.T, s *Store) {
	t.Helper()
	if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put([]byte("x"), nil) }); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyWhatIsDurableIsRead(t *testing.T) {
	t.Parallel()
	t.Run("a read that saw a commit not yet durable waits for it", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := openAt(t, t.TempDir(), time.Now)
			mustPut(t, s, plain(bindingOf(1), "a", ""), 0)
			visible(t, s)
			got := make(chan error, 1)
			go func() {
				_, err := s.Get(t.Context(), bindingOf(1))
				got <- err
			}()
			synctest.Wait()
			select {
			case err := <-got:
				t.Fatalf("Get: %v; want it to wait", err)
			default:
			}
			mustPut(t, s, plain(bindingOf(2), "a", ""), 0)
			if err := <-got; err != nil {
				t.Errorf("Get once it is durable: %v", err)
			}
		})
	})
	t.Run("a store whose last commit may get lost answers nothing any more", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		lost := errors.New("sync failed")
		visible(t, s)
		if err := s.failed(lost); !errors.Is(err, lost) {
			t.Errorf("failed: %v", err)
		}
		_, get := s.Get(t.Context(), bindingOf(1))
		_, put := s.Put(t.Context(), plain(bindingOf(1), "a", ""), 0)
		for _, err := range []error{get, put, s.Ping(t.Context())} {
			if !errors.Is(err, lost) || !strings.Contains(err.Error(), "until Ferry starts again") {
				t.Errorf("%v; want the lost sync and what to do", err)
			}
		}
	})
}
