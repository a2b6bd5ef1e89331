package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// Call is what every request carries besides its body.
type Call struct {
	// Client is the authenticated client's name.
	Client            string
	AcceptsIncomplete bool
	// OriginatingIdentity is the header as it came; it decides nothing.
	OriginatingIdentity string
	// APIInfoLocation is the header X-Api-Info-Location as it came; kept only.
	APIInfoLocation string
}

// sign notes on the record whose request the operation is.
func (c Call) sign(rec *Record) {
	rec.OriginatingIdentity, rec.APIInfoLocation = c.OriginatingIdentity, c.APIInfoLocation
}

// Waiter lets a request wait for Cloud Foundry, or not: of those that do, only so many may be there at once.
type Waiter interface {
	// BeginWaiting is asked before a use case first waits for Cloud Foundry, and before anything is written for it. Its
	// error is then the use case's, as it is. It may be asked again.
	BeginWaiting() error
}

// waiterKey is where a context has what WithWaiter gave it.
type waiterKey struct{}

// WithWaiter returns a context for one request, in which w is asked before the use case, or the catalog, waits for
// Cloud Foundry. Without it everybody may wait.
func WithWaiter(ctx context.Context, w Waiter) context.Context {
	return context.WithValue(ctx, waiterKey{}, w)
}

// BeginWaiting asks whether the request may wait for Cloud Foundry from now on. The error is the answer to it.
func BeginWaiting(ctx context.Context) error {
	if w, ok := ctx.Value(waiterKey{}).(Waiter); ok {
		return w.BeginWaiting()
	}
	return nil
}

// ProvisionRequest is a PUT of a service instance.
type ProvisionRequest struct {
	Call
	InstanceID string
	Body       osb.ProvisionRequest
}

// UpdateRequest is a PATCH of a service instance.
type UpdateRequest struct {
	Call
	InstanceID string
	Body       osb.UpdateRequest
}

// DeleteRequest is a DELETE of an instance (BindingID empty) or a binding. The mandatory service_id and plan_id are
// hints and may be empty for an unbind of an absent binding (docs/osb-choices.md).
type DeleteRequest struct {
	Call
	InstanceID string
	BindingID  string
	ServiceID  string
	PlanID     string
}

// BindRequest is a PUT of a service binding.
type BindRequest struct {
	Call
	InstanceID string
	BindingID  string
	Body       osb.BindRequest
}

// FetchRequest reads an instance or a binding.
type FetchRequest struct {
	Client     string
	InstanceID string
	BindingID  string
}

// PollRequest asks for the last operation of an instance or a binding.
type PollRequest struct {
	Client     string
	InstanceID string
	BindingID  string
	// Operation is the operation string of the query, empty for none.
	Operation string
}

// Result is the answer to a PUT, PATCH or DELETE that was not refused.
type Result struct {
	Outcome Outcome
	// Operation is the operation string of a 202.
	Operation string
	// RetryAfter in whole seconds, 1 to 300, with a 202; else 0.
	RetryAfter int
	// DashboardURL of an instance that has one.
	DashboardURL string
	// Binding is the body of a bind's 200 or 201.
	Binding *BindingBody
	// Metadata of the instance, for 2.16 platforms; may be nil.
	Metadata *osb.InstanceMetadata
}

// Duplicate reports whether the request was absorbed: it changed and started nothing.
func (r Result) Duplicate() bool { return r.Outcome == OutcomeRunning || r.Outcome == OutcomeExists }

// Outcome says what became of a request, in the words of lifecycle, which decides it; only what a held request came to
// has words of its own. The values stand in logs and metrics.
type Outcome = lifecycle.Outcome

// The outcomes of requests that were not refused.
const (
	// OutcomeAccepted: 202, a new operation.
	OutcomeAccepted = lifecycle.Accepted
	// OutcomeRunning: 202, a duplicate of the operation that runs.
	OutcomeRunning = lifecycle.Running
	// OutcomeExists: 200, a duplicate of what is done, or a change without effect.
	OutcomeExists = lifecycle.Exists
	// OutcomeCreated: 201, a held bind that this request made.
	OutcomeCreated Outcome = "created"
	// OutcomeDeleted: 200, a held unbind that is done.
	OutcomeDeleted Outcome = "deleted"
)

