package lambda

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

// StartAPI serves the events of the REST API until Lambda ends the process. It
// returns only when the environment is wrong.
func StartAPI(lookupEnv func(string) (string, bool), log io.Writer) error {
	a, err := NewAPI(lookupEnv, log)
	if err != nil {
		return err
	}
	a.prepare(context.Background())
	lambda.Start(a.Handle)
	return nil
}

// StartPoller serves the tasks of the state machine, as StartAPI does.
func StartPoller(lookupEnv func(string) (string, bool), log io.Writer) error {
	p, err := NewPoller(lookupEnv, log)
	if err != nil {
		return err
	}
	p.prepare(context.Background())
	lambda.Start(p.Handle)
	return nil
}

// StartJanitor serves the events of the schedule, as StartAPI does.
func StartJanitor(lookupEnv func(string) (string, bool), log io.Writer) error {
	j, err := NewJanitor(lookupEnv, log)
	if err != nil {
		return err
	}
	j.prepare(context.Background())
	lambda.Start(j.Handle)
	return nil
}

// StartHandler serves the events of the REST API with a handler that was put together
// elsewhere, as StartAPI does with its own. It does not return.
func StartHandler(handler http.Handler, logger *slog.Logger) {
	adapter := httpadapter.New(handler)
	p := proxy{logger: logger, ready: func(context.Context) (*httpadapter.HandlerAdapter, error) { return adapter, nil }}
	lambda.Start(func(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		return p.handle(ctx, event), nil
	})
}
