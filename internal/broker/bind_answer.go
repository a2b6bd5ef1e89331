package broker

import (
	"context"
	"errors"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
