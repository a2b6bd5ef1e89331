package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// instanceResult turns the decision on an instance's PUT, PATCH or DELETE into the
// answer, and starts the workflow of a new operation.
func (b *Broker) instanceResult(ctx context.Context, rec Record, d lifecycle.Decision, id string) (Result, error) {
	switch d.Outcome {
	case lifecycle.Accepted:
		b.begin(ctx, rec, Start{Key: rec.Key, Operation: id})
		return Result{Outcome: OutcomeAccepted, Operation: id, RetryAfter: b.retryAfter(rec), DashboardURL: rec.DashboardURL, Metadata: rec.Metadata}, nil
	case lifecycle.Running:
		return Result{
			Outcome: OutcomeRunning, Operation: rec.Lifecycle.Operation.ID,
			RetryAfter: b.retryAfter(rec), DashboardURL: rec.DashboardURL, Metadata: rec.Metadata,
		}, nil
	case lifecycle.Exists:
		return Result{Outcome: OutcomeExists, DashboardURL: rec.DashboardURL, Metadata: rec.Metadata}, nil
	default:
		return Result{}, refusal(rec, d.Outcome)
	}
}

// refusal is the one table from the lifecycle's outcomes to refusals.
func refusal(rec Record, o lifecycle.Outcome) error {
	what := "service " + string(rec.Lifecycle.Kind)
	switch o {
	case lifecycle.Conflict:
		return conflict(rec, what)
	case lifecycle.Busy:
		return refuse(CodeConcurrency, "Another operation on this %s is in progress. Wait until it has ended and send the request again.", what)
	case lifecycle.Superseded:
		return superseded(what)
	case lifecycle.NotUpdatable:
		return refuse(CodeUnprocessable, "The %s cannot be changed, because its last operation failed: %s Delete it and create it again.", what, lastFailure(rec))
	case lifecycle.AsyncRequired:
		return refuse(CodeAsyncRequired, "Send the request again with accepts_incomplete=true.")
	case lifecycle.Missing:
		return refuse(CodeNotFound, "There is no such service instance. Check its id, or create it first.")
	case lifecycle.AlreadyGone:
		return refuse(CodeGone, "There is no such %s.", what)
	default:
		return &Error{Code: CodeInternal, Description: fmt.Sprintf("outcome %q of a %s", o, what)}
	}
}

func conflict(rec Record, what string) error {
	if rec.Lifecycle.State == lifecycle.DeleteFailed {
		return refuse(CodeConflict, "The %s is still there, because deleting it failed. Delete it again before you create it again.", what)
	}
	return refuse(CodeConflict, "A %s with this id exists already with other attributes. Use another id, or send the attributes that it was created with.", what)
}

// superseded: somebody else's operation came between reading and writing, and nothing
// was claimed.
func superseded(what string) error {
	return refuse(CodeConcurrency, "The %s was changed by another request at the same time. Send the request again.", what)
}

func lastFailure(rec Record) string {
	if n := len(rec.Lifecycle.Finished); n > 0 {
		return rec.Lifecycle.Finished[n-1].Description
	}
	return "the reason is not known any more."
}

func outOfTime(cause error) error {
	return &Error{
		Code: CodeOutOfTime, Cause: cause,
		Description: "The request took longer than the broker may hold it. Delete what it was to create, or send it again.",
	}
}

// plan looks a plan up for something new.
func (b *Broker) plan(ctx context.Context, client, serviceID, planID string) (Plan, error) {
	plan, err := b.Catalog.Plan(ctx, client, serviceID, planID)
	switch {
	case err == nil:
		return plan, nil
	case errors.Is(err, ErrUnknownPlan):
		return Plan{}, &Error{Code: CodeBadRequest, Description: sentence(err)}
	default:
		return Plan{}, &Error{
			Code: CodeUnavailable, RetryAfter: 5, Cause: err,
			Description: "The broker does not know the catalog yet, because Cloud Foundry could not be reached. Send the request again.",
		}
	}
}

// checkParameters turns what the schema says into a refusal.
func (b *Broker) checkParameters(ctx context.Context, q ParametersQuery) error {
	if err := b.Catalog.CheckParameters(ctx, q); err != nil {
		return &Error{Code: CodeBadRequest, Description: sentence(err)}
	}
	return nil
}

// sentence is the text of an error that was made for users, as they read it.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// deadline is when an operation on this plan has had its time.
func (b *Broker) deadline(plan Plan) time.Time {
	return b.Now().Add(positive(plan.MaximumPollingDuration, b.Deadline))
}

// dueAfter is how long the workflow of a new operation may take to show itself.
func (b *Broker) dueAfter(q lifecycle.Request) time.Duration {
	grace := 2 * time.Minute
	if !q.AcceptsIncomplete {
		grace += b.RequestBudget
	}
	return grace
}
