package broker

import "context"

// offeringKey is the key of a context's value.
type offeringKey struct{}

// WithOffering says which offering's space a look-up is about: where it finds nothing,
// a backend whose login does not see every space of the org has to see that one before
// the absence counts. An empty name says nothing.
func WithOffering(ctx context.Context, offering string) context.Context {
	if offering == "" {
		return ctx
	}
	return context.WithValue(ctx, offeringKey{}, offering)
}

// OfferingOf returns what WithOffering said, or "".
func OfferingOf(ctx context.Context) string {
	offering, _ := ctx.Value(offeringKey{}).(string)
	return offering
}
