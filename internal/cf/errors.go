package cf

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// source says who made an answer.
type source int

const (
	anybody   source = iota
	itself           // Cloud Foundry, by its JSON
	somewhere        // not Cloud Foundry's JSON: a router, a proxy, half a body
)

// rule is one line of the table: what an answer that is no success must be like, and what became of the call then. Zero
// fields match anything.
type rule struct {
	name   string
	from   source
	status int
	class  int // first digit of the status
	codes  []int
	router string
	prefix string
	inside string // text somewhere in the detail
	reply  lifecycle.Reply
	code   broker.Code // OSB's word for the refusal
	stale  bool        // a plan's GUID that means nothing any more
}

// refusals is the one table from answers that are no success to replies; the first line that matches counts. Version 3
// of the API folds nearly every refusal into 422 with 10008, so the texts have to be told apart; they are prefixes of
// those in docs/cf-contract.md 2.2 to 2.4, with Korifi's beside them. What an operator of that Cloud Foundry puts right
// (a role, a suspended org, a feature, a share) is refused for now, with Cloud Foundry's text for the user meanwhile.
var refusals = []rule{
	{name: "limited", from: itself, status: http.StatusTooManyRequests, reply: lifecycle.ReplyBusy},
	{name: "no route to the API", from: somewhere, status: http.StatusNotFound, router: "unknown_route", reply: lifecycle.ReplyBusy},
	{name: "no Cloud Controller runs", from: somewhere, status: http.StatusServiceUnavailable, router: "no_endpoints", reply: lifecycle.ReplyBusy},
	{name: "not Cloud Foundry's answer", from: somewhere, reply: lifecycle.ReplyUnknown},
	{name: "fault inside Cloud Foundry", status: http.StatusInternalServerError, reply: lifecycle.ReplyUnknown},
	{name: "unhandled fault", codes: []int{ccapi.CodeUnknown}, reply: lifecycle.ReplyUnknown},
	{name: "cannot serve now", class: 5, reply: lifecycle.ReplyBusy},

	{name: "not logged in", status: http.StatusUnauthorized, reply: lifecycle.ReplyBusy},
	{name: "no valid login", codes: []int{ccapi.CodeInvalidToken, ccapi.CodeNotAuthenticated}, reply: lifecycle.ReplyBusy},
	{name: "not allowed", status: http.StatusForbidden, reply: lifecycle.ReplyBusy},
	{name: "absent", status: http.StatusNotFound, codes: []int{ccapi.CodeNotFound, ccapi.CodeInstanceNotFound}, reply: lifecycle.ReplyAbsent},
	{name: "no such call", status: http.StatusNotFound, reply: lifecycle.ReplyBusy},
	{name: "too slow", status: http.StatusRequestTimeout, reply: lifecycle.ReplyBusy},
	{name: "operation in progress", status: http.StatusConflict, reply: lifecycle.ReplyBusy},

	{name: "instance name taken", status: http.StatusUnprocessableEntity, prefix: "The service instance name is taken", reply: lifecycle.ReplyTaken},
	{name: "key name taken", status: http.StatusUnprocessableEntity, prefix: "The binding name is invalid. Key binding names must be unique.", reply: lifecycle.ReplyTaken},
	{name: "key name taken, Korifi", status: http.StatusUnprocessableEntity, prefix: "Service binding already exists", reply: lifecycle.ReplyTaken},
	{name: "name taken, older code", codes: []int{ccapi.CodeNameTakenV2, ccapi.CodeKeyNameTakenV2}, reply: lifecycle.ReplyTaken},
	{name: "operation in progress, 422", status: http.StatusUnprocessableEntity, prefix: "There is an operation in progress", reply: lifecycle.ReplyBusy},
	{name: "broker is being read", status: http.StatusUnprocessableEntity, inside: "operation in progress for the service broker", reply: lifecycle.ReplyBusy},
	{name: "space gone", status: http.StatusUnprocessableEntity, prefix: "Invalid space.", reply: lifecycle.ReplyBusy},
	{name: "space going", codes: []int{ccapi.CodeBeingDeleted}, prefix: "The space is being deleted", reply: lifecycle.ReplyBusy},
	{name: "shared with others", codes: []int{ccapi.CodeSharesExist}, reply: lifecycle.ReplyBusy},
	{name: "lost a race for metadata", status: http.StatusUnprocessableEntity, codes: []int{ccapi.CodeUniqueness}, reply: lifecycle.ReplyBusy},
	{name: "plan gone or hidden", codes: []int{ccapi.CodeUnprocessable}, prefix: "Invalid service plan", reply: lifecycle.ReplyRefused, stale: true},
	{name: "plan of another offering", codes: []int{ccapi.CodeOtherOffering}, reply: lifecycle.ReplyRefused, stale: true},
	{name: "other version wanted", codes: []int{ccapi.CodeUnprocessable}, prefix: "maintenance_info", reply: lifecycle.ReplyRefused, code: broker.CodeMaintenanceInfoConflict},
	{name: "no upgrades", codes: []int{ccapi.CodeUnprocessable}, prefix: "The service broker does not support upgrades", reply: lifecycle.ReplyRefused, code: broker.CodeMaintenanceInfoConflict},

	{name: "refused", class: 4, reply: lifecycle.ReplyRefused},
}

