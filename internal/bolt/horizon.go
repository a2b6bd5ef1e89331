package bolt

import (
	"context"
	"sync"
)

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
