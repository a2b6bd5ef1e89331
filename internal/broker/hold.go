package broker

import (
	"context"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/osb"
)

// pause grows while a request is held: the first looks come quickly, since most
// backing brokers answer at once.
type pause struct{ d, most time.Duration }

func newPause() *pause { return &pause{d: 20 * time.Millisecond, most: time.Second} }

func (p *pause) next() time.Duration {
	d := p.d
	p.d = min(p.d*8/5, p.most)
	return d
}

// hold keeps a request until the operation has ended or the context has. The request
// that claimed the operation drives it. A duplicate waits on the record while that one
// can be alive, and then drives as well, less often, and one of each process alone: the
// workflow may have long waits by then.
func (b *Broker) hold(ctx context.Context, key Key, operation string, claimed bool) (Record, error) {
	token, err := b.token()
	if err != nil {
		return Record{}, err
	}
	d := &heldDriver{b: b, turn: turn{key, operation}, claimed: claimed, pause: newPause()}
	defer d.leave()
	for {
		if !d.drives() || !b.drive(ctx, key, operation, token) {
			rec, err := b.read(ctx, key)
			if err != nil && ctx.Err() != nil {
				return Record{}, outOfTime(err)
			}
			if err != nil {
				return Record{}, err
			}
			if !rec.Lifecycle.Running(operation) {
				return rec, verdict(rec, operation)
			}
			d.began = rec.Lifecycle.Operation.Started
		}
		if err := b.Sleep(ctx, d.pause.next()); err != nil {
			return Record{}, outOfTime(err)
		}
	}
}

// heldDriver is a held request's part in driving its operation.
type heldDriver struct {
	b              *Broker
	turn           turn
	claimed, taken bool
	// began is when the operation did, as far as the request has read it.
	began time.Time
	pause *pause
}

// drives reports whether the request makes the next step of its operation.
func (d *heldDriver) drives() bool {
	if d.claimed || d.taken {
		return true
	}
	if d.began.IsZero() || d.b.Now().Before(d.began.Add(d.b.RequestBudget)) {
		return false // the request that began it is at it
	}
	if d.taken = d.b.held.take(d.turn); d.taken {
		d.pause = &pause{d: 250 * time.Millisecond, most: 2 * time.Second}
	}
	return d.taken
}

// leave lets another duplicate drive.
func (d *heldDriver) leave() {
	if d.taken {
		d.b.held.leave(d.turn)
	}
}

// turns says which operations duplicates drive, so that many of them make no more calls
// than one. It may be used concurrently.
type turns struct {
	mu    sync.Mutex
	taken map[turn]bool
}

type turn struct {
	key       Key
	operation string
}

func newTurns() *turns { return &turns{taken: map[turn]bool{}} }

// take reports whether nobody had the turn, and gives it to the caller then.
func (t *turns) take(mine turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[mine] {
		return false
	}
	t.taken[mine] = true
	return true
}

// leave gives the turn back.
func (t *turns) leave(mine turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, mine)
}

// drive does one tick inline and reports whether the operation runs on, as far as the
// tick knows, which has read the record. Its calls end with the request's budget.
func (b *Broker) drive(ctx context.Context, key Key, operation, driver string) bool {
	step, err := b.tick(ctx, key, operation, b.Process+"/"+driver)
	return err == nil && !step.Done
}

// verdict turns the end of a held operation into nil or the refusal to answer with.
func verdict(rec Record, operation string) error {
	f, known := rec.Lifecycle.Result(operation)
	switch {
	case known && f.Succeeded:
		if rec.Lifecycle.Operation.ID != operation {
			return cancelled() // it ended well, and was deleted or made again since
		}
		return nil
	case !known || rec.Lifecycle.Operation.ID != operation:
		return cancelled()
	case f.Code == osb.RequiresApp:
		return refuse(CodeRequiresApp, "Bind the service to an application instead of creating a service key.")
	default:
		return refuse(CodeBackend, "%s", f.Description)
	}
}

func cancelled() error {
	return refuse(CodeConcurrency, "The service binding was changed by another request while this one was waiting. Send the request again once that has ended.")
}
