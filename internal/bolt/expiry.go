package bolt

import (
	"bytes"
	"context"
	"fmt"
)

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
