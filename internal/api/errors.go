package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// rule is what becomes of one broker.Code. The error word on the wire is the code
// itself, which for the four reserved words is the specification's.
type rule struct {
	status int
	// reserved is a description that platforms compare letter for letter; what the
	// broker had to say then moves to ferry_details (osb-choices E1).
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

// ruleOf is the table of errors; ok is false for a code that it does not know.
func ruleOf(code broker.Code) (r rule, ok bool) {
	switch code {
	case broker.CodeBadRequest:
		r = rule{status: http.StatusBadRequest, standard: "The request is not valid. Correct it before it is sent again."}
	case broker.CodeConflict:
		r = rule{status: http.StatusConflict, standard: "This id is in use with other attributes. Use another id, or delete what has it."}
	case broker.CodeNotFound:
		r = rule{status: http.StatusNotFound, standard: "Nothing with this id is known here. Check the id, or create it first."}
	case broker.CodeGone:
		r = rule{status: http.StatusGone, empty: true}
	case broker.CodeAsyncRequired:
		r = rule{status: http.StatusUnprocessableEntity, reserved: osb.AsyncRequiredDescription, standard: "Send the request with accepts_incomplete=true."}
	case broker.CodeConcurrency:
		r = rule{status: http.StatusUnprocessableEntity, reserved: osb.ConcurrencyErrorDescription, standard: "Wait until the other operation has ended, then send the request again."}
	case broker.CodeRequiresApp:
		r = rule{status: http.StatusUnprocessableEntity, reserved: osb.RequiresAppDescription, standard: "Bind an application to the instance."}
	case broker.CodeMaintenanceInfoConflict:
		r = rule{status: http.StatusUnprocessableEntity, standard: "The maintenance_info of the request is not that of the plan. Fetch the catalog again, then repeat the request with the version in it."}
	case broker.CodeUnprocessable:
		r = rule{status: http.StatusUnprocessableEntity, standard: "The instance cannot be changed like this. Ask for another change, or delete it."}
	case broker.CodeBackend:
		r = rule{status: http.StatusInternalServerError, standard: "The service behind this broker refused or failed. Delete the binding, then try again."}
	case broker.CodeOutOfTime:
		r = rule{status: http.StatusInternalServerError, standard: "The work did not end in the time that one request may take. Delete what was asked for, then try again."}
	case broker.CodeUnavailable:
		r = rule{status: http.StatusServiceUnavailable, standard: "This broker cannot answer at the moment. Send the request again later.", level: slog.LevelWarn, retryAfter: 10}
	case broker.CodeInternal:
		r = internalRule()
	default:
		return rule{}, false
	}
	return r, true
}

func internalRule() rule {
	return rule{
		status:    http.StatusInternalServerError,
		standard:  "This broker failed by a fault of its own. Send the request again later; if that does not help, ask its operator, whose log has the cause.",
		secretive: true,
		level:     slog.LevelError,
	}
}

// refusalOf turns any error into an answer. Of errors that are nobody's refusal the
// text stays in the log.
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

// brokerRefusal looks e up in the table. A code that the table lacks is a fault of
// ours.
func brokerRefusal(e *broker.Error) *refusal {
	rule, ok := ruleOf(e.Code)
	word := string(e.Code)
	if !ok {
		rule, word = internalRule(), string(broker.CodeInternal)
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
