package broker

import (
	"context"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// Provision answers PUT /v2/service_instances/:instance_id (OSB "Provisioning"). It never waits for Cloud Foundry: a
// new instance is accepted with OutcomeAccepted, a duplicate gets OutcomeRunning with the same operation, or
// OutcomeExists.
//
// Errors are *Error: CodeBadRequest, CodeConflict, CodeConcurrency, CodeAsyncRequired, CodeMaintenanceInfoConflict,
// CodeUnavailable.
func (b *Broker) Provision(ctx context.Context, q ProvisionRequest) (Result, error) {
	parameters, err := canonicalParameters(q.Body.Parameters)
	if err != nil {
		return Result{}, err
	}
	id, err := b.random.operationID("create")
	if err != nil {
		return Result{}, err
	}
	c := change[struct{}, Plan]{
		parts: b.parts, key: Key{Client: q.Client, InstanceID: q.InstanceID}, id: id, creates: true,
		verb: &provision{parts: b.parts, q: q, asked: asked{
			serviceID: q.Body.ServiceID, planID: q.Body.PlanID, parameters: parameters, owner: owner(q.Body),
		}},
	}
	rec, d, err := c.run(ctx)
	if err != nil {
		return Result{}, err
	}
	return b.instanceResult(ctx, rec, d.Outcome, id)
}

// provision is what a PUT of an instance does. What is found out for a new one is its plan.
type provision struct {
	*parts
	q     ProvisionRequest
	asked asked
}

func (p *provision) request(_ context.Context, rec Record) (lifecycle.Request, struct{}, error) {
	return lifecycle.Request{
		Verb: lifecycle.Create, SameAttributes: p.asked.same(rec), AcceptsIncomplete: p.q.AcceptsIncomplete,
	}, struct{}{}, nil
}

// allow looks at what only a new instance needs: what exists goes on with a plan that has left the catalog.
func (p *provision) allow(ctx context.Context, _ Record, d lifecycle.Decision, _ struct{}) (Plan, error) {
	if !d.NeedsClaim {
		return Plan{}, nil
	}
	plan, err := p.catalog.forNew(ctx, p.q.Client, p.q.Body.ServiceID, p.q.Body.PlanID)
	if err != nil || d.Outcome != lifecycle.Accepted {
		return plan, err
	}
	if err := checkMaintenance(p.q.Body.MaintenanceInfo, plan); err != nil {
		return plan, err
	}
	return plan, p.catalog.check(ctx, ParametersQuery{
		Client: p.q.Client, ServiceID: plan.ServiceID, PlanID: plan.PlanID,
		Kind: lifecycle.Instance, Verb: lifecycle.Create, Parameters: p.q.Body.Parameters,
	})
}

func (p *provision) apply(rec Record, plan Plan) (Record, error) {
	salt, err := p.random.salt()
	if err != nil {
		return rec, err
	}
	rec.Salt = salt
	rec.Attributes = p.asked.attributes(salt)
	rec.Attributes.OfferingName, rec.Attributes.PlanGUID = plan.OfferingName, plan.PlanGUID
	rec.Attributes.MaintenanceVersion = plan.MaintenanceVersion
	rec.Target, rec.DashboardURL, rec.Metadata = nil, "", nil
	rec.Parameters, rec.Context = nil, p.q.Body.Context
	if p.asked.parameters != nil {
		rec.Parameters = p.q.Body.Parameters
	}
	p.q.sign(&rec)
	rec.Lifecycle.Operation.Deadline = p.clock.deadlineOf(plan)
	return rec, nil
}

// checkMaintenance compares the version sent with that of the plan it is for.
func checkMaintenance(sent *osb.MaintenanceInfo, plan Plan) error {
	if sent == nil || sent.Version == plan.MaintenanceVersion {
		return nil
	}
	if plan.MaintenanceVersion == "" {
		return refuse(CodeMaintenanceInfoConflict, "The plan %q has no maintenance_info. Fetch the catalog again and leave maintenance_info out.", plan.PlanName)
	}
	return refuse(CodeMaintenanceInfoConflict, "maintenance_info.version is not the one of the plan %q, which is %s. Fetch the catalog again and send that version.",
		plan.PlanName, plan.MaintenanceVersion)
}
