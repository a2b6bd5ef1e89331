package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// elsewhereError says that the client is pointed at another Cloud Foundry or org than the
// one that a record's rows are in: nothing follows from what is absent there.
type elsewhereError struct{ was, is Place }

// Error tells the operator both places, and what to do.
func (e *elsewhereError) Error() string {
	return fmt.Sprintf("it was made in the org %s of %s, and the configuration names the org %s of %s: "+
		"correct cloud_foundry.api and org, or name the former address of the same Cloud Foundry in cloud_foundry.former_apis",
		e.was.OrgGUID, e.was.API, e.is.OrgGUID, e.is.API)
}

// UserText implements UserTexter.
func (*elsewhereError) UserText() string { return lifecycle.Elsewhere }

// inPlace returns nil when the client points at the Cloud Foundry and the org that the
// record was made in, an *elsewhereError when at another one, and any other error when
// that cannot be known now.
func (b *Broker) inPlace(ctx context.Context, rec Record) error {
	was := rec.Lifecycle.Place
	if was == (Place{}) {
		return nil
	}
	backend, err := b.backend(rec.Key.Client)
	if err != nil {
		return err
	}
	is, err := backend.Place(ctx) // which also lets the org be known, by which Same compares
	if err != nil || backend.Same(was) {
		return err
	}
	return &elsewhereError{was: was, is: is}
}

// elsewhere reports whether the error is, or wraps, an *elsewhereError.
func elsewhere(err error) bool {
	_, is := errors.AsType[*elsewhereError](err)
	return is
}
