package broker

import (
	"bytes"
	"context"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Update answers PATCH /v2/service_instances/:instance_id (OSB "Updating a Service Instance"). It never waits for Cloud
// Foundry.
//
// Errors are *Error: CodeBadRequest, CodeNotFound, CodeConcurrency, CodeAsyncRequired, CodeMaintenanceInfoConflict,
// CodeUnprocessable, CodeUnavailable.
func (b *Broker) Update(ctx context.Context, q UpdateRequest) (Result, error) {
	parameters, err := canonicalParameters(q.Body.Parameters)
	if err != nil {
		return Result{}, err
	}
	id, err := b.random.operationID("update")
	if err != nil {
		return Result{}, err
	}
	c := change[aim, aim]{
		parts: b.parts, key: Key{Client: q.Client, InstanceID: q.InstanceID}, id: id,
		verb: &update{parts: b.parts, q: q, parameters: parameters},
	}
	rec, d, err := c.run(ctx)
	if err != nil {
		return Result{}, err
	}
	if d.Outcome == lifecycle.Exists {
		b.keepContext(ctx, rec, q)
	}
	return b.instanceResult(ctx, rec, d.Outcome, id)
}

// update is what a PATCH does. What it finds out about a record is where it leads to.
type update struct {
	*parts
	q UpdateRequest
	// parameters in canonical form; nil for no change.
	parameters []byte
}

// aim is where a PATCH leads to: the attributes, and the plan that they name.
type aim struct {
	target Attributes
	plan   Plan
}

func (u *update) request(ctx context.Context, rec Record) (lifecycle.Request, aim, error) {
	to, err := u.aim(ctx, rec)
	if err != nil {
		return lifecycle.Request{}, to, err
	}
	return lifecycle.Request{
		Verb:              lifecycle.Update,
		SameAttributes:    rec.Target != nil && u.leads(to, *rec.Target, rec.Attributes),
		NoEffect:          u.leads(to, rec.Attributes, rec.Attributes),
		NamesNothing:      u.namesNothing(rec),
		AcceptsIncomplete: u.q.AcceptsIncomplete,
	}, to, nil
}

// leads reports whether the PATCH, applied to what is in force, leads to these attributes. Only what platforms name
// counts: a plan's GUID in Cloud Foundry and the maintenance version that comes with another plan may move between two
// identical requests.
func (u *update) leads(to aim, there, inForce Attributes) bool {
	if to.target.PlanID != there.PlanID || to.target.Parameters != there.Parameters {
		return false
	}
	if u.q.Body.MaintenanceInfo != nil {
		return u.q.Body.MaintenanceInfo.Version == there.MaintenanceVersion
	}
	return there.PlanID != inForce.PlanID || there.MaintenanceVersion == inForce.MaintenanceVersion
}

// aim works out the attributes that the PATCH leads to. Parameters replace those in force as a whole; {} and null are
// no change. The plan is looked up here because a plan change brings its own maintenance version.
func (u *update) aim(ctx context.Context, rec Record) (aim, error) {
	to := aim{target: rec.Attributes, plan: Plan{PlanGUID: rec.Attributes.PlanGUID}}
	if u.parameters != nil {
		to.target.Parameters = digest(rec.Salt, u.parameters)
	}
	if !rec.Lifecycle.State.Living() || u.q.Body.ServiceID != rec.Attributes.ServiceID {
		return to, nil // allow has the answer
	}
	wanted := or(u.q.Body.PlanID, rec.Attributes.PlanID)
	plan, err := u.catalog.forNew(ctx, u.q.Client, u.q.Body.ServiceID, wanted)
	if err != nil {
		if !known(rec, wanted) {
			return to, err
		}
		plan = remembered(rec, wanted) // it left the catalog, or no catalog is known: what is stored goes on
	}
	to.plan = plan
	if wanted != rec.Attributes.PlanID {
		to.target.PlanID, to.target.PlanGUID = wanted, plan.PlanGUID
		to.target.MaintenanceVersion = plan.MaintenanceVersion
	} else if m := u.q.Body.MaintenanceInfo; m != nil {
		to.target.MaintenanceVersion = m.Version
	}
	return to, nil
}

// known reports whether the record has, or is on the way to, a plan: such a one may have left the catalog.
func known(rec Record, planID string) bool {
	return planID == rec.Attributes.PlanID || rec.Target != nil && planID == rec.Target.PlanID
}

// remembered is what the record knows of a plan that it has or is on the way to.
func remembered(rec Record, planID string) Plan {
	a := rec.Attributes
	if planID != a.PlanID {
		a = *rec.Target
	}
	return Plan{ServiceID: a.ServiceID, PlanID: a.PlanID, PlanGUID: a.PlanGUID, MaintenanceVersion: a.MaintenanceVersion}
}

// namesNothing reports whether the PATCH names nothing to change at all.
func (u *update) namesNothing(rec Record) bool {
	return u.parameters == nil && u.q.Body.MaintenanceInfo == nil &&
		or(u.q.Body.PlanID, rec.Attributes.PlanID) == rec.Attributes.PlanID
}

// allow has the order of docs/osb-choices.md: the record first, then the catalog, then AsyncRequired, then
// maintenance_info, then the state.
func (u *update) allow(ctx context.Context, rec Record, d lifecycle.Decision, to aim) (aim, error) {
	if d.Outcome == lifecycle.Missing || d.Outcome == lifecycle.Running {
		return to, nil
	}
	if u.q.Body.ServiceID != rec.Attributes.ServiceID {
		return to, refuse(CodeBadRequest, "service_id is not that of the service instance. Send the service_id that it was created with.")
	}
	if to.target.PlanID != rec.Attributes.PlanID && !u.planUpdateable(ctx, rec, to) {
		no := false
		return to, &Error{
			Code: CodeUnprocessable, UpdateRepeatable: &no,
			Description: "The service does not support changing the plan. Create a new service instance with the plan that you want.",
		}
	}
	if d.Outcome == lifecycle.AsyncRequired {
		return to, nil
	}
	if err := u.checkMaintenance(rec, d, to); err != nil {
		return to, err
	}
	if u.parameters == nil || d.Outcome == lifecycle.Exists {
		return to, nil
	}
	return to, u.catalog.check(ctx, ParametersQuery{
		Client: u.q.Client, ServiceID: to.target.ServiceID, PlanID: to.target.PlanID,
		Kind: lifecycle.Instance, Verb: lifecycle.Update, Parameters: u.q.Body.Parameters,
	})
}

// planUpdateable asks the plan that the instance has, which is another one than the plan it is to have; one that left
// the catalog is judged by the plan that it is to have.
func (u *update) planUpdateable(ctx context.Context, rec Record, to aim) bool {
	current, err := u.catalog.Plan(ctx, u.q.Client, rec.Attributes.ServiceID, rec.Attributes.PlanID)
	if err != nil {
		return to.plan.PlanUpdateable
	}
	return current.PlanUpdateable
}

// checkMaintenance wants the version of the catalog, also instead of the one that the instance has. A PATCH that
// changes nothing is left alone: a catalog that moved on must not turn a duplicate into a conflict.
func (u *update) checkMaintenance(rec Record, d lifecycle.Decision, to aim) error {
	if !d.NeedsClaim && u.leads(to, rec.Attributes, rec.Attributes) {
		return nil
	}
	return checkMaintenance(u.q.Body.MaintenanceInfo, to.plan)
}

func (u *update) apply(rec Record, to aim) (Record, error) {
	rec.Target = &to.target
	rec.Parameters = nil
	if u.parameters != nil {
		rec.Parameters = u.q.Body.Parameters
	}
	if len(u.q.Body.Context) > 0 {
		rec.Context = u.q.Body.Context
	}
	u.q.sign(&rec)
	rec.Lifecycle.Operation.Deadline = u.clock.deadlineOf(to.plan)
	return rec, nil
}

// keepContext stores a context that came without any change to carry out (docs/osb-choices.md). It is lost without harm
// when somebody else writes meanwhile.
func (b *Broker) keepContext(ctx context.Context, rec Record, q UpdateRequest) {
	if len(q.Body.Context) == 0 || bytes.Equal(q.Body.Context, rec.Context) {
		return
	}
	rec.Context = q.Body.Context
	if _, _, err := b.records.put(ctx, rec, rec.Revision); err != nil {
		b.logger.InfoContext(ctx, "the context of an update without effect was not kept", "error", err.Error())
	}
}
