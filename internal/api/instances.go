package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

func (h *handler) provision(ctx context.Context, e *exchange, body osb.ProvisionRequest) (answer, error) {
	result, err := h.Broker.Provision(ctx, broker.ProvisionRequest{Call: call(e), InstanceID: e.instanceID, Body: body})
	return instanceAnswer(result, err)
}

func (h *handler) update(ctx context.Context, e *exchange, body osb.UpdateRequest) (answer, error) {
	result, err := h.Broker.Update(ctx, broker.UpdateRequest{Call: call(e), InstanceID: e.instanceID, Body: body})
	return instanceAnswer(result, err)
}

// instanceAnswer has the body of spec "Provisioning" and "Updating a Service Instance".
func instanceAnswer(result broker.Result, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	a, err := succeed(result)
	if err != nil {
		return answer{}, err
	}
	a.body = osb.InstanceResponse{DashboardURL: result.DashboardURL, Operation: a.operation, Metadata: result.Metadata}
	return a, nil
}

func (h *handler) fetchInstance(ctx context.Context, e *exchange) (answer, error) {
	instance, err := h.Broker.FetchInstance(ctx, fetch(e))
	if err != nil {
		return answer{}, err
	}
	body := osb.FetchedInstance{
		ServiceID:    instance.ServiceID,
		PlanID:       instance.PlanID,
		DashboardURL: instance.DashboardURL,
		Parameters:   present(instance.Parameters),
		Metadata:     instance.Metadata,
	}
	if instance.MaintenanceVersion != "" {
		body.MaintenanceInfo = &osb.MaintenanceInfo{Version: instance.MaintenanceVersion}
	}
	return answer{status: http.StatusOK, outcome: "ok", body: body}, nil
}

// deprovision asks for service_id and plan_id before it looks whether the instance is there; unbind does not
// (docs/osb-choices.md).
func (h *handler) deprovision(ctx context.Context, e *exchange) (answer, error) {
	request := deletion(e)
	if err := checkHints(request); err != nil {
		return answer{}, err
	}
	result, err := h.Broker.Deprovision(ctx, request)
	if err != nil {
		return answer{}, err
	}
	return deleteAnswer(result)
}

// deleteAnswer has an operation in its body, or nothing.
func deleteAnswer(result broker.Result) (answer, error) {
	a, err := succeed(result)
	if err != nil {
		return answer{}, err
	}
	a.body = osb.InstanceResponse{Operation: a.operation}
	return a, nil
}

// deletion returns the request of a DELETE. Its body, if any, means nothing.
func deletion(e *exchange) broker.DeleteRequest {
	return broker.DeleteRequest{
		Call:       call(e),
		InstanceID: e.instanceID,
		BindingID:  e.bindingID,
		ServiceID:  e.query("service_id"),
		PlanID:     e.query("plan_id"),
	}
}

// checkHints refuses a DELETE without the mandatory query parameters.
func checkHints(r broker.DeleteRequest) error {
	var missing []string
	if r.ServiceID == "" {
		missing = append(missing, "service_id")
	}
	if r.PlanID == "" {
		missing = append(missing, "plan_id")
	}
	if missing == nil {
		return nil
	}
	return badRequest("Missing or empty in the query: %s. Add what is missing and send the request again.", strings.Join(missing, ", "))
}

// maxOperation is the length of the longest operation string that is ours.
const maxOperation = 64

// lastOperation answers polls. service_id and plan_id are hints that may be stale, and an unknown operation is the
// broker's to forgive: a 400 would make platforms give the resource up (docs/osb-choices.md).
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
