package bolt

import (
	"slices"
	"sync"
)

// maxBatchBytes bounds what one commit holds in memory, beyond its first write.
const maxBatchBytes = 4 << 20

// write is one queued change. apply evaluates its condition and makes the change
// inside the transaction; an error of apply means that the transaction is of no
// use any more, so a condition that does not hold is not one.
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

// take waits for writes and returns as many as one commit may hold, oldest first;
// nil when the queue is closed and empty.
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
