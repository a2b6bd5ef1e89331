package broker

import (
	"context"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
