package bolt

import (
	"context"
	"fmt"
	"runtime"

	"go.etcd.io/bbolt"
)

// submit queues a change and returns once it is durable. A context that ends while
// the change is queued takes it back; once a commit has taken it up, its fate is
// waited for.
func (s *Store) submit(ctx context.Context, size int, apply func(*batch) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &write{apply: apply, size: size, done: make(chan struct{})}
	if err := s.queue.push(w); err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-s.stuck:
		return s.broken()
	case <-ctx.Done():
		if s.queue.withdraw(w) {
			return ctx.Err()
		}
	}
	select {
	case <-w.done:
		return w.err
	case <-s.stuck:
		return s.broken()
	}
}

// commitAll is the committer: one goroutine carries out all writes, and those that
// came during a commit make up the next one. It ends when the queue is closed.
func (s *Store) commitAll() {
	defer close(s.committed)
	for {
		writes := s.queue.take()
		if len(writes) == 0 {
			return
		}
		err := s.guard(func() error { return s.commit(writes) })
		for _, w := range writes {
			w.err = err
			close(w.done)
		}
		s.gather(len(writes))
	}
}

// gatherYields is how often gather lets others run in vain before it gives up: some
// microseconds, where a commit takes hundreds.
const gatherYields = 64

// gather lets the writers that were just answered have the processor before the next
// commit is begun. Without it the first of them would start a commit of one, and the
// others would wait for that: two syncs where one does. It does not sleep, and a writer
// that is alone is not held up.
func (s *Store) gather(answered int) {
	if answered == 1 {
		return
	}
	for vain, before := 0, 0; vain < gatherYields; vain++ {
		runtime.Gosched()
		n := s.queue.length()
		if n >= answered {
			return
		}
		if n > before {
			vain, before = 0, n
		}
	}
}

// commit carries out the writes in order in one transaction. Its error is that of
// all of them.
func (s *Store) commit(writes []*write) error {
	if err := s.broken(); err != nil {
		return err
	}
	tx, err := s.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin a commit: %w", err)
	}
	b := newBatch(tx, s.keys, s.now, s.contents)
	for _, w := range writes {
		if err := w.apply(b); err != nil {
			return s.abandon(b, err)
		}
	}
	return s.finish(b)
}

// broken returns why nothing is believed any more, if so.
func (s *Store) broken() error {
	_, _, broken := s.horizon.look()
	return broken
}

func (s *Store) finish(b *batch) error {
	if b.changes == 0 {
		return b.tx.Rollback()
	}
	id := b.tx.ID()
	if err := b.sum.store(b.tx); err != nil {
		return s.abandon(b, err)
	}
	if err := b.tx.Commit(); err != nil {
		return s.failed(b, err)
	}
	s.contents = b.sum
	s.horizon.reach(id)
	s.commits.Add(1)
	s.writes.Add(uint64(b.changes))
	s.keys.retire(b.dropped)
	return nil
}

// abandon ends a transaction that nothing was written of.
func (s *Store) abandon(b *batch, cause error) error {
	s.keys.retire(b.taken)
	if err := b.tx.Rollback(); err != nil {
		return fmt.Errorf("%w (and roll back: %w)", cause, err)
	}
	return cause
}

// failed finds out what a commit left that did not succeed. As long as it cannot be
// read, the file stands as before, and only the keys that it took may be on disk in
// company of what they seal.
func (s *Store) failed(b *batch, cause error) error {
	cause = fmt.Errorf("commit: %w", cause)
	durable, _, _ := s.horizon.look()
	visible, err := lastCommit(s.db)
	if err != nil || visible > durable {
		cause = fmt.Errorf("%w; the store file may not be written any more until Ferry starts again", cause)
		s.horizon.fail(cause)
		return cause
	}
	s.keys.retire(b.taken)
	return cause
}

// lastCommit returns the number of the newest transaction that readers see.
func lastCommit(db *bbolt.DB) (id int, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		id = tx.ID()
		return nil
	})
	return id, err
}
