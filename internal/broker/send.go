package broker

import (
	"context"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// send makes the call whose intent was just stored in rec, and notes its answer.
func (dr *driver) send(ctx context.Context, rec Record, t lifecycle.Tick, e lifecycle.Effect) (Step, error) {
	left := dr.clock.remaining(t.Now)
	if left <= 0 {
		return Step{Wait: t.Wait}, nil // too late to send: the open call expires unsent
	}
	callCtx, cancel := context.WithTimeout(ctx, left)
	answer, err := dr.call(callCtx, rec, e)
	cancel()
	dr.logCall(ctx, rec, e, answer, err)
	t.Wait = dr.afterCall(rec, t.Wait, answer)
	wait, err := dr.note(ctx, rec, t, e, answer)
	return Step{Wait: wait}, err
}

// afterCall: a limiter is obeyed. A name that is taken, perhaps by what no look-up shows, is asked for again at the
// usual pace.
func (dr *driver) afterCall(rec Record, wait time.Duration, a Answer) time.Duration {
	switch a.Reply {
	case lifecycle.ReplyBusy, lifecycle.ReplyUnknown:
		return dr.clock.stayAway(rec, wait, a.RetryAfter)
	default:
		return dr.clock.bounded(rec, max(wait, a.RetryAfter))
	}
}

func (dr *driver) call(ctx context.Context, rec Record, e lifecycle.Effect) (Answer, error) {
	backend, err := dr.backends.of(rec.Key.Client)
	if err != nil {
		return Answer{Reply: lifecycle.ReplyBusy}, err
	}
	isKey := rec.Key.BindingID != ""
	switch {
	case e.Do == lifecycle.SendCreate && isKey:
		return backend.CreateKey(ctx, keyCall(rec))
	case e.Do == lifecycle.SendCreate:
		c := dr.instanceCall(ctx, rec, rec.Attributes)
		answer, err := backend.CreateInstance(ctx, c)
		return dr.reread(ctx, rec, rec.Attributes, c.PlanGUID, answer), err
	case e.Do == lifecycle.SendUpdate:
		c := dr.patchCall(ctx, rec)
		answer, err := backend.UpdateInstance(ctx, e.GUID, c)
		return dr.reread(ctx, rec, aimed(rec), c.PlanGUID, answer), err
	case isKey:
		return backend.DeleteKey(ctx, e.GUID)
	default:
		dr.nameForeignKeys(ctx, backend, rec, e.GUID)
		return backend.DeleteInstance(ctx, e.GUID)
	}
}

// reread turns a refusal of a plan's GUID into "try again" when the marketplace, read again, has another one: a backing
// broker that is registered again gets new GUIDs. The same one is tried once more: the plan may have been hidden for a
// moment.
func (dr *driver) reread(ctx context.Context, rec Record, a Attributes, used string, answer Answer) Answer {
	if !answer.StalePlan {
		return answer
	}
	if err := dr.catalog.Refresh(ctx, rec.Key.Client); err != nil {
		answer.Reply, answer.StalePlan = lifecycle.ReplyBusy, false // it is not known
		return answer
	}
	plan, err := dr.catalog.Plan(ctx, rec.Key.Client, a.ServiceID, a.PlanID)
	moved := used != "" && plan.PlanGUID != used // a PATCH that keeps the plan names none
	if err == nil && (moved || !rec.Lifecycle.Operation.MarketplaceReread) {
		answer.Reply = lifecycle.ReplyBusy
	}
	return answer
}

// aimed are the attributes that the record's update leads to.
func aimed(rec Record) Attributes {
	if rec.Target != nil {
		return *rec.Target
	}
	return rec.Attributes
}

// nameForeignKeys logs the keys of others that Cloud Foundry removes together with the instance (DEP-04 in
// docs/osb-choices.md). Not knowing them stops nothing.
func (dr *driver) nameForeignKeys(ctx context.Context, backend Backend, rec Record, guid string) {
	names, err := backend.ForeignKeys(ctx, guid)
	if err != nil || len(names) == 0 {
		return
	}
	dr.logger.LogAttrs(ctx, slog.LevelInfo, "keys of others are removed with the service instance", keyAttrs(rec.Key,
		slog.Any("keys", names))...)
}

func keyCall(rec Record) KeyCall {
	return KeyCall{
		Name: rec.Key.BindingID, InstanceGUID: rec.Lifecycle.InstanceGUID,
		Parameters: rec.Parameters, Marks: marks(rec),
	}
}

func marks(rec Record) Marks {
	op := rec.Lifecycle.Operation
	return Marks{Client: rec.Key.Client, Operation: op.ID, Seq: op.Seq}
}

func (dr *driver) instanceCall(ctx context.Context, rec Record, a Attributes) InstanceCall {
	return InstanceCall{
		Name: rec.Key.InstanceID, Offering: a.OfferingName, PlanGUID: dr.planGUID(ctx, rec.Key.Client, a),
		Parameters: rec.Parameters, Marks: marks(rec),
	}
}

// patchCall names only what the update changes: a maintenance version goes with the same plan only, a new plan brings
// its own.
func (dr *driver) patchCall(ctx context.Context, rec Record) InstanceCall {
	target := aimed(rec)
	c := dr.instanceCall(ctx, rec, target)
	if target.PlanID == rec.Attributes.PlanID {
		c.PlanGUID = ""
		if target.MaintenanceVersion != rec.Attributes.MaintenanceVersion {
			c.MaintenanceVersion = target.MaintenanceVersion
		}
	}
	return c
}

// planGUID asks the catalog, since a backing broker that is registered again gets new GUIDs for its plans, and falls
// back to the last one known.
func (dr *driver) planGUID(ctx context.Context, client string, a Attributes) string {
	plan, err := dr.catalog.Plan(ctx, client, a.ServiceID, a.PlanID)
	if err != nil {
		return a.PlanGUID
	}
	return plan.PlanGUID
}

// note writes what the answer settled. When the record has moved meanwhile, only the own open call is removed, as often
// as it takes; it does not stop with the caller's context, since a delete would otherwise have to wait the call out. It
// returns how long the driver stays away.
func (dr *driver) note(ctx context.Context, rec Record, t lifecycle.Tick, e lifecycle.Effect, answer Answer) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	replied := lifecycle.Replied{
		Operation: t.Operation, Do: e.Do, CallNumber: e.CallNumber, GUID: e.GUID,
		SameRevision: true, Answer: answer, Driver: t.Driver, Now: dr.clock.now(), Wait: t.Wait, Pace: t.Pace, Swept: t.Swept,
	}
	for range attempts {
		d, err := dr.next(rec.Lifecycle, replied)
		if err != nil || !d.Write {
			return t.Wait, err
		}
		stored, won, err := dr.records.put(ctx, settle(rec, d), rec.Revision)
		if won || err != nil {
			return or(d.Wait, t.Wait), err
		}
		rec, replied.SameRevision = stored, false
	}
	return t.Wait, nil
}

