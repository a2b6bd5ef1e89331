package broker

import (
	"context"
	"encoding/json"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Schemas checks parameters against the schema that a plan publishes for them. It
// answers from what is known, never waits for Cloud Foundry, and is bounded in time
// and memory whatever schema and parameters are like.
type Schemas interface {
	// CheckParameters returns nil when the plan has no schema for this use, or the
	// parameters satisfy it; else an error made for users that names the JSON
	// pointer and the rule, never a value.
	CheckParameters(ctx context.Context, q ParametersQuery) error
}

// checkParameters turns what the schema says into a refusal.
func (b *Broker) checkParameters(ctx context.Context, q ParametersQuery) error {
	if b.Schemas == nil {
		return nil
	}
	if err := b.Schemas.CheckParameters(ctx, q); err != nil {
		return &Error{Code: CodeBadRequest, Description: sentence(err)}
	}
	return nil
}

// ParametersQuery are parameters on their way to a plan.
type ParametersQuery struct {
	Client, ServiceID, PlanID string
	// Kind and Verb choose the schema: an instance's create or update, or a
	// binding's create.
	Kind lifecycle.Kind
	Verb lifecycle.Verb
	// Parameters as they came; empty counts as {} for a create and a bind. An
	// update without parameters is not asked about.
	Parameters json.RawMessage
}
