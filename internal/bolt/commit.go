package bolt

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// submit queues a change and returns once it is durable. A context that ends while the change is queued takes it back;
// once a commit has taken it up, its fate is waited for.
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

// maxBatchBytes bounds what one commit holds in memory, beyond its first write.
const maxBatchBytes = 4 << 20

// write is one queued change. apply evaluates its condition and makes the change inside the transaction; an error of
// apply means that the transaction is of no use any more, so a condition that does not hold is not one.
type write struct {
	apply func(*batch) error
	size  int
	done  chan struct{}
	err   error
}

// queue holds the writes that no commit has taken up yet.
type queue struct {
	mu      sync.Mutex
	waiting []*write
	closed  bool
	// takenUp counts the writes that commits have taken up.
	takenUp int
	// wake has one place: a signal that nobody waits for is kept, a second one is not needed.
	wake chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// push adds w, or returns ErrClosed.
func (q *queue) push(w *write) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.waiting = append(q.waiting, w)
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// withdraw takes w back and reports whether it was still waiting.
func (q *queue) withdraw(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// take waits for writes and returns as many as one commit may hold, oldest first; nil when the queue is closed and
// empty.
func (q *queue) take() []*write {
	for {
		writes, closed := q.takeNow()
		if len(writes) > 0 || closed {
			return writes
		}
		<-q.wake
	}
}

func (q *queue) takeNow() (writes []*write, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.waiting) && (n == 0 || size+q.waiting[n].size <= maxBatchBytes) {
		size += q.waiting[n].size
		n++
	}
	writes = slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	q.takenUp += n
	return writes, q.closed
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// close refuses further writes; those that wait are still carried out.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// commitAll is the committer: one goroutine carries out all writes, and those that came during a commit make up the
// next one. It ends when the queue is closed.
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

// gatherYields is how often gather lets others run in vain before it gives up: some microseconds, where a commit takes
// hundreds.
const gatherYields = 64

// gather lets the writers that were just answered have the processor before the next commit is begun. Without it the
// first of them would start a commit of one, and the others would wait for that: two syncs where one does. It does not
// sleep, and a writer that is alone is not held up.
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
