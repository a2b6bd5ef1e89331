package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// verb is what a PUT, a PATCH and a DELETE do differently on their way through a change. A change asks it in the order
// of the methods, once for each record that it reads, and hands on what one of them found as a value to the next. So a
// plan that was looked up once is the plan of the whole request, whatever becomes of the catalog meanwhile.
type verb[Found, Allowed any] interface {
	// request says what the request means for the record just read. Found is what that took to find out.
	request(ctx context.Context, rec Record) (lifecycle.Request, Found, error)
	// allow refuses what the request may not do, in the order of docs/osb-choices.md, before anything is written.
	// Allowed is what a new operation needs to know.
	allow(ctx context.Context, rec Record, d lifecycle.Decision, found Found) (Allowed, error)
	// apply returns the record with what the new operation brings besides its state.
	apply(rec Record, allowed Allowed) (Record, error)
}

// change is one PUT, PATCH or DELETE on its way: read, decide, write, or begin with the write.
type change[Found, Allowed any] struct {
	*parts
	verb verb[Found, Allowed]
	key  Key
	// id is the operation string in case a new operation begins.
	id string
	// creates says that the id is probably new, so that the request may begin with the claim itself (docs/protocol.md
	// 2.1).
	creates bool
	// first is what the request read before it was held; nil for one that begins.
	first *lifecycle.FirstRead
	// claimLost says that the answer to a claim of this change did not come: what became of it is not known, or was
	// seen only later (docs/protocol.md 2.3).
	claimLost bool
	// mayNotClaim says that nothing may be claimed any more: what the request read first is not known, since the answer
	// to its first claim was lost (docs/protocol.md 2.1).
	mayNotClaim bool
}

// decided is a decision about one record that was read, and what the verb found for it.
type decided[Found, Allowed any] struct {
	lifecycle.Decision
	found   Found
	allowed Allowed
}

// attempts bounds how often a request decides again after lost writes: each loss is somebody else's progress.
const attempts = 100

// run takes the change through. It returns the record as stored after it, the decision, and what the verb found for
// that. Nothing was written when it returns an error, as far as can be known.
func (c *change[Found, Allowed]) run(ctx context.Context) (Record, decided[Found, Allowed], error) {
	rec, d, won, err := c.open(ctx)
	if err != nil || won {
		return rec, d, err
	}
	first := c.first
	for range attempts {
		d, err := c.decide(ctx, rec, first)
		if err != nil || !d.Write {
			return rec, d, err
		}
		stored, won, err := c.claim(ctx, rec, d)
		if won || err != nil {
			return stored, d, err
		}
		if first == nil {
			first = firstRead(rec)
		}
		rec = stored
	}
	return Record{}, d, &Error{
		Code: CodeUnavailable, RetryAfter: 1,
		Description: "Too many requests change this at the same time. Send the request again.",
	}
}

// open is how a change begins: with what is stored, or, having won, with the claim that needed no read. A claim that is
// refused brings the record that refused it, which then is what the request read first. What the claim has to know must
// be at hand: a duplicate is answered from the record, whoever cannot be reached.
func (c *change[Found, Allowed]) open(ctx context.Context) (Record, decided[Found, Allowed], bool, error) {
	if c.creates && c.claimFirst && c.first == nil && c.catalog.Ready(c.key.Client) {
		none := absent(c.key)
		// What is refused to a new id need not be refused to one that exists.
		if d, err := c.decide(ctx, none, nil); err == nil && d.Outcome == lifecycle.Accepted {
			stored, won, err := c.claim(ctx, none, d)
			if CodeOf(err) != CodeBadRequest { // too large for a new one
				c.mayNotClaim = c.claimLost
				return stored, d, won, err
			}
		}
	}
	rec, err := c.records.read(ctx, c.key)
	return rec, decided[Found, Allowed]{}, false, err
}

func firstRead(r Record) *lifecycle.FirstRead {
	return &lifecycle.FirstRead{Life: r.Lifecycle.Life, Seq: r.Lifecycle.Seq}
}

func (c *change[Found, Allowed]) decide(ctx context.Context, rec Record, first *lifecycle.FirstRead) (d decided[Found, Allowed], err error) {
	q, found, err := c.verb.request(ctx, rec)
	if err != nil {
		return d, err
	}
	q.FirstRead, q.MayNotClaim = first, c.mayNotClaim
	q.Now, q.TombstoneTTL = c.clock.now(), c.clock.tombstoneTTL
	q.NewOperation = lifecycle.NewOperation{
		ID: c.id, Deadline: q.Now.Add(c.clock.deadline), Due: q.Now.Add(c.clock.dueAfter(q.AcceptsIncomplete)),
	}
	if d.Decision, err = c.next(rec.Lifecycle, q); err != nil {
		return d, err
	}
	d.found = found
	d.allowed, err = c.verb.allow(ctx, rec, d.Decision, found)
	return d, err
}

