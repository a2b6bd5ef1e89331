package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// rule is what becomes of one broker.Code. The error word on the wire is the code itself, which for the four reserved
// words is the specification's.
type rule struct {
	status int
	// reserved is a description that platforms compare letter for letter; what the broker had to say then moves to
	// ferry_details (docs/osb-choices.md).
	reserved string
	// standard is the description when the broker gave none, or none for users.
	standard string
	// secretive: the broker's own description is not for users.
	secretive bool
	empty     bool
	level     slog.Level
	// retryAfter in seconds, when the broker named none.
	retryAfter int
}

// rules is the table of errors.
var rules = map[broker.Code]rule{
	broker.CodeBadRequest: {status: http.StatusBadRequest,
		standard: "The request is not valid. Correct it before it is sent again."},
	broker.CodeConflict: {status: http.StatusConflict,
		standard: "This id is in use with other attributes. Use another id, or delete what has it."},
	broker.CodeNotFound: {status: http.StatusNotFound,
		standard: "Nothing with this id is known here. Check the id, or create it first."},
	broker.CodeGone: {status: http.StatusGone, empty: true},
	broker.CodeAsyncRequired: {status: http.StatusUnprocessableEntity, reserved: osb.AsyncRequiredDescription,
		standard: "Send the request with accepts_incomplete=true."},
	broker.CodeConcurrency: {status: http.StatusUnprocessableEntity, reserved: osb.ConcurrencyErrorDescription,
		standard: "Wait until the other operation has ended, then send the request again."},
	broker.CodeRequiresApp: {status: http.StatusUnprocessableEntity, reserved: osb.RequiresAppDescription,
		standard: "Bind an application to the instance."},
	broker.CodeMaintenanceInfoConflict: {status: http.StatusUnprocessableEntity,
		standard: "The maintenance_info of the request is not that of the plan. Fetch the catalog again, then repeat the request with the version in it."},
	broker.CodeUnprocessable: {status: http.StatusUnprocessableEntity,
		standard: "The instance cannot be changed like this. Ask for another change, or delete it."},
	broker.CodeBackend: {status: http.StatusInternalServerError,
		standard: "The service behind this broker refused or failed. Delete the binding, then try again."},
	broker.CodeOutOfTime: {status: http.StatusInternalServerError,
		standard: "The work did not end in the time that one request may take. Delete what was asked for, then try again."},
	broker.CodeUnavailable: {status: http.StatusServiceUnavailable, level: slog.LevelWarn, retryAfter: 10,
		standard: "This broker cannot answer at the moment. Send the request again later."},
	broker.CodeInternal: {status: http.StatusInternalServerError, level: slog.LevelError, secretive: true,
		standard: "This broker failed by a fault of its own. Send the request again later; if that does not help, ask its operator, whose log has the cause."},
}

// refusalOf turns any error into an answer. Of errors that are nobody's refusal the text stays in the log.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return brokerRefusal(e)
	}
	switch {
	case errors.Is(err, broker.ErrNoCatalog):
		return brokerRefusal(&broker.Error{Code: broker.CodeUnavailable, Cause: err,
			Description: "No catalog is known yet: since this broker was installed, Cloud Foundry was not reached or refused the broker's login. Send the request again later."})
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return brokerRefusal(&broker.Error{Code: broker.CodeUnavailable, Cause: err, RetryAfter: 1,
			Description: "This broker is stopping, or the request took longer than it may. Send it again."})
	}
	r := brokerRefusal(&broker.Error{Code: broker.CodeInternal, Cause: err})
	if p, ok := errors.AsType[*broker.PanicError](err); ok {
		r.stack = p.Stack
	}
	return r
}

