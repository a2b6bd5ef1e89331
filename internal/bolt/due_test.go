package bolt

import (
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// overdueAt is an instance whose create is due then.
func overdueAt(id string, due time.Time) broker.Record {
	r := plain(broker.Key{Client: "client", InstanceID: id}, id, "")
	r.Lifecycle.Operation.Due = due
	return r
}

// TestUnfinishedPassesOverWhatItCannotRead: a record of a newer version, entries that
// lead nowhere and one that is too short, among those of the others.
func TestUnfinishedPassesOverWhatItCannotRead(t *testing.T) {
	t.Parallel()
	epoch := time.Unix(2e9, 0)
	s := openAt(t, t.TempDir(), func() time.Time { return epoch })
	for n := range 12 {
		mustPut(t, s, overdueAt(string(rune('a'+n)), epoch.Add(time.Duration(n)*time.Second)), 0)
	}
	mustPut(t, s, overdueAt("newer", epoch.Add(5*time.Second+1)), 0)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		id := itemID(overdueAt("newer", epoch).Key)
		value := append([]byte{format1 + 1}, tx.Bucket(itemsBucket).Get(id)[1:]...)
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
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, plain(bindingOf(1), "ended", ""), 0) // so that what was written beside the committer counts as durable
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
