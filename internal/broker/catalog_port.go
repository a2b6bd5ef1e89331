package broker

import (
	"context"
	"errors"
)

// Catalogs answers from the clients' catalogs. Lookups never wait for Cloud
// Foundry when a catalog is known, however old.
type Catalogs interface {
	// Plan returns the plan of that offering. ErrUnknownPlan (errors.Is) when the
	// catalog is known and has no such plan in such an offering; the error's text
	// says which of the two is unknown. Another error: no catalog is known yet.
	Plan(ctx context.Context, client, serviceID, planID string) (Plan, error)
	// PlanOf returns the plan that has this GUID in Cloud Foundry; the errors are those of
	// Plan.
	PlanOf(ctx context.Context, client, planGUID string) (Plan, error)
	// Ready reports whether Plan can answer for the client at once, from memory.
	Ready(client string) bool
}

// ErrUnknownPlan says that the catalog has no such plan in such an offering.
var ErrUnknownPlan = errors.New("the plan is not in the catalog")

// ErrNoCatalog says that no catalog is known yet, because Cloud Foundry was never reached.
var ErrNoCatalog = errors.New("no catalog is known yet")
