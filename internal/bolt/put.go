package bolt

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

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
