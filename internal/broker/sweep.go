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
	crowdSize, crowdsAtOnce = 200, 3
)

// sweeper drives what is due, in rounds.
type sweeper struct {
	*parts
	driver  *driver
	janitor *janitor
}

// round is Broker.Sweep.
func (s *sweeper) round(ctx context.Context, until time.Time, repeats func(bool)) (Round, error) {
	w := &sweep{sweeper: s, until: until, next: map[turn]time.Time{}}
	err := w.look(ctx)
	goesOn := err == nil && w.wantsMore()
	if err == nil {
		repeats(goesOn)
	}
	for goesOn {
		if wait := w.lastLook.Add(s.clock.mostBetweenLooks()).Sub(s.clock.now()); s.clock.sleep(ctx, max(0, wait)) != nil || s.clock.now().After(until) {
			break
		}
		if err = w.look(ctx); err != nil {
			break
		}
	}
	return w.result(ctx), err
}

// sweep is one round. Its clients share it.
type sweep struct {
	*sweeper
	until time.Time
	// lastLook is when the round began to look the last time.
	lastLook time.Time

	mu   sync.Mutex
	done Round
	// next is when each operation that the round knows is to be looked at again.
	next map[turn]time.Time
}

// look lists what is due, and drives what has to be looked at now, each client by itself.
func (w *sweep) look(ctx context.Context) error {
	w.lastLook = w.clock.now()
	w.done.Left = 0
	byClient, listed, err := w.janitor.overdue(ctx)
	w.done.Left += listed.Left
	w.done.Unreadable = listed.Unreadable
	w.done.Fault = cmp.Or(w.done.Fault, listed.Fault)
	var clients sync.WaitGroup
	for _, due := range byClient {
		clients.Go(func() { w.drive(ctx, due) })
	}
	clients.Wait()
	return err
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

// isNext reports whether an operation has to be looked at now, as far as the round knows.
func (w *sweep) isNext(u Unfinished) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.next[turn{u.Key, u.Operation}].After(w.clock.now())
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
		wants:      func(r Record) bool { return !r.Due().After(w.clock.now()) && w.clock.dueNow(r) },
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
	again := w.clock.now().Add(RoundEvery)
	if done.looked {
		w.done.Driven++
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

// wantsMore reports whether an operation is to be looked at again before the round's time is over.
func (w *sweep) wantsMore() bool {
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
