package broker

import (
	"context"
	"errors"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Deprovision answers DELETE /v2/service_instances/:instance_id (OSB "Deprovisioning"). It is accepted in every state
// of an instance, also while it is being created or updated, and never waits for Cloud Foundry.
//
// Errors are *Error: CodeGone, CodeAsyncRequired, CodeUnavailable.
func (b *Broker) Deprovision(ctx context.Context, q DeleteRequest) (Result, error) {
	id, err := b.random.operationID("delete")
	if err != nil {
		return Result{}, err
	}
	c := change[struct{}, time.Time]{
		parts: b.parts, key: Key{Client: q.Client, InstanceID: q.InstanceID}, id: id,
		verb: &deprovision{parts: b.parts, call: q.Call},
	}
	rec, d, err := c.run(ctx)
	if err != nil {
		return Result{}, err
	}
	return b.instanceResult(ctx, rec, d.Outcome, id)
}

// deprovision is what a DELETE of an instance does. What a new delete needs to know is its deadline.
type deprovision struct {
	*parts
	call Call
}

func (p *deprovision) request(context.Context, Record) (lifecycle.Request, struct{}, error) {
	return lifecycle.Request{Verb: lifecycle.Delete, AcceptsIncomplete: p.call.AcceptsIncomplete}, struct{}{}, nil
}

// allow refuses nothing. The deadline is zero where the catalog does not know the plan.
func (p *deprovision) allow(ctx context.Context, rec Record, d lifecycle.Decision, _ struct{}) (time.Time, error) {
	if d.Outcome != lifecycle.Accepted {
		return time.Time{}, nil
	}
	plan, err := p.catalog.Plan(ctx, rec.Key.Client, rec.Attributes.ServiceID, rec.Attributes.PlanID)
	if err != nil {
		return time.Time{}, nil
	}
	return p.clock.deleteDeadlineOf(plan), nil
}

// apply drops what an operation that the delete supersedes still wanted.
func (p *deprovision) apply(rec Record, deadline time.Time) (Record, error) {
	rec.Target, rec.Parameters = nil, nil
	p.call.sign(&rec)
	if !deadline.IsZero() { // else the default stays
		rec.Lifecycle.Operation.Deadline = deadline
	}
	return rec, nil
}

// Unbind answers DELETE …/service_bindings/:binding_id (OSB "Unbinding"). Without accepts_incomplete the request is
// held until the key is gone or the context ends.
//
// Errors are *Error: CodeBadRequest (service_id or plan_id missing, and there is something to delete), CodeGone,
// CodeBackend, CodeOutOfTime, CodeUnavailable.
func (b *Broker) Unbind(ctx context.Context, q DeleteRequest) (Result, error) {
	id, err := b.random.operationID("unbind")
	if err != nil {
		return Result{}, err
	}
	key := Key{Client: q.Client, InstanceID: q.InstanceID, BindingID: q.BindingID}
	c := change[struct{}, struct{}]{
		parts: b.parts, key: key, id: id,
		verb: &requestedUnbind{unbind: unbind{parts: b.parts, key: key, call: q.Call}, q: q},
	}
	rec, d, err := c.run(ctx)
	if err != nil {
		return Result{}, err
	}
	switch d.Outcome {
	case lifecycle.Accepted:
		start := Start{Key: key, Operation: id, Delay: b.clock.firstDelay(q.AcceptsIncomplete)}
		b.operations.begin(ctx, rec, start)
		return b.answerUnbind(ctx, rec, q, start, OutcomeAccepted)
	case lifecycle.Running:
		return b.answerUnbind(ctx, rec, q, Start{Key: key, Operation: rec.Lifecycle.Operation.ID}, OutcomeRunning)
	default:
		return Result{}, refusal(rec, d.Outcome)
	}
}

// unbind is what every DELETE of a binding does: that of a platform, and that of a driver which deletes the instance.
type unbind struct {
	*parts
	key  Key
	call Call
}

func (p *unbind) request(ctx context.Context, _ Record) (lifecycle.Request, struct{}, error) {
	instance, err := p.records.instanceView(ctx, p.key)
	return lifecycle.Request{
		Verb: lifecycle.Delete, AcceptsIncomplete: p.call.AcceptsIncomplete, Instance: instance,
	}, struct{}{}, err
}

func (p *unbind) apply(rec Record, _ struct{}) (Record, error) {
	rec.Parameters = nil
	p.call.sign(&rec)
	return rec, nil
}

// requestedUnbind is the unbind of a platform.
type requestedUnbind struct {
	unbind
	q DeleteRequest
}

// allow refuses what lacks mandatory fields, unless it is gone (docs/osb-choices.md), and asks whether a request that
// is to be held may wait.
func (p *requestedUnbind) allow(ctx context.Context, _ Record, d lifecycle.Decision, _ struct{}) (struct{}, error) {
	if d.Outcome != lifecycle.AlreadyGone && (p.q.ServiceID == "" || p.q.PlanID == "") {
		return struct{}{}, refuse(CodeBadRequest, "service_id and plan_id are missing in the query. Send both with the values that the binding was created with.")
	}
	if held(d, p.q.AcceptsIncomplete) {
		return struct{}{}, BeginWaiting(ctx)
	}
	return struct{}{}, nil
}

// answerUnbind answers 202, or holds the request until the operation that start names has ended.
func (b *Broker) answerUnbind(ctx context.Context, rec Record, q DeleteRequest, start Start, o Outcome) (Result, error) {
	op := start.Operation
	if q.AcceptsIncomplete {
		return Result{Outcome: o, Operation: op, RetryAfter: b.clock.retryAfter(rec)}, nil
	}
	rec, err := b.holder.hold(ctx, rec.Key, op, o == OutcomeAccepted)
	if err := unbindError(rec, op, err); err != nil {
		return Result{}, err
	}
	return Result{Outcome: OutcomeDeleted}, nil
}

// unbindError: what counts for an unbind is that its binding is gone, whoever came after it.
func unbindError(rec Record, op string, err error) error {
	if f, ok := rec.Lifecycle.Result(op); ok && f.Succeeded {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeOutOfTime {
		e.Description = "The service binding could not be deleted in time; it is being deleted in the background. Send the request again."
	}
	return err
}