// claim makes the one conditional write. Lost: it returns the record now stored and false. It notes in c when the
// answer to the write was lost.
func (c *change[Found, Allowed]) claim(ctx context.Context, rec Record, d decided[Found, Allowed]) (Record, bool, error) {
	next := rec
	next.Lifecycle = d.Record
	switch d.Outcome {
	case lifecycle.Accepted:
		var err error
		if next, err = c.verb.apply(next, d.allowed); err != nil {
			return Record{}, false, err
		}
	case lifecycle.AlreadyGone:
		next.Target, next.Parameters = nil, nil // of an orphan that never sent them
	default:
	}
	if err := ctx.Err(); err != nil {
		return Record{}, false, late(err) // a claim is not sent after the request's own time
	}
	stored, won, lost, err := c.records.write(ctx, next, rec.Revision)
	c.claimLost = c.claimLost || lost
	if errors.Is(err, ErrTooLarge) {
		return Record{}, false, tooLarge(err)
	}
	if err != nil {
		return Record{}, false, unavailable(err)
	}
	if !won && d.Outcome == lifecycle.Accepted && owns(stored, c.id) {
		won = true // the write was made, only its answer was lost
	}
	if won && d.Result != nil {
		c.operations.ended(ctx, rec, *d.Result) // a running operation was cancelled
	}
	return stored, won, nil
}

// owns reports whether the operation is, or was, one of the record's.
func owns(r Record, operation string) bool {
	_, finished := r.Lifecycle.Result(operation)
	return finished || r.Lifecycle.Operation.ID == operation
}

func tooLarge(err error) error {
	limit := ""
	if e, ok := errors.AsType[*LimitError](err); ok {
		limit = fmt.Sprintf(" The limit is %d bytes for the request and what is kept beside it.", e.Bytes)
	}
	return refuse(CodeBadRequest, "The request is too large to be kept.%s Send fewer or smaller parameters.", limit)
}

// instanceResult turns the decision on an instance's PUT, PATCH or DELETE into the answer, and starts the workflow of a
// new operation.
func (b *Broker) instanceResult(ctx context.Context, rec Record, outcome Outcome, id string) (Result, error) {
	result := Result{Outcome: outcome, DashboardURL: rec.DashboardURL, Metadata: rec.Metadata}
	switch outcome {
	case OutcomeAccepted:
		b.operations.begin(ctx, rec, Start{Key: rec.Key, Operation: id})
		result.Operation, result.RetryAfter = id, b.clock.retryAfter(rec)
	case OutcomeRunning:
		result.Operation, result.RetryAfter = rec.Lifecycle.Operation.ID, b.clock.retryAfter(rec)
	case OutcomeExists:
	default:
		return Result{}, refusal(rec, outcome)
	}
	return result, nil
}

// plans is the catalog, as requests ask it.
type plans struct{ Catalog }

// forNew looks a plan up for something new: it has to be known.
func (p plans) forNew(ctx context.Context, client, serviceID, planID string) (Plan, error) {
	plan, err := p.Plan(ctx, client, serviceID, planID)
	switch {
	case err == nil:
		return plan, nil
	case errors.Is(err, ErrUnknownPlan):
		return Plan{}, &Error{Code: CodeBadRequest, Description: sentence(err)}
	default:
		return Plan{}, &Error{
			Code: CodeUnavailable, RetryAfter: 5, Cause: err,
			Description: "The broker does not know the catalog yet, because Cloud Foundry could not be reached. Send the request again.",
		}
	}
}

// check turns what the plan's schema says of the parameters into a refusal.
func (p plans) check(ctx context.Context, q ParametersQuery) error {
	if err := p.CheckParameters(ctx, q); err != nil {
		return &Error{Code: CodeBadRequest, Description: sentence(err)}
	}
	return nil
}

// sentence is the text of an error that was made for users, as they read it.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

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

// begin starts the workflow of an operation that was just claimed, unless its request is held and a round takes it up
// should the request die. A failure is none for the platform: the operation is stored, and the janitor will find it.
func (o *operations) begin(ctx context.Context, rec Record, start Start) {
	o.observer.OperationStarted(string(rec.Lifecycle.Kind), string(rec.Lifecycle.Operation.Verb))
	if o.clock.swept && start.Delay > 0 {
		return
	}
	if err := o.workflow.Start(context.WithoutCancel(ctx), start); err != nil {
		level := slog.LevelWarn
		if errors.Is(err, ErrStopping) {
			level = slog.LevelInfo
		}
		o.logger.LogAttrs(ctx, level, "the workflow did not start; the janitor will", keyAttrs(rec.Key,
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
