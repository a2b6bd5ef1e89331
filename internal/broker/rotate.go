package broker

import (
	"encoding/json"
	"errors"

	"github.com/ferry-broker/ferry/internal/canon"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
