package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/ferry-broker/ferry/internal/osb"
)

// refusal is every answer that is not a success, whoever decided it. Descriptions
// are sentences for the platform's user that end with what to do next.
type refusal struct {
	status      int
	word        string
	description string
	// details is our own sentence where the description is a reserved one.
	details    string
	usable     *bool
	repeatable *bool
	header     http.Header
	// empty: the body is {} (410, osb-choices E5).
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

// answer renders r. OSB allows instance_usable to updates and deprovisions and
// update_repeatable to updates only (ERR-05, ERR-07).
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
