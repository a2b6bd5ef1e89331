package broker

import (
	"bytes"
	"context"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Update answers PATCH /v2/service_instances/:instance_id (OSB "Updating a Service
// Instance"). It never waits for Cloud Foundry.
//
// Errors are *Error: CodeBadRequest, CodeNotFound, CodeConcurrency,
// CodeAsyncRequired, CodeMaintenanceInfoConflict, CodeUnprocessable, CodeUnavailable.
func (b *Broker) Update(ctx context.Context, q UpdateRequest) (Result, error) {
	parameters, err := canonicalParameters(q.Body.Parameters)
	if err != nil {
		return Result{}, err
	}
	id, err := b.operationID("update")
	if err != nil {
		return Result{}, err
	}
	u := &update{b: b, ctx: ctx, q: q, parameters: parameters}
	rec, d, err := b.run(ctx, &change{
		key: Key{Client: q.Client, InstanceID: q.InstanceID}, id: id,
		request: u.request, check: u.check, apply: u.apply,
	})
	if err != nil {
		return Result{}, err
	}
	if d.Outcome == lifecycle.Exists {
		b.keepContext(ctx, rec, q)
	}
	return b.instanceResult(ctx, rec, d, id)
}

// update is one PATCH on its way.
type update struct {
	b          *Broker
	ctx        context.Context
	q          UpdateRequest
	parameters []byte
	target     Attributes
	plan       Plan
}

func (u *update) request(_ context.Context, rec Record) (lifecycle.Request, error) {
	if err := u.aim(rec); err != nil {
		return lifecycle.Request{}, err
	}
	return lifecycle.Request{
		Verb:              lifecycle.Update,
		SameAttributes:    rec.Target != nil && u.leadsTo(*rec.Target, rec.Attributes),
		NoEffect:          u.leadsTo(rec.Attributes, rec.Attributes),
		NamesNothing:      u.empty(rec),
		AcceptsIncomplete: u.q.AcceptsIncomplete,
	}, nil
}

// leadsTo reports whether the PATCH, applied to what is in force, leads to these
// attributes. Only what platforms name counts: a plan's GUID in Cloud Foundry and
// the maintenance version that comes with another plan may move between two
// identical requests.
func (u *update) leadsTo(there, inForce Attributes) bool {
	if u.target.PlanID != there.PlanID || u.target.Parameters != there.Parameters {
		return false
	}
	if u.q.Body.MaintenanceInfo != nil {
		return u.q.Body.MaintenanceInfo.Version == there.MaintenanceVersion
	}
	return there.PlanID != inForce.PlanID || there.MaintenanceVersion == inForce.MaintenanceVersion
}

// aim works out the attributes that the PATCH leads to. Parameters replace those in
// force as a whole; {} and null are no change. The plan is looked up here because a
// plan change brings its own maintenance version.
func (u *update) aim(rec Record) error {
	u.target = rec.Attributes
	if u.parameters != nil {
		u.target.Parameters = digest(rec.Salt, u.parameters)
	}
	u.plan = Plan{PlanGUID: rec.Attributes.PlanGUID}
	if !rec.Lifecycle.State.Living() || u.q.Body.ServiceID != rec.Attributes.ServiceID {
		return nil // check has the answer
	}
	wanted := or(u.q.Body.PlanID, rec.Attributes.PlanID)
	plan, err := u.b.plan(u.ctx, u.q.Client, u.q.Body.ServiceID, wanted)
	switch {
	case err == nil:
		u.plan = plan
	case !known(rec, wanted):
		return err
	default: // it left the catalog, or no catalog is known: what is stored goes on
		u.plan = remembered(rec, wanted)
	}
	u.retarget(rec, wanted)
	return nil
}

// remembered is what the record knows of a plan that it has or is on the way to.
func remembered(rec Record, planID string) Plan {
	a := rec.Attributes
	if planID != a.PlanID {
		a = *rec.Target
	}
	return Plan{ServiceID: a.ServiceID, PlanID: a.PlanID, PlanGUID: a.PlanGUID, MaintenanceVersion: a.MaintenanceVersion}
}

// known reports whether the record has, or is on the way to, a plan: such a one may
// have left the catalog.
func known(rec Record, planID string) bool {
	return planID == rec.Attributes.PlanID || rec.Target != nil && planID == rec.Target.PlanID
}

func (u *update) retarget(rec Record, wanted string) {
	if wanted != rec.Attributes.PlanID {
		u.target.PlanID, u.target.PlanGUID = wanted, u.plan.PlanGUID
		u.target.MaintenanceVersion = u.plan.MaintenanceVersion
	} else if m := u.q.Body.MaintenanceInfo; m != nil {
		u.target.MaintenanceVersion = m.Version
	}
}

// empty reports whether the PATCH names nothing to change at all.
func (u *update) empty(rec Record) bool {
	return u.parameters == nil && u.q.Body.MaintenanceInfo == nil &&
		or(u.q.Body.PlanID, rec.Attributes.PlanID) == rec.Attributes.PlanID
}

// check has the order of osb-choices C3: the record first, then the catalog, then
// AsyncRequired, then maintenance_info, then the state.
func (u *update) check(rec Record, d lifecycle.Decision) error {
	if d.Outcome == lifecycle.Missing || d.Outcome == lifecycle.Running {
		return nil
	}
	if u.q.Body.ServiceID != rec.Attributes.ServiceID {
		return refuse(CodeBadRequest, "service_id is not that of the service instance. Send the service_id that it was created with.")
	}
	if u.target.PlanID != rec.Attributes.PlanID && !u.planUpdateable(rec) {
		no := false
		return &Error{
			Code: CodeUnprocessable, UpdateRepeatable: &no,
			Description: "The service does not support changing the plan. Create a new service instance with the plan that you want.",
		}
	}
	if d.Outcome == lifecycle.AsyncRequired {
		return nil
	}
	if err := u.checkMaintenance(rec, d); err != nil {
		return err
	}
	if u.parameters == nil || d.Outcome == lifecycle.Exists {
		return nil
	}
	return u.b.checkParameters(u.ctx, ParametersQuery{
		Client: u.q.Client, ServiceID: u.target.ServiceID, PlanID: u.target.PlanID,
		Kind: lifecycle.Instance, Verb: lifecycle.Update, Parameters: u.q.Body.Parameters,
	})
}

// checkMaintenance wants the version of the catalog, also instead of the one that the
// instance has. A PATCH that changes nothing is left alone: a catalog that moved on must
// not turn a duplicate into a conflict.
func (u *update) checkMaintenance(rec Record, d lifecycle.Decision) error {
	if !d.NeedsClaim && u.leadsTo(rec.Attributes, rec.Attributes) {
		return nil
	}
	return checkMaintenance(u.q.Body.MaintenanceInfo, u.plan)
}

// planUpdateable asks the plan that the instance has; one that left the catalog is
// judged by the plan that it is to have.
func (u *update) planUpdateable(rec Record) bool {
	current, err := u.b.plan(u.ctx, u.q.Client, rec.Attributes.ServiceID, rec.Attributes.PlanID)
	if err != nil {
		return u.plan.PlanUpdateable
	}
	return current.PlanUpdateable
}

func (u *update) apply(rec *Record) error {
	target := u.target
	rec.Target = &target
	rec.Parameters = nil
	if u.parameters != nil {
		rec.Parameters = u.q.Body.Parameters
	}
	if len(u.q.Body.Context) > 0 {
		rec.Context = u.q.Body.Context
	}
	u.q.sign(rec)
	rec.Lifecycle.Operation.Deadline = u.b.deadline(u.plan)
	return nil
}

// keepContext stores a context that came without any change to carry out
// (osb-choices G6). It is lost without harm when somebody else writes meanwhile.
func (b *Broker) keepContext(ctx context.Context, rec Record, q UpdateRequest) {
	if len(q.Body.Context) == 0 || bytes.Equal(q.Body.Context, rec.Context) {
		return
	}
	rec.Context = q.Body.Context
	if _, _, err := b.put(ctx, rec, rec.Revision); err != nil {
		b.Logger.InfoContext(ctx, "the context of an update without effect was not kept", "error", err.Error())
	}
}
