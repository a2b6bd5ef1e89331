// Package sfn is broker.Workflow on AWS Step Functions: an execution of the state machine in
// statemachine/operation.asl.json drives the beginning of each operation, until rounds take it over or it has ended.
//
// The operation string is the execution's name, so that Step Functions itself makes one start of two. That is a saving,
// not a safeguard: names are free again after 90 days, and the record alone decides what happens.
package sfn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Options are what a Workflow is made of.
type Options struct {
	// Config has region, credentials, HTTP client and, for a stand-in, the address. A Retryer in it is not used.
	Config aws.Config
	// StateMachine is the ARN of the state machine. Required.
	StateMachine string
	// Timeout bounds one Start with all its retries; 0 means 5 seconds. It is short since a platform waits, and rounds
	// drive what was not started here.
	Timeout time.Duration
}

// Workflow starts executions. Its methods may be called concurrently.
type Workflow struct {
	options Options
	client  *sfn.Client
}

var _ broker.Workflow = (*Workflow)(nil)

// ErrName says that an operation string cannot name an execution. Ferry's own can.
var ErrName = errors.New("not a name that an execution may have")

// New returns a Workflow without calling anybody.
func New(o Options) *Workflow {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	client := sfn.NewFromConfig(o.Config, func(c *sfn.Options) {
		// A start that is repeated starts nothing, so that the SDK may.
		c.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 3, 500*time.Millisecond })
	})
	return &Workflow{options: o, client: client}
}

// Start begins an execution named after the operation and the restart. Step Functions says in two ways that it has
// begun already: with the ARN of the running one when the input is the same, with ExecutionAlreadyExists otherwise, or
// when that one has ended. Both are success (broker.Workflow). The error wraps ErrName or what the SDK said.
func (w *Workflow) Start(ctx context.Context, s broker.Start) error {
	name, err := executionName(s.Operation, s.Restart)
	if err != nil {
		return err
	}
	input, err := json.Marshal(NewTick(s))
	if err != nil {
		return fmt.Errorf("input of execution %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	_, err = w.client.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: new(w.options.StateMachine), Name: new(name), Input: new(string(input)),
	})
	if _, exists := errors.AsType[*types.ExecutionAlreadyExists](err); exists || err == nil {
		return nil
	}
	return fmt.Errorf("start execution %s: %w", name, err)
}

// fit is narrower than what Step Functions takes: no name needs more, and what fits here needs no escaping in an ARN, a
// URL or a log.
var fit = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// executionName is the operation's name, or that of its n-th restart: a name is never used twice (docs/protocol.md
// section 9).
func executionName(operation string, restart int) (string, error) {
	name := operation
	if restart > 0 {
		name = fmt.Sprintf("%s-r%d", operation, restart)
	}
	if !fit.MatchString(name) {
		return "", fmt.Errorf("operation %.90q, restart %d: %w", operation, restart, ErrName)
	}
	return name, nil
}
