package bolt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// What a Store answers besides the errors of package broker.
var (
	// ErrInUse: another process, or another Store of this one, has the directory.
	ErrInUse = errors.New("the directory is in use by another process; stop that one or choose another directory")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Store is a broker.Store and broker.CatalogStore in a directory. Any number of
// goroutines may call its methods; one Store at a time may have the directory.
type Store struct {
	db      *bbolt.DB
	keys    *keyring
	now     func() time.Time
	queue   *queue
	horizon *horizon
	// contents is the sum of what the file holds; the committer's alone.
	contents contents
	// stuck is closed when bbolt panicked, and may hold its locks for ever.
	stuck   chan struct{}
	givenUp sync.Once
	// committed is closed when the committer has ended.
	committed chan struct{}
	closing   sync.Once
	closeErr  error

	commits, writes atomic.Uint64
}

// Stats counts since Open.
type Stats struct {
	// Commits are transactions that were synced; Writes the records and catalogs
	// written and the records purged in them.
	Commits, Writes uint64
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{Commits: s.commits.Load(), Writes: s.writes.Load()}
}

// Ping returns nil when the store can be read, its last commit is known to be durable
// and keys of dropped parameters are being replaced. It writes nothing.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.view(ctx, func(*bbolt.Tx) error { return nil }); err != nil {
		return fmt.Errorf("ping the store: %w", err)
	}
	return s.keys.fault()
}

// Close carries out the writes that are queued, replaces the keys of the parameters
// that were dropped, and gives the directory free. Calls that come later get
// ErrClosed. Closing twice is allowed and returns the first result.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.queue.close()
		select {
		case <-s.committed:
		case <-s.stuck:
		}
		s.closeErr = s.keys.close()
		select {
		case <-s.stuck:
		default:
			s.closeErr = errors.Join(s.closeErr, s.db.Close())
		}
	})
	return s.closeErr
}

// horizon knows which commit is the last durable one. bbolt shows a commit to
// readers before it has synced it; a read that saw one waits here, or a loss of
// power could take back what a platform was told.
type horizon struct {
	mu      sync.Mutex
	durable int
	changed chan struct{}
	broken  error
}

func newHorizon(durable int) *horizon {
	return &horizon{durable: durable, changed: make(chan struct{})}
}

// reach says that the transaction and all before it are durable.
func (h *horizon) reach(tx int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.durable = tx
	h.wake()
}

// fail says that what follows the durable commits can be read but may get lost.
// Nothing is believed from then on, because after a failed sync the next one may
// succeed without having written anything.
func (h *horizon) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = err
	h.wake()
}

func (h *horizon) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *horizon) look() (durable int, changed <-chan struct{}, broken error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.durable, h.changed, h.broken
}

// wait returns once the transaction is durable.
func (h *horizon) wait(ctx context.Context, tx int) error {
	for {
		durable, changed, broken := h.look()
		if broken != nil || tx <= durable {
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
