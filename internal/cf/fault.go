package cf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cloudfoundry/go-cfclient/v3/resource"
)

// Error is a call that did not succeed: Cloud Foundry's own refusal, something in
// front of it that answered, or no answer at all. It is fit for logs: it holds no
// body of a request, no parameters, credentials or tokens.
type Error struct {
	// Call says what was tried, with its arguments.
	Call string
	// Status is 0 when there was no answer.
	Status int
	// Code, Title and Detail are Cloud Foundry's; Code is 0 when the answer was not
	// its own JSON, and Title then the UAA's word for a refused login.
	Code   int
	Title  string
	Detail string
	// RequestID is Cloud Foundry's id of the request, for its logs.
	RequestID string
	// RetryAfter is how long the answer asked us to stay away.
	RetryAfter time.Duration
	// Err is why there was no answer, or why it could not be used.
	Err error

	router      string // what the router in front of Cloud Foundry says
	text        string // Detail as it came, for the table
	said        string // the same, fit for users
	brokersWord bool   // it is the backing broker's
	unsent      bool   // nothing of the request left, so it took no effect
	held        string // why it was not even tried
	advice      string // what an operator should look at when the login is at fault
}

// Error returns one line for a log.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("cloud foundry: " + e.Call + ":")
	if e.held != "" {
		text.WriteString(" " + e.held)
	}
	if e.Status > 0 {
		fmt.Fprintf(&text, " status %d", e.Status)
	}
	if e.Title != "" {
		text.WriteString(" " + e.Title)
	}
	if e.Code != 0 {
		fmt.Fprintf(&text, " (%d)", e.Code)
	}
	if e.Detail != "" {
		text.WriteString(" " + e.Detail)
	}
	if e.router != "" {
		text.WriteString(" router: " + e.router)
	}
	if e.Err != nil {
		text.WriteString(" " + e.Err.Error())
	}
	if e.advice != "" {
		text.WriteString(": " + e.advice)
	}
	if e.RequestID != "" {
		text.WriteString(" [request " + e.RequestID + "]")
	}
	return text.String()
}

// RetryIn implements broker.RetryIn.
func (e *Error) RetryIn() time.Duration { return e.RetryAfter }

// UserText implements broker.UserTexter.
func (e *Error) UserText() string {
	switch {
	case e.advice == adviceOrg:
		return "The broker does not see its org in Cloud Foundry. Its operator has to look at it."
	case e.advice == adviceRole:
		return e.explained("Cloud Foundry: ")
	case e.advice != "":
		return "The broker cannot log in to Cloud Foundry. Its operator has to look at it."
	case e.Status == http.StatusTooManyRequests:
		return "Cloud Foundry takes no more requests of the broker for now; it goes on later."
	case e.said != "":
		return "Cloud Foundry: " + e.said
	case Unreachable(e):
		return "Cloud Foundry does not answer at the moment."
	}
	return "Cloud Foundry gave an answer that the broker cannot use."
}

// explained returns what Cloud Foundry said behind the words before it; where it did not
// say anything about the call, what there is to say instead.
func (e *Error) explained(before string) string {
	switch {
	case e.advice == adviceRole && e.said == "":
		return "The broker's login in Cloud Foundry lacks a role; its operator has to look at it."
	case e.advice == adviceRole:
		return before + e.said + " (the broker's login in Cloud Foundry lacks a role; its operator has to look at it)"
	case e.advice != "", e.said == "", e.held != "", e.Status == http.StatusTooManyRequests:
		return e.UserText()
	}
	return before + e.said
}

// Unwrap returns why there was no usable answer.
func (e *Error) Unwrap() error { return e.Err }

// Unreachable reports whether err says that Cloud Foundry itself did not answer:
// no connection, no answer in time, or an answer by something in front of it. It is
// false for Cloud Foundry's own refusals and for a call that its caller cancelled.
func Unreachable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, context.Canceled) {
		return false
	}
	return e.Err != nil || (e.Code == 0 && e.Title == "")
}

