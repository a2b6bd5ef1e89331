package broker

import (
	"errors"
	"fmt"
)

// ErrNotRetrievable says that the backing broker does not support reading it back.
var ErrNotRetrievable = errors.New("the backing broker does not support fetching this")

// ErrBusy says that Cloud Foundry does not read it while an operation runs.
var ErrBusy = errors.New("an operation is in progress")

// ErrCredentials says that the credentials of a key are no JSON object, which OSB
// demands and another try does not change. The error that wraps it is a UserTexter.
var ErrCredentials = errors.New("the credentials are not a JSON object")

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

// Error is a refusal. Description is a sentence for the platform's user: what is
// wrong, where, and what to do. It never holds a secret.
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
