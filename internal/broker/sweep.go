package broker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// crowdSize is how many operations of a client are driven together, and crowdsAtOnce how many such crowds at once.
	crowdSize, crowdsAtOnce = 200, 5
)

// sweeper drives what is due, in rounds.
type sweeper struct {
	*parts
	driver  *driver
	janitor *janitor
}

// round is Broker.Sweep.
func (s *sweeper) round(ctx context.Context, until time.Time, repeats func(bool)) (Round, error) {
	w := &sweep{sweeper: s, until: until, next: map[turn]time.Time{}, driven: map[string]bool{}, ended: make(chan struct{}, 1)}
	defer w.settle(nil)
	for first := true; ; first = false {
		if err := w.look(ctx); err != nil {
			w.settle(nil)
			return w.result(ctx), err
		}
		enough := time.NewTimer(s.clock.mostBetweenLooks()) // what hangs takes no time but the real one
		w.settle(enough.C)
		enough.Stop()
		goesOn := w.wantsMore()
		if first {
			repeats(goesOn)
		}
		next := w.lastLook.Add(s.clock.mostBetweenLooks())
		if first && !goesOn || next.After(until) || s.clock.sleep(ctx, max(0, next.Sub(s.clock.now()))) != nil {
			w.settle(nil)
			return w.result(ctx), nil
		}
	}
}

// sweep is one round. Its clients share it.
type sweep struct {
	*sweeper
	until time.Time
	// lastLook is when the round began to look the last time.
	lastLook time.Time
	// ended says that a client's operations were driven.
	ended chan struct{}

	mu   sync.Mutex
	done Round
	// next is when each operation that the round knows is to be looked at again.
	next map[turn]time.Time
	// driven are the clients whose operations are being driven: one that hangs is left alone until it has ended.
	driven map[string]bool
}

// look lists what is due, or will be when the round looks again, and begins to drive what has to be looked at now, each
// client by itself.
func (w *sweep) look(ctx context.Context) error {
	w.lastLook = w.clock.now()
	byClient, listed, err := w.janitor.listDue(ctx, w.lastLook.Add(w.clock.mostBetweenLooks()))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done.Left, w.done.Unreadable = listed.Left, listed.Unreadable
	w.done.Fault = cmp.Or(w.done.Fault, listed.Fault)
	for client, due := range byClient {
		if w.driven[client] {
			continue
		}
		w.driven[client] = true
		go func() {
			defer w.leave(client)
			w.drive(ctx, due)
		}()
	}
	return err
}

// leave notes that a client's operations were driven.
func (w *sweep) leave(client string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.driven, client)
	select {
	case w.ended <- struct{}{}:
	default: // nobody has noticed the one before
	}
}

// settle returns once all that is driven has ended, or enough time has passed: a client that hangs keeps the others
// from nothing.
func (w *sweep) settle(enough <-chan time.Time) {
	for w.busy() {
		select {
		case <-w.ended:
		case <-enough:
			return
		}
	}
}

func (w *sweep) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.driven) > 0
}

// drive takes up the operations of one client, in crowds, until the round's time is over.
func (w *sweep) drive(ctx context.Context, due []Unfinished) {
	due = slices.DeleteFunc(due, func(u Unfinished) bool { return !w.isNext(u) })
	crowds := make(chan []Unfinished)
	var workers sync.WaitGroup
	for range min(crowdsAtOnce, len(due)/crowdSize+1) {
		workers.Go(func() {
			for operations := range crowds {
				w.crowd(ctx, operations)
			}
		})
	}
	for operations := range slices.Chunk(due, crowdSize) {
		crowds <- operations
	}
	close(crowds)
	workers.Wait()
}

// nearly is how long before its time an operation is looked at with those whose time has come.
func (w *sweep) nearly() time.Time { return w.clock.now().Add(w.clock.mostBetweenLooks() / 2) }

// isNext reports whether an operation has to be looked at now, as far as the round knows.
func (w *sweep) isNext(u Unfinished) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	this := turn{u.Key, u.Operation}
	if u.Due.After(w.next[this]) {
		w.next[this] = u.Due
	}
	return !w.next[this].After(w.nearly())
}

// crowd drives some operations together, or leaves them when the round's time is over.
func (w *sweep) crowd(ctx context.Context, operations []Unfinished) {
	if ctx.Err() != nil || w.clock.now().After(w.until) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done.Left += len(operations)
		return
	}
	w.driver.tickAll(ctx, crowd{
		operations: operations,
		wants:      func(r Record) bool { return !r.Due().After(w.nearly()) && w.clock.dueNow(r) },
		ended:      func(i int, done ticked, err error) { w.note(ctx, operations[i], done, err) },
	})
}

// note counts what became of one operation, and when it is to be looked at again.
func (w *sweep) note(ctx context.Context, u Unfinished, done ticked, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		w.done.Failed++
		w.done.Fault = cmp.Or(w.done.Fault, fmt.Errorf("operation %s: %w", u.Operation, err))
	}
	again := w.until.Add(RoundEvery) // not in this round
	if done.looked {
		w.done.Driven++
	}
	if done.looked && !done.Done {
		again = w.clock.now().Add(w.clock.betweenLooks(done.record))
	}
	if done.looked && done.wrote && !begun(done.record) {
		w.done.Restarted++
	}
	w.next[turn{u.Key, u.Operation}] = again
}

// begun reports whether a driver has left a trace of the record's operation. One that a round begins was lost by the
// workflow, or by a request that died.
func begun(r Record) bool {
	op := r.Lifecycle.Operation
	return op.Calls > 0 || op.JobGUID != "" || op.Cleanup.GUID != "" || op.Lease.Holder != "" ||
		op.NoAnswer != "" || op.TemporaryRefusal != ""
}

// wantsMore reports whether an operation is to be looked at, or to be looked at again, before the round's time is over.
func (w *sweep) wantsMore() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.driven) > 0 {
		return true
	}
	for _, at := range w.next {
		if !at.After(w.until) {
			return true
		}
	}
	return false
}

// result is what the round came to. What failed is one line in the log.
func (w *sweep) result(ctx context.Context) Round {
	done := w.done
	if done.Failed+done.Unreadable > 0 {
		w.logger.LogAttrs(ctx, slog.LevelWarn, "operations that are due could not be driven", slog.Int("failed", done.Failed),
			slog.Int("unreadable", done.Unreadable), slog.Int("driven", done.Driven), errorAttr(done.Fault), stackAttr(done.Fault))
	}
	return done
}
