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
