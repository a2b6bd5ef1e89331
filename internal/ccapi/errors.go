package ccapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cloud Foundry's error codes that decide something (docs/cf-contract.md 2.2 to 2.5).
const (
	CodeInvalidToken     = 1000
	CodeOtherOffering    = 1002
	CodeUnknown          = 10001
	CodeNotAuthenticated = 10002
	CodeNotAuthorized    = 10003
	CodeBadQuery         = 10005
	CodeUnprocessable    = 10008
	CodeUnableToPerform  = 10009
	CodeNotFound         = 10010
	CodeDatabase         = 10011
	CodeUniqueness       = 10016
	CodeBrokerLimited    = 10016 // with 429; it limits the reading of parameters alone
	CodeBeingDeleted     = 10020
	CodeUAALimited       = 20008 // it limits roles alone
	CodeNameTakenV2      = 60002
	CodeInstanceNotFound = 60004
	CodeInProgress       = 60016
	CodeBindingNotRead   = 90007
	CodeInstanceNotRead  = 120004
	CodeKeyNameTakenV2   = 360001
	CodeSharesExist      = 390002
)

// Advice says what an operator should look at when an error is the login's. Waiting does not help; putting it right
// does, without a restart.
type Advice string

// What may be wrong with a login.
const (
	AdviceLogin Advice = "look at the client's user and password, or its client id and secret"
	AdviceUAA   Advice = "the API is reached by https and names a UAA that is not; the client's secret was not sent there"
	AdviceToken Advice = "look whether the API and its UAA belong together, and whether the login still exists"
	AdviceRole  Advice = "look at the roles of the login in the org and its spaces"
	AdviceOrg   Advice = "look at the name of the org and at the roles of the login in it"
)

// adviceFor returns what to look at after a refusal by Cloud Foundry, or nothing.
func adviceFor(status, code int) Advice {
	switch {
	case status == http.StatusUnauthorized && code != 0, code == CodeInvalidToken, code == CodeNotAuthenticated:
		return AdviceToken
	case status == http.StatusForbidden && code == CodeNotAuthorized:
		return AdviceRole
	}
	return ""
}

// Error is a call that did not succeed: Cloud Foundry's own refusal, something in front of it that answered, or no
// answer at all. Its text, Error, is fit for logs: it holds no body of a request, no parameters, credentials or tokens.
type Error struct {
	// Call says what was tried, with its arguments.
	Call string
	// Status is 0 when there was no answer.
	Status int
	// Code, Title and Detail are Cloud Foundry's; Code is 0 when the answer was not its own JSON, and Title then the
	// UAA's word for a refused login. Detail is empty where it may quote what was sent.
	Code   int
	Title  string
	Detail string
	// Text is the detail as it came, of all errors of the answer, and Reasons are those errors one by one. They are for
	// telling refusals apart, and for no log or user.
	Text    string
	Reasons []Reason
	// RequestID is Cloud Foundry's id of the request, for its logs.
	RequestID string
	// RetryAfter is how long the answer asked us to stay away.
	RetryAfter time.Duration
	// Router is what the router in front of Cloud Foundry says.
	Router string
	// Unsent: nothing of the request left, so it took no effect. Held says why it was not even tried.
	Unsent bool
	Held   string
	// Advice is not empty when the login is at fault.
	Advice Advice
	// Err is why there was no answer, or why it could not be used.
	Err error

	forUsers string // Text, fit for users
}

