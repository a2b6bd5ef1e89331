package broker

import (
	"encoding/json"
	"errors"

	"github.com/ferry-broker/ferry/internal/canon"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// inherit makes a bind the successor of another binding (OSB "Binding Rotation"):
// the predecessor must be ready and of the same incarnation of the instance, and
// gives the parameters that the request leaves out. What becomes of it afterwards
// does no harm: the successor is another key.
func (p *bind) inherit() error {
	if plan, ok := p.instancePlan(); ok && !plan.BindingRotatable {
		return refuse(CodeBadRequest, "predecessor_binding_id: the bindings of the plan %q cannot be rotated. Create a new binding and delete the old one.", plan.PlanName)
	}
	key := p.key
	key.BindingID = p.sketch.predecessorID
	old, err := p.b.read(p.ctx, key)
	if err != nil {
		return err
	}
	if key == p.key || lifecycle.Effective(old.Lifecycle, view(p.instance)) != lifecycle.Ready {
		return refuse(CodeBadRequest, "predecessor_binding_id: this service instance has no such binding that is ready. Send the id of one that is, or create a binding without a predecessor.")
	}
	if p.parameters != nil || old.Attributes.Parameters == "" {
		return nil
	}
	p.parameters, err = p.parametersOf(old)
	return err
}

// parametersOf reads the predecessor's parameters back, since they are not stored.
func (p *bind) parametersOf(old Record) (json.RawMessage, error) {
	if err := BeginWaiting(p.ctx); err != nil {
		return nil, err
	}
	backend, err := p.b.backend(p.q.Client)
	if err != nil {
		return nil, err
	}
	raw, err := backend.KeyParameters(p.ctx, old.Lifecycle.CFGUID)
	if errors.Is(err, ErrNotRetrievable) || errors.Is(err, ErrNotFound) {
		return nil, refuse(CodeBadRequest, "parameters are missing, and those of the predecessor cannot be read back. Send the parameters that the new binding is to have.")
	}
	if err != nil {
		return nil, cannotReach(err)
	}
	if canonical, err := canon.Parameters(raw); err != nil || canonical == nil {
		return nil, nil
	}
	return raw, nil
}
