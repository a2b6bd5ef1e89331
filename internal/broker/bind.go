package broker

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ferry-broker/ferry/internal/canon"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Bind answers PUT …/service_bindings/:binding_id (OSB "Binding"). With accepts_incomplete, where the plan's bindings
// can be fetched, it never waits for Cloud Foundry; otherwise the request is held until the key is there or the context
// ends.
//
// Errors are *Error: CodeBadRequest, CodeConflict, CodeNotFound, CodeConcurrency, CodeRequiresApp, CodeBackend,
// CodeOutOfTime, CodeUnavailable.
func (b *Broker) Bind(ctx context.Context, q BindRequest) (Result, error) {
	parameters, err := canonicalParameters(q.Body.Parameters)
	if err != nil {
		return Result{}, err
	}
	id, err := b.random.operationID("bind")
	if err != nil {
		return Result{}, err
	}
	key := Key{Client: q.Client, InstanceID: q.InstanceID, BindingID: q.BindingID}
	c := &change[bindTarget, bindOrder]{
		parts: b.parts, key: key, id: id,
		creates: q.Body.PredecessorBindingID == "", // a rotation asks Cloud Foundry for parameters: only once it is known to be new
		verb: &bind{parts: b.parts, q: q, key: key, asked: asked{
			serviceID: q.Body.ServiceID, planID: q.Body.PlanID, parameters: parameters,
			owner: purpose(q.Body), predecessorID: q.Body.PredecessorBindingID,
		}},
	}
	rec, d, err := b.claimBind(ctx, c)
	if err != nil {
		return Result{}, err
	}
	switch d.Outcome {
	case lifecycle.Accepted, lifecycle.Running:
		return b.answerBind(ctx, rec, d.found, id, d.Outcome)
	case lifecycle.Exists:
		return b.boundResult(ctx, rec, d.found.instance, OutcomeExists)
	default:
		return Result{}, refusal(rec, d.Outcome)
	}
}

// claimBind runs the change again while a synchronous bind has to wait for its instance: nothing is claimed meanwhile,
// so a spent budget leaves no trace. What it read first still counts: its platform may have given it up since
// (docs/protocol.md 2.3).
func (b *Broker) claimBind(ctx context.Context, c *change[bindTarget, bindOrder]) (Record, decided[bindTarget, bindOrder], error) {
	pause := newPause()
	for {
		rec, d, err := c.run(ctx)
		switch {
		case c.claimLost && d.Outcome == lifecycle.Superseded:
			return rec, d, perhapsBegun()
		case c.first != nil && err != nil && ctx.Err() != nil && !c.claimLost:
			return rec, d, stillBusy() // nothing was claimed
		case err != nil || d.Outcome != lifecycle.Hold:
			return rec, d, err
		}
		if c.first == nil {
			c.first = firstRead(rec)
		}
		if err := b.clock.sleep(ctx, pause.next()); err != nil && c.claimLost {
			return rec, d, outOfTime(err)
		} else if err != nil {
			return rec, d, stillBusy()
		}
	}
}

func stillBusy() error {
	return refuse(CodeConcurrency, "The service instance is still busy with another operation. Send the request again once that has ended.")
}

// perhapsBegun answers a bind whose claim got no answer and is not what is stored now. It is no refusal, so that the
// platform cleans up (docs/protocol.md 2.3).
func perhapsBegun() error {
	return refuse(CodeOutOfTime, "The service binding was changed by another request at the same time. Delete it and create it again.")
}

// answerBind answers 202, or holds the request until the operation has ended. id is the operation of an accepted bind.
func (b *Broker) answerBind(ctx context.Context, rec Record, t bindTarget, id string, o Outcome) (Result, error) {
	start, done := Start{Key: rec.Key, Operation: rec.Lifecycle.Operation.ID}, OutcomeExists
	if o == OutcomeAccepted {
		start.Operation, start.Delay, done = id, b.clock.firstDelay(t.incomplete), OutcomeCreated
		b.operations.begin(ctx, rec, start)
	}
	if t.incomplete {
		return Result{Outcome: o, Operation: start.Operation, RetryAfter: b.clock.retryAfter(rec)}, nil
	}
	rec, err := b.holder.hold(ctx, rec.Key, start.Operation, o == OutcomeAccepted)
	if err != nil {
		return Result{}, err
	}
	return b.boundResult(ctx, rec, t.instance, done)
}

// boundResult reads the credentials by the recorded GUID of the key, which no later operation can change.
func (b *Broker) boundResult(ctx context.Context, rec, instance Record, o Outcome) (Result, error) {
	details, err := b.holder.details(ctx, rec, instance.Attributes.OfferingName)
	if err != nil {
		return Result{}, err
	}
	return Result{Outcome: o, Binding: &BindingBody{KeyDetails: details}}, nil
}

