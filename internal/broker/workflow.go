package broker

import (
	"context"
	"errors"
	"time"
)

// ErrStopping is what Start returns when its process is stopping: whoever opens the
// store next goes on with the operation.
var ErrStopping = errors.New("the process is stopping")

// Workflow drives operations: it calls Broker.Advance again and again until the
// step says done.
type Workflow interface {
	// Start begins to drive an operation, once the first delay is over. "Already
	// started" is success. An error means that it may not have started; the
	// operation is stored, so the janitor will find it.
	Start(ctx context.Context, start Start) error
}

// Stopper is a Workflow in which waiting costs something.
type Stopper interface {
	// Stop ends what Start began for an operation that has ended meanwhile. It is only
	// asked to, and an error changes nothing: a workflow that goes on finds the
	// operation ended.
	Stop(ctx context.Context, start Start) error
}

// Start names the operation to drive.
type Start struct {
	Key       Key
	Operation string
	// Restart is 0 for the first start and the stored number of a restart later.
	Restart int
	// Delay is how long the first tick waits.
	Delay time.Duration
}

// Advancer does one step of one operation. Broker implements it; workflows call it.
type Advancer interface {
	// Advance does one tick of the operation. An error means that nothing is known
	// to have changed and that the caller tries again after a pause.
	Advance(ctx context.Context, key Key, operation string) (Step, error)
}

// Step is what a tick left to do.
type Step struct {
	// Done: the operation has ended, or is not the current one any more.
	Done bool
	// Wait is how long to wait before the next tick.
	Wait time.Duration
}
