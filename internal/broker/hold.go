package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
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

// answerBind answers 202, or holds the request until the operation has ended.
func (b *Broker) answerBind(ctx context.Context, rec Record, p *bind, o Outcome) (Result, error) {
	start := Start{Key: p.key, Operation: rec.Lifecycle.Operation.ID}
	if o == OutcomeAccepted {
		start.Operation, start.Delay = p.id, b.firstDelay(p.incomplete)
		b.begin(ctx, rec, start)
	}
	if p.incomplete {
		return Result{Outcome: o, Operation: start.Operation, RetryAfter: b.retryAfter(rec)}, nil
	}
	rec, err := b.hold(ctx, p.key, start.Operation, o == OutcomeAccepted)
	defer b.release(ctx, rec, start) // the answer comes first: the key is there
	if err != nil {
		return Result{}, err
	}
	if o == OutcomeAccepted {
		return b.finishedBind(ctx, rec, p, OutcomeCreated)
	}
	return b.finishedBind(ctx, rec, p, OutcomeExists)
}

// firstDelay keeps the workflow off while the request drives the operation itself.
func (b *Broker) firstDelay(incomplete bool) time.Duration {
	if incomplete {
		return 0
	}
	return b.RequestBudget
}

// finishedBind reads the credentials by the recorded GUID of the key, which no
// later operation can change.
func (b *Broker) finishedBind(ctx context.Context, rec Record, p *bind, o Outcome) (Result, error) {
	details, err := b.details(WithOffering(ctx, p.instance.Attributes.OfferingName), rec)
	if err != nil {
		return Result{}, err
	}
	return Result{Outcome: o, Binding: &BindingBody{KeyDetails: details}}, nil
}

// details tries until the context ends: an error to a duplicate makes platforms
// revoke credentials that work.
func (b *Broker) details(ctx context.Context, rec Record) (KeyDetails, error) {
	backend, err := b.backend(rec.Key.Client)
	if err != nil {
		return KeyDetails{}, err
	}
	pause := newPause()
	for {
		details, err := backend.KeyDetails(ctx, rec.Lifecycle.CFGUID)
		if err == nil {
			return details, nil
		}
		if errors.Is(err, ErrCredentials) {
			return KeyDetails{}, unusable(err)
		}
		if errors.Is(err, ErrNotFound) {
			switch place := b.inPlace(ctx, rec); {
			case place == nil:
				return KeyDetails{}, &Error{Code: CodeBackend, Cause: err, Description: "The credentials do not exist any more in Cloud Foundry. Delete the service binding and create it again."}
			case elsewhere(place): // which waiting does not change
				return KeyDetails{}, &Error{Code: CodeUnavailable, RetryAfter: 60, Cause: place, Description: lifecycle.Elsewhere}
			}
		}
		if b.Sleep(ctx, pause.next()) != nil {
			return KeyDetails{}, &Error{Code: CodeOutOfTime, Cause: err, Description: "Cloud Foundry did not hand out the credentials in time. Send the request again."}
		}
	}
}

// unusable answers at once for credentials that another try does not change.
func unusable(cause error) error {
	text := or(userText(cause), "The credentials that the backing broker made are not a JSON object; they cannot be handed on.")
	return &Error{Code: CodeBackend, Cause: cause, Description: text + " Delete the service binding."}
}

// beginKey is where a context has what WithWaiting gave it.
type beginKey struct{}

// WithWaiting returns a context for one request, in which begin is asked before the
// use case first waits for Cloud Foundry, and before anything is written for it: the
// error of begin is then the use case's, as it is. It may be asked again. Without it
// everybody may wait.
func WithWaiting(ctx context.Context, begin func() error) context.Context {
	return context.WithValue(ctx, beginKey{}, begin)
}

// BeginWaiting asks whether the request may wait for Cloud Foundry from now on. The
// error is the answer to it.
func BeginWaiting(ctx context.Context) error {
	if begin, ok := ctx.Value(beginKey{}).(func() error); ok {
		return begin()
	}
	return nil
}

// checkAndWait is check, and then whether a bind that is held, or reads credentials,
// may wait.
func (p *bind) checkAndWait(rec Record, d lifecycle.Decision) error {
	if err := p.check(rec, d); err != nil {
		return err
	}
	if d.Outcome == lifecycle.Exists || held(d, p.incomplete) {
		return BeginWaiting(p.ctx)
	}
	return nil
}

// held reports whether a decision on a binding keeps the request until the operation,
// or one of its instance, has ended.
func held(d lifecycle.Decision, incomplete bool) bool {
	switch d.Outcome {
	case lifecycle.Accepted, lifecycle.Running, lifecycle.Hold:
		return !incomplete
	default:
		return false
	}
}

// thenWait is check, and then whether an unbind that is held may wait.
func thenWait(ctx context.Context, incomplete bool, check func(lifecycle.Decision) error) func(lifecycle.Decision) error {
	return func(d lifecycle.Decision) error {
		if err := check(d); err != nil || !held(d, incomplete) {
			return err
		}
		return BeginWaiting(ctx)
	}
}
