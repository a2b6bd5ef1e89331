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

// change is one PUT, PATCH or DELETE on its way: read, decide, write, or begin with the
// write.
type change struct {
	key Key
	// id is the operation string in case a new operation begins.
	id string
	// request says what the request means for the record just read.
	request func(context.Context, Record) (lifecycle.Request, error)
	// check refuses what the request may not do, in the order of osb-choices C3; it
	// runs before anything is written.
	check func(Record, lifecycle.Decision) error
	// apply puts into the record what a new operation brings besides its state.
	apply func(*Record) error
	// first is what the request read before it was held; nil for one that begins.
	first *lifecycle.FirstRead
	// creates says that the id is probably new, so that the request may begin with the
	// claim itself (docs/protocol.md 2.1).
	creates bool
	// lost says that the answer to a claim of this change did not come: what became of
	// it is not known, or was seen only later (docs/protocol.md 2.3).
	lost bool
	// spent says that nothing may be claimed any more: what the request read first is
	// not known, since the answer to its first claim was lost (docs/protocol.md 2.1).
	spent bool
}

// attempts bounds how often a request decides again after lost writes: each loss is
// somebody else's progress.
const attempts = 100

// run takes the change through. It returns the record as stored after it, and the
// decision. Nothing was written when it returns an error, as far as can be known.
func (b *Broker) run(ctx context.Context, c *change) (Record, lifecycle.Decision, error) {
	rec, d, won, err := b.open(ctx, c)
	if err != nil || won {
		return rec, d, err
	}
	first := c.first
	for range attempts {
		d, err := b.decide(ctx, c, rec, first)
		if err != nil || !d.Write {
			return rec, d, err
		}
		stored, won, err := b.claim(ctx, c, rec, d)
		if won || err != nil {
			return stored, d, err
		}
		if first == nil {
			first = firstRead(rec)
		}
		rec = stored
	}
	return Record{}, lifecycle.Decision{}, &Error{
		Code: CodeUnavailable, RetryAfter: 1,
		Description: "Too many requests change this at the same time. Send the request again.",
	}
}

// open is how a change begins: with what is stored, or, having won, with the claim
// that needed no read. A claim that is refused brings the record that refused it,
// which then is what the request read first. What the claim has to know must be at
// hand: a duplicate is answered from the record, whoever cannot be reached.
func (b *Broker) open(ctx context.Context, c *change) (Record, lifecycle.Decision, bool, error) {
	if c.creates && b.ClaimFirst && c.first == nil && b.Catalog.Ready(c.key.Client) {
		none := absent(c.key)
		// What is refused to a new id need not be refused to one that exists.
		if d, err := b.decide(ctx, c, none, nil); err == nil && d.Outcome == lifecycle.Accepted {
			stored, won, err := b.claim(ctx, c, none, d)
			if CodeOf(err) != CodeBadRequest { // too large for a new one
				c.spent = c.lost
				return stored, d, won, err
			}
		}
	}
	rec, err := b.read(ctx, c.key)
	return rec, lifecycle.Decision{}, false, err
}

func firstRead(r Record) *lifecycle.FirstRead {
	return &lifecycle.FirstRead{Life: r.Lifecycle.Life, Seq: r.Lifecycle.Seq}
}

// read returns the record, or an empty one for an id that has none.
func (b *Broker) read(ctx context.Context, key Key) (Record, error) {
	rec, err := b.Store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return absent(key), nil
	}
	if err != nil && ctx.Err() != nil {
		return Record{}, late(err) // the store may well be there
	}
	if err != nil {
		return Record{}, unavailable(err)
	}
	return rec, nil
}

func absent(key Key) Record {
	return Record{Key: key, Lifecycle: lifecycle.Record{Kind: key.Kind()}}
}

func unavailable(err error) error {
	return &Error{
		Code: CodeUnavailable, RetryAfter: 1, Cause: err,
		Description: "The broker cannot reach its store at the moment. Send the request again.",
	}
}

// late answers a request whose time was over before anything had begun for it.
func late(cause error) error {
	return &Error{
		Code: CodeUnavailable, RetryAfter: 1, Cause: cause,
		Description: "The broker could not answer in time, and has begun nothing. Send the request again.",
	}
}

func (b *Broker) decide(ctx context.Context, c *change, rec Record, first *lifecycle.FirstRead) (lifecycle.Decision, error) {
	q, err := c.request(ctx, rec)
	if err != nil {
		return lifecycle.Decision{}, err
	}
	q.FirstRead, q.MayNotClaim = first, c.spent
	q.Now, q.TombstoneTTL = b.Now(), b.TombstoneTTL
	q.NewOperation = lifecycle.NewOperation{ID: c.id, Deadline: q.Now.Add(b.Deadline), Due: q.Now.Add(b.dueAfter(q))}
	d, err := lifecycle.Next(rec.Lifecycle, q)
	if err != nil {
		return d, err
	}
	return d, c.check(rec, d)
}

