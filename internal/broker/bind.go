package broker

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ferry-broker/ferry/internal/canon"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Bind answers PUT …/service_bindings/:binding_id (OSB "Binding"). With
// accepts_incomplete, where the plan's bindings can be fetched, it never waits for
// Cloud Foundry; otherwise the request is held until the key is there or the
// context ends.
//
// Errors are *Error: CodeBadRequest, CodeConflict, CodeNotFound, CodeConcurrency,
// CodeRequiresApp, CodeBackend, CodeOutOfTime, CodeUnavailable.
func (b *Broker) Bind(ctx context.Context, q BindRequest) (Result, error) {
	p, err := b.newBind(ctx, q)
	if err != nil {
		return Result{}, err
	}
	rec, d, err := b.claimBind(ctx, p)
	if err != nil {
		return Result{}, err
	}
	switch d.Outcome {
	case lifecycle.Accepted:
		return b.answerBind(ctx, rec, p, OutcomeAccepted)
	case lifecycle.Running:
		return b.answerBind(ctx, rec, p, OutcomeRunning)
	case lifecycle.Exists:
		return b.finishedBind(ctx, rec, p, OutcomeExists)
	default:
		return Result{}, refusal(rec, d.Outcome)
	}
}

// claimBind runs the change again while a synchronous bind has to wait for its
// instance: nothing is claimed meanwhile, so a spent budget leaves no trace. What it
// read first still counts: its platform may have given it up since (protocol.md 2.3).
func (b *Broker) claimBind(ctx context.Context, p *bind) (Record, lifecycle.Decision, error) {
	pause := newPause()
	c := &change{key: p.key, id: p.id, request: p.request, check: p.checkAndWait, apply: p.apply}
	// A rotation asks Cloud Foundry for parameters: only once it is known to be new.
	c.creates = p.sketch.predecessorID == ""
	for {
		rec, d, err := b.run(ctx, c)
		switch {
		case c.lost && d.Outcome == lifecycle.Superseded:
			return rec, d, perhapsBegun()
		case c.first != nil && err != nil && ctx.Err() != nil && !c.lost:
			return rec, d, stillBusy() // nothing was claimed
		case err != nil || d.Outcome != lifecycle.Hold:
			return rec, d, err
		}
		if c.first == nil {
			c.first = firstRead(rec)
		}
		if err := b.Sleep(ctx, pause.next()); err != nil && c.lost {
			return rec, d, outOfTime(err)
		} else if err != nil {
			return rec, d, stillBusy()
		}
	}
}

func stillBusy() error {
	return refuse(CodeConcurrency, "The service instance is still busy with another operation. Send the request again once that has ended.")
}

// perhapsBegun answers a bind whose claim got no answer and is not what is stored now.
// It is no refusal, so that the platform cleans up (docs/protocol.md 2.3).
func perhapsBegun() error {
	return refuse(CodeOutOfTime, "The service binding was changed by another request at the same time. Delete it and create it again.")
}

// bind is one PUT of a binding on its way.
type bind struct {
	b          *Broker
	ctx        context.Context
	q          BindRequest
	key        Key
	id         string
	sketch     sketch
	incomplete bool
	instance   Record
	// parameters go to Cloud Foundry: those of the request, or a predecessor's.
	parameters json.RawMessage
	// inherited is what a successor remembers of that.
	inherited Inheritance
}

func (b *Broker) newBind(ctx context.Context, q BindRequest) (*bind, error) {
	parameters, err := canonicalParameters(q.Body.Parameters)
	if err != nil {
		return nil, err
	}
	id, err := b.operationID("bind")
	if err != nil {
		return nil, err
	}
	p := &bind{
		b: b, ctx: ctx, q: q, id: id,
		key: Key{Client: q.Client, InstanceID: q.InstanceID, BindingID: q.BindingID},
		sketch: sketch{
			serviceID: q.Body.ServiceID, planID: q.Body.PlanID,
			parameters: parameters, owner: purpose(q.Body), predecessorID: q.Body.PredecessorBindingID,
		},
	}
	p.parameters = p.own()
	return p, nil
}

// own are the parameters of the request itself; nil for none.
func (p *bind) own() json.RawMessage {
	if p.sketch.parameters == nil {
		return nil
	}
	return p.q.Body.Parameters
}

// request reads the instance each time, after the binding's own record and before the
// claim: what the binding counts as depends on it (docs/protocol.md 7).
func (p *bind) request(ctx context.Context, rec Record) (lifecycle.Request, error) {
	instance, err := p.b.read(ctx, p.key.Instance())
	if err != nil {
		return lifecycle.Request{}, err
	}
	p.instance = instance
	p.incomplete = p.q.AcceptsIncomplete && p.retrievable()
	return lifecycle.Request{
		Verb: lifecycle.Create, SameAttributes: p.sketch.same(rec), AcceptsIncomplete: p.incomplete, Instance: view(instance),
	}, nil
}

// retrievable: an asynchronous bind whose result cannot be fetched is useless, so
// such plans bind synchronously whatever the platform accepts.
func (p *bind) retrievable() bool {
	plan, ok := p.instancePlan()
	return !ok || plan.BindingsRetrievable
}