// brokerRefusal looks e up in the table. A code that the table lacks is a fault of ours.
func brokerRefusal(e *broker.Error) *refusal {
	rule, ok := rules[e.Code]
	word := string(e.Code)
	if !ok {
		rule, word = rules[broker.CodeInternal], string(broker.CodeInternal)
	}
	r := &refusal{
		status:      rule.status,
		word:        word,
		description: cmp.Or(e.Description, rule.standard),
		usable:      e.InstanceUsable,
		repeatable:  e.UpdateRepeatable,
		empty:       rule.empty,
		level:       rule.level,
		cause:       e.Cause,
	}
	switch {
	case rule.secretive:
		r.description, r.cause = rule.standard, causeOf(e)
	case rule.reserved != "":
		r.description, r.details = rule.reserved, r.description
	}
	if seconds := cmp.Or(e.RetryAfter, rule.retryAfter); seconds > 0 {
		r.header = retryAfter(seconds)
	}
	return r
}

// causeOf returns what the log needs of an error whose description is not for users.
func causeOf(e *broker.Error) error {
	if e.Description == "" && e.Cause != nil {
		return e.Cause
	}
	return e
}

// retryAfter returns the header with a number of seconds from 1 to 300 (LOI-18).
func retryAfter(seconds int) http.Header {
	return http.Header{"Retry-After": {strconv.Itoa(min(max(seconds, 1), 300))}}
}

// refusal is every answer that is not a success, whoever decided it. Descriptions are sentences for the platform's user
// that end with what to do next.
type refusal struct {
	status      int
	word        string
	description string
	// details is our own sentence where the description is a reserved one.
	details    string
	usable     *bool
	repeatable *bool
	header     http.Header
	// empty: the body is {} (410, docs/osb-choices.md).
	empty bool
	level slog.Level
	// cause and stack are for the log only.
	cause error
	stack string
}

// Error returns the word and the description.
func (r *refusal) Error() string { return r.word + ": " + r.description }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.cause }

// answer renders r. OSB allows instance_usable to updates and deprovisions and update_repeatable to updates only
// (ERR-05, ERR-07).
func (r *refusal) answer(verb string) answer {
	a := answer{status: r.status, header: r.header, outcome: r.word, level: r.level, cause: r.cause, stack: r.stack}
	if r.empty {
		return a
	}
	body := osb.Error{Error: r.word, Description: r.description, Details: r.details}
	if verb == "update" {
		body.UpdateRepeatable = r.repeatable
	}
	if verb == "update" || verb == "deprovision" {
		body.InstanceUsable = r.usable
	}
	a.body = body
	return a
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, word: "BadRequest", description: fmt.Sprintf(format, args...)}
}

// unauthorized says nothing about what was wrong.
func unauthorized(realm string) error {
	return &refusal{
		status:      http.StatusUnauthorized,
		word:        "Unauthorized",
		description: "These credentials do not open this broker. Check the username and the password that the platform was given for it.",
		header:      http.Header{"Www-Authenticate": {fmt.Sprintf(`Basic realm=%q, charset="UTF-8"`, realm)}},
	}
}

func forbidden(description string) error {
	return &refusal{status: http.StatusForbidden, word: "Forbidden", description: description}
}

func (h *handler) notFound(e *exchange) error {
	return &refusal{
		status:      http.StatusNotFound,
		word:        "NotFound",
		description: "There is nothing at this path. " + h.BasePath.registration(e.request.URL.EscapedPath()),
	}
}

func methodNotAllowed(methods ...string) error {
	return &refusal{
		status:      http.StatusMethodNotAllowed,
		word:        "MethodNotAllowed",
		description: "This path does not know the method. It knows " + strings.Join(methods, ", ") + "; use one of them.",
		header:      http.Header{"Allow": {strings.Join(methods, ", ")}},
	}
}

func tooLarge(limit int64) error {
	return &refusal{
		status:      http.StatusRequestEntityTooLarge,
		word:        "RequestTooLarge",
		description: fmt.Sprintf("The body is larger than the limit of %d bytes. Send a smaller one.", limit),
	}
}

// tooBusy refuses what was not begun, for the reason and with the seconds to wait.
func tooBusy(reason string, seconds int) error {
	return &refusal{
		status:      http.StatusServiceUnavailable,
		word:        "TooManyRequests",
		description: reason + " Send it again.",
		header:      retryAfter(seconds),
	}
}