// claim makes the one conditional write. Lost: it returns the record now stored
// and false. It notes in c when the answer to the write was lost.
func (b *Broker) claim(ctx context.Context, c *change, rec Record, d lifecycle.Decision) (Record, bool, error) {
	next := rec
	next.Lifecycle = d.Record
	switch d.Outcome {
	case lifecycle.Accepted:
		if err := c.apply(&next); err != nil {
			return Record{}, false, err
		}
	case lifecycle.AlreadyGone:
		next.Target, next.Parameters = nil, nil // of an orphan that never sent them
	default:
	}
	if err := ctx.Err(); err != nil {
		return Record{}, false, late(err) // a claim is not sent after the request's own time
	}
	stored, won, lost, err := b.write(ctx, next, rec.Revision)
	c.lost = c.lost || lost
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
		b.ended(ctx, rec, *d.Result) // a running operation was cancelled
	}
	return stored, won, nil
}

func tooLarge(err error) error {
	limit := ""
	if e, ok := errors.AsType[*LimitError](err); ok {
		limit = fmt.Sprintf(" The limit is %d bytes for the request and what is kept beside it.", e.Bytes)
	}
	return refuse(CodeBadRequest, "The request is too large to be kept.%s Send fewer or smaller parameters.", limit)
}

// put writes the record under a new token. A write that was repeated below us, or
// whose answer was lost, recognises its token in what is stored.
func (b *Broker) put(ctx context.Context, next Record, revision int64) (Record, bool, error) {
	stored, won, _, err := b.write(ctx, next, revision)
	return stored, won, err
}

// write is put that also says whether the answer to the write was lost: the record
// that it then returns was read afterwards.
func (b *Broker) write(ctx context.Context, next Record, revision int64) (_ Record, won, lost bool, _ error) {
	token, err := b.token()
	if err != nil {
		return Record{}, false, false, err
	}
	next.Token = token
	stored, err := b.Store.Put(ctx, next, revision)
	switch {
	case err == nil:
		return stored, true, false, nil
	case errors.Is(err, ErrConflict):
		if stored.Revision == 0 {
			stored = absent(next.Key)
		}
		return stored, stored.Token == token, false, nil
	case errors.Is(err, ErrTooLarge):
		return Record{}, false, false, err
	}
	stored, won, err = b.verify(ctx, next, revision, err)
	return stored, won, true, err
}

// verify looks whether a write happened whose answer was lost.
// While the revision has not moved, it may still happen.
func (b *Broker) verify(ctx context.Context, next Record, revision int64, cause error) (Record, bool, error) {
	stored, err := b.Store.Get(ctx, next.Key)
	if err != nil || stored.Revision <= revision {
		return Record{}, false, cause
	}
	return stored, stored.Token == next.Token, nil
}

// owns reports whether the operation is, or was, one of the record's.
func owns(r Record, operation string) bool {
	_, finished := r.Lifecycle.Result(operation)
	return finished || r.Lifecycle.Operation.ID == operation
}

// begin starts the workflow of an operation that was just claimed. A failure is
// none for the platform: the operation is stored, and the janitor will find it.
func (b *Broker) begin(ctx context.Context, rec Record, start Start) {
	op := rec.Lifecycle.Operation
	b.Observer.OperationStarted(string(rec.Lifecycle.Kind), string(op.Verb))
	if err := b.Workflow.Start(context.WithoutCancel(ctx), start); err != nil {
		level := slog.LevelWarn
		if errors.Is(err, ErrStopping) {
			level = slog.LevelInfo
		}
		b.Logger.LogAttrs(ctx, level, "the workflow did not start; the janitor will", keyAttrs(rec.Key,
			slog.String("operation", start.Operation), slog.String("error", err.Error()))...)
	}
}

// release stops the workflow that a held request began for its own death, once the
// request has seen the operation end.
func (b *Broker) release(ctx context.Context, rec Record, start Start) {
	workflow, ok := b.Workflow.(Stopper)
	if _, ended := rec.Lifecycle.Result(start.Operation); !ok || !ended || start.Delay == 0 {
		return
	}
	if err := workflow.Stop(ctx, start); err != nil {
		b.Logger.LogAttrs(ctx, slog.LevelDebug, "the workflow was not stopped; it ends by itself", keyAttrs(start.Key,
			slog.String("operation", start.Operation), slog.String("error", err.Error()))...)
	}
}

