package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// held reports whether a decision on a binding keeps the request until the operation, or one of its instance, has
// ended.
func held(d lifecycle.Decision, incomplete bool) bool {
	switch d.Outcome {
	case lifecycle.Accepted, lifecycle.Running, lifecycle.Hold:
		return !incomplete
	default:
		return false
	}
}

// pause grows while a request is held: the first looks come quickly, since most backing brokers answer at once.
type pause struct{ d, most time.Duration }

func newPause() *pause { return &pause{d: 20 * time.Millisecond, most: time.Second} }

func (p *pause) next() time.Duration {
	d := p.d
	p.d = min(p.d*8/5, p.most)
	return d
}

// holder keeps synchronous binds and unbinds until their operations have ended.
type holder struct {
	*parts
	driver *driver
	// turns are the operations that duplicates of held requests drive.
	turns *turns
}

// hold keeps a request until the operation has ended or the context has. The request that claimed the operation drives
// it. A duplicate waits on the record while that one can be alive, and then drives as well, less often, and one of each
// process alone: the workflow may have long waits by then.
func (h *holder) hold(ctx context.Context, key Key, operation string, claimed bool) (Record, error) {
	token, err := h.random.token()
	if err != nil {
		return Record{}, err
	}
	request := &heldRequest{holder: h, turn: turn{key, operation}, claimed: claimed, pause: newPause()}
	defer request.leave()
	for {
		if !request.drives() || !h.driver.runsOn(ctx, key, operation, token) {
			rec, err := h.records.read(ctx, key)
			if err != nil && ctx.Err() != nil {
				return Record{}, outOfTime(err)
			}
			if err != nil {
				return Record{}, err
			}
			if !rec.Lifecycle.Running(operation) {
				return rec, verdict(rec, operation)
			}
			request.began = rec.Lifecycle.Operation.Started
		}
		if err := h.clock.sleep(ctx, request.pause.next()); err != nil {
			return Record{}, outOfTime(err)
		}
	}
}

// heldRequest is a held request's part in driving its operation.
type heldRequest struct {
	holder *holder
	turn   turn
	// claimed: the request began the operation. taken: it has the turn of the duplicates.
	claimed, taken bool
	// began is when the operation did, as far as the request has read it.
	began time.Time
	pause *pause
}

// drives reports whether the request makes the next step of its operation.
func (r *heldRequest) drives() bool {
	if r.claimed || r.taken {
		return true
	}
	clock := r.holder.clock
	if r.began.IsZero() || clock.now().Before(r.began.Add(clock.requestBudget)) {
		return false // the request that began it is at it
	}
	if r.taken = r.holder.turns.take(r.turn); r.taken {
		r.pause = &pause{d: 250 * time.Millisecond, most: 2 * time.Second}
	}
	return r.taken
}

// leave lets another duplicate drive.
func (r *heldRequest) leave() {
	if r.taken {
		r.holder.turns.leave(r.turn)
	}
}

// turns says which operations duplicates drive, so that many of them make no more calls than one. It may be used
// concurrently.
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

// details reads the credentials of a binding of the offering. It tries until the context ends: an error to a duplicate
// makes platforms revoke credentials that work.
func (h *holder) details(ctx context.Context, rec Record, offering string) (KeyDetails, error) {
	backend, err := h.backends.of(rec.Key.Client)
	if err != nil {
		return KeyDetails{}, err
	}
	pause := newPause()
	for {
		details, err := backend.KeyDetails(ctx, rec.Lifecycle.CFGUID, offering)
		if err == nil {
			return details, nil
		}
		if errors.Is(err, ErrCredentials) {
			return KeyDetails{}, unusable(err)
		}
		if errors.Is(err, ErrNotFound) {
			switch place := h.backends.inPlace(ctx, rec); {
			case place == nil:
				return KeyDetails{}, &Error{Code: CodeBackend, Cause: err, Description: "The credentials do not exist any more in Cloud Foundry. Delete the service binding and create it again."}
			case elsewhere(place): // which waiting does not change
				return KeyDetails{}, &Error{Code: CodeUnavailable, RetryAfter: 60, Cause: place, Description: lifecycle.Elsewhere}
			}
		}
		if h.clock.sleep(ctx, pause.next()) != nil {
			return KeyDetails{}, &Error{Code: CodeOutOfTime, Cause: err, Description: "Cloud Foundry did not hand out the credentials in time. Send the request again."}
		}
	}
}

// unusable answers at once for credentials that another try does not change.
func unusable(cause error) error {
	text := or(userText(cause), "The credentials that the backing broker made are not a JSON object; they cannot be handed on.")
	return &Error{Code: CodeBackend, Cause: cause, Description: text + " Delete the service binding."}
}