// bind is what a PUT of a binding does.
type bind struct {
	*parts
	q     BindRequest
	key   Key
	asked asked
}

// bindTarget is what a bind finds out first: its instance, the plan of that, and how it is answered.
type bindTarget struct {
	instance Record
	plan     instancePlan
	// incomplete: the answer is 202, and nothing is waited for.
	incomplete bool
}

// instancePlan is the plan of an instance, which is looked up when it is needed first.
type instancePlan struct {
	Plan
	// lookedUp, and known unless it has left the catalog or no catalog is known.
	lookedUp, known bool
}

// bindOrder is what a new bind needs to know.
type bindOrder struct {
	bindTarget
	// parameters go to Cloud Foundry: those of the request, or a predecessor's; nil for none.
	parameters json.RawMessage
	// inherited is what a successor remembers of that.
	inherited Inheritance
}

// request reads the instance each time, after the binding's own record and before the claim: what the binding counts as
// depends on it (docs/protocol.md 7).
func (p *bind) request(ctx context.Context, rec Record) (lifecycle.Request, bindTarget, error) {
	instance, err := p.records.read(ctx, p.key.Instance())
	if err != nil {
		return lifecycle.Request{}, bindTarget{}, err
	}
	t := bindTarget{instance: instance}
	if p.q.AcceptsIncomplete {
		// An asynchronous bind whose result cannot be fetched is useless, so such plans bind synchronously whatever the
		// platform accepts.
		t.plan = p.lookUp(ctx, t)
		t.incomplete = !t.plan.known || t.plan.BindingsRetrievable
	}
	return lifecycle.Request{
		Verb: lifecycle.Create, SameAttributes: p.asked.same(rec), AcceptsIncomplete: t.incomplete, Instance: view(instance),
	}, t, nil
}

// lookUp returns the plan of the instance, looked up now unless it was before.
func (p *bind) lookUp(ctx context.Context, t bindTarget) instancePlan {
	if t.plan.lookedUp {
		return t.plan
	}
	a := t.instance.Attributes
	plan, err := p.catalog.Plan(ctx, p.q.Client, a.ServiceID, a.PlanID)
	return instancePlan{Plan: plan, lookedUp: true, known: err == nil}
}

// allow looks at what only a new binding needs, the catalog first, and then whether a bind that is held, or reads
// credentials, may wait.
func (p *bind) allow(ctx context.Context, _ Record, d lifecycle.Decision, t bindTarget) (bindOrder, error) {
	order, err := p.allowNew(ctx, d, t)
	if err != nil {
		return order, err
	}
	if d.Outcome == lifecycle.Exists || held(d, t.incomplete) {
		return order, BeginWaiting(ctx)
	}
	return order, nil
}

func (p *bind) allowNew(ctx context.Context, d lifecycle.Decision, t bindTarget) (bindOrder, error) {
	order := bindOrder{bindTarget: t, parameters: p.own()}
	if !d.NeedsClaim || !t.instance.Lifecycle.State.Living() {
		return order, nil
	}
	if err := p.checkIDs(ctx, t); err != nil {
		return order, err
	}
	order.plan = p.lookUp(ctx, t)
	if order.plan.known && !order.plan.Bindable {
		return order, refuse(CodeBadRequest, "The plan %q does not support bindings. Use the service instance without one.", order.plan.PlanName)
	}
	if p.asked.predecessorID != "" {
		var err error
		if order, err = p.inherit(ctx, order, d.Outcome == lifecycle.Accepted); err != nil {
			return order, err
		}
	}
	if d.Outcome != lifecycle.Accepted {
		return order, nil
	}
	a := t.instance.Attributes
	return order, p.catalog.check(ctx, ParametersQuery{
		Client: p.q.Client, ServiceID: a.ServiceID, PlanID: a.PlanID,
		Kind: lifecycle.Binding, Verb: lifecycle.Create, Parameters: order.parameters,
	})
}

// own are the parameters of the request itself; nil for none.
func (p *bind) own() json.RawMessage {
	if p.asked.parameters == nil {
		return nil
	}
	return p.q.Body.Parameters
}

// checkIDs compares with the instance. A rotation may leave both ids out.
func (p *bind) checkIDs(ctx context.Context, t bindTarget) error {
	a := t.instance.Attributes
	if or(p.q.Body.ServiceID, a.ServiceID) != a.ServiceID {
		return refuse(CodeBadRequest, "service_id is not that of the service instance. Send the service_id that it was created with.")
	}
	if wanted := or(p.q.Body.PlanID, a.PlanID); wanted != a.PlanID {
		// The platform may lag behind an update: another plan of the offering will do.
		_, err := p.catalog.forNew(ctx, p.q.Client, a.ServiceID, wanted)
		return err
	}
	return nil
}

