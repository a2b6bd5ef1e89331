// Package bolt keeps Ferry's records in one bbolt file, ferry.db: broker.Store, broker.CatalogStore and
// broker.AuditStore for a broker that runs as one process.
//
// What a method answered is on disk: a write answers after the commit that holds it was synced, and a read waits for
// the commit that it saw. Writers that come while a commit is under way share the next one.
//
// What a write drops is in no record any more, but bbolt leaves it in the pages that become free. The store writes
// zeros over those: when it is opened and closed, and with each Purge (docs/adr/0019-one-promise-for-parameters.md).
package bolt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/ferry-broker/ferry/internal/broker"
)

// What a Store answers besides the errors of package broker.
var (
	// ErrInUse: another process, or another Store of this one, has the directory.
	ErrInUse = errors.New("the directory is in use by another process; stop that one or choose another directory")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Store is a broker.Store, broker.CatalogStore and broker.AuditStore in a directory. Any number of goroutines may call
// its methods; one Store at a time may have the directory.
type Store struct {
	db       *bbolt.DB
	file     *os.File // bbolt's own, which closes it
	pageSize int
	now      func() time.Time
	sync     func(*bbolt.DB) error
	logger   *slog.Logger

	// submitted is how writes get to the committer, who closes committed when it has ended. submitting is held for
	// reading by all who wait for it, and guards closed.
	submitted  chan *write
	submitting sync.RWMutex
	closed     bool
	committed  chan struct{}
	// sum is that of what the file holds; only the committer uses it.
	sum     checksum
	durable *durable

	// readers is held for reading by all who read pages, and for writing by the one who overwrites free ones.
	readers sync.RWMutex
	// wiped is the number of commits when free pages were overwritten the last time, plus one; 0: never yet.
	wiped atomic.Uint64

	// stuck is closed when bbolt panicked, and may hold its locks for ever.
	stuck    chan struct{}
	givenUp  sync.Once
	closing  sync.Once
	closeErr error

	commits, writes atomic.Uint64
}

// Stats counts since Open.
type Stats struct {
	// Commits are transactions that were synced; Writes the records and catalogs written and the records purged in
	// them.
	Commits, Writes uint64
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{Commits: s.commits.Load(), Writes: s.writes.Load()}
}

// Ping returns nil when the store can be read and its last commit is known to be durable. It writes nothing.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.view(ctx, func(*bbolt.Tx) error { return nil }); err != nil {
		return fmt.Errorf("ping the store: %w", err)
	}
	return nil
}

// Close carries out the writes that were submitted, overwrites free pages and gives the directory free. Calls that come
// later get ErrClosed. Closing twice is allowed and returns the first result.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.submitting.Lock()
		s.closed = true
		close(s.submitted)
		s.submitting.Unlock()
		select {
		case <-s.committed:
			if s.broken() == nil {
				s.closeErr = s.wipe(context.Background())
			}
			s.closeErr = errors.Join(s.closeErr, s.db.Close())
		case <-s.stuck:
		}
	})
	return s.closeErr
}

// view runs read on a snapshot and returns once all that it saw is durable.
func (s *Store) view(ctx context.Context, read func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.broken(); err != nil {
		return err
	}
	var seen int
	fault := s.guard(func() error {
		s.readers.RLock()
		defer s.readers.RUnlock()
		return s.db.View(func(tx *bbolt.Tx) error {
			seen = tx.ID()
			return read(tx)
		})
	})
	if errors.Is(fault, berrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	if err := s.durable.wait(ctx, seen); err != nil {
		return err
	}
	return fault
}

// broken returns why nothing is believed any more, if so.
func (s *Store) broken() error {
	_, _, broken := s.durable.look()
	return broken
}

// durable knows which commit is the last durable one. bbolt shows a commit to readers before it has synced it; a read
// that saw one waits here, or a loss of power could take back what a platform was told.
type durable struct {
	mu      sync.Mutex
	last    int
	changed chan struct{}
	broken  error
}

func newDurable(last int) *durable {
	return &durable{last: last, changed: make(chan struct{})}
}

// reach says that the transaction and all before it are durable.
func (d *durable) reach(tx int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = tx
	d.wake()
}

// fail says that what follows the durable commits can be read but may get lost. Nothing is believed from then on,
// because after a failed sync the next one may succeed without having written anything.
func (d *durable) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = err
	d.wake()
}

func (d *durable) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *durable) look() (last int, changed <-chan struct{}, broken error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.changed, d.broken
}

// wait returns once the transaction is durable.
func (d *durable) wait(ctx context.Context, tx int) error {
	for {
		last, changed, broken := d.look()
		if broken != nil || tx <= last {
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// guard is guarded for a store in use. After a panic bbolt may hold its locks for ever, so that it is not asked
// anything any more.
func (s *Store) guard(f func() error) error {
	panicked, err := guarded(f)
	if !panicked {
		return err
	}
	err = fmt.Errorf("%w; the store is not used any more until Ferry starts again", err)
	s.givenUp.Do(func() {
		if p, ok := errors.AsType[*broker.PanicError](err); ok {
			s.logger.Error("the store was damaged while it was in use; stop ferry and restore it", "error", err.Error(), "stack", p.Stack)
		}
		s.durable.fail(err)
		close(s.stuck)
	})
	return err
}

// guarded runs what reads the mapped file. A file that is damaged, or cut off by somebody, while it is in use makes
// bbolt panic and memory fault; both come back as an error, so that other requests and the log go on.
func guarded(f func() error) (panicked bool, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			panicked, err = true, fmt.Errorf("%s cannot be read: %w", storeFile, broker.Recovered(p))
		}
	}()
	return false, f()
}
