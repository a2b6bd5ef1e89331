package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Round is what one round of Restart or Sweep came to.
type Round struct {
	// Restarted operations have a workflow again; those of Sweep had no trace of any driver before it.
	Restarted int
	// Driven is how many ticks Sweep made.
	Driven int
	// Failed ones could not be restarted; Unreadable ones the store could not even list. Both are tried again in the
	// next round.
	Failed, Unreadable int
	// Left is how many were not reached before the context ended.
	Left int
	// Fault is why, for the first that failed.
	Fault error
}

const (
	// listPage is how many overdue operations are read at once, listPages how often.
	listPage, listPages = 1000, 100
	// clientShare is how many of one client a round takes up.
	clientShare = 20000
)

// janitor starts workflows again whose operations are overdue, and audits.
type janitor struct{ *parts }

// restartOverdue is Broker.Restart.
func (j *janitor) restartOverdue(ctx context.Context, workers int) (Round, error) {
	overdue, round, err := j.listDue(ctx, j.clock.now())
	w := &restarts{waiting: inTurns(overdue), round: round}
	inParallel(workers, func() {
		for u, ok := w.next(ctx); ok; u, ok = w.next(ctx) {
			w.note(ctx, u, func() (bool, error) { return j.restart(ctx, u) })
		}
	})
	round = w.round
	if round.Failed+round.Unreadable > 0 {
		j.logger.LogAttrs(ctx, slog.LevelWarn, "overdue operations could not be restarted", slog.Int("failed", round.Failed),
			slog.Int("unreadable", round.Unreadable), slog.Int("restarted", round.Restarted), errorAttr(round.Fault), stackAttr(round.Fault))
	}
	return round, err
}

// listDue lists what is due at a time, each client's share of it, by the name of the client.
func (j *janitor) listDue(ctx context.Context, due time.Time) (map[string][]Unfinished, Round, error) {
	var round Round
	byClient, after := map[string][]Unfinished{}, ""
	for range listPages {
		page, err := j.records.store.Unfinished(ctx, due, after, listPage)
		if err != nil {
			return byClient, round, err
		}
		round.Unreadable += page.Unreadable
		round.Fault = cmp.Or(round.Fault, page.Fault)
		for _, u := range page.Operations {
			if c := u.Key.Client; len(byClient[c]) < clientShare {
				byClient[c] = append(byClient[c], u)
			} else {
				round.Left++
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	return byClient, round, nil
}

// inTurns takes one of each client, then the next one of each.
func inTurns(byClient map[string][]Unfinished) []Unfinished {
	var all []Unfinished
	clients := slices.Sorted(maps.Keys(byClient))
	for n := 0; len(clients) > 0; n++ {
		clients = slices.DeleteFunc(clients, func(c string) bool { return n >= len(byClient[c]) })
		for _, c := range clients {
			all = append(all, byClient[c][n])
		}
	}
	return all
}

// inParallel calls work so many times at once and returns when all have.
func inParallel(workers int, work func()) {
	var group sync.WaitGroup
	for range workers - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
}

// restarts is what the workers of a round share.
type restarts struct {
	mu      sync.Mutex
	waiting []Unfinished
	round   Round
}

func (w *restarts) next(ctx context.Context) (Unfinished, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		w.round.Left += len(w.waiting)
		w.waiting = nil
	}
	if len(w.waiting) == 0 {
		return Unfinished{}, false
	}
	u := w.waiting[0]
	w.waiting = w.waiting[1:]
	return u, true
}

// note counts what became of one. A panic is a fault like others: it must not end the process, which drives other
// operations.
func (w *restarts) note(ctx context.Context, u Unfinished, restart func() (bool, error)) {
	ok := false
	err := panicAsError(func() (err error) { ok, err = restart(); return err })
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && ok:
		w.round.Restarted++
	case err == nil:
	case ctx.Err() != nil:
		w.round.Left++
	default:
		w.round.Failed++
		if w.round.Fault == nil {
			w.round.Fault = fmt.Errorf("operation %s: %w", u.Operation, err)
		}
	}
}

func (j *janitor) restart(ctx context.Context, u Unfinished) (bool, error) {
	rec, err := j.records.read(ctx, u.Key)
	if err != nil {
		return false, err
	}
	if !rec.Lifecycle.Running(u.Operation) || rec.Lifecycle.Operation.Due.After(j.clock.now()) {
		return false, nil // the index lags behind
	}
	next := rec
	next.Lifecycle.Operation.Restarts++
	next.Lifecycle.Operation.Due = j.clock.now().Add(restartGrace)
	stored, won, err := j.records.put(ctx, next, rec.Revision)
	if err != nil || !won {
		return false, err
	}
	n := stored.Lifecycle.Operation.Restarts
	j.logger.LogAttrs(ctx, slog.LevelInfo, "overdue operation restarted", keyAttrs(u.Key,
		slog.String("operation", u.Operation), slog.Int("restart", n))...)
	return true, j.operations.workflow.Start(ctx, Start{Key: u.Key, Operation: u.Operation, Restart: n})
}

// restartGrace is how long a restarted workflow may take to show itself.
const restartGrace = 5 * time.Minute

// resumeAll is Broker.Resume.
func (j *janitor) resumeAll(ctx context.Context) (int, error) {
	resumed, unreadable := 0, 0
	var faults, unread error
	due := j.clock.now().Add(farAhead)
	for after, more := "", true; more; {
		page, err := j.records.store.Unfinished(ctx, due, after, listPage)
		if err != nil {
			return resumed, errors.Join(faults, err)
		}
		resumed += len(page.Operations)
		for _, u := range page.Operations {
			faults = errors.Join(faults, j.resume(ctx, u))
		}
		unreadable += page.Unreadable
		unread = cmp.Or(unread, page.Fault)
		after, more = page.Next, page.Next != ""
	}
	if unreadable > 0 {
		j.logger.LogAttrs(ctx, slog.LevelWarn, "unfinished operations could not be read", slog.Int("unreadable", unreadable), errorAttr(unread))
	}
	return resumed, faults
}

func (j *janitor) resume(ctx context.Context, u Unfinished) error {
	if err := j.operations.workflow.Start(ctx, Start{Key: u.Key, Operation: u.Operation}); err != nil {
		return err
	}
	j.operations.observer.OperationStarted(string(u.Key.Kind()), string(verbOf(u.Operation)))
	return nil
}

// farAhead is later than any operation is due.
const farAhead = 10 * 365 * 24 * time.Hour

// verbOf reads the verb from an operation string that Ferry made.
func verbOf(operation string) lifecycle.Verb {
	switch {
	case len(operation) > 7 && operation[:7] == "update-":
		return lifecycle.Update
	case len(operation) > 7 && (operation[:7] == "delete-" || operation[:7] == "unbind-"):
		return lifecycle.Delete
	default:
		return lifecycle.Create
	}
}