// newError reads an answer that is no success. Cloud Foundry's limiter sends its
// JSON as text/plain, so the content type is not looked at.
func (b *Backend) newError(what string, answer *response) *Error {
	e := &Error{
		Call: what, Status: answer.status,
		RequestID:  requestID(answer),
		RetryAfter: retryAfter(answer.header, b.config.Now()),
		router:     clip(answer.header.Get("X-Cf-Routererror"), 100),
	}
	var body resource.CloudFoundryErrors
	if json.Unmarshal(answer.body, &body) != nil || len(body.Errors) == 0 {
		return e
	}
	first := body.Errors[0]
	if first.Code == 0 || first.Title == "" {
		return e
	}
	details := make([]string, len(body.Errors))
	for i, one := range body.Errors {
		details[i] = one.Detail
	}
	e.Code, e.Title = first.Code, b.logText(first.Title)
	e.advice = adviceFor(e.Status, e.Code)
	e.text = strings.Join(details, "; ")
	e.said = b.userText(e.text)
	if e.Code == codeUnableToPerform {
		f := readFailure(first)
		e.brokersWord = f.brokersWord
	}
	if ownWords(e.Code) {
		e.Detail = b.logText(e.text)
	}
	return e
}

// requestID is Cloud Foundry's id of a request, for its logs and ours.
func requestID(answer *response) string {
	return clip(oneLine(answer.header.Get("X-Vcap-Request-Id")), 100)
}

// ownWords reports whether details with this code are Cloud Foundry's own. Others
// hand on what a backing broker or a database said, which may quote what was sent;
// that is for the user, and for no log.
func ownWords(code int) bool {
	return code != codeUnableToPerform && code != codeUnknown && code != codeDatabase
}

// unsent returns err, marked as one that kept a request from being sent.
func unsent(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.unsent = true
	}
	return err
}

// isCode reports whether err is Cloud Foundry's own word with one of the codes.
func isCode(err error, codes ...int) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	for _, code := range codes {
		if e.Code == code {
			return true
		}
	}
	return false
}

// isAbsent reports whether Cloud Foundry itself said that the resource does not
// exist. Any other 404 is a router's or a proxy's.
func isAbsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && isCode(err, codeNotFound, codeInstanceNotFound)
}

// longestWait is the longest that anybody can mean by Retry-After.
const longestWait = time.Hour

// epoch is the number from which on a Retry-After is a date: older Cloud Controllers send
// the Unix time at which their limiter's window ends.
const epoch = 1_000_000_000

// retryAfter reads the header: seconds, the Unix time, or a date (by the answer's own
// clock, if it tells it). What cannot be meant is at most an hour.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		now = sent
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) && seconds > 0 {
		return longestWait
	}
	var wait time.Duration
	switch {
	case err == nil && seconds < epoch:
		wait = time.Duration(max(0, seconds)) * time.Second
	case err == nil:
		wait = time.Unix(seconds, 0).Sub(now)
	default:
		at, err := http.ParseTime(text)
		if err != nil {
			return 0
		}
		wait = at.Sub(now)
	}
	return max(0, min(wait, longestWait))
}

// What an operator should look at when an error is the login's.
const (
	adviceLogin = "look at the client's user and password, or its client id and secret"
	adviceUAA   = "the API is reached by https and names a UAA that is not; the client's secret was not sent there"
	adviceToken = "look whether the API and its UAA belong together, and whether the login still exists"
	adviceRole  = "look at the roles of the login in the org and its spaces"
	adviceOrg   = "look at the name of the org and at the roles of the login in it"
)

// CredentialsRefused reports whether err says that the client's login is at fault:
// the UAA refused it, Cloud Foundry refused its token, it lacks a role, or it does
// not see its org or a space any more. The text of such an error tells what an
// operator should look at. Waiting does not help; putting it right does, without a
// restart.
func CredentialsRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.advice != ""
}

// adviceFor returns what to look at after a refusal by Cloud Foundry, or nothing.
func adviceFor(status, code int) string {
	switch {
	case status == http.StatusUnauthorized && code != 0, code == codeInvalidToken, code == codeNotAuthenticated:
		return adviceToken
	case status == http.StatusForbidden && code == codeNotAuthorized:
		return adviceRole
	}
	return ""
}
