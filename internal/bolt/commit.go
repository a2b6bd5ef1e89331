package bolt

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
)

// submit hands a change to the committer and returns once it is durable. A context that ends before a commit has taken
// the change up leaves nothing written; after that, the fate of the change is waited for.
func (s *Store) submit(ctx context.Context, size int, apply func(*batch) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.submitting.RLock()
	defer s.submitting.RUnlock()
	if s.closed {
		return ErrClosed
	}
	w := &write{apply: apply, size: size, done: make(chan struct{})}
	select {
	case s.submitted <- w:
	case <-s.stuck:
		return s.broken()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-w.done:
		return w.err
	case <-s.stuck:
		return s.broken()
	}
}

// write is one submitted change. apply evaluates its condition and makes the change inside the transaction; an error of
// apply means that the transaction is of no use any more, so a condition that does not hold is not one.
type write struct {
	apply func(*batch) error
	size  int
	done  chan struct{}
	err   error
}

// commitAll is the committer: one goroutine carries out all writes, and those that came during a commit make up the
// next one. It ends when the store is closed.
//
// bbolt's own DB.Batch begins a commit MaxBatchDelay after its first write, however long a sync takes. In a dozen runs
// of BenchmarkGroupCommit (two busy cores), creates took so many times as long with it, and a commit is two fdatasyncs:
//
//	writers                     1          8           64
//	Batch, 10 ms (default)      2.2-7.2    1.4-2.4     0.8-2.1
//	Batch, 1 ms                 0.7-2.1    0.5-1.3     1.4-4.1
//	Batch, 100 us               1.2-2.1    1.1-1.2     2.3-3.7
//	commits a write, ours       1          0.17-0.20   0.021-0.024
//	commits a write, at 1 ms    1          0.13-0.22   0.12-0.24
//
// It has no delay that suits both one writer and many, and commits on a goroutine of its own, where a file that is cut
// off while it is in use ends the process instead of the write.
func (s *Store) commitAll() {
	defer close(s.committed)
	for answered := 0; ; {
		writes := s.takeUp(answered)
		if len(writes) == 0 {
			return
		}
		err := s.guard(func() error { return s.commit(writes) })
		for _, w := range writes {
			w.err = err
			close(w.done)
		}
		answered = len(writes)
	}
}

const (
	// maxBatchBytes bounds what one commit holds in memory, beyond its last write.
	maxBatchBytes = 4 << 20
	// gatherYields is how often takeUp lets others run in vain before it gives up: some microseconds, where a commit
	// takes hundreds.
	gatherYields = 64
)

// takeUp waits for a write and returns it with those that are submitted at the same time; none when the store is
// closed.
//
// It lets so many writers as were just answered have the processor, because some come back with their next write.
// Without that, those that wait already would make a commit of their own each time, and the others the next one: two
// syncs where one does. It does not sleep, and a writer that is alone is not held up.
func (s *Store) takeUp(answered int) []*write {
	first, open := <-s.submitted
	if !open {
		return nil
	}
	writes, size := []*write{first}, first.size
	for vain, expected := 0, 0; vain < gatherYields && size < maxBatchBytes; {
		select {
		case w, open := <-s.submitted:
			if !open {
				return writes
			}
			writes, size, vain = append(writes, w), size+w.size, 0
		default:
			if expected == 0 {
				expected = len(writes) + answered
			}
			if answered < 2 && len(writes) == 1 || len(writes) >= expected {
				return writes
			}
			runtime.Gosched()
			vain++
		}
	}
	return writes
}

// commit carries out the writes in order in one transaction. Its error is that of all of them.
func (s *Store) commit(writes []*write) error {
	if err := s.broken(); err != nil {
		return err
	}
	tx, err := s.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin a commit: %w", err)
	}
	b := &batch{tx: tx, now: s.now, sum: s.sum}
	for _, w := range writes {
		if err := w.apply(b); err != nil {
			return abandon(b, err)
		}
	}
	return s.finish(b)
}