const noteTimeout = 10 * time.Second

// unbindAll turns the bindings of an instance that is being deleted to deleting, each with an operation and a workflow
// of its own.
func (dr *driver) unbindAll(ctx context.Context, instance Record, ids []string) {
	for _, id := range ids {
		key := instance.Key
		key.BindingID = id
		op, err := dr.random.operationID("unbind")
		if err != nil {
			return
		}
		c := change[struct{}, struct{}]{
			parts: dr.parts, key: key, id: op,
			verb: &unbindOfDelete{unbind: unbind{parts: dr.parts, key: key, call: onBehalf(instance)}, instance: instance},
		}
		rec, changed, err := c.run(ctx)
		if err != nil {
			dr.logger.LogAttrs(ctx, slog.LevelInfo, "a binding could not be turned to deleting; the next step tries again",
				keyAttrs(key, slog.String("error", err.Error()))...)
			continue
		}
		if changed.Outcome == lifecycle.Accepted {
			dr.operations.begin(ctx, rec, Start{Key: key, Operation: op})
		}
	}
}

// unbindOfDelete is the unbind that the delete of an instance begins with.
type unbindOfDelete struct {
	unbind
	instance Record
}

// allow refuses when the delete that wants the binding gone has ended. It reads after the binding was read: while the
// delete runs nothing is bound, so what was read is a binding of before, and the write's condition says that it stayed
// so.
func (p *unbindOfDelete) allow(ctx context.Context, _ Record, _ lifecycle.Decision, _ struct{}) (struct{}, error) {
	now, err := p.records.read(ctx, p.instance.Key)
	if err == nil && !now.Lifecycle.Running(p.instance.Lifecycle.Operation.ID) {
		err = refuse(CodeConcurrency, "The delete of the service instance has ended.")
	}
	return struct{}{}, err
}

// onBehalf makes the delete of an instance the request of those who asked for it.
func onBehalf(instance Record) Call {
	return Call{
		Client: instance.Key.Client, AcceptsIncomplete: true,
		OriginatingIdentity: instance.OriginatingIdentity, APIInfoLocation: instance.APIInfoLocation,
	}
}

// stepName is how log lines name an effect: a call by its HTTP method.
func stepName(do lifecycle.Action) string {
	switch do {
	case lifecycle.SendCreate:
		return "POST"
	case lifecycle.SendUpdate:
		return "PATCH"
	case lifecycle.SendDelete:
		return "DELETE"
	case lifecycle.SendDeleteLeftover:
		return "DELETE leftover"
	default:
		return string(do)
	}
}

func (dr *driver) logCall(ctx context.Context, rec Record, e lifecycle.Effect, a Answer, err error) {
	attrs := keyAttrs(rec.Key,
		slog.String("operation", rec.Lifecycle.Operation.ID), slog.String("step", stepName(e.Do)),
		slog.String("reply", string(a.Reply)), slog.String("job", a.Job))
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	dr.logger.LogAttrs(ctx, slog.LevelInfo, "operation step", attrs...)
}