func (r rule) matches(e *ccapi.Error) bool {
	own := e.Code != 0
	return (r.from == anybody || (r.from == itself) == own) &&
		(r.status == 0 || r.status == e.Status) &&
		(r.class == 0 || r.class == e.Status/100) &&
		(len(r.codes) == 0 || slices.Contains(r.codes, e.Code)) &&
		(r.router == "" || r.router == e.Router) &&
		strings.HasPrefix(e.Text, r.prefix) &&
		strings.Contains(e.Text, r.inside)
}

// judge says what became of a call that ended with err. An error that is none of ours, and an answer that no rule
// knows, leave it open.
func judge(err error) rule {
	e, ok := errors.AsType[*ccapi.Error](err)
	switch {
	case !ok:
		return rule{reply: lifecycle.ReplyUnknown}
	case e.Unsent:
		return rule{reply: lifecycle.ReplyBusy}
	case e.Err != nil: // no answer, or half of one
		return rule{reply: lifecycle.ReplyUnknown}
	}
	return ruleFor(e)
}

// ruleFor returns the first line of the table that matches.
func ruleFor(e *ccapi.Error) rule {
	for _, r := range refusals {
		if r.matches(e) {
			return r
		}
	}
	return rule{name: "no rule", reply: lifecycle.ReplyUnknown}
}

// refused turns the error of a call into its answer, with what there is to say to a user of it. The noun is what the
// user wanted of Cloud Foundry, as in "the service key".
func refused(err error, noun string) broker.Answer {
	r := judge(err)
	a := broker.Answer{Reply: r.reply}
	e, ok := errors.AsType[*ccapi.Error](err)
	if !ok {
		return a
	}
	a.RetryAfter = e.RetryAfter
	switch r.reply {
	case lifecycle.ReplyRefused, lifecycle.ReplyTaken:
		a.Code, a.StalePlan, a.FromBackingBroker = string(r.code), r.stale, fromBackingBroker(e)
		a.Description = e.Explain("Cloud Foundry refused " + noun + ": ")
	case lifecycle.ReplyBusy:
		a.FromBackingBroker = fromBackingBroker(e)
		a.Description = e.Explain("Cloud Foundry refused " + noun + " for now: ")
	default:
	}
	return a
}

// notBegun turns an error that kept us from sending the call itself into its answer: nothing of the call can have taken
// effect, whatever became of the requests that were to prepare it.
func notBegun(err error, noun string) broker.Answer {
	a := refused(err, noun)
	if a.Reply != lifecycle.ReplyRefused {
		a.Reply = lifecycle.ReplyBusy
	}
	return a
}

// fromBackingBroker reports whether the refusal is a backing broker's, in its own words.
func fromBackingBroker(e *ccapi.Error) bool {
	return e.Code == ccapi.CodeUnableToPerform && len(e.Reasons) > 0 && readFailure(e.Reasons[0]).fromBackingBroker
}
