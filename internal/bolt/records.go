package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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
