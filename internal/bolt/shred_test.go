package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

const marked = "hunter2-MARKED-SECRET"

// storedItem reads an item as it lies in the file.
func storedItem(t *testing.T, s *Store, key broker.Key) item {
	t.Helper()
	var it item
	err := s.db.View(func(tx *bbolt.Tx) (err error) {
		it, err = decodeItem(bytes.Clone(tx.Bucket(itemsBucket).Get(itemID(key))))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// opensWithAnyKey tries every place of the raw key file, whatever its slot.
func opensWithAnyKey(t *testing.T, dir string, key broker.Key, sealed []byte) bool {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	k := &keyring{file: f}
	for slot := range uint32(info.Size() / slotSize) {
		if _, err := k.open(slot, itemID(key), sealed); err == nil {
			return true
		} else if !errors.Is(err, errSealed) {
			t.Fatal(err)
		}
	}
	return false
}

// filesWith returns the files in dir that hold the text.
func filesWith(t *testing.T, dir string, text []byte) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, text) {
			names = append(names, e.Name())
		}
	}
	return names
}

func mustPut(t *testing.T, s *Store, r broker.Record, revision int64) broker.Record {
	t.Helper()
	got, err := s.Put(t.Context(), r, revision)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// until waits for what a goroutine of the store will bring about.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not so within 10 s", what)
		case <-tick.C:
		}
	}
}

func TestShred(t *testing.T) {
	t.Parallel()
	secret := fmt.Sprintf(`{"password":%q}`, marked)
	ends := map[string]func(t *testing.T, s *Store, clock *time.Time){
		"dropped": func(t *testing.T, s *Store, _ *time.Time) { mustPut(t, s, plain(bindingOf(1), "b", ""), 1) },
		"replaced": func(t *testing.T, s *Store, _ *time.Time) {
			mustPut(t, s, plain(bindingOf(1), "b", `{"password":"other"}`), 1)
		},
		"purged": func(t *testing.T, s *Store, clock *time.Time) {
			r := plain(bindingOf(1), "b", secret)
			r.Lifecycle.ExpiresAt = clock.Add(time.Hour)
			mustPut(t, s, r, 1)
			*clock = clock.Add(time.Hour)
			if n, err := s.Purge(t.Context()); n != 1 || err != nil {
				t.Fatalf("Purge = %d, %v", n, err)
			}
		},
		"written over when expired": func(t *testing.T, s *Store, clock *time.Time) {
			r := plain(bindingOf(1), "b", secret)
			r.Lifecycle.ExpiresAt = clock.Add(time.Hour)
			mustPut(t, s, r, 1)
			*clock = clock.Add(time.Hour)
			mustPut(t, s, plain(bindingOf(1), "c", ""), 0)
		},
	}
	for name, end := range ends {
		t.Run("parameters that were "+name+" cannot be recovered from the files", func(t *testing.T) {
			t.Parallel()
			dir, clock := t.TempDir(), time.Unix(2e9, 0)
			s := openAt(t, dir, func() time.Time { return clock })
			mustPut(t, s, plain(bindingOf(1), "a", secret), 0)
			sealed := storedItem(t, s, bindingOf(1)).sealed
			if len(filesWith(t, dir, sealed)) == 0 || !opensWithAnyKey(t, dir, bindingOf(1), sealed) {
				t.Fatal("the sealed parameters cannot be found and opened before they are dropped: the test sees nothing")
			}
			end(t, s, &clock)
			until(t, "no key opens the parameters", func() bool { return !opensWithAnyKey(t, dir, bindingOf(1), sealed) })
			// bbolt has not cleared the page: that the key is gone is what protects.
			t.Logf("old ciphertext still lies in %v", filesWith(t, dir, sealed))
			if names := filesWith(t, dir, []byte(marked)); names != nil {
				t.Errorf("the secret lies open in %v", names)
			}
			checkIndexes(t, s)
		})
	}
	t.Run("the ciphertext does stay in a free page, so that the key matters", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openAt(t, dir, time.Now)
		mustPut(t, s, plain(bindingOf(1), "a", `{"p":"`+strings.Repeat(marked, 1000)+`"}`), 0)
		sealed := storedItem(t, s, bindingOf(1)).sealed
		mustPut(t, s, plain(bindingOf(1), "b", ""), 1)
		if names := filesWith(t, dir, sealed[len(sealed)-2000:]); names == nil {
			t.Error("the ciphertext is gone from the file; the test needs another way to find it")
		}
	})
}

