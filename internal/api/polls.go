package api

import (
	"context"
	"net/http"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// maxOperation is the length of the longest operation string that is ours.
const maxOperation = 64

// lastOperation answers polls. service_id and plan_id are hints that may be stale,
// and an unknown operation is the broker's to forgive: a 400 would make platforms
// give the resource up (osb-choices B6, B9).
func (h *handler) lastOperation(ctx context.Context, e *exchange) (answer, error) {
	poll, err := h.Broker.LastOperation(ctx, broker.PollRequest{
		Client:     e.client.Name,
		InstanceID: e.instanceID,
		BindingID:  e.bindingID,
		Operation:  e.query("operation"),
	})
	if err != nil {
		return answer{}, err
	}
	a := answer{status: http.StatusOK, outcome: string(poll.State)}
	if operation := e.query("operation"); len(operation) <= maxOperation {
		a.operation = operation
	}
	if poll.DeleteDone && e.client.FinishedDelete == http.StatusGone {
		a.status = http.StatusGone
		return a, nil
	}
	body := osb.LastOperation{State: poll.State, Description: poll.Description}
	switch {
	case poll.State == osb.InProgress:
		a.header = retryAfter(poll.RetryAfter)
	case poll.State == osb.Failed && e.bindingID == "":
		// Neither exists for bindings, nor in another state (LOI-14, LOB-16).
		body.InstanceUsable, body.UpdateRepeatable = poll.InstanceUsable, poll.UpdateRepeatable
	}
	a.body = body
	return a, nil
}
