package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Get implements broker.Store. What it returns is durable.
func (s *Store) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	r, err := s.get(ctx, key)
	if err != nil {
		return broker.Record{}, fmt.Errorf("get %s: %w", named(key), err)
	}
	return r, nil
}

// get reads until it finds parameters that it can open: a snapshot may be older
// than the write that dropped them and their key. When the same bytes fail twice,
// no write is to blame.
func (s *Store) get(ctx context.Context, key broker.Key) (broker.Record, error) {
	id := itemID(key)
	var failed []byte
	for {
		var r broker.Record
		var sealed []byte
		err := s.view(ctx, func(tx *bbolt.Tx) error {
			it, err := s.live(tx.Bucket(itemsBucket).Get(id))
			if err != nil {
				return err
			}
			r, err = s.record(it, key, id)
			if errors.Is(err, errSealed) {
				sealed = bytes.Clone(it.sealed)
			}
			return err
		})
		if !errors.Is(err, errSealed) || bytes.Equal(sealed, failed) {
			return r, err
		}
		failed = sealed
	}
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

func (s *Store) record(it item, key broker.Key, id []byte) (broker.Record, error) {
	if it.slot == 0 {
		return it.record(key, nil)
	}
	parameters, err := s.keys.open(it.slot, id, it.sealed)
	if err != nil {
		return broker.Record{}, err
	}
	return it.record(key, parameters)
}

// Bindings implements broker.Store. The binding id of the key is not looked at.
func (s *Store) Bindings(ctx context.Context, instance broker.Key) ([]broker.Record, error) {
	records, stale, err := s.scan(ctx, instance.Instance())
	for _, key := range stale {
		var r broker.Record
		if err != nil {
			break
		}
		if r, err = s.get(ctx, key); err == nil {
			records = append(records, r)
		} else if errors.Is(err, broker.ErrNotFound) {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bindings of %s: %w", named(instance.Instance()), err)
	}
	return records, nil
}

// scan reads the instance's bindings; stale are those that have to be read again.
func (s *Store) scan(ctx context.Context, instance broker.Key) (records []broker.Record, stale []broker.Key, err error) {
	prefix := itemID(instance)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(itemsBucket).Cursor()
		for id, value := c.Seek(prefix); bytes.HasPrefix(id, prefix); id, value = c.Next() {
			key := instance
			key.BindingID = string(id[len(prefix):])
			r, err := s.scanned(ctx, key, id, value)
			switch {
			case errors.Is(err, errSealed):
				stale = append(stale, key)
			case err == nil:
				records = append(records, r)
			case !errors.Is(err, broker.ErrNotFound):
				return err
			}
		}
		return nil
	})
	return records, stale, err
}

// scanned returns ErrNotFound for what is no living binding.
func (s *Store) scanned(ctx context.Context, key broker.Key, id, value []byte) (broker.Record, error) {
	if err := ctx.Err(); err != nil {
		return broker.Record{}, err
	}
	if key.BindingID == "" {
		return broker.Record{}, broker.ErrNotFound
	}
	it, err := s.live(value)
	if err != nil {
		return broker.Record{}, err
	}
	return s.record(it, key, id)
}

// view runs read on a snapshot and returns once all that it saw is durable.
func (s *Store) view(ctx context.Context, read func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var seen int
	if err := s.broken(); err != nil {
		return err
	}
	fault := s.guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			seen = tx.ID()
			return read(tx)
		})
	})
	if errors.Is(fault, berrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	if err := s.horizon.wait(ctx, seen); err != nil {
		return err
	}
	return fault
}

// MaxRecordBytes is what one encoded record may weigh: the item limit of the store
// on AWS, so that a request that one of the two takes is taken by the other.
const MaxRecordBytes = 400 << 10

// put is one Put on its way through the committer.
type put struct {
	key        broker.Key
	id         []byte
	item       item
	parameters []byte
	operation  string
	revision   int64

	// What the committer found, when the condition did not hold. found is nil for
	// no record.
	refused         bool
	found           []byte
	foundParameters []byte
	err             error
}

// Put implements broker.Store. ErrTooLarge above MaxRecordBytes, and for ids that
// together are longer than 32 KiB. A context that ends before a commit has taken the
// write up leaves nothing written.
func (s *Store) Put(ctx context.Context, record broker.Record, revision int64) (broker.Record, error) {
	p, err := newPut(record, revision)
	if err == nil {
		err = s.submit(ctx, p.size(), p.apply)
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		return broker.Record{}, fmt.Errorf("put %s at revision %d: %w", named(record.Key), revision, err)
	}
	return p.answer()
}

func newPut(r broker.Record, revision int64) (*put, error) {
	r.Revision = revision + 1
	it, err := newItem(r)
	if err != nil {
		return nil, err
	}
	p := &put{key: r.Key, id: itemID(r.Key), item: it, parameters: clone(r.Parameters), revision: revision}
	if !r.Due().IsZero() {
		p.operation = r.Lifecycle.Operation.ID
	}
	if p.size() > MaxRecordBytes || len(p.id)+stampSize > bbolt.MaxKeySize {
		return nil, &broker.LimitError{Bytes: MaxRecordBytes}
	}
	return p, nil
}

func (p *put) size() int {
	it := p.item
	return headerSize + len(p.id) + len(it.body) + len(it.context) + len(it.identity) + len(p.parameters)
}

// apply makes the write if the stored revision is the expected one. An expired item
// counts as none, but its index entries and its slot go with it.
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
		p.refuse(b, old, value)
		return nil
	}
	if err := b.seal(&p.item, p.id, old, p.parameters); err != nil {
		return err
	}
	return b.replace(p.id, old, p.item, p.operation)
}

// refuse copies what is stored. The parameters are opened here because a later write
// may drop them, and their key, before the caller gets to it.
func (p *put) refuse(b *batch, old item, value []byte) {
	p.refused = true
	if value == nil {
		return
	}
	p.found = bytes.Clone(value)
	if old.slot != 0 {
		p.foundParameters, p.err = b.keys.open(old.slot, p.id, old.sealed)
	}
}

func (p *put) answer() (broker.Record, error) {
	if !p.refused {
		return p.item.record(p.key, p.parameters)
	}
	if p.found == nil {
		return broker.Record{Key: p.key}, p.conflict()
	}
	it, err := decodeItem(p.found)
	if err != nil {
		return broker.Record{}, err
	}
	r, err := it.record(p.key, p.foundParameters)
	if err != nil {
		return broker.Record{}, err
	}
	return r, p.conflict()
}

func (p *put) conflict() error {
	return fmt.Errorf("put %s at revision %d: %w", named(p.key), p.revision, broker.ErrConflict)
}

// named puts a key into an error text, cut to a length that a log can bear.
func named(k broker.Key) string {
	if k.BindingID == "" {
		return fmt.Sprintf("%s instance %.64q", k.Client, k.InstanceID)
	}
	return fmt.Sprintf("%s instance %.64q binding %.64q", k.Client, k.InstanceID, k.BindingID)
}

// Unfinished implements broker.Store. It does not lag; operations that are due at
// the same time come in the order of their keys.
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

// unfinished reads an entry of the index; the zero value for one whose record has
// expired.
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

// Purge deletes the expired records and returns how many there were. Readers do not
// see expired records anyway: it frees space, and what it finds is in an index.
// It works in small commits between those of the writers and may be stopped by ctx;
// what was deleted until then is counted. Call it now and then, say hourly.
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
			s.keys.nudge()
			return total, nil
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

// expired returns copies: a cursor does not survive the deletions. What cannot be read,
// because a newer Ferry wrote it, is left to that one and keeps nothing else.
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
