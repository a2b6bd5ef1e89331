package catalog

import (
	"fmt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// unknown is broker.ErrUnknownPlan with a text that stands alone, because it ends
// up as the description of an answer.
type unknown struct{ sentence string }

func (u unknown) Error() string { return u.sentence }

func (unknown) Unwrap() error { return broker.ErrUnknownPlan }

// Ids come from requests: %.100q bounds their length and keeps what is not
// printable out of the text.

func unknownOffering(serviceID string) error {
	return unknown{fmt.Sprintf("the catalog has no service offering with service_id %.100q; "+
		"fetch the catalog again and use an offering that it lists", serviceID)}
}

func unknownPlan(serviceID, planID string) error {
	return unknown{fmt.Sprintf("the service offering %.100q has no plan with plan_id %.100q; "+
		"fetch the catalog again and use a plan that it lists for this offering", serviceID, planID)}
}
