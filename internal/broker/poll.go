package broker

import (
	"context"
	"strings"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// LastOperation answers GET …/last_operation of an instance or a binding (OSB
// "Polling Last Operation"), from the record alone. An operation that the record
// does not know counts as none.
//
// Errors are *Error: CodeNotFound, CodeGone (the operation's name says that it was a
// delete, and nothing is remembered of it), CodeUnavailable.
func (b *Broker) LastOperation(ctx context.Context, q PollRequest) (Poll, error) {
	key := Key{Client: q.Client, InstanceID: q.InstanceID, BindingID: q.BindingID}
	rec, err := b.read(ctx, key)
	if err != nil {
		return Poll{}, err
	}
	var instance lifecycle.InstanceView
	if q.BindingID != "" {
		if instance, err = b.instanceView(ctx, key); err != nil {
			return Poll{}, err
		}
	}
	p := lifecycle.Poll(rec.Lifecycle, q.Operation, instance)
	if !p.Known {
		return Poll{}, forgotten(q)
	}
	return b.poll(rec, p, instance), nil
}

func (b *Broker) poll(rec Record, p lifecycle.Progress, instance lifecycle.InstanceView) Poll {
	switch {
	case p.Running:
		return Poll{
			State: osb.InProgress, RetryAfter: b.retryAfter(rec),
			Description: lifecycle.Waiting(rec.Lifecycle, instance, b.Now(), b.Pace),
		}
	case p.Result.Succeeded:
		return Poll{State: osb.Succeeded, DeleteDone: p.Result.Verb == lifecycle.Delete}
	default:
		return failedPoll(rec, p.Result)
	}
}

// failedPoll says of a failed update whether the instance works and whether the
// same update may be tried again; both only where they are false (osb-choices E4).
func failedPoll(rec Record, f lifecycle.Finished) Poll {
	p := Poll{State: osb.Failed, Description: f.Description}
	if rec.Key.BindingID != "" || f.Verb != lifecycle.Update {
		return p
	}
	no := false
	if f.InstanceUnusable {
		p.InstanceUsable = &no
	}
	if f.UpdateNotRepeatable {
		p.UpdateRepeatable = &no
	}
	return p
}

// forgotten answers for what no record tells of.
func forgotten(q PollRequest) error {
	if strings.HasPrefix(q.Operation, "delete-") || strings.HasPrefix(q.Operation, "unbind-") {
		return refuse(CodeGone, "It was deleted.")
	}
	if q.BindingID != "" {
		return refuse(CodeNotFound, "There is no such service binding. Check the ids.")
	}
	return refuse(CodeNotFound, "There is no such service instance. Check its id.")
}

// instanceView reads what a binding must know of its instance.
func (b *Broker) instanceView(ctx context.Context, binding Key) (lifecycle.InstanceView, error) {
	rec, err := b.read(ctx, binding.Instance())
	return view(rec), err
}

func view(instance Record) lifecycle.InstanceView {
	l := instance.Lifecycle
	return lifecycle.InstanceView{State: l.State, CreateOp: l.CreateOp.ID, CFGUID: l.CFGUID, Offering: instance.Attributes.OfferingName}
}
