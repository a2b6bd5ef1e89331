package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	t.Run("deletes what has expired, in several commits, and nothing else", func(t *testing.T) {
		t.Parallel()
		clock := time.Unix(2e9, 0)
		s := openAt(t, t.TempDir(), func() time.Time { return clock })
		const dying, living = 2*purgeBatch + 3, 10
		for n := range dying + living {
			r := plain(bindingOf(n), "t", "")
			r.Lifecycle.State = lifecycle.Gone
			r.Lifecycle.ExpiresAt = clock.Add(time.Hour)
			if n >= dying {
				r.Lifecycle.ExpiresAt = clock.Add(time.Hour + 1)
			}
			mustPut(t, s, r, 0)
		}
		if n, err := s.Purge(t.Context()); n != 0 || err != nil {
			t.Fatalf("Purge before the time = %d, %v", n, err)
		}
		clock = clock.Add(time.Hour)
		before := s.Stats().Commits
		if n, err := s.Purge(t.Context()); n != dying || err != nil {
			t.Errorf("Purge = %d, %v; want %d", n, err, dying)
		}
		if got := s.Stats().Commits - before; got != 3 {
			t.Errorf("Purge took %d commits; want 3", got)
		}
		if left := itemCount(t, s); left != living {
			t.Errorf("%d items are left; want %d", left, living)
		}
		if _, err := s.Get(t.Context(), bindingOf(dying)); err != nil {
			t.Errorf("the living record: %v", err)
		}
		checkIndexes(t, s)
	})
	t.Run("a purge that is cancelled says how far it got", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n, err := s.Purge(ctx); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("Purge = %d, %v", n, err)
		}
	})
}

// TestPurgePassesOverWhatANewerFerryWrote, however much of it comes first.
func TestPurgePassesOverWhatANewerFerryWrote(t *testing.T) {
	t.Parallel()
	clock := time.Unix(2e9, 0)
	s := openAt(t, t.TempDir(), func() time.Time { return clock })
	const newer = purgeBatch + 5
	for n := range newer + 1 {
		r := plain(bindingOf(n), "t", "")
		r.Lifecycle.State = lifecycle.Gone
		r.Lifecycle.ExpiresAt = clock.Add(time.Duration(n) * time.Second)
		mustPut(t, s, r, 0)
	}
	updateRaw(t, s, func(tx *bbolt.Tx) error {
		items := tx.Bucket(itemsBucket)
		for n := range newer {
			id := itemID(bindingOf(n))
			if err := items.Put(id, append([]byte{format2 + 1}, items.Get(id)[1:]...)); err != nil {
				return err
			}
		}
		return nil
	})
	clock = clock.Add(time.Hour)
	if n, err := s.Purge(t.Context()); n != 1 || err != nil {
		t.Errorf("Purge = %d, %v; want 1", n, err)
	}
	if left := itemCount(t, s); left != newer {
		t.Errorf("%d items are left; want the %d of a newer Ferry", left, newer)
	}
}