func (p *bind) apply(rec Record, order bindOrder) (Record, error) {
	salt, err := p.random.salt()
	if err != nil {
		return rec, err
	}
	instance := order.instance
	rec.Salt, rec.Attributes = salt, p.asked.attributes(salt)
	rec.Attributes.ServiceID = or(rec.Attributes.ServiceID, instance.Attributes.ServiceID)
	rec.Attributes.PlanID = or(rec.Attributes.PlanID, instance.Attributes.PlanID)
	rec.Lifecycle.Place = instance.Lifecycle.Place // a key is where its instance is
	rec.Target, rec.Parameters, rec.Context, rec.Inherited = nil, order.parameters, p.q.Body.Context, order.inherited
	p.q.sign(&rec)
	if order.plan.known {
		rec.Lifecycle.Operation.Deadline = p.clock.deadlineOf(order.plan.Plan)
	}
	return rec, nil
}

// inherit makes a bind the successor of another binding (OSB "Binding Rotation"): the predecessor must be ready and of
// the same incarnation of the instance, and gives the parameters that the request leaves out. It is judged anew
// whenever the instance was read anew, and its parameters are read for the claim alone: those of before may be a former
// life's (docs/protocol.md 7). What becomes of it afterwards does no harm: the successor is another key.
func (p *bind) inherit(ctx context.Context, order bindOrder, claims bool) (bindOrder, error) {
	order.inherited = InheritedNothing
	if order.plan.known && !order.plan.BindingRotatable {
		return order, refuse(CodeBadRequest, "predecessor_binding_id: the bindings of the plan %q cannot be rotated. Create a new binding and delete the old one.", order.plan.PlanName)
	}
	key := p.key
	key.BindingID = p.asked.predecessorID
	old, err := p.records.read(ctx, key)
	if err != nil {
		return order, err
	}
	if key == p.key || lifecycle.EffectiveState(old.Lifecycle, view(order.instance)) != lifecycle.Ready {
		return order, refuse(CodeBadRequest, "predecessor_binding_id: this service instance has no such binding that is ready. Send the id of one that is, or create a binding without a predecessor.")
	}
	if order.parameters != nil || !bequeaths(old) {
		return order, nil
	}
	order.inherited = InheritedParameters
	if !claims {
		return order, nil
	}
	order.parameters, err = p.parametersOf(ctx, old)
	if order.parameters == nil {
		order.inherited = InheritedNothing
	}
	return order, err
}

// bequeaths reports whether the predecessor has parameters, of its own or inherited. A successor of before that was
// recorded may have some.
func bequeaths(old Record) bool {
	return old.Attributes.Parameters != "" || old.Inherited == InheritedParameters || unknownHeir(old)
}

func unknownHeir(old Record) bool {
	return old.Attributes.PredecessorID != "" && old.Inherited == ""
}

// parametersOf reads the predecessor's parameters back, since they are not stored; nil for none. A successor with other
// rights than its predecessor would be worse than none, so that what cannot be read is a refusal.
func (p *bind) parametersOf(ctx context.Context, old Record) (json.RawMessage, error) {
	if err := BeginWaiting(ctx); err != nil {
		return nil, err
	}
	backend, err := p.backends.of(p.q.Client)
	if err != nil {
		return nil, err
	}
	raw, err := backend.KeyParameters(ctx, old.Lifecycle.CFGUID)
	switch {
	case errors.Is(err, ErrNotRetrievable), errors.Is(err, ErrNotFound):
		return nil, parametersMissing()
	case errors.Is(err, ErrBusy):
		return nil, refuse(CodeConcurrency, "The parameters of the predecessor cannot be read while it is being changed. Send the request again once that has ended.")
	case err != nil:
		return nil, &Error{
			Code: CodeUnavailable, RetryAfter: 5, Cause: err,
			Description: "The parameters of the predecessor cannot be read at the moment. Send the request again, or send the parameters that the new binding is to have.",
		}
	}
	canonical, err := canon.Parameters(raw)
	if err != nil || canonical == nil && !unknownHeir(old) {
		return nil, parametersMissing() // there were some, and they are kept back
	}
	if canonical == nil {
		return nil, nil
	}
	return raw, nil
}

func parametersMissing() error {
	return refuse(CodeBadRequest, "parameters are missing, and those of the predecessor cannot be read back. Send the parameters that the new binding is to have.")
}
