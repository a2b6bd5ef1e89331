package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ferry-broker/ferry/internal/broker"
)

// statusOf is the table of successes; ok is false for an outcome that it does not
// know.
func statusOf(o broker.Outcome) (status int, ok bool) {
	switch o {
	case broker.OutcomeAccepted, broker.OutcomeRunning:
		return http.StatusAccepted, true
	case broker.OutcomeCreated:
		return http.StatusCreated, true
	case broker.OutcomeExists, broker.OutcomeDeleted:
		return http.StatusOK, true
	}
	return 0, false
}

// succeed makes the answer to a PUT, PATCH or DELETE, whose body is still missing.
func succeed(result broker.Result) (answer, error) {
	status, ok := statusOf(result.Outcome)
	if !ok {
		return answer{}, fmt.Errorf("answer a request: no status for the outcome %q", result.Outcome)
	}
	a := answer{status: status, outcome: string(result.Outcome), duplicate: result.Outcome.Duplicate()}
	if status == http.StatusAccepted {
		a.operation = result.Operation
		a.header = retryAfter(result.RetryAfter)
	}
	return a, nil
}

// present leaves out a null: a field of an answer is either there or not.
func present(raw json.RawMessage) json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil
	}
	return raw
}
