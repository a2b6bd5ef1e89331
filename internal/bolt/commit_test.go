package bolt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// blocked holds bbolt's write lock, so that the committer hangs in its next commit
// and writes queue up behind it, until release is called.
func blocked(t *testing.T, s *Store) (release func()) {
	t.Helper()
	tx, err := s.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	release = func() { once.Do(func() { _ = tx.Rollback() }) }
	t.Cleanup(release)
	return release
}

func queueState(s *Store) (taken int, closed bool) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.takenUp, s.queue.closed
}

// inFlight starts a put and returns where its error will arrive.
func inFlight(ctx context.Context, s *Store, r broker.Record, revision int64) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(ctx, r, revision)
		done <- err
	}()
	return done
}

// queued waits until n writes wait; the committer has taken up what came before.
func queued(t *testing.T, s *Store, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d writes are queued", n), func() bool { return s.queue.length() == n })
}

// occupied blocks the store with one write taken up.
func occupied(t *testing.T, s *Store) (release func(), first <-chan error) {
	t.Helper()
	release = blocked(t, s)
	first = inFlight(t.Context(), s, plain(bindingOf(0), "first", ""), 0)
	until(t, "the committer has taken up the first write", func() bool {
		n, _ := queueState(s)
		return s.queue.length() == 0 && n == 1
	})
	return release, first
}

func TestCommit(t *testing.T) {
	t.Parallel()
	t.Run("writes that queue up share one commit, and a condition that fails harms none", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		release, first := occupied(t, s)
		var good, bad []<-chan error
		for n := range 20 {
			good = append(good, inFlight(t.Context(), s, plain(bindingOf(n+1), "good", `{"x":1}`), 0))
			bad = append(bad, inFlight(t.Context(), s, plain(bindingOf(n+100), "bad", `{"x":1}`), 7))
		}
		queued(t, s, 40)
		release()
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		for n := range good {
			if err := <-good[n]; err != nil {
				t.Errorf("write %d: %v", n, err)
			}
			if err := <-bad[n]; !errors.Is(err, broker.ErrConflict) {
				t.Errorf("refused write %d: %v; want ErrConflict", n, err)
			}
		}
		if got, want := s.Stats(), (Stats{Commits: 2, Writes: 21}); got != want {
			t.Errorf("Stats = %+v; want %+v", got, want)
		}
		checkIndexes(t, s)
	})
}

func TestCancelledWrite(t *testing.T) {
	t.Parallel()
	t.Run("a write cancelled while it is queued is not written", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		release, first := occupied(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		done := inFlight(ctx, s, plain(bindingOf(1), "a", ""), 0)
		queued(t, s, 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled write: %v", err)
		}
		release()
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), bindingOf(1)); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("Get: %v; want ErrNotFound", err)
		}
	})
	t.Run("a write cancelled after it was taken up is answered as what it became", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		release := blocked(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		done := inFlight(ctx, s, plain(bindingOf(1), "a", ""), 0)
		until(t, "taken up", func() bool { n, _ := queueState(s); return n == 1 })
		cancel()
		release()
		if err := <-done; err != nil {
			t.Errorf("the write: %v; want nil, for it is stored", err)
		}
		if _, err := s.Get(t.Context(), bindingOf(1)); err != nil {
			t.Errorf("Get: %v", err)
		}
	})
}

func TestRefusedWrite(t *testing.T) {
	t.Parallel()
	t.Run("a refused write alone costs no commit", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		if _, err := s.Put(t.Context(), plain(bindingOf(1), "a", `{"x":1}`), 3); !errors.Is(err, broker.ErrConflict) {
			t.Fatal(err)
		}
		if got := s.Stats(); got != (Stats{}) {
			t.Errorf("Stats = %+v; want none", got)
		}
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("Close carries out what is queued", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openAt(t, dir, time.Now)
		release, first := occupied(t, s)
		second := inFlight(t.Context(), s, plain(bindingOf(1), "a", ""), 0)
		queued(t, s, 1)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		until(t, "closing", func() bool { _, closed := queueState(s); return closed })
		release()
		if err := errors.Join(<-first, <-second, <-closed); err != nil {
			t.Fatal(err)
		}
		if _, err := openAt(t, dir, time.Now).Get(t.Context(), bindingOf(1)); err != nil {
			t.Errorf("Get after opening again: %v", err)
		}
	})
	t.Run("a store that closed says so", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		if err := errors.Join(s.Ping(t.Context()), s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		_, purge := s.Purge(t.Context())
		_, put := s.Put(t.Context(), plain(bindingOf(1), "a", ""), 0)
		_, get := s.Get(t.Context(), bindingOf(1))
		for _, err := range []error{s.Ping(t.Context()), purge, put, get} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%v; want ErrClosed", err)
			}
		}
	})
}

func TestFailedCommit(t *testing.T) {
	t.Parallel()
	t.Run("a commit that finds the disk full changes nothing, and the next one works", func(t *testing.T) {
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
	})
}

func TestOnlyWhatIsDurableIsRead(t *testing.T) {
	t.Parallel()
	t.Run("a read that saw a commit not yet durable waits for it", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		mustPut(t, s, plain(bindingOf(1), "a", ""), 0)
		// What bbolt shows between its two syncs: a commit that the store has not
		// been told of.
		if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put([]byte("x"), nil) }); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := s.Get(short, bindingOf(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Get: %v; want it to wait", err)
		}
		got := make(chan error, 1)
		go func() {
			_, err := s.Get(t.Context(), bindingOf(1))
			got <- err
		}()
		mustPut(t, s, plain(bindingOf(2), "a", ""), 0)
		if err := <-got; err != nil {
			t.Errorf("Get once it is durable: %v", err)
		}
	})
	t.Run("a store whose last commit may get lost answers nothing any more", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		lost := errors.New("sync failed")
		if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put([]byte("x"), nil) }); err != nil {
			t.Fatal(err)
		}
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
