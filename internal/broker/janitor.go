package broker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Restart starts the workflow again of up to limit operations that are overdue, and
// returns how many. The number of the restart is stored before the workflow is
// asked, so that no name is ever used twice (docs/protocol.md section 9).
func (b *Broker) Restart(ctx context.Context, limit int) (int, error) {
	overdue, err := b.Store.Unfinished(ctx, b.Now(), limit)
	if err != nil {
		return 0, err
	}
	restarted := 0
	var failed error
	for _, u := range overdue {
		ok, err := b.restart(ctx, u)
		failed = errors.Join(failed, err) // one that cannot be restarted must not keep the others
		if ok && err == nil {
			restarted++
		}
	}
	return restarted, failed
}

func (b *Broker) restart(ctx context.Context, u Unfinished) (bool, error) {
	rec, err := b.read(ctx, u.Key)
	if err != nil {
		return false, err
	}
	if !rec.Lifecycle.Running(u.Operation) || rec.Lifecycle.Operation.Due.After(b.Now()) {
		return false, nil // the index lags behind
	}
	next := rec
	next.Lifecycle.Operation.Restarts++
	next.Lifecycle.Operation.Due = b.Now().Add(restartGrace)
	stored, won, err := b.put(ctx, next, rec.Revision)
	if err != nil || !won {
		return false, err
	}
	n := stored.Lifecycle.Operation.Restarts
	b.Logger.LogAttrs(ctx, slog.LevelInfo, "overdue operation restarted", keyAttrs(u.Key,
		slog.String("operation", u.Operation), slog.Int("restart", n))...)
	return true, b.Workflow.Start(ctx, Start{Key: u.Key, Operation: u.Operation, Restart: n})
}

// restartGrace is how long a restarted workflow may take to show itself.
const restartGrace = 5 * time.Minute

// Resume starts the workflow of every unfinished operation of the store, for a
// process that has just taken the store over, and returns how many. It writes
// nothing: an in-process workflow forgets with its process.
func (b *Broker) Resume(ctx context.Context) (int, error) {
	unfinished, err := b.Store.Unfinished(ctx, b.Now().Add(farAhead), resumeLimit)
	if err != nil {
		return 0, err
	}
	var faults error
	for _, u := range unfinished {
		if err := b.Workflow.Start(ctx, Start{Key: u.Key, Operation: u.Operation}); err != nil {
			faults = errors.Join(faults, err)
			continue
		}
		b.Observer.OperationStarted(string(u.Key.Kind()), string(verbOf(u.Operation)))
	}
	return len(unfinished), faults
}

const (
	farAhead    = 10 * 365 * 24 * time.Hour
	resumeLimit = 1 << 20
)

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