// BindingBody is what a finished binding hands out. It holds secrets and lives only as long as the answer that carries
// it.
type BindingBody struct {
	KeyDetails
	Parameters json.RawMessage
}

// InstanceBody is the body of a fetched instance.
type InstanceBody struct {
	ServiceID          string
	PlanID             string
	DashboardURL       string
	Metadata           *osb.InstanceMetadata
	Parameters         json.RawMessage
	MaintenanceVersion string
}

// Poll is the answer to a last_operation request.
type Poll struct {
	State osb.OperationState
	// Description is never "" when State is failed; while in progress it says what the operation waits for.
	Description string
	// RetryAfter in whole seconds while in progress; else 0.
	RetryAfter int
	// DeleteDone: the operation polled was a delete that has ended (quirk finished_delete).
	DeleteDone bool
	// UpdateRepeatable and InstanceUsable as OSB "Polling Last Operation" defines them.
	UpdateRepeatable *bool
	InstanceUsable   *bool
}

// Error is a refusal. Description is a sentence for the platform's user: what is wrong, where, and what to do. It never
// holds a secret.
type Error struct {
	Code        Code
	Description string
	// UpdateRepeatable is false only for an update that can never work (OSB "Service Broker Errors").
	UpdateRepeatable *bool
	// InstanceUsable is false when an update found the instance unusable.
	InstanceUsable *bool
	// RetryAfter in seconds; 0: none.
	RetryAfter int
	// Cause is for the log only.
	Cause error
}

// Error returns the description for logs.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Description, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Description)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Code classifies a refusal. The HTTP border has one table from codes to statuses.
type Code string

// The codes of refusals.
const (
	CodeBadRequest              Code = "BadRequest"              // 400
	CodeConflict                Code = "Conflict"                // 409: exists with other attributes
	CodeNotFound                Code = "NotFound"                // 404
	CodeGone                    Code = "Gone"                    // 410
	CodeAsyncRequired           Code = "AsyncRequired"           // 422
	CodeConcurrency             Code = "ConcurrencyError"        // 422
	CodeRequiresApp             Code = "RequiresApp"             // 422
	CodeMaintenanceInfoConflict Code = "MaintenanceInfoConflict" // 422
	CodeUnprocessable           Code = "Unprocessable"           // 422 with a description
	CodeBackend                 Code = "Backend"                 // 500: a held bind that the backend refused or failed
	CodeOutOfTime               Code = "OutOfTime"               // 500: a held request whose budget is spent
	CodeUnavailable             Code = "Unavailable"             // 503 with Retry-After
	CodeInternal                Code = "Internal"                // 500: our own fault; Description is not for users
)

// CodeOf returns the code of err: CodeInternal for what is no *Error.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

func refuse(code Code, format string, args ...any) error {
	return &Error{Code: code, Description: fmt.Sprintf(format, args...)}
}

// refusal says to a platform's user what the lifecycle decided. It is the one table of these sentences; what a code is
// on the wire is for the border to say.
func refusal(rec Record, o lifecycle.Outcome) error {
	what := "service " + string(rec.Lifecycle.Kind)
	switch o {
	case lifecycle.Conflict:
		return conflict(rec, what)
	case lifecycle.Busy:
		return refuse(CodeConcurrency, "Another operation on this %s is in progress. Wait until it has ended and send the request again.", what)
	case lifecycle.Superseded:
		// Somebody else's operation came between reading and writing, and nothing was claimed.
		return refuse(CodeConcurrency, "The %s was changed by another request at the same time. Send the request again.", what)
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

func unavailable(err error) error {
	return &Error{
		Code: CodeUnavailable, RetryAfter: 1, Cause: err,
		Description: "The broker cannot reach its store at the moment. Send the request again.",
	}
}

// late answers a request whose time was over before anything had begun for it.
func late(cause error) error {
	return &Error{
		Code: CodeUnavailable, RetryAfter: 1, Cause: cause,
		Description: "The broker could not answer in time, and has begun nothing. Send the request again.",
	}
}
