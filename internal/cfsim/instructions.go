package cfsim

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// instruction makes the backing broker answer otherwise than the plan has it.
type instruction struct {
	ID        string `json:"id"`
	Operation string `json:"operation"` // in the words of broker_calls
	Org       string `json:"org"`       // "" for any, as the next two
	Instance  string `json:"instance"`
	Binding   string `json:"binding"`
	Times     int    `json:"times"` // 0 until cleared
	// Answer is what the request brings, Polls what asking after an accepted one does.
	Answer      string `json:"answer"`
	Polls       string `json:"polls"`
	Description string `json:"description"`
	// RetryAfter is how many seconds the broker wants to be left alone between polls.
	RetryAfter   int    `json:"retry_after"`
	DashboardURL string `json:"dashboard_url"`
	// Details are what GET …/details of the key then answers, in place of the usual credentials.
	Details json.RawMessage `json:"details,omitempty"`
	Hits    int             `json:"hits"`
}

// maxRetryAfter is the most that a Cloud Controller waits between polls.
const maxRetryAfter = 86400

// What a Cloud Controller makes of answers without a description.
const (
	rejectedRequest   = "The service broker rejected the request. Status Code: 400 Bad Request, Body: {}"
	invalid           = "The service broker returned an invalid response. Status Code: "
	badResponse       = invalid + "500 Internal Server Error, Body: {}"
	malformedResponse = "The service broker returned an invalid response: expected valid JSON object in body, broker returned 'no JSON'"
	refusedLogin      = "Authentication with the service broker failed. Double-check that the username and password are correct."
	unreachable       = "The service broker could not be reached"
	concurrentRequest = "The service broker could not perform this operation in parallel with other running operations"
	asyncRequired     = "This service plan requires client support for asynchronous service operations."
	appRequired       = "This service supports generation of credentials through binding an application only."
	versionConflict   = "The service broker did not provide a reason for this conflict, please ensure the catalog is up to date and you are providing a version supported by this service plan"
)

// refusal is an error of the backing broker.
type refusal struct {
	bare      string // how it reads without a description
	described bool   // a description takes the place of that
	orphan    bool   // something may be left that has to be cleaned up (R11)
	fetched   string // the title that the Cloud Controller gives it when parameters were asked for, after CF-ServiceBroker
}

// The refusals that a delete treats in a way of its own, and one that a fetch does.
const (
	answerConcurrency = "concurrency"
	answerConflict    = "conflict"
	answerTimeout     = "request-timeout"
)

var refusals = map[string]refusal{
	"rejected":           {rejectedRequest, true, false, "RequestRejected"},                           // 400
	"unauthorized":       {refusedLogin, false, false, "ApiAuthenticationFailed"},                     // 401
	answerTimeout:        {timedOutMessage, false, false, "ApiTimeout"},                               // 408
	answerConflict:       {"Resource conflict", true, false, "RequestRejected"},                       // 409
	"async-required":     {asyncRequired, false, false, "RequestRejected"},                            // 422
	answerConcurrency:    {concurrentRequest, false, false, "RequestRejected"},                        // 422
	"requires-app":       {appRequired, false, false, "RequestRejected"},                              // 422
	"version-conflict":   {versionConflict, true, false, "RequestRejected"},                           // 422
	"unprocessable":      {invalid + "422 Unprocessable Entity, Body: {}", true, true, "BadResponse"}, // 422 without a known error
	"error":              {badResponse, true, true, "BadResponse"},                                    // 500
	"malformed":          {malformedResponse, false, true, "ResponseMalformed"},                       // 201 without JSON
	"unexpected-success": {invalid + "204 No Content, Body: {}", false, true, "BadResponse"},          // 204
	"unreachable":        {unreachable, false, false, "ApiUnreachable"},                               // nobody listens
}

// Answers beside refusals, and what polls may bring.
const (
	answerDone     = "done"
	answerAccepted = "accepted"
	answerSilent   = "silent"
	answerGone     = "gone"

	pollsSucceeded  = "succeeded"
	pollsFailed     = "failed"
	pollsInProgress = "in progress"
	pollsError      = "error"
	pollsRejected   = "rejected"
	pollsGone       = "gone"
	pollsUnfetched  = "unfetchable"
)

func (i *instruction) concerns(c brokerCall) bool {
	is := func(wanted, got string) bool { return wanted == "" || wanted == got }
	if c.fetches() && i.Operation == "" {
		return false // it is meant for what changes something
	}
	return is(i.Operation, c.operation) && is(i.Org, c.org) && is(i.Instance, c.instance) && is(i.Binding, c.binding)
}

// instructed returns the first instruction for a call, counts the hit, and drops it when it is used up.
func (b *backingBroker) instructed(c brokerCall) *instruction {
	for at, i := range b.instructions {
		if !i.concerns(c) {
			continue
		}
		i.Hits++
		if i.Times > 0 && i.Hits >= i.Times {
			b.instructions = append(b.instructions[:at:at], b.instructions[at+1:]...)
		}
		return i
	}
	return nil
}

