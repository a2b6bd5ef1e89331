package dynamo

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

const (
	// maxAttempts and maxBackoff bound what a call can cost beyond its own time: with
	// the pauses of the SDK, at most four times a second.
	maxAttempts = 5
	maxBackoff  = time.Second
	// attemptTimeout is when a try that got no answer is given up for the next one;
	// DynamoDB answers in milliseconds.
	attemptTimeout = 4 * time.Second
	// roomForAnother is what has to be left of a budget after a pause: a try, and the
	// answer to the platform.
	roomForAnother = 250 * time.Millisecond
)

// newRetryer is the SDK's own, with its quota for all calls together. The adaptive
// mode stays off: it delays calls before anything was refused.
func newRetryer() aws.RetryerV2 {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = maxAttempts, maxBackoff
	})
}

// frugal gives up while there is time left to say so, instead of sleeping into the
// end of the call's context. It belongs to one call.
type frugal struct {
	aws.RetryerV2
	ctx context.Context
}

// RetryDelay returns the pause before the next try, or the fault when the context
// ends too soon for one.
func (f frugal) RetryDelay(attempt int, fault error) (time.Duration, error) {
	pause, err := f.RetryerV2.RetryDelay(attempt, fault)
	if err != nil {
		return 0, err
	}
	if endsWithin(f.ctx, pause+roomForAnother) {
		return 0, fmt.Errorf("no time for another try: %w", fault)
	}
	return pause, nil
}

// endsWithin asks the context instead of a clock: a shorter deadline of its own is
// not granted to a child.
func endsWithin(ctx context.Context, d time.Duration) bool {
	end, ok := ctx.Deadline()
	if !ok {
		return false
	}
	child, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	granted, _ := child.Deadline()
	return !granted.Before(end)
}
