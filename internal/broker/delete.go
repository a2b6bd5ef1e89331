package broker

import (
	"context"
	"errors"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Unbind answers DELETE …/service_bindings/:binding_id (OSB "Unbinding"). Without
// accepts_incomplete the request is held until the key is gone or the context ends.
//
// Errors are *Error: CodeBadRequest (service_id or plan_id missing, and there is
// something to delete), CodeGone, CodeBackend, CodeOutOfTime, CodeUnavailable.
func (b *Broker) Unbind(ctx context.Context, q DeleteRequest) (Result, error) {
	id, err := b.operationID("unbind")
	if err != nil {
		return Result{}, err
	}
	key := Key{Client: q.Client, InstanceID: q.InstanceID, BindingID: q.BindingID}
	rec, d, err := b.run(ctx, b.unbinding(key, id, q.Call, thenWait(ctx, q.AcceptsIncomplete, checkHints(q))))
	if err != nil {
		return Result{}, err
	}
	switch d.Outcome {
	case lifecycle.Accepted:
		start := Start{Key: key, Operation: id, Delay: b.firstDelay(q.AcceptsIncomplete)}
		b.begin(ctx, rec, start)
		return b.answerUnbind(ctx, rec, q, start, OutcomeAccepted)
	case lifecycle.Running:
		return b.answerUnbind(ctx, rec, q, Start{Key: key, Operation: rec.Lifecycle.Operation.ID}, OutcomeRunning)
	default:
		return Result{}, refusal(rec, d.Outcome)
	}
}

// unbinding is the change that turns a binding to deleting.
func (b *Broker) unbinding(key Key, id string, c Call, check func(lifecycle.Decision) error) *change {
	return &change{
		key: key, id: id,
		request: func(ctx context.Context, _ Record) (lifecycle.Request, error) {
			instance, err := b.instanceView(ctx, key)
			return lifecycle.Request{Verb: lifecycle.Delete, AcceptsIncomplete: c.AcceptsIncomplete, Instance: instance}, err
		},
		check: func(_ Record, d lifecycle.Decision) error { return check(d) },
		apply: func(rec *Record) error {
			rec.Parameters = nil
			c.sign(rec)
			return nil
		},
	}
}

// checkHints refuses what lacks mandatory fields, unless it is gone (osb-choices B4).
func checkHints(q DeleteRequest) func(lifecycle.Decision) error {
	return func(d lifecycle.Decision) error {
		if d.Outcome == lifecycle.AlreadyGone || (q.ServiceID != "" && q.PlanID != "") {
			return nil
		}
		return refuse(CodeBadRequest, "service_id and plan_id are missing in the query. Send both with the values that the binding was created with.")
	}
}

// answerUnbind answers 202, or holds the request until the operation that start names
// has ended.
func (b *Broker) answerUnbind(ctx context.Context, rec Record, q DeleteRequest, start Start, o Outcome) (Result, error) {
	op := start.Operation
	if q.AcceptsIncomplete {
		return Result{Outcome: o, Operation: op, RetryAfter: b.retryAfter(rec)}, nil
	}
	rec, err := b.hold(ctx, rec.Key, op, o == OutcomeAccepted)
	b.release(ctx, rec, start)
	if err := unbindError(rec, op, err); err != nil {
		return Result{}, err
	}
	return Result{Outcome: OutcomeDeleted}, nil
}

// unbindError: what counts for an unbind is that its binding is gone, whoever came
// after it.
func unbindError(rec Record, op string, err error) error {
	if f, ok := rec.Lifecycle.Result(op); ok && f.Succeeded {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e.Code == CodeOutOfTime {
		e.Description = "The service binding could not be deleted in time; it is being deleted in the background. Send the request again."
	}
	return err
}

// Deprovision answers DELETE /v2/service_instances/:instance_id (OSB
// "Deprovisioning"). It is accepted in every state of an instance, also while it is
// being created or updated, and never waits for Cloud Foundry.
//
// Errors are *Error: CodeGone, CodeAsyncRequired, CodeUnavailable.
func (b *Broker) Deprovision(ctx context.Context, q DeleteRequest) (Result, error) {
	id, err := b.operationID("delete")
	if err != nil {
		return Result{}, err
	}
	rec, d, err := b.run(ctx, &change{
		key: Key{Client: q.Client, InstanceID: q.InstanceID}, id: id,
		request: func(context.Context, Record) (lifecycle.Request, error) {
			return lifecycle.Request{Verb: lifecycle.Delete, AcceptsIncomplete: q.AcceptsIncomplete}, nil
		},
		check: func(Record, lifecycle.Decision) error { return nil },
		apply: func(rec *Record) error { b.cancel(ctx, rec, q.Call); return nil },
	})
	if err != nil {
		return Result{}, err
	}
	return b.instanceResult(ctx, rec, d, id)
}

// cancel makes a record ready to be deleted: what an operation that the delete
// supersedes still wanted is dropped.
func (b *Broker) cancel(ctx context.Context, rec *Record, c Call) {
	rec.Target, rec.Parameters = nil, nil
	c.sign(rec)
	plan, err := b.Catalog.Plan(ctx, rec.Key.Client, rec.Attributes.ServiceID, rec.Attributes.PlanID)
	if err != nil {
		return // the default stays
	}
	rec.Lifecycle.Operation.Deadline = b.deleteDeadline(plan)
}

// deleteDeadline never ends a delete that may have to wait for a lost POST: a plan
// in a hurry limits how long a platform polls, not whether the delete gets done.
func (b *Broker) deleteDeadline(plan Plan) time.Time {
	at := b.deadline(plan)
	if least := b.Now().Add(2*b.SettleAfter + time.Minute); at.Before(least) {
		return least
	}
	return at
}
