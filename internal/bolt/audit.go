package bolt

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// auditKey is where the bucket meta has the time of the client's last audit.
func auditKey(client string) []byte { return append([]byte("audit/"), client...) }

// LastAudit implements broker.AuditStore. The time comes back in UTC.
func (s *Store) LastAudit(ctx context.Context, client string) (time.Time, error) {
	var at time.Time
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		stored := tx.Bucket(metaBucket).Get(auditKey(client))
		if stored == nil {
			return nil
		}
		if len(stored) != stampSize {
			return errBadItem
		}
		at = readStamp(stored)
		return nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("last audit of %.64q: %w", client, err)
	}
	return at, nil
}

// PutLastAudit implements broker.AuditStore.
func (s *Store) PutLastAudit(ctx context.Context, client string, at time.Time) error {
	key, stamp := auditKey(client), appendStamp(nil, at)
	err := s.submit(ctx, len(key)+len(stamp), func(b *batch) error {
		if bytes.Compare(b.tx.Bucket(metaBucket).Get(key), stamp) >= 0 {
			return nil
		}
		b.changes++
		return b.put(metaBucket, key, stamp)
	})
	if err != nil {
		return fmt.Errorf("put last audit of %.64q: %w", client, err)
	}
	return nil
}