// instancePlan is the plan of the instance, false when it has left the catalog.
func (p *bind) instancePlan() (Plan, bool) {
	a := p.instance.Attributes
	plan, err := p.b.Catalog.Plan(p.ctx, p.q.Client, a.ServiceID, a.PlanID)
	return plan, err == nil
}

// check looks at what only a new binding needs, the catalog first.
func (p *bind) check(_ Record, d lifecycle.Decision) error {
	if !d.NeedsClaim || !p.instance.Lifecycle.State.Living() {
		return nil
	}
	if err := p.checkPlan(); err != nil {
		return err
	}
	if p.sketch.predecessorID != "" {
		if err := p.inherit(d.Outcome == lifecycle.Accepted); err != nil {
			return err
		}
	}
	if d.Outcome != lifecycle.Accepted {
		return nil
	}
	a := p.instance.Attributes
	return p.b.checkParameters(p.ctx, ParametersQuery{
		Client: p.q.Client, ServiceID: a.ServiceID, PlanID: a.PlanID,
		Kind: lifecycle.Binding, Verb: lifecycle.Create, Parameters: p.parameters,
	})
}

// checkPlan compares with the instance. A rotation may leave both ids out.
func (p *bind) checkPlan() error {
	a := p.instance.Attributes
	if or(p.q.Body.ServiceID, a.ServiceID) != a.ServiceID {
		return refuse(CodeBadRequest, "service_id is not that of the service instance. Send the service_id that it was created with.")
	}
	if wanted := or(p.q.Body.PlanID, a.PlanID); wanted != a.PlanID {
		// The platform may lag behind an update: another plan of the offering will do.
		if _, err := p.b.plan(p.ctx, p.q.Client, a.ServiceID, wanted); err != nil {
			return err
		}
	}
	if plan, ok := p.instancePlan(); ok && !plan.Bindable {
		return refuse(CodeBadRequest, "The plan %q does not support bindings. Use the service instance without one.", plan.PlanName)
	}
	return nil
}

func (p *bind) apply(rec *Record) error {
	salt, err := p.b.random(16)
	if err != nil {
		return err
	}
	rec.Salt, rec.Attributes = salt, p.sketch.attributes(salt)
	rec.Attributes.ServiceID = or(rec.Attributes.ServiceID, p.instance.Attributes.ServiceID)
	rec.Attributes.PlanID = or(rec.Attributes.PlanID, p.instance.Attributes.PlanID)
	rec.Lifecycle.Place = p.instance.Lifecycle.Place // a key is where its instance is
	rec.Target, rec.Parameters, rec.Context, rec.Inherited = nil, p.parameters, p.q.Body.Context, p.inherited
	p.q.sign(rec)
	if plan, ok := p.instancePlan(); ok {
		rec.Lifecycle.Operation.Deadline = p.b.deadline(plan)
	}
	return nil
}

// inherit makes a bind the successor of another binding (OSB "Binding Rotation"):
// the predecessor must be ready and of the same incarnation of the instance, and
// gives the parameters that the request leaves out. It is judged anew whenever the
// instance was read anew, and its parameters are read for the claim alone: those of
// before may be a former life's (docs/protocol.md 7). What becomes of it afterwards
// does no harm: the successor is another key.
func (p *bind) inherit(claims bool) error {
	p.parameters, p.inherited = p.own(), InheritedNothing
	if plan, ok := p.instancePlan(); ok && !plan.BindingRotatable {
		return refuse(CodeBadRequest, "predecessor_binding_id: the bindings of the plan %q cannot be rotated. Create a new binding and delete the old one.", plan.PlanName)
	}
	key := p.key
	key.BindingID = p.sketch.predecessorID
	old, err := p.b.read(p.ctx, key)
	if err != nil {
		return err
	}
	if key == p.key || lifecycle.EffectiveState(old.Lifecycle, view(p.instance)) != lifecycle.Ready {
		return refuse(CodeBadRequest, "predecessor_binding_id: this service instance has no such binding that is ready. Send the id of one that is, or create a binding without a predecessor.")
	}
	if p.parameters != nil || !bequeaths(old) {
		return nil
	}
	p.inherited = InheritedParameters
	if !claims {
		return nil
	}
	p.parameters, err = p.parametersOf(old)
	return err
}

// bequeaths reports whether the predecessor has parameters, of its own or inherited. A
// successor of before that was recorded may have some.
func bequeaths(old Record) bool {
	return old.Attributes.Parameters != "" || old.Inherited == InheritedParameters || unknownHeir(old)
}

func unknownHeir(old Record) bool {
	return old.Attributes.PredecessorID != "" && old.Inherited == ""
}

// parametersOf reads the predecessor's parameters back, since they are not stored. A
// successor with other rights than its predecessor would be worse than none, so that
// what cannot be read is a refusal.
func (p *bind) parametersOf(old Record) (json.RawMessage, error) {
	if err := BeginWaiting(p.ctx); err != nil {
		return nil, err
	}
	backend, err := p.b.backend(p.q.Client)
	if err != nil {
		return nil, err
	}
	raw, err := backend.KeyParameters(p.ctx, old.Lifecycle.CFGUID)
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
		p.inherited = InheritedNothing
		return nil, nil
	}
	return raw, nil
}

func parametersMissing() error {
	return refuse(CodeBadRequest, "parameters are missing, and those of the predecessor cannot be read back. Send the parameters that the new binding is to have.")
}
