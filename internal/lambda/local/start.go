package local

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/lambda"
	"github.com/ferry-broker/ferry/internal/server"
)

// Start serves the events of the REST API until the process is ended; the JSON log
// goes to log. Of the environment only FERRY_LOG_LEVEL counts: there is no table, no
// state machine and no secret. It returns only when the broker cannot be started.
func Start(lookupEnv func(string) (string, bool), log io.Writer) error {
	return run(context.Background(), lookupEnv, log, lambda.StartHandler)
}

// run lets serve answer with the broker's handler until it returns.
func run(ctx context.Context, lookupEnv func(string) (string, bool), log io.Writer, serve func(http.Handler, *slog.Logger)) error {
	level, err := logLevel(lookupEnv)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: level}))
	o := server.ServeOptions{
		Config: config.Demo(), Simulate: true, Sim: server.DefaultSimOptions(),
		Version: "local", Logger: logger, LookupEnv: lookupEnv,
	}
	o.Sim.Listen = "127.0.0.1:0" // the container is nobody else's, but the port may be the runtime's
	client := o.Config.Clients[0].Credentials[0]
	return server.Embed(ctx, o, func(handler http.Handler, simulatorURL string) error {
		plans, err := offered(ctx, handler, client)
		if err != nil {
			return fmt.Errorf("the catalog of the simulated Cloud Foundry: %w", err)
		}
		logger.Info("the whole broker runs in this function, and forgets with it",
			"username", client.Username, "password", client.Password, "simulator", simulatorURL, "plans", plans)
		serve(handler, logger)
		return nil
	})
}

func logLevel(lookupEnv func(string) (string, bool)) (slog.Level, error) {
	var level slog.Level
	text, _ := lookupEnv("FERRY_LOG_LEVEL")
	if text == "" {
		return level, nil
	}
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return level, fmt.Errorf("FERRY_LOG_LEVEL %q is none of debug, info, warn and error", text)
	}
	return level, nil
}
