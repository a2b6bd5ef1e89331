package broker

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Catalog answers for the catalogs of all clients. It may be called by any number of
// goroutines. What it returns is a value that nobody changes; a refresh between two calls
// may make their answers differ, so whoever asks twice can get two catalogs.
type Catalog interface {
	// Plan returns the plan of that offering. It never waits for Cloud Foundry when a
	// catalog is known, however old. ErrUnknownPlan (errors.Is) when the catalog is known
	// and has no such plan in such an offering; the error's text says which of the two is
	// unknown. Another error: no catalog is known yet.
	Plan(ctx context.Context, client, serviceID, planID string) (Plan, error)
	// PlanOf returns the plan that has this GUID in Cloud Foundry, under the terms of Plan.
	PlanOf(ctx context.Context, client, planGUID string) (Plan, error)
	// Ready reports whether Plan can answer for the client at once, from memory.
	Ready(client string) bool
	// CheckParameters returns nil when the plan publishes no schema for this use, or the
	// parameters satisfy it; else an error made for users that names the JSON pointer and
	// the rule, never a value. It answers from what is known, never waits for Cloud
	// Foundry, and is bounded in time and memory whatever schema and parameters are like.
	CheckParameters(ctx context.Context, q ParametersQuery) error
	// Refresh reads the client's marketplace from Cloud Foundry and returns when the
	// catalog is the new one, or why the old one stays.
	Refresh(ctx context.Context, client string) error
}

// ErrUnknownPlan says that the catalog has no such plan in such an offering.
var ErrUnknownPlan = errors.New("the plan is not in the catalog")

// ErrNoCatalog says that no catalog is known yet, because Cloud Foundry was never reached.
var ErrNoCatalog = errors.New("no catalog is known yet")

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
