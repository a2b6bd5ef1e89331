package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

const marked = "hunter2-MARKED-SECRET"

// entriesWith lists the entries of all buckets that hold the text.
func entriesWith(t *testing.T, s *Store, text string) (entries []string) {
	t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if bytes.Contains(k, []byte(text)) || bytes.Contains(v, []byte(text)) {
					entries = append(entries, fmt.Sprintf("%s %q", name, k))
				}
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func fileHolds(t *testing.T, dir, text string) bool {
	t.Helper()
	return bytes.Contains(readFile(t, dir, storeFile), []byte(text))
}

// TestDroppedParameters are in no record once the write that dropped them has returned; and in no byte of the file once
// free pages were overwritten.
func TestDroppedParameters(t *testing.T) {
	t.Parallel()
	secret := fmt.Sprintf(`{"password":%q}`, marked)
	expiring := func(t *testing.T, s *Store, clock *time.Time) {
		r := plain(bindingOf(1), "b", secret)
		r.Lifecycle.ExpiresAt = clock.Add(time.Hour)
		mustPut(t, s, r, 1)
		*clock = clock.Add(time.Hour)
	}
	purge := func(t *testing.T, s *Store) {
		if _, err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, end := range map[string]func(t *testing.T, s *Store, clock *time.Time){
		"dropped": func(t *testing.T, s *Store, _ *time.Time) { mustPut(t, s, plain(bindingOf(1), "b", ""), 1) },
		"replaced": func(t *testing.T, s *Store, _ *time.Time) {
			mustPut(t, s, plain(bindingOf(1), "b", `{"password":"other"}`), 1)
		},
		"purged": func(t *testing.T, s *Store, clock *time.Time) { expiring(t, s, clock); purge(t, s) },
		"written over when expired": func(t *testing.T, s *Store, clock *time.Time) {
			expiring(t, s, clock)
			mustPut(t, s, plain(bindingOf(1), "c", ""), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, clock := t.TempDir(), time.Unix(2e9, 0)
			s := openAt(t, dir, func() time.Time { return clock })
			mustPut(t, s, plain(bindingOf(0), "a", ""), 0)
			mustPut(t, s, plain(bindingOf(1), "a", secret), 0)
			mustPut(t, s, plain(bindingOf(2), "a", strings.ReplaceAll(secret, "SECRET", "OTHER")), 0)
			if len(entriesWith(t, s, marked)) != 1 {
				t.Fatal("the parameters cannot be found before they are dropped: the test sees nothing")
			}
			end(t, s, &clock)
			if found := entriesWith(t, s, marked); found != nil {
				t.Errorf("the parameters are in %v", found)
			}
			// bbolt clears no page: this is what the store does about it.
			if !fileHolds(t, dir, marked) && name != "purged" {
				t.Error("the file does not hold the parameters: the test does not see what is overwritten")
			}
			purge(t, s)
			if fileHolds(t, dir, marked) {
				t.Error("the file holds the parameters after a purge")
			}
			if r, err := s.Get(t.Context(), bindingOf(2)); err != nil || !fileHolds(t, dir, string(r.Parameters)) {
				t.Errorf("parameters in use: %q, %v", r.Parameters, err)
			}
			checkIndexes(t, s)
		})
	}
}

// TestFreePagesAreOverwritten by Close, and by Open when a process was killed.
func TestFreePagesAreOverwritten(t *testing.T) {
	t.Parallel()
	dir, killed := t.TempDir(), t.TempDir()
	s := openAt(t, dir, time.Now)
	large := `"` + strings.Repeat(marked, 2000) + `"` // on pages of its own
	mustPut(t, s, plain(bindingOf(1), "a", large), 0)
	mustPut(t, s, plain(bindingOf(1), "b", ""), 1)
	writeFiles(t, killed, readFile(t, dir, storeFile), nil)
	if err := s.Close(); err != nil || fileHolds(t, dir, marked) || !fileHolds(t, killed, marked) {
		t.Errorf("Close: %v; the parameters lie in the file: %t, and before: %t", err, fileHolds(t, dir, marked), fileHolds(t, killed, marked))
	}
	for _, folder := range []string{dir, killed} {
		s := openAt(t, folder, time.Now)
		if r, err := s.Get(t.Context(), bindingOf(1)); err != nil || r.Token != "b" || fileHolds(t, folder, marked) {
			t.Errorf("Get: %q, %v; the parameters lie in the file: %t", r.Token, err, fileHolds(t, folder, marked))
		}
	}
}

// TestOverwritingBesideReadersAndWriters: they find what they wrote, and the file is whole afterwards.
func TestOverwritingBesideReadersAndWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openAt(t, dir, time.Now)
	var writing atomic.Int32
	var all sync.WaitGroup
	for n := range 6 {
		writing.Add(1)
		all.Go(func() {
			defer writing.Add(-1)
			for revision := range int64(60) {
				r := crashRecord(n, revision+1)
				if revision%7 == 0 {
					r.Parameters = []byte(`"` + strings.Repeat(marked, 500) + `"`)
				}
				stored, err := s.Put(t.Context(), r, revision)
				if err != nil || stored.Revision != revision+1 {
					t.Errorf("writer %d: revision %d, %v", n, revision, err)
					return
				}
				got, err := s.Get(t.Context(), r.Key)
				if err != nil || got.Token != r.Token || !bytes.Equal(got.Parameters, r.Parameters) {
					t.Errorf("writer %d: read %q, %v; want %q", n, got.Token, err, r.Token)
					return
				}
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for writing.Load() > 0 {
				_, err := s.Purge(t.Context())
				records, err2 := s.Bindings(t.Context(), bindingOf(0))
				if err := errors.Join(err, err2); err != nil || len(records) > 6 {
					t.Errorf("%d bindings, %v", len(records), err)
					return
				}
			}
		})
	}
	all.Wait()
	checkIndexes(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, openAt(t, dir, time.Now)) // Open reads every page
}

// TestOverwritingThatFails is told by the purge, and done by the next.
func TestOverwritingThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openAt(t, dir, time.Now)
	mustPut(t, s, plain(bindingOf(1), "a", fmt.Sprintf(`{"password":%q}`, marked)), 0)
	mustPut(t, s, plain(bindingOf(1), "b", ""), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.wipe(ctx); !errors.Is(err, context.Canceled) || !fileHolds(t, dir, marked) {
		t.Errorf("cancelled: %v", err)
	}
	full := errors.New("the disk is gone")
	s.sync = func(*bbolt.DB) error { return full }
	if _, err := s.Purge(t.Context()); !errors.Is(err, full) || !strings.Contains(err.Error(), "overwrite free pages") {
		t.Errorf("Purge: %v; want what failed", err)
	}
	s.sync = (*bbolt.DB).Sync
	if _, err := s.Purge(t.Context()); err != nil || fileHolds(t, dir, marked) {
		t.Errorf("the next purge: %v", err)
	}
}

// TestAReaderKeepsItsPages: those of its snapshot that a commit has freed since are overwritten after it.
func TestAReaderKeepsItsPages(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	var overtake func()
	s := openAt(t, t.TempDir(), func() time.Time { // what a read asks between its page and the record
		if armed.CompareAndSwap(true, false) {
			overtake()
		}
		return time.Unix(2e9, 0)
	})
	// The file must not have to be mapped anew while the reader is in it.
	mustPut(t, s, plain(broker.Key{Client: "client", InstanceID: "large"}, "a", `"`+strings.Repeat("x", 300<<10)+`"`), 0)
	mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
	purged := make(chan error, 1)
	overtake = func() {
		mustPut(t, s, plain(bindingOf(1), "b", `{"x":2}`), 1)
		go func() { purged <- s.wipe(t.Context()) }()
		until(t, "it waits for the reader", func() bool {
			free := s.readers.TryRLock()
			if free {
				s.readers.RUnlock()
			}
			return !free
		})
	}
	armed.Store(true)
	r, err := s.Get(t.Context(), bindingOf(1))
	if err = errors.Join(err, <-purged); err != nil || r.Revision != 1 || string(r.Parameters) != `{"x":1}` {
		t.Errorf("Get: revision %d with %q, %v; want the record as it was when the read began", r.Revision, r.Parameters, err)
	}
}

// TestNothingIsOverwrittenThatMayComeBack: a commit that may get lost has freed pages of the one before it.
func TestNothingIsOverwrittenThatMayComeBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openAt(t, dir, time.Now)
	mustPut(t, s, plain(bindingOf(1), "a", fmt.Sprintf(`{"password":%q}`, marked)), 0)
	err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(itemsBucket).Delete(itemID(bindingOf(1))) })
	if err != nil {
		t.Fatal(err)
	}
	if s.failed(errors.New("sync failed")) == nil || s.wipe(t.Context()) == nil || !fileHolds(t, dir, marked) {
		t.Error("pages were overwritten that only a commit has freed that may get lost")
	}
}
