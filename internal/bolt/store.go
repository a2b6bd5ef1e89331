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
