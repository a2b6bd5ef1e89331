package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// MaxRecordBytes is what one encoded record may weigh: the item limit of the store on AWS, so that a request that one
// of the two takes is taken by the other.
const MaxRecordBytes = 400 << 10

// Get implements broker.Store. What it returns is durable.
func (s *Store) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	var r broker.Record
	err := s.view(ctx, func(tx *bbolt.Tx) error { return s.read(tx, key, &r) })
	if errors.Is(err, broker.ErrNotFound) { // an answer, which each create begins with: it needs no words
		return broker.Record{}, err
	}
	if err != nil {
		return broker.Record{}, fmt.Errorf("get %s: %w", named(key), err)
	}
	return r, nil
}

// GetAll implements broker.Store.
func (s *Store) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	all := make([]broker.Got, len(keys))
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		for i, key := range keys {
			if err := s.read(tx, key, &all[i].Record); err != nil {
				all[i].Err = fmt.Errorf("get %s: %w", named(key), err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("get %d records: %w", len(keys), err)
	}
	return all, nil
}

// read reads the record of the key into r, which is empty. ErrNotFound for none and an expired one.
func (s *Store) read(tx *bbolt.Tx, key broker.Key, r *broker.Record) error {
	it, err := s.live(tx.Bucket(itemsBucket).Get(itemID(key)))
	if err != nil {
		return err
	}
	return it.fill(r, key)
}

// live decodes a stored value, or returns ErrNotFound for none and an expired one.
func (s *Store) live(value []byte) (item, error) {
	if value == nil {
		return item{}, broker.ErrNotFound
	}
	it, err := decodeItem(value)
	if err == nil && it.expired(s.now()) {
		err = broker.ErrNotFound
	}
	return it, err
}

// Bindings implements broker.Store. The binding id of the key is not looked at.
func (s *Store) Bindings(ctx context.Context, instance broker.Key) ([]broker.Record, error) {
	var records []broker.Record
	prefix := itemID(instance.Instance())
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(itemsBucket).Cursor()
		for id, value := c.Seek(prefix); bytes.HasPrefix(id, prefix); id, value = c.Next() {
			if len(id) == len(prefix) { // the instance itself
				continue
			}
			key := instance
			key.BindingID = string(id[len(prefix):])
			it, err := s.live(value)
			if errors.Is(err, broker.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			r, err := it.record(key)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			records = append(records, r)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("bindings of %s: %w", named(instance.Instance()), err)
	}
	return records, nil
}

// Put implements broker.Store. ErrTooLarge above MaxRecordBytes, and for ids that together are longer than 32 KiB. A
// context that ends before a commit has taken the write up leaves nothing written.
func (s *Store) Put(ctx context.Context, record broker.Record, revision int64) (broker.Record, error) {
	p, err := newPut(record, revision)
	if err == nil {
		err = s.submit(ctx, p.item.size()+len(p.id), p.apply)
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		return broker.Record{}, fmt.Errorf("put %s at revision %d: %w", named(record.Key), revision, err)
	}
	return p.answer()
}

// put is one Put on its way through the committer.
type put struct {
	key       broker.Key
	id        []byte
	item      item
	operation string
	revision  int64

	// What the committer found, when the condition did not hold. found is nil for no record.
	refused bool
	found   []byte
	err     error
}

func newPut(r broker.Record, revision int64) (*put, error) {
	r.Revision = revision + 1
	it, err := newItem(r)
	if err != nil {
		return nil, err
	}
	p := &put{key: r.Key, id: itemID(r.Key), item: it, revision: revision}
	if !r.Due().IsZero() {
		p.operation = r.Lifecycle.Operation.ID
	}
	if it.size()+len(p.id) > MaxRecordBytes || len(p.id)+stampSize > bbolt.MaxKeySize {
		return nil, &broker.LimitError{Bytes: MaxRecordBytes}
	}
	return p, nil
}

// apply makes the write if the stored revision is the expected one. An expired item counts as none, but its index
// entries go with it.
func (p *put) apply(b *batch) error {
	old, value, err := b.find(p.id)
	if err != nil {
		p.err = err
		return nil
	}
	current := old.revision
	if old.expired(b.now()) {
		current, value = 0, nil
	}
	if current != p.revision {
		p.refused, p.found = true, bytes.Clone(value)
		return nil
	}
	return b.replace(p.id, old, p.item, p.operation)
}

func (p *put) answer() (broker.Record, error) {
	if !p.refused {
		return p.item.record(p.key)
	}
	conflict := fmt.Errorf("put %s at revision %d: %w", named(p.key), p.revision, broker.ErrConflict)
	if p.found == nil {
		return broker.Record{Key: p.key}, conflict
	}
	it, err := decodeItem(p.found)
	if err != nil {
		return broker.Record{}, err
	}
	r, err := it.record(p.key)
	if err != nil {
		return broker.Record{}, err
	}
	return r, conflict
}

// Unfinished implements broker.Store. It does not lag; operations that are due at the same time come in the order of
// their keys.
func (s *Store) Unfinished(ctx context.Context, due time.Time, after string, limit int) (broker.UnfinishedPage, error) {
	var page broker.UnfinishedPage
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		page = s.page(tx, due, []byte(after), limit)
		return nil
	})
	if err != nil {
		return broker.UnfinishedPage{}, fmt.Errorf("unfinished operations due by %s: %w", due.UTC().Format(time.RFC3339), err)
	}
	return page, nil
}

