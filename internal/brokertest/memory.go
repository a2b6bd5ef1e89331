package brokertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// MemoryStore is a broker.Store and broker.CatalogStore in memory: strongly consistent, forgetful at the end of its
// process, and without faults of its own. It may be used concurrently.
type MemoryStore struct {
	now func() time.Time

	mu       sync.Mutex
	records  map[broker.Key]broker.Record
	catalogs map[string]broker.StoredCatalog
	audits   map[string]time.Time
	round    broker.RoundNote
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store that judges by now what has expired.
func NewMemoryStore(now func() time.Time) *MemoryStore {
	return &MemoryStore{
		now: now, records: map[broker.Key]broker.Record{}, catalogs: map[string]broker.StoredCatalog{},
		audits: map[string]time.Time{},
	}
}

// Get implements broker.Store.
func (s *MemoryStore) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	if err := ctx.Err(); err != nil {
		return broker.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.living(key)
	if !ok {
		return broker.Record{}, broker.ErrNotFound
	}
	return r, nil
}

// GetAll implements broker.Store.
func (s *MemoryStore) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	all := make([]broker.Got, len(keys))
	for i, key := range keys {
		all[i].Record, all[i].Err = s.Get(ctx, key)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// living is called with the lock held; it returns a copy of an unexpired record.
func (s *MemoryStore) living(key broker.Key) (broker.Record, bool) {
	r, ok := s.records[key]
	if !ok || r.Expired(s.now()) {
		return broker.Record{}, false
	}
	return copyOf(r), true
}

// Put implements broker.Store.
func (s *MemoryStore) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	if err := ctx.Err(); err != nil {
		return broker.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, _ := s.living(r.Key)
	if stored.Revision != revision {
		return stored, broker.ErrConflict
	}
	r.Revision = revision + 1
	s.records[r.Key] = copyOf(r)
	return copyOf(r), nil
}

// Bindings implements broker.Store.
func (s *MemoryStore) Bindings(ctx context.Context, instance broker.Key) ([]broker.Record, error) {
	return s.list(ctx, func(r broker.Record) bool {
		return r.Key.BindingID != "" && r.Key.Instance() == instance.Instance()
	})
}

// Unfinished implements broker.Store. It does not lag behind.
func (s *MemoryStore) Unfinished(ctx context.Context, due time.Time, after string, limit int) (broker.UnfinishedPage, error) {
	if err := ctx.Err(); err != nil {
		return broker.UnfinishedPage{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var busy []broker.Unfinished
	for key, r := range s.records {
		u := broker.Unfinished{Key: key, Operation: r.Lifecycle.Operation.ID, Due: r.Due()}
		if !u.Due.IsZero() && !u.Due.After(due) && !r.Expired(now) && (after == "" || positionOf(u) > after) {
			busy = append(busy, u)
		}
	}
	slices.SortFunc(busy, func(a, b broker.Unfinished) int { return cmp.Or(a.Due.Compare(b.Due), compareKeys(a.Key, b.Key)) })
	if len(busy) <= limit {
		return broker.UnfinishedPage{Operations: busy}, nil
	}
	page := broker.UnfinishedPage{Operations: busy[:limit], Next: after}
	if limit > 0 {
		page.Next = positionOf(busy[limit-1])
	}
	return page, nil
}

// positionOf orders by the due time first. No two records have the same.
func positionOf(u broker.Unfinished) string {
	return fmt.Sprintf("%s %x %x %x", u.Due.UTC().Format("2006-01-02T15:04:05.000000000"), u.Key.Client, u.Key.InstanceID, u.Key.BindingID)
}

// LastAudit implements broker.AuditStore.
func (s *MemoryStore) LastAudit(ctx context.Context, client string) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.audits[client], ctx.Err()
}

// PutLastAudit implements broker.AuditStore.
func (s *MemoryStore) PutLastAudit(ctx context.Context, client string, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.audits[client]) {
		s.audits[client] = at
	}
	return nil
}

// LastRound implements broker.RoundStore.
func (s *MemoryStore) LastRound(ctx context.Context) (broker.RoundNote, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round, ctx.Err()
}

// PutRound implements broker.RoundStore.
func (s *MemoryStore) PutRound(ctx context.Context, note broker.RoundNote) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !note.Began.Before(s.round.Began) {
		s.round = note
	}
	return nil
}

// All returns copies of every unexpired record, in the order of their keys. Two stores of equal content give equal
// lists.
func (s *MemoryStore) All() []broker.Record {
	all, _ := s.list(context.Background(), func(broker.Record) bool { return true }) // no context, no error
	return all
}

func (s *MemoryStore) list(ctx context.Context, want func(broker.Record) bool) ([]broker.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []broker.Record
	for key := range s.records {
		if r, ok := s.living(key); ok && want(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b broker.Record) int { return compareKeys(a.Key, b.Key) })
	return out, nil
}

// Catalog implements broker.CatalogStore.
func (s *MemoryStore) Catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	if err := ctx.Err(); err != nil {
		return broker.StoredCatalog{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.catalogs[client]
	if !ok {
		return broker.StoredCatalog{}, broker.ErrNotFound
	}
	c.Body = slices.Clone(c.Body)
	return c, nil
}

// PutCatalog implements broker.CatalogStore.
func (s *MemoryStore) PutCatalog(ctx context.Context, c broker.StoredCatalog, revision int64) (broker.StoredCatalog, error) {
	if err := ctx.Err(); err != nil {
		return broker.StoredCatalog{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.catalogs[c.Client]
	if stored.Revision != revision {
		stored.Body = slices.Clone(stored.Body)
		return stored, broker.ErrConflict
	}
	c.Revision = revision + 1
	kept := c
	kept.Body = slices.Clone(c.Body)
	s.catalogs[c.Client] = kept
	return c, nil
}

// copyOf shares no memory with r.
func copyOf(r broker.Record) broker.Record {
	r.Lifecycle = r.Lifecycle.Clone()
	r.Salt, r.Parameters, r.Context = slices.Clone(r.Salt), slices.Clone(r.Parameters), slices.Clone(r.Context)
	if r.Target != nil {
		target := *r.Target
		r.Target = &target
	}
	return r
}

func compareKeys(a, b broker.Key) int {
	for _, pair := range [][2]string{{a.Client, b.Client}, {a.InstanceID, b.InstanceID}, {a.BindingID, b.BindingID}} {
		if pair[0] != pair[1] {
			if pair[0] < pair[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}
