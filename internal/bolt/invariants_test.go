package bolt

import (
	"bytes"
	"encoding/binary"
	"testing"

	"go.etcd.io/bbolt"
)

// checkIndexes compares the three indexes with what the items say, both ways, and
// checks that no slot is both used and free.
func checkIndexes(t *testing.T, s *Store) {
	t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) error {
		want := map[string]string{}
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
		for _, bucket := range [][]byte{dueBucket, expiryBucket, slotsBucket} {
			err := tx.Bucket(bucket).ForEach(func(k, v []byte) error {
				name := string(bucket) + string(k)
				if _, ok := want[name]; !ok || (bytes.Equal(bucket, slotsBucket) && want[name] != string(v)) {
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
		checkContents(t, tx)
		return checkSlots(t, s, tx)
	})
	if err != nil {
		t.Error(err)
	}
}

func wantEntries(want map[string]string, id []byte, h header) {
	if !h.due.IsZero() {
		want[string(dueBucket)+string(stamped(h.due, id))] = ""
	}
	if !h.expires.IsZero() {
		want[string(expiryBucket)+string(stamped(h.expires, id))] = ""
	}
	if h.slot != 0 {
		want[string(slotsBucket)+string(slotKey(h.slot))] = string(id)
	}
}

func checkSlots(t *testing.T, s *Store, tx *bbolt.Tx) error {
	t.Helper()
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	seen := map[uint32]bool{}
	for _, slot := range append(append([]uint32{}, s.keys.free...), s.keys.retired...) {
		if seen[slot] {
			t.Errorf("slot %d is free twice", slot)
		}
		seen[slot] = true
	}
	return tx.Bucket(slotsBucket).ForEach(func(slot, id []byte) error {
		if seen[binary.BigEndian.Uint32(slot)] {
			t.Errorf("slot %x is used by %q and free", slot, id)
		}
		return nil
	})
}

// checkContents compares the sum that the last commit stored with what is there.
func checkContents(t *testing.T, tx *bbolt.Tx) {
	t.Helper()
	var want contents
	stored, txid, known := decodeContents(tx.Bucket(metaBucket).Get(contentsKey))
	for _, name := range allBuckets() {
		_ = tx.Bucket(name).ForEach(func(k, v []byte) error {
			if !bytes.Equal(k, contentsKey) {
				want.add(string(name), k, v)
			}
			return nil
		})
	}
	if !known || stored != want || txid != uint64(tx.ID()) {
		t.Errorf("the sum of commit %d is %v, known: %t; want %v of commit %d", txid, stored, known, want, tx.ID())
	}
}
