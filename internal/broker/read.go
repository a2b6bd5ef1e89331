package broker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// FetchInstance answers GET /v2/service_instances/:instance_id (OSB "Fetching a Service Instance"), from the record.
// The parameters come from the backing broker and are left out where it does not tell them. One call tells them, and
// that the instance is not there any more; a second one confirms that.
//
// Errors are *Error: CodeNotFound, CodeConcurrency, CodeUnavailable.
func (b *Broker) FetchInstance(ctx context.Context, q FetchRequest) (InstanceBody, error) {
	rec, err := b.records.read(ctx, Key{Client: q.Client, InstanceID: q.InstanceID})
	if err != nil {
		return InstanceBody{}, err
	}
	if err := readable(rec); err != nil {
		return InstanceBody{}, err
	}
	a := rec.Attributes
	plan, err := b.catalog.Plan(ctx, q.Client, a.ServiceID, a.PlanID)
	if err == nil && !plan.InstancesRetrievable {
		return InstanceBody{}, refuse(CodeNotFound, "Service instances of this offering cannot be fetched.")
	}
	if err := BeginWaiting(ctx); err != nil {
		return InstanceBody{}, err
	}
	parameters, err := b.instanceParameters(ctx, rec)
	if err != nil {
		return InstanceBody{}, err
	}
	return InstanceBody{
		ServiceID: a.ServiceID, PlanID: a.PlanID, DashboardURL: rec.DashboardURL, Metadata: rec.Metadata,
		Parameters: parameters, MaintenanceVersion: a.MaintenanceVersion,
	}, nil
}

// readable refuses what is not there, or is being changed. What was never made has no GUID, also when deleting it
// failed.
func readable(rec Record) error {
	switch l := rec.Lifecycle; {
	case l.State == lifecycle.Updating, l.State == lifecycle.Deleting:
		return refusal(rec, lifecycle.Busy)
	case l.CFGUID == "" || !l.State.Living() || l.State == lifecycle.CreateFailed:
		return refusal(rec, lifecycle.Missing)
	default:
		return nil
	}
}

// FetchBinding answers GET …/service_bindings/:binding_id (OSB "Fetching a Service Binding").
//
// The credentials are the binding; the parameters are left out where the backing broker does not tell them.
//
// Errors are *Error: CodeNotFound, CodeBackend (the credentials are none that a platform can use), CodeUnavailable.
func (b *Broker) FetchBinding(ctx context.Context, q FetchRequest) (BindingBody, error) {
	key := Key(q)
	rec, err := b.records.read(ctx, key)
	if err != nil {
		return BindingBody{}, err
	}
	instance, err := b.records.read(ctx, key.Instance())
	if err != nil {
		return BindingBody{}, err
	}
	if !fetchable(rec, instance) {
		return BindingBody{}, refuse(CodeNotFound, "There is no such service binding, or it is not ready. Check the ids, or wait until its operation has ended.")
	}
	plan, err := b.catalog.Plan(ctx, q.Client, instance.Attributes.ServiceID, instance.Attributes.PlanID)
	if err == nil && !plan.BindingsRetrievable {
		return BindingBody{}, refuse(CodeNotFound, "Service bindings of this offering cannot be fetched.")
	}
	if err := BeginWaiting(ctx); err != nil {
		return BindingBody{}, err
	}
	details, err := b.holder.details(ctx, rec, instance.Attributes.OfferingName)
	if err != nil {
		return BindingBody{}, fetchError(err)
	}
	parameters, _ := b.parametersOf(ctx, rec, Backend.KeyParameters)
	return BindingBody{KeyDetails: details, Parameters: parameters}, nil
}

func fetchable(binding, instance Record) bool {
	return lifecycle.EffectiveState(binding.Lifecycle, view(instance)) == lifecycle.Ready
}

// fetchError: a key that vanished is not found, one that cannot be read now is for the platform to try again.
func fetchError(err error) error {
	switch {
	case elsewhere(err):
		return err
	case CodeOf(err) != CodeBackend:
		return cannotReach(err)
	case errors.Is(err, ErrNotFound):
		return refuse(CodeNotFound, "The service binding does not exist any more in Cloud Foundry. Delete it and create it again.")
	default:
		return err
	}
}

func cannotReach(err error) error {
	return &Error{
		Code: CodeUnavailable, RetryAfter: 5, Cause: err,
		Description: "Cloud Foundry cannot be reached at the moment. Send the request again.",
	}
}

// instanceParameters are nil where the backing broker does not tell them. An instance that Cloud Foundry says is not
// there, twice, is not found, as its bindings are not.
func (b *Broker) instanceParameters(ctx context.Context, rec Record) (json.RawMessage, error) {
	parameters, err := b.parametersOf(ctx, rec, Backend.InstanceParameters)
	switch {
	case errors.Is(err, ErrBusy):
		return nil, refusal(rec, lifecycle.Busy)
	case errors.Is(err, ErrNotFound) && b.vanished(ctx, rec):
		return nil, refuse(CodeNotFound, "The service instance does not exist any more in Cloud Foundry. Delete it and create it again.")
	default:
		return parameters, nil
	}
}

// vanished asks once more for an instance that was answered with "no such resource". Not to know is not to know of an
// absence.
func (b *Broker) vanished(ctx context.Context, rec Record) bool {
	backend, err := b.backends.of(rec.Key.Client)
	if err != nil {
		return false
	}
	look, err := backend.FindInstance(ctx, rec.Lifecycle.CFGUID, rec.Attributes.OfferingName)
	return err == nil && len(look.Rows) == 0 && b.backends.inPlace(ctx, rec) == nil
}

// parametersOf asks the backing broker. That it does not tell them is said in the log, but not why: its words may quote
// what was sent.
func (b *Broker) parametersOf(ctx context.Context, rec Record, ask func(Backend, context.Context, string) (json.RawMessage, error)) (json.RawMessage, error) {
	backend, err := b.backends.of(rec.Key.Client)
	if err != nil {
		return nil, err
	}
	parameters, err := ask(backend, ctx, rec.Lifecycle.CFGUID)
	if err != nil && !errors.Is(err, ErrNotRetrievable) && ctx.Err() == nil {
		b.logger.LogAttrs(ctx, slog.LevelInfo, "the parameters are not told, and left out", keyAttrs(rec.Key)...)
	}
	return parameters, err
}

// LastOperation answers GET …/last_operation of an instance or a binding (OSB "Polling Last Operation"), from the
// record alone. An operation that the record does not know counts as none.
//
// Errors are *Error: CodeNotFound, CodeGone (the operation's name says that it was a delete, and nothing is remembered
// of it), CodeUnavailable.
func (b *Broker) LastOperation(ctx context.Context, q PollRequest) (Poll, error) {
	key := Key{Client: q.Client, InstanceID: q.InstanceID, BindingID: q.BindingID}
	rec, err := b.records.read(ctx, key)
	if err != nil {
		return Poll{}, err
	}
	var instance lifecycle.InstanceView
	if q.BindingID != "" {
		if instance, err = b.records.instanceView(ctx, key); err != nil {
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
			State: osb.InProgress, RetryAfter: b.clock.retryAfter(rec),
			Description: lifecycle.Waiting(rec.Lifecycle, instance, b.clock.now(), b.clock.pace),
		}
	case p.Result.Succeeded:
		return Poll{State: osb.Succeeded, DeleteDone: p.Result.Verb == lifecycle.Delete}
	default:
		return failedPoll(rec, p.Result)
	}
}

// failedPoll says of a failed update whether the instance works and whether the same update may be tried again; both
// only where they are false (docs/osb-choices.md).
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
