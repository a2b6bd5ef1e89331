package broker

import (
	"context"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// Provision answers PUT /v2/service_instances/:instance_id (OSB "Provisioning"). It
// never waits for Cloud Foundry: a new instance is accepted with OutcomeAccepted, a
// duplicate gets OutcomeRunning with the same operation, or OutcomeExists.
//
// Errors are *Error: CodeBadRequest, CodeConflict, CodeConcurrency,
// CodeAsyncRequired, CodeMaintenanceInfoConflict, CodeUnavailable.
func (b *Broker) Provision(ctx context.Context, q ProvisionRequest) (Result, error) {
	p, err := b.newProvision(ctx, q)
	if err != nil {
		return Result{}, err
	}
	rec, d, err := b.run(ctx, &change{
		key: p.key, id: p.id, request: p.request, check: p.check, apply: p.apply, creates: true,
	})
	if err != nil {
		return Result{}, err
	}
	return b.instanceResult(ctx, rec, d, p.id)
}

// provision is one PUT of an instance on its way.
type provision struct {
	b      *Broker
	ctx    context.Context
	q      ProvisionRequest
	key    Key
	id     string
	sketch sketch
	plan   Plan
}

func (b *Broker) newProvision(ctx context.Context, q ProvisionRequest) (*provision, error) {
	parameters, err := canonicalParameters(q.Body.Parameters)
	if err != nil {
		return nil, err
	}
	id, err := b.operationID("create")
	if err != nil {
		return nil, err
	}
	return &provision{
		b: b, ctx: ctx, q: q, id: id,
		key: Key{Client: q.Client, InstanceID: q.InstanceID},
		sketch: sketch{
			serviceID: q.Body.ServiceID, planID: q.Body.PlanID,
			parameters: parameters, owner: owner(q.Body),
		},
	}, nil
}

func (p *provision) request(_ context.Context, rec Record) (lifecycle.Request, error) {
	return lifecycle.Request{
		Verb: lifecycle.Create, SameAttributes: p.sketch.same(rec), AcceptsIncomplete: p.q.AcceptsIncomplete,
	}, nil
}

// check looks at what only a new instance needs: what exists goes on with a plan
// that has left the catalog.
func (p *provision) check(_ Record, d lifecycle.Decision) error {
	if !d.NeedsClaim {
		return nil
	}
	plan, err := p.b.plan(p.ctx, p.q.Client, p.q.Body.ServiceID, p.q.Body.PlanID)
	if err != nil {
		return err
	}
	p.plan = plan
	if d.Outcome != lifecycle.Accepted {
		return nil
	}
	if err := checkMaintenance(p.q.Body.MaintenanceInfo, plan); err != nil {
		return err
	}
	return p.b.checkParameters(p.ctx, ParametersQuery{
		Client: p.q.Client, ServiceID: plan.ServiceID, PlanID: plan.PlanID,
		Kind: lifecycle.Instance, Verb: lifecycle.Create, Parameters: p.q.Body.Parameters,
	})
}

func (p *provision) apply(rec *Record) error {
	salt, err := p.b.random(16)
	if err != nil {
		return err
	}
	rec.Salt = salt
	rec.Attributes = p.sketch.attributes(salt)
	rec.Attributes.OfferingName, rec.Attributes.PlanGUID = p.plan.OfferingName, p.plan.PlanGUID
	rec.Attributes.MaintenanceVersion = p.plan.MaintenanceVersion
	rec.Target, rec.DashboardURL, rec.Metadata = nil, "", nil
	rec.Parameters, rec.Context = nil, p.q.Body.Context
	if p.sketch.parameters != nil {
		rec.Parameters = p.q.Body.Parameters
	}
	p.q.sign(rec)
	rec.Lifecycle.Operation.Deadline = p.b.deadline(p.plan)
	return nil
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