// Reason is one error in an answer, or in a job.
type Reason struct {
	Code   int    `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// Error returns one line for a log.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("cloud foundry: " + e.Call + ":")
	if e.Held != "" {
		text.WriteString(" " + e.Held)
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
	if e.Router != "" {
		text.WriteString(" router: " + e.Router)
	}
	if e.Err != nil {
		text.WriteString(" " + e.Err.Error())
	}
	if e.Advice != "" {
		text.WriteString(": " + string(e.Advice))
	}
	if e.RequestID != "" {
		text.WriteString(" [request " + e.RequestID + "]")
	}
	return text.String()
}

// Unwrap returns why there was no usable answer.
func (e *Error) Unwrap() error { return e.Err }

// RetryIn returns RetryAfter.
func (e *Error) RetryIn() time.Duration { return e.RetryAfter }

// UserText returns what a user may be told: one or two sentences without hosts, addresses or secrets.
func (e *Error) UserText() string {
	switch {
	case e.Advice == AdviceOrg:
		return "The broker does not see its org in Cloud Foundry. Its operator has to look at it."
	case e.Advice == AdviceRole:
		return e.Explain("Cloud Foundry: ")
	case e.Advice != "":
		return "The broker cannot log in to Cloud Foundry. Its operator has to look at it."
	case e.Status == http.StatusTooManyRequests:
		return "Cloud Foundry takes no more requests of the broker for now; it goes on later."
	case e.forUsers != "":
		return "Cloud Foundry: " + e.forUsers
	case Unreachable(e):
		return "Cloud Foundry does not answer at the moment."
	}
	return "Cloud Foundry gave an answer that the broker cannot use."
}

// Explain returns what Cloud Foundry said behind the words before it; where it did not say anything about the call,
// what there is to say instead.
func (e *Error) Explain(before string) string {
	switch {
	case e.Advice == AdviceRole && e.forUsers == "":
		return "The broker's login in Cloud Foundry lacks a role; its operator has to look at it."
	case e.Advice == AdviceRole:
		return before + e.forUsers + " (the broker's login in Cloud Foundry lacks a role; its operator has to look at it)"
	case e.Advice != "", e.forUsers == "", e.Held != "", e.Status == http.StatusTooManyRequests:
		return e.UserText()
	}
	return before + e.forUsers
}

// Unreachable reports whether err says that Cloud Foundry itself did not answer: no connection, no answer in time, or
// an answer by something in front of it. It is false for Cloud Foundry's own refusals and for a call that its caller
// cancelled.
func Unreachable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, context.Canceled) {
		return false
	}
	return e.Err != nil || (e.Code == 0 && e.Title == "")
}

// IsCode reports whether err is Cloud Foundry's own word with one of the codes.
func IsCode(err error, codes ...int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// IsAbsent reports whether Cloud Foundry itself said that the resource does not exist. Any other 404 is a router's or a
// proxy's.
func IsAbsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && IsCode(err, CodeNotFound, CodeInstanceNotFound)
}

// AsUnsent returns err, marked as one that kept a request from being sent.
func AsUnsent(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Unsent = true
	}
	return err
}

// newError reads an answer that is no success. Cloud Foundry's limiter sends its JSON as text/plain, so the content
// type is not looked at.
func (c *Client) newError(call string, answer *Response) *Error {
	e := &Error{
		Call: call, Status: answer.Status,
		RequestID:  requestID(answer),
		RetryAfter: retryAfter(answer.Header, c.config.Now()),
		Router:     clip(answer.Header.Get("X-Cf-Routererror"), 100),
	}
	var body struct {
		Errors []Reason `json:"errors"`
	}
	if json.Unmarshal(answer.Body, &body) != nil || len(body.Errors) == 0 {
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
	e.Code, e.Title, e.Reasons = first.Code, c.ForLog(first.Title), body.Errors
	e.Advice = adviceFor(e.Status, e.Code)
	e.Text = strings.Join(details, "; ")
	e.forUsers = c.ForUsers(e.Text)
	if ownWords(e.Code) {
		e.Detail = c.ForLog(e.Text)
	}
	return e
}

// requestID is Cloud Foundry's id of a request, for its logs and ours.
func requestID(answer *Response) string {
	return clip(oneLine(answer.Header.Get("X-Vcap-Request-Id")), 100)
}

// ownWords reports whether details with this code are Cloud Foundry's own. Others hand on what a backing broker or a
// database said, which may quote what was sent; that is for the user, and for no log.
func ownWords(code int) bool {
	return code != CodeUnableToPerform && code != CodeUnknown && code != CodeDatabase
}

// withoutValue keeps a decoding error from quoting what could not be decoded: it may be a credential.
func withoutValue(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New("the answer has an unexpected value in " + strconv.Quote(e.Field))
	}
	return errors.New("the answer is not the JSON that was expected")
}

// longestWait is the longest that anybody can mean by Retry-After.
const longestWait = time.Hour

// epoch is the number from which on a Retry-After is a date: older Cloud Controllers send the Unix time at which their
// limiter's window ends.
const epoch = 1_000_000_000

// retryAfter reads the header: seconds, the Unix time, or a date (by the answer's own clock, if it tells it). What
// cannot be meant is at most an hour.
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
