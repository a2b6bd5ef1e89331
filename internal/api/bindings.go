package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// errNoBinding guards against the one answer that does silent harm: a platform that gets 200 without credentials hands
// its user an empty secret.
var errNoBinding = errors.New("answer a bind: it is said to be done but has no body")

func (h *handler) bind(ctx context.Context, e *exchange, body osb.BindRequest) (answer, error) {
	result, err := h.Broker.Bind(ctx, broker.BindRequest{Call: call(e), InstanceID: e.instanceID, BindingID: e.bindingID, Body: body})
	if err != nil {
		return answer{}, err
	}
	a, err := succeed(result)
	switch {
	case err != nil:
		return answer{}, err
	case a.status == http.StatusAccepted:
		// No binding data goes with a 202 (BIND-16).
		a.body = osb.BindingResponse{Operation: a.operation}
	case result.Binding == nil:
		return answer{}, errNoBinding
	default:
		a.body = bindingBody(*result.Binding)
	}
	return a, nil
}

// unbind lets the use case judge missing hints: an absent binding is 410 all the same (docs/osb-choices.md).
func (h *handler) unbind(ctx context.Context, e *exchange) (answer, error) {
	result, err := h.Broker.Unbind(ctx, deletion(e))
	if err != nil {
		return answer{}, err
	}
	return deleteAnswer(result)
}

func (h *handler) fetchBinding(ctx context.Context, e *exchange) (answer, error) {
	binding, err := h.Broker.FetchBinding(ctx, fetch(e))
	if err != nil {
		return answer{}, err
	}
	body := bindingBody(binding)
	body.Parameters = present(binding.Parameters)
	return answer{status: http.StatusOK, outcome: "ok", body: body}, nil
}

// bindingBody leaves the parameters out: only a fetched binding has them.
func bindingBody(b broker.BindingBody) osb.BindingResponse {
	return osb.BindingResponse{
		Credentials:     present(b.Credentials),
		SyslogDrainURL:  b.SyslogDrainURL,
		VolumeMounts:    present(b.VolumeMounts),
		RouteServiceURL: b.RouteServiceURL,
		Endpoints:       present(b.Endpoints),
	}
}
