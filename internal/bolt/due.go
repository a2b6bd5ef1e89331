package bolt

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Unfinished implements broker.Store. It does not lag; operations that are due at
// the same time come in the order of their keys.
func (s *Store) Unfinished(ctx context.Context, due time.Time, limit int) ([]broker.Unfinished, error) {
	var found []broker.Unfinished
	last := appendStamp(nil, due)
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(dueBucket).Cursor()
		entry, operation := c.First()
		for ; entry != nil && len(found) < limit; entry, operation = c.Next() {
			if bytes.Compare(entry[:stampSize], last) > 0 {
				break
			}
			u, err := s.unfinished(tx, entry, operation)
			if err != nil {
				return err
			}
			if u.Operation != "" {
				found = append(found, u)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("unfinished operations due by %s: %w", due.UTC().Format(time.RFC3339), err)
	}
	return found, nil
}

// unfinished reads an entry of the index; the zero value for one whose record has
// expired.
func (s *Store) unfinished(tx *bbolt.Tx, entry, operation []byte) (broker.Unfinished, error) {
	id := entry[stampSize:]
	it, err := decodeItem(tx.Bucket(itemsBucket).Get(id))
	if err != nil || it.expired(s.now()) {
		return broker.Unfinished{}, err
	}
	key, err := parseItemID(id)
	return broker.Unfinished{Key: key, Operation: string(operation), Due: readStamp(entry)}, err
}