func itemCount(t *testing.T, s *Store) (n int) {
	t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) error {
		n = tx.Bucket(itemsBucket).Stats().KeyN
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRandomWrites compares the store with a map, and its indexes with its items, after many writes that set and clear
// everything an index follows.
func TestRandomWrites(t *testing.T) {
	t.Parallel()
	t.Run("indexes follow every write", func(t *testing.T) {
		t.Parallel()
		clock := time.Unix(2e9, 0)
		dir := t.TempDir()
		s := openAt(t, dir, func() time.Time { return clock })
		model := map[broker.Key]broker.Record{}
		for n := range 600 {
			r := randomRecord(n, clock)
			if old, ok := model[r.Key]; ok && !old.Expired(clock) {
				r.Revision = old.Revision
			}
			model[r.Key] = mustPut(t, s, r, r.Revision)
			if n%17 == 0 {
				clock = clock.Add(time.Second)
			}
			if n%150 == 149 {
				if _, err := s.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
				checkIndexes(t, s)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openAt(t, dir, func() time.Time { return clock })
		for key, want := range model {
			got, err := s.Get(t.Context(), key)
			if want.Expired(clock) {
				if !errors.Is(err, broker.ErrNotFound) {
					t.Errorf("%v: %v; want ErrNotFound", key, err)
				}
				continue
			}
			if err != nil || got.Token != want.Token || string(got.Parameters) != string(want.Parameters) {
				t.Errorf("%v: token %q, %v; want %q", key, got.Token, err, want.Token)
			}
		}
		checkIndexes(t, s)
	})
}

// randomRecord varies state, due, expiry and parameters with n.
func randomRecord(n int, now time.Time) broker.Record {
	mix := (n*2654435761 + 12345) >> 7
	parameters := []string{"", `{"x":1}`, `{"x":1}`, `{"x":2}`}[mix%4]
	r := plain(bindingOf(mix/4%23), time.Duration(n).String(), parameters)
	r.Lifecycle.Operation.Due = now.Add(time.Duration(mix%5) * time.Second)
	if mix%3 == 0 {
		r.Lifecycle.State = lifecycle.Gone
	}
	if mix%7 < 3 {
		r.Lifecycle.ExpiresAt = now.Add(time.Duration(mix%7) * time.Second)
	}
	return r
}

// overdueAt is an instance whose create is due then.
func overdueAt(id string, due time.Time) broker.Record {
	r := plain(broker.Key{Client: "client", InstanceID: id}, id, "")
	r.Lifecycle.Operation.Due = due
	return r
}

// TestUnfinishedPassesOverWhatItCannotRead: a record of a newer version, entries that lead nowhere and one that is too
// short, among those of the others.
func TestUnfinishedPassesOverWhatItCannotRead(t *testing.T) {
	t.Parallel()
	epoch := time.Unix(2e9, 0)
	s := openAt(t, t.TempDir(), func() time.Time { return epoch })
	for n := range 12 {
		mustPut(t, s, overdueAt(string(rune('a'+n)), epoch.Add(time.Duration(n)*time.Second)), 0)
	}
	mustPut(t, s, overdueAt("newer", epoch.Add(5*time.Second+1)), 0)
	updateRaw(t, s, func(tx *bbolt.Tx) error {
		id := itemID(overdueAt("newer", epoch).Key)
		value := append([]byte{format2 + 1}, tx.Bucket(itemsBucket).Get(id)[1:]...)
		if err := tx.Bucket(itemsBucket).Put(id, value); err != nil {
			return err
		}
		due := tx.Bucket(dueBucket)
		for _, entry := range [][]byte{{1}, stamped(epoch, []byte("no id")), stamped(epoch.Add(time.Minute), itemID(overdueAt("nowhere", epoch).Key))} {
			if err := due.Put(entry, []byte("create-odd")); err != nil {
				return err
			}
		}
		return nil
	})
	mustPut(t, s, plain(bindingOf(1), "ended", ""), 0)
	for _, limit := range []int{1, 3, 12, 100} {
		var seen string
		after, more, unreadable := "", true, 0
		for more {
			page, err := s.Unfinished(t.Context(), epoch.Add(time.Hour), after, limit)
			if err != nil || (page.Unreadable > 0) != (page.Fault != nil) {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, u := range page.Operations {
				seen += u.Key.BindingID + u.Key.InstanceID[:1]
			}
			unreadable += page.Unreadable
			after, more = page.Next, page.Next != ""
		}
		if seen != "b1iabcdefghijkl" || unreadable != 4 {
			t.Errorf("pages of %d: %s, and %d that cannot be read; want b1 and a to l, and 4", limit, seen, unreadable)
		}
	}
}

// TestOneUnreadableRecordHidesNoOther: one that a newer Ferry wrote is an error of its own.
func TestOneUnreadableRecordHidesNoOther(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir(), time.Now)
	var keys []broker.Key
	for n := range 3 {
		keys = append(keys, mustPut(t, s, plain(bindingOf(n), "t", ""), 0).Key)
	}
	updateRaw(t, s, func(tx *bbolt.Tx) error {
		items, id := tx.Bucket(itemsBucket), itemID(keys[1])
		return items.Put(id, append([]byte{format2 + 1}, items.Get(id)[1:]...))
	})
	all, err := s.GetAll(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		want, wantErr := s.Get(t.Context(), key)
		if got := all[i]; got.Record.Key != want.Key || fmt.Sprint(got.Err) != fmt.Sprint(wantErr) || (wantErr != nil) != (i == 1) {
			t.Errorf("at %d: %v, %v; want %v, %v", i, got.Record.Key, got.Err, want.Key, wantErr)
		}
	}
}

// checkIndexes compares the two indexes with what the items say, both ways, and the sum with what is there.
func checkIndexes(t *testing.T, s *Store) {
	t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) error {
		want := map[string]bool{}
		err := tx.Bucket(itemsBucket).ForEach(func(id, value []byte) error {
			it, err := decodeItem(value)
			if err != nil {
				return err
			}
			wantEntries(want, id, it.header)
			return nil
		})
		if err != nil {
			return err
		}
		for _, bucket := range [][]byte{dueBucket, expiryBucket} {
			err := tx.Bucket(bucket).ForEach(func(k, v []byte) error {
				name := string(bucket) + string(k)
				if !want[name] {
					t.Errorf("the index %s has an entry too many: %q → %q", bucket, k, v)
				}
				delete(want, name)
				return nil
			})
			if err != nil {
				return err
			}
		}
		for name := range want {
			t.Errorf("the indexes lack %q", name)
		}
		checkSum(t, tx)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func wantEntries(want map[string]bool, id []byte, h header) {
	if !h.due.IsZero() {
		want[string(dueBucket)+string(stamped(h.due, id))] = true
	}
	if !h.expires.IsZero() {
		want[string(expiryBucket)+string(stamped(h.expires, id))] = true
	}
}

// checkSum compares the sum that the last commit stored with what is there.
func checkSum(t *testing.T, tx *bbolt.Tx) {
	t.Helper()
	var want checksum
	stored, txid, known := decodeChecksum(tx.Bucket(metaBucket).Get(sumKey))
	for _, name := range allBuckets() {
		_ = tx.Bucket(name).ForEach(func(k, v []byte) error {
			if !bytes.Equal(k, sumKey) {
				want.add(string(name), k, v)
			}
			return nil
		})
	}
	if !known || stored != want || txid != uint64(tx.ID()) {
		t.Errorf("the sum of commit %d is %v, known: %t; want %v of commit %d", txid, stored, known, want, tx.ID())
	}
}
