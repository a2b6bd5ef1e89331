package api

import (
	"context"
	"net/http"

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

// instanceAnswer has the body of spec "Provisioning" and "Updating a Service
// Instance".
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