func TestSlots(t *testing.T) {
	t.Parallel()
	t.Run("a record rewritten with the same parameters keeps slot and ciphertext", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
		first := storedItem(t, s, bindingOf(1))
		mustPut(t, s, plain(bindingOf(1), "b", `{"x":1}`), 1)
		second := storedItem(t, s, bindingOf(1))
		if first.slot != second.slot || !bytes.Equal(first.sealed, second.sealed) {
			t.Errorf("slot %d became %d", first.slot, second.slot)
		}
		mustPut(t, s, plain(bindingOf(1), "c", `{"x":2}`), 2)
		if third := storedItem(t, s, bindingOf(1)); third.slot == second.slot {
			t.Errorf("other parameters got the same slot %d", third.slot)
		}
	})
	t.Run("a sealed blob opens for its own record only", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openAt(t, dir, time.Now)
		mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
		sealed := storedItem(t, s, bindingOf(1)).sealed
		if !opensWithAnyKey(t, dir, bindingOf(1), sealed) || opensWithAnyKey(t, dir, bindingOf(2), sealed) {
			t.Error("the blob does not open for its record, or opens for another")
		}
	})
	t.Run("more parameters at once than there are slots make the file grow", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openAt(t, dir, time.Now)
		putMany(t, s, firstSlots+200, `{"x":1}`, 0)
		checkIndexes(t, s)
		putMany(t, s, firstSlots+200, "", 1)
		checkIndexes(t, s)
		until(t, "all slots are free again", func() bool { return s.keys.freeSlots() >= firstSlots+moreSlots })
		checkIndexes(t, s)
	})
	t.Run("a key file that lacks the end or belongs to another store is refused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		path := filepath.Join(dir, keyFile)
		s := openAt(t, dir, time.Now)
		mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		other := append([]byte(keyFileMagic+"0123456789abcdef"), whole[slotSize:]...)
		for name, content := range map[string][]byte{"cut": whole[:slotSize], "empty": nil, "other": other} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), Options{Dir: dir, Now: time.Now}); !refused(err) {
				t.Errorf("%s: Open: %v; want a refusal that says what to do", name, err)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		again := openAt(t, dir, time.Now)
		if r, err := again.Get(t.Context(), bindingOf(1)); err != nil || string(r.Parameters) != `{"x":1}` {
			t.Errorf("after the restore: %q, %v", r.Parameters, err)
		}
	})
}

// putMany writes n records with few goroutines.
func putMany(t *testing.T, s *Store, n int, parameters string, revision int64) {
	t.Helper()
	var writers sync.WaitGroup
	for w := range 32 {
		writers.Go(func() {
			for i := w; i < n; i += 32 {
				p := parameters
				if _, err := s.Put(t.Context(), plain(bindingOf(i), "t", p), revision); err != nil {
					t.Errorf("record %d: %v", i, err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// TestShredAfterCrash opens a directory whose process died between a commit and the
// replacement of the keys that it set free.
func TestShredAfterCrash(t *testing.T) {
	t.Parallel()
	t.Run("Open replaces the keys of all slots that no record uses", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openAt(t, dir, time.Now)
		mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
		mustPut(t, s, plain(bindingOf(2), "a", `{"x":2}`), 0)
		dropped := storedItem(t, s, bindingOf(1)).sealed
		before, err := os.ReadFile(filepath.Join(dir, keyFile))
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, s, plain(bindingOf(1), "b", ""), 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// As if the key had not been replaced yet.
		if err := os.WriteFile(filepath.Join(dir, keyFile), before, 0o600); err != nil {
			t.Fatal(err)
		}
		if !opensWithAnyKey(t, dir, bindingOf(1), dropped) {
			t.Fatal("the old key file does not open the old parameters: the test sees nothing")
		}
		again := openAt(t, dir, time.Now)
		if opensWithAnyKey(t, dir, bindingOf(1), dropped) {
			t.Error("the dropped parameters can be opened after Open")
		}
		if r, err := again.Get(t.Context(), bindingOf(2)); err != nil || string(r.Parameters) != `{"x":2}` {
			t.Errorf("the parameters that are in use: %q, %v", r.Parameters, err)
		}
	})
}

// drying gives n bytes of randomness and then fails.
type drying struct {
	mu sync.Mutex
	n  int
}

func (d *drying) Read(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(b) > d.n {
		return 0, io.ErrUnexpectedEOF
	}
	d.n -= len(b)
	for i := range b {
		b[i] = byte(d.n + i)
	}
	return len(b), nil
}

func (d *drying) refill(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n = n
}

func TestShredFault(t *testing.T) {
	t.Parallel()
	t.Run("keys that cannot be replaced show in Ping until they are", func(t *testing.T) {
		t.Parallel()
		random := &drying{n: 1 << 20}
		s, err := Open(t.Context(), Options{Dir: t.TempDir(), Now: time.Now, Random: random})
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
		random.refill(0)
		mustPut(t, s, plain(bindingOf(1), "b", ""), 1)
		until(t, "Ping fails", func() bool { return s.Ping(t.Context()) != nil })
		random.refill(1 << 20)
		if _, err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, "Ping succeeds", func() bool { return s.Ping(t.Context()) == nil })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseShreds(t *testing.T) {
	t.Parallel()
	t.Run("Close replaces the keys that the shredder has not got to", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openAt(t, dir, time.Now)
		mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
		stored := storedItem(t, s, bindingOf(1))
		// Retired without waking the shredder, as it is when Close is quicker.
		s.keys.mu.Lock()
		s.keys.retired = append(s.keys.retired, stored.slot)
		s.keys.mu.Unlock()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if opensWithAnyKey(t, dir, bindingOf(1), stored.sealed) {
			t.Error("the parameters can be opened after Close")
		}
	})
}
