package broker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Observer is told what operations do, for figures. Its methods are called concurrently and must not wait.
type Observer interface {
	OperationStarted(kind, verb string)
	OperationEnded(kind, verb, state string, took time.Duration)
}

// operations tells of operations that begin and end: the workflow that drives them, the observer and the log.
type operations struct {
	workflow Workflow
	observer Observer
	logger   *slog.Logger
	clock    *clock
}

// begin starts the workflow of an operation that was just claimed. A failure is none for the platform: the operation is
// stored, and the janitor will find it.
func (o *operations) begin(ctx context.Context, rec Record, start Start) {
	o.observer.OperationStarted(string(rec.Lifecycle.Kind), string(rec.Lifecycle.Operation.Verb))
	if err := o.workflow.Start(context.WithoutCancel(ctx), start); err != nil {
		level := slog.LevelWarn
		if errors.Is(err, ErrStopping) {
			level = slog.LevelInfo
		}
		o.logger.LogAttrs(ctx, level, "the workflow did not start; the janitor will", keyAttrs(rec.Key,
			slog.String("operation", start.Operation), slog.String("error", err.Error()))...)
	}
}

// release stops the workflow that a held request began for its own death, once the request has seen the operation end.
func (o *operations) release(ctx context.Context, rec Record, start Start) {
	workflow, ok := o.workflow.(Stopper)
	if _, ended := rec.Lifecycle.Result(start.Operation); !ok || !ended || start.Delay == 0 {
		return
	}
	if err := workflow.Stop(ctx, start); err != nil {
		o.logger.LogAttrs(ctx, slog.LevelDebug, "the workflow was not stopped; it ends by itself", keyAttrs(start.Key,
			slog.String("operation", start.Operation), slog.String("error", err.Error()))...)
	}
}

// ended tells of the result that a write gave to the operation which rec holds.
func (o *operations) ended(ctx context.Context, rec Record, f lifecycle.Finished) {
	state := "succeeded"
	if !f.Succeeded {
		state = "failed"
	}
	took := o.clock.elapsed(rec)
	o.observer.OperationEnded(string(rec.Lifecycle.Kind), string(f.Verb), state, took)
	// The description stays out: a backing broker's words may quote what was sent.
	o.logger.LogAttrs(ctx, endLevel(rec, f), "operation ended", keyAttrs(rec.Key,
		slog.String("operation", f.ID), slog.String("state", state), slog.String("code", f.Code),
		slog.Int64("duration_ms", took.Milliseconds()))...)
}

// endLevel: what a platform or a backing broker causes is a healthy day's work; an operation past its deadline is for
// the operator.
func endLevel(rec Record, f lifecycle.Finished) slog.Level {
	if !f.Succeeded && !f.EndedAt.Before(rec.Lifecycle.Operation.Deadline) {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
