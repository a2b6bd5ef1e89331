// Package local puts the whole broker into the process of the API function, for people who try it with `sam local` and
// have no cloud: the embedded store in a temporary folder, the workflow in the process, and a simulated Cloud Foundry
// beside it. What was provisioned lives as long as the function's environment.
//
// Only functions/api built with the tag `local` imports it, so that nothing of it is in a binary that is deployed (a
// test in internal/stack looks).
package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/lambda"
	"github.com/ferry-broker/ferry/internal/server"
)

// Start serves the events of the REST API until the process is ended; the JSON log goes to log. Of the environment only
// FERRY_LOG_LEVEL counts: there is no table, no state machine and no secret. It returns only when the broker cannot be
// started.
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
			"username", client.Username, "password", client.Password.Text(), "simulator", simulatorURL, "plans", plans)
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

// page collects one answer of a handler.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (p *page) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *page) WriteHeader(status int) { p.status = status }

// Write implements http.ResponseWriter.
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

// offered asks the broker itself for its plans, as offering/plan, in the catalog's order. Afterwards the catalog is
// known, so that the first event does not wait for it.
func offered(ctx context.Context, handler http.Handler, as config.Credential) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/v2/catalog", nil)
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth(as.Username, as.Password.Text())
	request.Header.Set("X-Broker-API-Version", "2.17")
	answer := &page{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(answer, request)
	if answer.status != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.status)
	}
	return names(answer.body.Bytes())
}

func names(catalog []byte) ([]string, error) {
	var read struct {
		Services []struct {
			Name  string
			Plans []struct{ Name string }
		}
	}
	if err := json.Unmarshal(catalog, &read); err != nil {
		return nil, err
	}
	var plans []string
	for _, service := range read.Services {
		for _, plan := range service.Plans {
			plans = append(plans, service.Name+"/"+plan.Name)
		}
	}
	return plans, nil
}