func keyAttrs(k Key, more ...slog.Attr) []slog.Attr {
	attrs := []slog.Attr{slog.String("client", k.Client), slog.String("instance_id", k.InstanceID)}
	if k.BindingID != "" {
		attrs = append(attrs, slog.String("binding_id", k.BindingID))
	}
	return append(attrs, more...)
}

// instanceResult turns the decision on an instance's PUT, PATCH or DELETE into the
// answer, and starts the workflow of a new operation.
func (b *Broker) instanceResult(ctx context.Context, rec Record, d lifecycle.Decision, id string) (Result, error) {
	switch d.Outcome {
	case lifecycle.Accepted:
		b.begin(ctx, rec, Start{Key: rec.Key, Operation: id})
		return Result{Outcome: OutcomeAccepted, Operation: id, RetryAfter: b.retryAfter(rec), DashboardURL: rec.DashboardURL, Metadata: rec.Metadata}, nil
	case lifecycle.Running:
		return Result{
			Outcome: OutcomeRunning, Operation: rec.Lifecycle.Operation.ID,
			RetryAfter: b.retryAfter(rec), DashboardURL: rec.DashboardURL, Metadata: rec.Metadata,
		}, nil
	case lifecycle.Exists:
		return Result{Outcome: OutcomeExists, DashboardURL: rec.DashboardURL, Metadata: rec.Metadata}, nil
	default:
		return Result{}, refusal(rec, d.Outcome)
	}
}

// refusal is the one table from the lifecycle's outcomes to refusals.
func refusal(rec Record, o lifecycle.Outcome) error {
	what := "service " + string(rec.Lifecycle.Kind)
	switch o {
	case lifecycle.Conflict:
		return conflict(rec, what)
	case lifecycle.Busy:
		return refuse(CodeConcurrency, "Another operation on this %s is in progress. Wait until it has ended and send the request again.", what)
	case lifecycle.Superseded:
		return superseded(what)
	case lifecycle.NotUpdatable:
		return refuse(CodeUnprocessable, "The %s cannot be changed, because its last operation failed: %s Delete it and create it again.", what, lastFailure(rec))
	case lifecycle.AsyncRequired:
		return refuse(CodeAsyncRequired, "Send the request again with accepts_incomplete=true.")
	case lifecycle.Missing:
		return refuse(CodeNotFound, "There is no such service instance. Check its id, or create it first.")
	case lifecycle.AlreadyGone:
		return refuse(CodeGone, "There is no such %s.", what)
	default:
		return &Error{Code: CodeInternal, Description: fmt.Sprintf("outcome %q of a %s", o, what)}
	}
}

func conflict(rec Record, what string) error {
	if rec.Lifecycle.State == lifecycle.DeleteFailed {
		return refuse(CodeConflict, "The %s is still there, because deleting it failed. Delete it again before you create it again.", what)
	}
	return refuse(CodeConflict, "A %s with this id exists already with other attributes. Use another id, or send the attributes that it was created with.", what)
}

// superseded: somebody else's operation came between reading and writing, and nothing
// was claimed.
func superseded(what string) error {
	return refuse(CodeConcurrency, "The %s was changed by another request at the same time. Send the request again.", what)
}

func lastFailure(rec Record) string {
	if n := len(rec.Lifecycle.Finished); n > 0 {
		return rec.Lifecycle.Finished[n-1].Description
	}
	return "the reason is not known any more."
}

func outOfTime(cause error) error {
	return &Error{
		Code: CodeOutOfTime, Cause: cause,
		Description: "The request took longer than the broker may hold it. Delete what it was to create, or send it again.",
	}
}

// plan looks a plan up for something new.
func (b *Broker) plan(ctx context.Context, client, serviceID, planID string) (Plan, error) {
	plan, err := b.Catalog.Plan(ctx, client, serviceID, planID)
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

// checkParameters turns what the schema says into a refusal.
func (b *Broker) checkParameters(ctx context.Context, q ParametersQuery) error {
	if err := b.Catalog.CheckParameters(ctx, q); err != nil {
		return &Error{Code: CodeBadRequest, Description: sentence(err)}
	}
	return nil
}

// sentence is the text of an error that was made for users, as they read it.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// deadline is when an operation on this plan has had its time.
func (b *Broker) deadline(plan Plan) time.Time {
	return b.Now().Add(positive(plan.MaximumPollingDuration, b.Deadline))
}

// dueAfter is how long the workflow of a new operation may take to show itself.
func (b *Broker) dueAfter(q lifecycle.Request) time.Duration {
	grace := 2 * time.Minute
	if !q.AcceptsIncomplete {
		grace += b.RequestBudget
	}
	return grace
}
