package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ferry-broker/ferry/internal/bolt"
	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/metrics"
	"github.com/ferry-broker/ferry/internal/osb"
	"github.com/ferry-broker/ferry/internal/setup"
)

// step is one thing that was asked of the broker, and what it ran through.
type step struct {
	what string
	visited
}

// stack is the broker of `ferry serve --simulate-cf`, with a workflow that waits for us.
type stack struct {
	handler http.Handler
	broker  *broker.Broker
	started []broker.Start
	plan    string
}

// Start implements broker.Workflow: the ticks are called by hand, so that none runs beside a request.
func (s *stack) Start(_ context.Context, start broker.Start) error {
	s.started = append(s.started, start)
	return nil
}

// walk takes one service instance through its creation and records each step.
func walk(ctx context.Context) ([]step, error) {
	dir, err := os.MkdirTemp("", "shape-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := bolt.Open(ctx, bolt.Options{Dir: dir, Now: time.Now})
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	sim := cfsim.New(cfsim.DefaultOptions())
	defer sim.Close()
	cloud := httptest.NewServer(sim.Handler())
	defer cloud.Close()
	s := &stack{}
	if err := s.open(ctx, store, cloud.URL); err != nil {
		return nil, err
	}
	return s.steps(ctx)
}

func (s *stack) open(ctx context.Context, store *bolt.Store, cloud string) error {
	c := config.Demo()
	c.Clients[0].CloudFoundry.API = cloud
	a, err := setup.New(c, setup.Parts{
		Store: store, Workflow: s, Now: time.Now, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), Figures: metrics.New(),
		Process: "shape", OnlyProcess: true,
	})
	if err != nil {
		return err
	}
	s.broker = a.Broker
	s.handler = a.Handler(setup.Border{CatalogKnown: func(_ context.Context, client string) bool { return a.Catalog.Ready(client) }})
	if err := a.Catalog.Refresh(ctx, c.Clients[0].Name); err != nil {
		return err
	}
	document, err := a.Catalog.Document(ctx, c.Clients[0].Name)
	if err != nil {
		return err
	}
	s.plan, err = firstPlan(document.Body)
	return err
}

// steps creates one instance before anything is recorded, so that logins and look-ups that are made once in a process
// do not count as a request's.
func (s *stack) steps(ctx context.Context) ([]step, error) {
	put := func(id string, status int) func() error { return func() error { return s.put(id, status) } }
	if err := put("warm", http.StatusAccepted)(); err != nil {
		return nil, err
	}
	if err := s.untilDone(ctx); err != nil {
		return nil, err
	}
	var steps []step
	for _, one := range []struct {
		what string
		do   func() error
	}{
		{"first PUT of an instance", put("one", http.StatusAccepted)},
		{"its duplicate", put("one", http.StatusAccepted)},
		{"the tick that sends the create", func() error { return s.tick(ctx) }},
		{"the ticks after it, to the end", func() error { return s.untilDone(ctx) }},
	} {
		v, err := record(ctx, one.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.what, err)
		}
		steps = append(steps, step{one.what, v})
	}
	return steps, nil
}

func (s *stack) put(id string, status int) error {
	request := httptest.NewRequest(http.MethodPut, "/v2/service_instances/"+id+"?accepts_incomplete=true", strings.NewReader(s.plan))
	request.SetBasicAuth("demo", "demo")
	request.Header.Set("X-Broker-API-Version", "2.17")
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, request)
	if answer.Code != status {
		return fmt.Errorf("status %d, want %d: %s", answer.Code, status, answer.Body)
	}
	return nil
}

func (s *stack) tick(ctx context.Context) error {
	last := s.started[len(s.started)-1]
	_, err := s.broker.Advance(ctx, last.Key, last.Operation)
	return err
}

func (s *stack) untilDone(ctx context.Context) error {
	last := s.started[len(s.started)-1]
	for {
		step, err := s.broker.Advance(ctx, last.Key, last.Operation)
		if err != nil || step.Done {
			return err
		}
		if err := broker.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// printWalks prints a row for each step; the files and how many functions of each follow.
func printWalks(out io.Writer, steps []step) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nruns through\tfiles\tfunctions")
	for _, s := range steps {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\n", s.what, len(s.visited), s.functions())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nthe files of the first PUT: %s\n", strings.Join(names(steps[0].visited), " "))
	return err
}

func names(v visited) []string {
	var list []string
	for path := range v {
		list = append(list, strings.TrimPrefix(path, "internal/"))
	}
	slices.Sort(list)
	return list
}

// firstPlan returns the body of a PUT for the first plan of a catalog.
func firstPlan(document []byte) (string, error) {
	var catalog osb.Catalog
	if err := json.Unmarshal(document, &catalog); err != nil {
		return "", err
	}
	service := catalog.Services[0]
	body, err := json.Marshal(osb.ProvisionRequest{
		ServiceID: service.ID, PlanID: service.Plans[0].ID, OrganizationGUID: "organization", SpaceGUID: "space",
	})
	return string(body), err
}
