package loop

import (
	"context"
	"errors"

	"github.com/ferry-broker/ferry/internal/broker"
)

// errNoEnd should not happen: AdvanceAll returned and has not said how a tick ended.
var errNoEnd = errors.New("the step ended without saying how")

// advance does one tick of each operation of the crowd.
func (l *Loop) advance(c *client, crowd []*entry) {
	ctx, cancel := l.untilAborted()
	defer cancel()
	operations := make([]broker.Unfinished, len(crowd))
	for i, e := range crowd {
		operations[i] = broker.Unfinished{Key: e.job.key, Operation: e.job.operation}
	}
	ended := func(i int, step broker.Step, err error) {
		if e := l.takeOut(crowd, i); e != nil {
			l.leave(c, e, l.judge(ctx, e, step, err))
		}
	}
	err := l.advanceAll(ctx, operations, ended)
	for i := range crowd {
		ended(i, broker.Step{}, err)
	}
}

// advanceAll returns how it ended for those that have not ended yet.
func (l *Loop) advanceAll(ctx context.Context, operations []broker.Unfinished, ended func(int, broker.Step, error)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = broker.Recovered(p)
		}
	}()
	l.advancer.AdvanceAll(ctx, operations, ended)
	return errNoEnd
}

// takeOut returns the operation when its tick was under way until now.
func (l *Loop) takeOut(crowd []*entry, i int) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := crowd[i]
	crowd[i] = nil
	return e
}

// judge never lets a fault end the operation: it is logged and tried again.
func (l *Loop) judge(ctx context.Context, e *entry, step broker.Step, err error) broker.Step {
	if err == nil {
		return step
	}
	if ctx.Err() == nil {
		l.report(e.job, err)
	}
	return broker.Step{Wait: l.options.Retry}
}

// leave gives the place of a tick that has ended to another one, and schedules what comes next.
func (l *Loop) leave(c *client, e *entry, step broker.Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.ended(l.now(), l.options.Concurrency)
	if l.closed {
		return
	}
	switch {
	case step.Done:
		delete(l.driven, e.job)
		l.wakeFor(c, l.now())
	case e.again:
		e.again = false
		l.schedule(e, 0)
	default:
		l.schedule(e, step.Wait)
	}
}

// untilAborted returns the context of one crowd. Nobody waits for a tick but Close, which may abort it.
func (l *Loop) untilAborted() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-l.aborted:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (l *Loop) report(j job, err error) {
	attributes := []any{
		"client", j.key.Client, "instance_id", j.key.InstanceID, "binding_id", j.key.BindingID,
		"operation", j.operation, "error", err.Error(),
	}
	if p, ok := errors.AsType[*broker.PanicError](err); ok {
		attributes = append(attributes, "stack", p.Stack)
	}
	l.options.Logger.Error("a step of an operation failed; it is tried again", attributes...)
}