// obey answers as instructed.
func (b *backingBroker) obey(i *instruction, c brokerCall, guid string) reply {
	removal := c.operation == deprovision || c.operation == unbind
	switch {
	case i.Answer == answerAccepted:
		b.pending[guid] = i.pending(c.operation, time.Now().Add(b.delay))
		return reply{outcome: replyAccepted, dashboard: i.DashboardURL, details: i.Details}
	case i.Answer == answerSilent:
		return reply{outcome: replySilent}
	case i.Answer == answerDone, i.Answer == answerGone && removal:
		delete(b.pending, guid)
		return reply{outcome: replyDone, dashboard: i.DashboardURL, details: i.Details}
	}
	return i.refusal()
}

// refusal is the error that an instruction stands for.
func (i *instruction) refusal() reply {
	if i.Answer == answerGone {
		return reply{outcome: replyRefused, message: "The service broker rejected the request. Status Code: 410 Gone, Body: {}"}
	}
	r := refusals[i.Answer]
	message := r.bare
	if r.described && i.Description != "" {
		message = "Service broker error: " + i.Description
	}
	return reply{outcome: replyRefused, message: message, kind: i.Answer, orphan: r.orphan}
}

// pending turns an accepted operation into what polling finds.
func (i *instruction) pending(operation string, ready time.Time) pendingOperation {
	p := pendingOperation{fate: delayed, word: operation, ready: ready, description: i.Description,
		retry: time.Duration(min(i.RetryAfter, maxRetryAfter)) * time.Second}
	removal := operation == deprovision || operation == unbind
	switch i.Polls {
	case pollsFailed, pollsRejected:
		p.fate = fails
	case pollsInProgress, pollsError:
		p.fate = stalls // a poll that fails never ends an operation
	case pollsGone:
		if !removal {
			p.fate = stalls
		}
	case pollsUnfetched:
		p.fate = unfetchable
	}
	return p
}

func (b *backingBroker) instruct(i instruction) string {
	b.lastInstruction++
	i.ID, i.Hits = "instruction-"+strconv.Itoa(b.lastInstruction), 0
	b.instructions = append(b.instructions, &i)
	return i.ID
}

// instructBroker adds an instruction; everything but its answer may be left out.
func instructBroker(c *controlCall) (any, error) {
	i := instruction{Times: 1, Polls: pollsSucceeded}
	if err := c.read(&i); err != nil {
		return nil, err
	}
	if err := i.check(); err != nil {
		return nil, err
	}
	return map[string]string{"id": c.backing.instruct(i)}, nil
}

func (i *instruction) check() error {
	operations := []string{"", provision, update, deprovision, bind, unbind, fetchInstance, fetchBinding}
	answers := append([]string{answerDone, answerAccepted, answerSilent, answerGone}, slices.Sorted(maps.Keys(refusals))...)
	polls := []string{pollsSucceeded, pollsFailed, pollsInProgress, pollsError, pollsRejected, pollsGone, pollsUnfetched}
	switch {
	case !slices.Contains(operations, i.Operation):
		return badInput("The operation of an instruction is provision, update, deprovision, bind, unbind, fetch_instance, fetch_binding or empty, not %q.", i.Operation)
	case !slices.Contains(answers, i.Answer):
		return badInput("The answer of an instruction is one of %s, not %q.", strings.Join(answers, ", "), i.Answer)
	case !slices.Contains(polls, i.Polls):
		return badInput("The polls of an instruction are one of %s, not %q.", strings.Join(polls, ", "), i.Polls)
	case i.Polls == pollsUnfetched && i.Operation != bind:
		return badInput("Only what a bind made can be unfetchable.")
	case i.Details != nil && i.Operation != bind:
		return badInput("Only a bind brings details.")
	case brokerCall{operation: i.Operation}.fetches() && i.Answer == answerAccepted:
		return badInput("A fetch is answered at once; it cannot be accepted.")
	case i.Times < 0 || i.RetryAfter < 0:
		return badInput("The times and retry_after of an instruction cannot be negative.")
	}
	return checkDetails(i.Details)
}

func listInstructions(c *controlCall) (any, error) {
	list := make([]instruction, 0, len(c.backing.instructions))
	for _, i := range c.backing.instructions {
		list = append(list, *i)
	}
	return list, nil
}

func clearInstructions(c *controlCall) (any, error) {
	c.backing.instructions = nil
	return nil, nil
}

// What the backing broker is asked for parameters by. Such requests change nothing and are not among broker_calls; an
// instruction has to name them.
const (
	fetchInstance = "fetch_instance"
	fetchBinding  = "fetch_binding"
)

func (c brokerCall) fetches() bool {
	return c.operation == fetchInstance || c.operation == fetchBinding
}

// fetch asks the backing broker for parameters, and answers with them or with the error that the Cloud Controller
// passes on. A broker that is silent keeps the caller waiting.
func (c *call) fetch(asked brokerCall, parameters json.RawMessage) (*answer, error) {
	i := c.backing.instructed(asked)
	switch {
	case i == nil || i.Answer == answerDone:
		return jsonAnswer(http.StatusOK, orEmpty(parameters)), nil
	case i.Answer == answerSilent:
		a := errorAnswer(failure(http.StatusGatewayTimeout, 10001, "CF-HttpClientTimeout", timedOutMessage))
		a.wait = c.options.BrokerTimeout
		return a, nil
	}
	status, title := http.StatusBadGateway, "RequestRejected"
	if i.Answer == answerTimeout {
		status = http.StatusGatewayTimeout
	}
	if r, known := refusals[i.Answer]; known {
		title = r.fetched
	}
	return nil, failure(status, 10001, "CF-ServiceBroker"+title, i.refusal().message)
}