// page reads behind the entry after, which need not be there any more.
func (s *Store) page(tx *bbolt.Tx, due time.Time, after []byte, limit int) broker.UnfinishedPage {
	page := broker.UnfinishedPage{Next: string(after)}
	last := appendStamp(nil, due)
	c := tx.Bucket(dueBucket).Cursor()
	entry, operation := c.Seek(after)
	if len(after) > 0 && bytes.Equal(entry, after) {
		entry, operation = c.Next()
	}
	for ; entry != nil && bytes.Compare(entry[:min(stampSize, len(entry))], last) <= 0; entry, operation = c.Next() {
		if len(page.Operations) >= limit {
			return page
		}
		u, err := s.unfinished(tx, entry, operation)
		switch {
		case err != nil:
			page.Unreadable++
			if page.Fault == nil {
				page.Fault = err
			}
		case u.Operation != "":
			page.Operations = append(page.Operations, u)
		}
		page.Next = string(entry)
	}
	page.Next = ""
	return page
}

// unfinished reads an entry of the index; the zero value for one whose record has expired.
func (s *Store) unfinished(tx *bbolt.Tx, entry, operation []byte) (broker.Unfinished, error) {
	if len(entry) < stampSize {
		return broker.Unfinished{}, errBadItem
	}
	id := entry[stampSize:]
	it, err := decodeItem(tx.Bucket(itemsBucket).Get(id))
	if err != nil || it.expired(s.now()) {
		return broker.Unfinished{}, err
	}
	key, err := parseItemID(id)
	return broker.Unfinished{Key: key, Operation: string(operation), Due: readStamp(entry)}, err
}

// purgeBatch bounds how long a purge keeps the writers behind it waiting.
const purgeBatch = 128

// Purge deletes the expired records, overwrites free pages and returns how many records there were. Readers do not see
// expired records anyway: it frees space, and what it finds is in an index. It works in small commits between those of
// the writers and may be stopped by ctx; what was deleted until then is counted. Call it every minute.
func (s *Store) Purge(ctx context.Context) (int, error) {
	total := 0
	for {
		n := 0
		err := s.submit(ctx, 0, func(b *batch) (err error) {
			n, err = b.purge(purgeBatch)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("purge after %d records: %w", total, err)
		}
		total += n
		if n < purgeBatch {
			return total, s.wipe(ctx)
		}
	}
}

// purge deletes up to limit expired items, those that expired first.
func (b *batch) purge(limit int) (int, error) {
	ids := b.expired(limit)
	for _, id := range ids {
		it, _, err := b.find(id)
		if err != nil {
			return 0, err
		}
		if err := b.remove(id, it); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// expired returns copies: a cursor does not survive the deletions. What cannot be read, because a newer Ferry wrote it,
// is left to that one and keeps nothing else.
func (b *batch) expired(limit int) [][]byte {
	var ids [][]byte
	now := appendStamp(nil, b.now())
	c := b.tx.Bucket(expiryBucket).Cursor()
	for entry, _ := c.First(); entry != nil && len(ids) < limit; entry, _ = c.Next() {
		if bytes.Compare(entry[:min(stampSize, len(entry))], now) > 0 {
			break
		}
		if id := entry[min(stampSize, len(entry)):]; b.readable(id) {
			ids = append(ids, bytes.Clone(id))
		}
	}
	return ids
}

func (b *batch) readable(id []byte) bool {
	if len(id) == 0 {
		return false
	}
	_, value, err := b.find(id)
	return err == nil && value != nil
}

// named puts a key into an error text, cut to a length that a log can bear.
func named(k broker.Key) string {
	if k.BindingID == "" {
		return fmt.Sprintf("%s instance %.64q", k.Client, k.InstanceID)
	}
	return fmt.Sprintf("%s instance %.64q binding %.64q", k.Client, k.InstanceID, k.BindingID)
}