// abandon ends a transaction that nothing was written of.
func abandon(b *batch, cause error) error {
	if err := b.tx.Rollback(); err != nil {
		return fmt.Errorf("%w (and roll back: %w)", cause, err)
	}
	return cause
}

func (s *Store) finish(b *batch) error {
	if b.changes == 0 {
		return b.tx.Rollback()
	}
	id := b.tx.ID()
	if err := b.sum.store(b.tx); err != nil {
		return abandon(b, err)
	}
	if err := b.tx.Commit(); err != nil {
		return s.failed(err)
	}
	s.sum = b.sum
	s.durable.reach(id)
	s.commits.Add(1)
	s.writes.Add(uint64(b.changes))
	return nil
}

// failed finds out what a commit left that did not succeed. As long as it cannot be read, the file stands as before.
func (s *Store) failed(cause error) error {
	cause = fmt.Errorf("commit: %w", cause)
	durable, _, _ := s.durable.look()
	visible, err := lastCommit(s.db)
	if err != nil || visible > durable {
		cause = fmt.Errorf("%w; the store file may not be written any more until Ferry starts again", cause)
		s.durable.fail(cause)
	}
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

// batch is the transaction of one commit.
type batch struct {
	tx  *bbolt.Tx
	now func() time.Time
	// sum is that of what the file will hold.
	sum checksum
	// changes counts the writes whose condition held.
	changes int
}

// put and delete are how everything is written, so that the sum stays right.
func (b *batch) put(bucket, key, value []byte) error {
	b.forget(bucket, key)
	b.sum.add(string(bucket), key, value)
	return b.tx.Bucket(bucket).Put(key, value)
}

func (b *batch) delete(bucket, key []byte) error {
	b.forget(bucket, key)
	return b.tx.Bucket(bucket).Delete(key)
}

// forget takes what the key has now out of the sum. Get would not tell an empty value, put by this transaction, from
// none.
func (b *batch) forget(bucket, key []byte) {
	if found, value := b.tx.Bucket(bucket).Cursor().Seek(key); bytes.Equal(found, key) {
		b.sum.remove(string(bucket), key, value)
	}
}

// find returns the item with this id, expired or not, and a nil value for none. Both share memory with the transaction.
func (b *batch) find(id []byte) (item, []byte, error) {
	value := b.tx.Bucket(itemsBucket).Get(id)
	if value == nil {
		return item{}, nil, nil
	}
	it, err := decodeItem(value)
	return it, value, err
}

// replace stores it in the place of old (zero for none) and keeps the indexes.
func (b *batch) replace(id []byte, old, it item, operation string) error {
	if err := b.unindex(id, old.header, it.header); err != nil {
		return err
	}
	if err := b.index(id, it.header, operation); err != nil {
		return err
	}
	b.changes++
	return b.put(itemsBucket, id, it.encode())
}

// remove deletes the item and its entries in the indexes.
func (b *batch) remove(id []byte, old item) error {
	if err := b.unindex(id, old.header, header{}); err != nil {
		return err
	}
	b.changes++
	return b.delete(itemsBucket, id)
}

// unindex deletes the index entries of old that next does not have.
func (b *batch) unindex(id []byte, old, next header) error {
	if err := b.unstamp(dueBucket, id, old.due, next.due); err != nil {
		return err
	}
	return b.unstamp(expiryBucket, id, old.expires, next.expires)
}

func (b *batch) unstamp(bucket, id []byte, old, next time.Time) error {
	if old.IsZero() || old.Equal(next) {
		return nil
	}
	return b.delete(bucket, stamped(old, id))
}

func (b *batch) index(id []byte, h header, operation string) error {
	if !h.due.IsZero() {
		if err := b.put(dueBucket, stamped(h.due, id), []byte(operation)); err != nil {
			return err
		}
	}
	if h.expires.IsZero() {
		return nil
	}
	return b.put(expiryBucket, stamped(h.expires, id), nil)
}
