package bolt

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// MaxCatalogBytes is how long the body of a catalog may be.
const MaxCatalogBytes = 32 << 20

// maxClientBytes keeps a client's name below the key limit of bbolt.
const maxClientBytes = 1 << 10

// catalogHeaderSize is the length of what precedes the compressed body: format, revision, time of fetching.
const catalogHeaderSize = 1 + 8 + stampSize

// Catalog implements broker.CatalogStore. Fetched comes back in UTC.
func (s *Store) Catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	var value []byte
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket(catalogsBucket).Get(catalogKey(client)))
		if value == nil {
			return broker.ErrNotFound
		}
		return nil
	})
	if err != nil {
		return broker.StoredCatalog{}, fmt.Errorf("catalog of %s: %w", client, err)
	}
	return decodeCatalog(client, value)
}

// PutCatalog implements broker.CatalogStore. ErrTooLarge above MaxCatalogBytes.
func (s *Store) PutCatalog(ctx context.Context, c broker.StoredCatalog, revision int64) (broker.StoredCatalog, error) {
	if len(c.Body) > MaxCatalogBytes || len(c.Client) > maxClientBytes {
		return broker.StoredCatalog{}, fmt.Errorf("put catalog of %s: %w", c.Client, broker.ErrTooLarge)
	}
	c.Revision = revision + 1
	value, err := encodeCatalog(c)
	if err != nil {
		return broker.StoredCatalog{}, fmt.Errorf("put catalog of %s: %w", c.Client, err)
	}
	p := &putCatalog{id: catalogKey(c.Client), value: value, revision: revision}
	if err := s.submit(ctx, len(value), p.apply); err != nil {
		return broker.StoredCatalog{}, fmt.Errorf("put catalog of %s at revision %d: %w", c.Client, revision, err)
	}
	return p.answer(c)
}

// putCatalog is one PutCatalog on its way through the committer.
type putCatalog struct {
	id       []byte
	value    []byte
	revision int64
	refused  bool
	found    []byte
}

func (p *putCatalog) apply(b *batch) error {
	old := b.tx.Bucket(catalogsBucket).Get(p.id)
	if catalogRevision(old) != p.revision {
		p.refused, p.found = true, bytes.Clone(old)
		return nil
	}
	b.changes++
	return b.put(catalogsBucket, p.id, p.value)
}

func (p *putCatalog) answer(c broker.StoredCatalog) (broker.StoredCatalog, error) {
	if !p.refused {
		c.Body = bytes.Clone(c.Body)
		return c, nil
	}
	stored := broker.StoredCatalog{Client: c.Client}
	if p.found != nil {
		var err error
		if stored, err = decodeCatalog(c.Client, p.found); err != nil {
			return broker.StoredCatalog{}, err
		}
	}
	return stored, fmt.Errorf("put catalog of %s at revision %d: %w", c.Client, p.revision, broker.ErrConflict)
}

// catalogKey is never empty, which bbolt would refuse.
func catalogKey(client string) []byte { return appendCounted(nil, client) }

func catalogRevision(value []byte) int64 {
	if len(value) < catalogHeaderSize {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value[1:]))
}

func encodeCatalog(c broker.StoredCatalog) ([]byte, error) {
	var out bytes.Buffer
	head := binary.BigEndian.AppendUint64([]byte{format1}, uint64(c.Revision))
	out.Write(appendStamp(head, c.Fetched))
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(c.Body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func decodeCatalog(client string, value []byte) (broker.StoredCatalog, error) {
	if len(value) < catalogHeaderSize {
		return broker.StoredCatalog{}, fmt.Errorf("catalog of %s: %w", client, errBadItem)
	}
	if value[0] != format1 {
		return broker.StoredCatalog{}, fmt.Errorf("catalog of %s has format %d: written by a newer Ferry", client, value[0])
	}
	r := flate.NewReader(bytes.NewReader(value[catalogHeaderSize:]))
	body, err := io.ReadAll(io.LimitReader(r, MaxCatalogBytes))
	if err != nil {
		return broker.StoredCatalog{}, fmt.Errorf("catalog of %s: %w: %w", client, errBadItem, err)
	}
	return broker.StoredCatalog{
		Client: client, Revision: catalogRevision(value), Fetched: readStamp(value[9:]), Body: body,
	}, nil
}

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
