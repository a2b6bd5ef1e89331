package api

import (
	"context"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// deprovision asks for service_id and plan_id before it looks whether the instance
// is there; unbind does not (osb-choices B4).
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

// unbind lets the use case judge missing hints: an absent binding is 410 all the
// same (osb-choices B4).
func (h *handler) unbind(ctx context.Context, e *exchange) (answer, error) {
	result, err := h.Broker.Unbind(ctx, deletion(e))
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
