package lambda

import (
	"context"
	"io"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// The names of these types are the error names that statemachine/operation.asl.json repeats a tick for, or does not.
// None has a cause in its text beyond what may be seen by everybody who may read executions.
type (
	// BadInput is an input that no start of ours wrote: to repeat it changes nothing.
	BadInput struct{ Reason string }
	// NoConfiguration says that there is none, or that none could be read.
	NoConfiguration struct{}
	// TickFailed says that the store, or something of our own, is out of order.
	TickFailed struct{}
	// TickPanicked is a fault of ours. The environment survives it.
	TickPanicked struct{}
)

// Error says which part of the input is wrong.
func (e *BadInput) Error() string { return "the input names no operation: " + e.Reason }

// Error sends the reader to the log.
func (*NoConfiguration) Error() string { return "no valid configuration; the log has the reason" }

// Error sends the reader to the log.
func (*TickFailed) Error() string { return "the tick failed; the log has the reason" }

// Error sends the reader to the log.
func (*TickPanicked) Error() string { return "the tick panicked; the log has the reason" }

// noteMargin is kept free of a tick's time: what became of a call is still noted after the call's own time is over.
const noteMargin = 12 * time.Second

// Poller does one tick of one operation for each event, or a few. It may be used concurrently.
type Poller struct {
	core *core
	// sleep waits for the time to pass or the context to end.
	sleep func(context.Context, time.Duration) error
}

// NewPoller makes the poller from the function's environment; the JSON log goes to log. It calls nobody. The error
// lists every setting that is missing or wrong.
func NewPoller(lookupEnv func(string) (string, bool), log io.Writer) (*Poller, error) {
	c, err := newCore(lookupEnv, log)
	if err != nil {
		return nil, err
	}
	return &Poller{core: c, sleep: broker.Sleep}, nil
}

// prepare is what the poller does before its first event.
func (p *Poller) prepare(ctx context.Context) {
	p.core.announce(ctx)
	p.core.prepare(ctx, true)
}

// Handle advances the operation that the tick names and returns the tick with what comes next: done, handed over to
// rounds, or seconds to wait. Short waits it spends itself, fifteen seconds at most. It may run twice, late, or beside
// another one. Errors are *BadInput, *NoConfiguration, *TickFailed and *TickPanicked.
func (p *Poller) Handle(ctx context.Context, tick sfn.Tick) (next sfn.Tick, err error) {
	defer p.core.events.begin(ctx)()
	log := p.core.parts.Logger.With("client", tick.Client, "operation", tick.Operation)
	defer func() {
		if value := recover(); value != nil {
			panicked := broker.Recovered(value)
			log.ErrorContext(ctx, "panic", "value", panicked.Type, "stack", panicked.Stack)
			next, err = sfn.Tick{}, &TickPanicked{}
		}
	}()
	key, err := tick.Key()
	if err != nil {
		log.ErrorContext(ctx, "tick refused", "error", err.Error())
		return sfn.Tick{}, &BadInput{Reason: err.Error()}
	}
	now, err := p.core.current(ctx)
	if err != nil {
		log.ErrorContext(ctx, "no configuration", "error", err.Error())
		return sfn.Tick{}, &NoConfiguration{}
	}
	ctx, cancel := within(ctx, noteMargin)
	defer cancel()
	step, err := p.advance(ctx, now.Broker, key, tick.Operation)
	if err != nil {
		log.ErrorContext(ctx, "tick failed", "error", err.Error())
		return sfn.Tick{}, &TickFailed{}
	}
	if next := tick.After(step); step.Done || !tick.Swept {
		return next, nil
	}
	return p.leave(ctx, tick, step, broker.LooksEvery(now.Config.Polling.Max)), nil
}

// leave hands the operation over to rounds, if one looks soon enough; every is how often those look that repeat. Until
// then, and where none seem to come, the execution drives the operation itself.
func (p *Poller) leave(ctx context.Context, tick sfn.Tick, step broker.Step, every time.Duration) sfn.Tick {
	note, err := p.core.notes.LastRound(ctx)
	if err != nil {
		p.core.parts.Logger.WarnContext(ctx, "the note of the last round cannot be read", "error", err.Error())
		return tick.After(step)
	}
	look, known := note.NextLook(p.core.parts.Now(), every)
	switch {
	case !known:
		return tick.After(step)
	case look <= max(every, step.Wait):
		return tick.After(step).HandOver()
	default: // no sooner than rounds would, and so that one follows soon enough
		step.Wait = max(step.Wait, min(every, look-every))
		return tick.After(step)
	}
}

// A turn of the state machine is three states, which cost as much as twenty seconds of the poller (docs/aws-cost.md).
// So the short waits, with which every operation begins, are spent in the function.
const (
	shortWait = 6 * time.Second
	stayFor   = 15 * time.Second
	// longestTick is a look-up and a call of Cloud Foundry that both take all their time.
	longestTick = 120 * time.Second
)

// advance makes one step, and those that follow within a short time. What a later step fails with, the whole of it
// fails with: the state machine begins again, and each step may run twice.
func (p *Poller) advance(ctx context.Context, by broker.Advancer, key broker.Key, operation string) (broker.Step, error) {
	began := p.core.parts.Now()
	for {
		step, err := by.Advance(ctx, key, operation)
		if err != nil || step.Done {
			return step, err
		}
		wait := max(step.Wait, time.Second)
		if !p.stays(ctx, began, wait) || p.sleep(ctx, wait) != nil {
			return step, nil
		}
	}
}

// stays reports whether the next step is worth waiting for, and has time enough for calls that take all of theirs.
func (p *Poller) stays(ctx context.Context, began time.Time, wait time.Duration) bool {
	next := p.core.parts.Now().Add(wait)
	if wait > shortWait || next.Sub(began) > stayFor {
		return false
	}
	deadline, limited := ctx.Deadline()
	return !limited || deadline.Sub(next) >= longestTick
}
