package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// proxy makes a request of an event of the REST API, and an event of the answer.
type proxy struct {
	logger *slog.Logger
	// ready returns the handler in force. It is called once for each event.
	ready func(context.Context) (*httpadapter.HandlerAdapter, error)
}

func (p proxy) handle(ctx context.Context, event events.APIGatewayProxyRequest) (answer events.APIGatewayProxyResponse) {
	defer func() {
		// The handler recovers by itself; this is for what lies around it, so that no
		// panic ends the environment.
		if value := recover(); value != nil {
			panicked := broker.Recovered(value)
			p.logger.ErrorContext(ctx, "panic", "value", panicked.Type, "stack", panicked.Stack)
			answer = refuse(http.StatusInternalServerError, "The broker failed. Its operator finds the reason in its log.")
		}
	}()
	event, err := readable(event)
	if err != nil {
		p.logger.InfoContext(ctx, "event refused", "error", err.Error())
		return refuse(http.StatusBadRequest, "The body of the request cannot be read.")
	}
	adapter, err := p.ready(ctx)
	if err != nil && event.Path == "/healthz" { // the process lives
		return plain(http.StatusOK, []byte(`{"status":"ok"}`))
	}
	if err != nil {
		p.logger.ErrorContext(ctx, "no configuration", "error", err.Error())
		return refuse(http.StatusServiceUnavailable, "The broker has no valid configuration yet. Its operator finds the reason in its log.")
	}
	answer, err = adapter.ProxyWithContext(ctx, event)
	if err != nil {
		p.logger.WarnContext(ctx, "event refused", "error_type", fmt.Sprintf("%T", err))
		return refuse(http.StatusBadRequest, "The request cannot be read.")
	}
	return p.fitting(ctx, event, answer)
}

// refuse answers in OSB's shape what no handler could answer.
func refuse(status int, description string) events.APIGatewayProxyResponse {
	body, _ := json.Marshal(osb.Error{Description: description}) // two strings always encode
	answer := plain(status, body)
	if status == http.StatusServiceUnavailable {
		answer.Headers["Retry-After"] = "10"
	}
	return answer
}

func plain(status int, body []byte) events.APIGatewayProxyResponse {
	header := map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"}
	return events.APIGatewayProxyResponse{StatusCode: status, Headers: header, Body: string(body)}
}
