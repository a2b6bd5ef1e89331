package bolt

import (
	"bytes"
	"time"

	"go.etcd.io/bbolt"
)

// batch is the transaction of one commit.
type batch struct {
	tx   *bbolt.Tx
	keys *keyring
	now  func() time.Time
	// sum is that of what the file will hold.
	sum contents
	// changes counts the writes whose condition held.
	changes int
	// taken are the slots that this commit began to use, dropped those it gave up.
	taken, dropped []uint32
}

func newBatch(tx *bbolt.Tx, keys *keyring, now func() time.Time, sum contents) *batch {
	return &batch{tx: tx, keys: keys, now: now, sum: sum}
}

// put and delete are how everything is written, so that the sum stays right.
func (b *batch) put(bucket, key, value []byte) error {
	b.forget(bucket, key)
	b.sum.add(string(bucket), key, value)
	return b.tx.Bucket(bucket).Put(key, value)
}

func (b *batch) delete(bucket, key []byte) error {
	b.forget(bucket, key)
	return b.tx.Bucket(bucket).Delete(key)
}

// forget takes what the key has now out of the sum. Get would not tell an empty value,
// put by this transaction, from none.
func (b *batch) forget(bucket, key []byte) {
	if found, value := b.tx.Bucket(bucket).Cursor().Seek(key); bytes.Equal(found, key) {
		b.sum.remove(string(bucket), key, value)
	}
}

// find returns the item with this id, expired or not, and a nil value for none. Both
// share memory with the transaction.
func (b *batch) find(id []byte) (item, []byte, error) {
	value := b.tx.Bucket(itemsBucket).Get(id)
	if value == nil {
		return item{}, nil, nil
	}
	it, err := decodeItem(value)
	return it, value, err
}

// seal gives it a slot for its parameters: the one of the item that it replaces
// when they are the same, so that a tick's write costs no slot.
func (b *batch) seal(it *item, id []byte, old item, parameters []byte) error {
	if len(parameters) == 0 {
		return nil
	}
	if b.sealedAlready(old, id, parameters) {
		it.slot, it.sealed = old.slot, bytes.Clone(old.sealed)
		return nil
	}
	slot, err := b.keys.take()
	if err != nil {
		return err
	}
	b.taken = append(b.taken, slot)
	it.slot = slot
	it.sealed, err = b.keys.seal(slot, id, parameters)
	return err
}

// sealedAlready reports whether old holds these parameters. Parameters that cannot
// be opened are none that could be kept.
func (b *batch) sealedAlready(old item, id, parameters []byte) bool {
	if old.slot == 0 {
		return false
	}
	was, err := b.keys.open(old.slot, id, old.sealed)
	return err == nil && bytes.Equal(was, parameters)
}

// replace stores it in the place of old (zero for none) and keeps the indexes.
func (b *batch) replace(id []byte, old, it item, operation string) error {
	if err := b.unindex(id, old.header, it.header); err != nil {
		return err
	}
	if err := b.index(id, it.header, operation); err != nil {
		return err
	}
	b.changes++
	return b.put(itemsBucket, id, it.encode())
}

// remove deletes the item and its traces in the indexes.
func (b *batch) remove(id []byte, old item) error {
	if err := b.unindex(id, old.header, header{}); err != nil {
		return err
	}
	b.changes++
	return b.delete(itemsBucket, id)
}

// unindex deletes the index entries of old that next does not have.
func (b *batch) unindex(id []byte, old, next header) error {
	if err := b.unstamp(dueBucket, id, old.due, next.due); err != nil {
		return err
	}
	if err := b.unstamp(expiryBucket, id, old.expires, next.expires); err != nil {
		return err
	}
	if old.slot == 0 || old.slot == next.slot {
		return nil
	}
	b.dropped = append(b.dropped, old.slot)
	return b.delete(slotsBucket, slotKey(old.slot))
}

func (b *batch) unstamp(bucket, id []byte, old, next time.Time) error {
	if old.IsZero() || old.Equal(next) {
		return nil
	}
	return b.delete(bucket, stamped(old, id))
}

func (b *batch) index(id []byte, h header, operation string) error {
	if !h.due.IsZero() {
		if err := b.put(dueBucket, stamped(h.due, id), []byte(operation)); err != nil {
			return err
		}
	}
	if !h.expires.IsZero() {
		if err := b.put(expiryBucket, stamped(h.expires, id), nil); err != nil {
			return err
		}
	}
	if h.slot == 0 {
		return nil
	}
	return b.put(slotsBucket, slotKey(h.slot), id)
}
