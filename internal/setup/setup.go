// Package setup puts a broker together from its configuration. It is the one place that makes broker.Options and
// api.Options: it knows which setting goes where. A process (package server) and a function on AWS (package lambda)
// hand in what differs between them, such as the store and the workflow. So a function's binary holds no embedded
// store, simulator or metrics, and that of `ferry` nothing of AWS.
package setup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/catalog"
	"github.com/ferry-broker/ferry/internal/cf"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Parts are what a process and a function do not have in common. Store, Workflow, Now, Logger and Process are required.
type Parts struct {
	Store    Store
	Workflow broker.Workflow
	Now      func() time.Time
	Logger   *slog.Logger
	// Process names the holder of leases: unique to a process, or to a function's environment; see NewProcessName.
	Process string
	// OnlyProcess, ClaimFirst and Swept are those of broker.Options.
	OnlyProcess, ClaimFirst, Swept bool
	// Figures counts what happens; nil for nobody.
	Figures Figures
	// Sleep waits for the time to pass or the context to end; nil: broker.Sleep.
	Sleep func(context.Context, time.Duration) error
}

// Store is where a broker keeps records and catalogs.
type Store interface {
	broker.Store
	broker.CatalogStore
	// Ping returns an error when the store cannot be read.
	Ping(ctx context.Context) error
}

// Figures counts operations, requests, and calls of Cloud Foundry.
type Figures interface {
	broker.Observer
	api.Observer
	Call(call, result string, took time.Duration)
}

// Assembly is a broker and what it is made of. It may be used concurrently.
type Assembly struct {
	Config  config.Config
	Broker  *broker.Broker
	Catalog *catalog.Service
	parts   Parts
}

// New puts a broker together. It calls nobody. The error names the client whose configuration cannot be used.
func New(c config.Config, p Parts) (*Assembly, error) {
	backends, err := backends(c, p)
	if err != nil {
		return nil, err
	}
	outages := broker.NewThrottle(time.Minute)
	a := &Assembly{Config: c, parts: p}
	a.Catalog = catalog.New(catalog.Options{Sources: sources(c, backends), Store: p.Store, Now: p.Now, Outages: outages, Logger: p.Logger})
	a.Broker = broker.New(broker.Options{
		Store: p.Store, Backends: backends, Catalog: a.Catalog,
		Workflow: p.Workflow, Now: p.Now, Sleep: p.Sleep, Random: rand.Reader, Logger: p.Logger, Observer: p.Figures, Outages: outages,
		Pace:     lifecycle.Pace{First: c.Polling.First, Max: c.Polling.Max},
		Deadline: c.Operations.Deadline, TombstoneTTL: c.Operations.TombstoneTTL,
		SettleAfter: c.Operations.SettleAfter, RequestBudget: c.Operations.RequestBudget,
		Process: p.Process, OnlyProcess: p.OnlyProcess, ClaimFirst: p.ClaimFirst, Swept: p.Swept,
	})
	return a, nil
}

// NewProcessName returns a random name for Parts.Process.
func NewProcessName() string {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // never fails: it ends the process instead
	return hex.EncodeToString(name)
}

// backends makes each client's way to its Cloud Foundry, by the client's name.
func backends(c config.Config, p Parts) (map[string]broker.Backend, error) {
	var observe func(call, result string, took time.Duration)
	if p.Figures != nil {
		observe = p.Figures.Call
	}
	backends := make(map[string]broker.Backend, len(c.Clients))
	for _, client := range c.Clients {
		f := client.CloudFoundry
		backend, err := cf.New(cf.Config{
			Client: client.Name, API: f.API, FormerAPIs: f.FormerAPIs, Org: f.Org,
			ClientID: f.ClientID, ClientSecret: f.ClientSecret.Text(), Username: f.Username, Password: f.Password.Text(),
			CA: f.CA, SkipTLSVerify: f.SkipTLSVerify,
			Now: p.Now, Logger: p.Logger.With("client", client.Name), Observe: observe,
		})
		if err != nil {
			return nil, fmt.Errorf("client %s: %w", client.Name, err)
		}
		backends[client.Name] = backend
	}
	return backends, nil
}

// sources says what each client's catalog is made of.
func sources(c config.Config, backends map[string]broker.Backend) []catalog.Source {
	sources := make([]catalog.Source, 0, len(c.Clients))
	for _, client := range c.Clients {
		sources = append(sources, catalog.Source{
			Client: client.Name, IDs: client.Catalog.IDs, Refresh: client.CatalogRefresh,
			Rotatable: client.Catalog.Rotatable,
			Fetch:     backends[client.Name].Marketplace,
		})
	}
	return sources
}

// Clients returns the names of the clients, in the configuration's order.
func (a *Assembly) Clients() []string {
	names := make([]string, 0, len(a.Config.Clients))
	for _, c := range a.Config.Clients {
		names = append(names, c.Name)
	}
	return names
}

// Border is what differs in the HTTP border. CatalogKnown is required.
type Border struct {
	// BasePath is what stands before /v2 in the paths that arrive; zero: nothing.
	BasePath api.BasePath
	// CatalogKnown reports whether the catalog of a client can be served, for /readyz.
	CatalogKnown func(ctx context.Context, client string) bool
	// Metrics answers /metrics; nil: 404.
	Metrics http.Handler
	// Stop, once closed, ends the contexts of the requests in flight. May be nil.
	Stop <-chan struct{}
}

// Handler makes the handler of a whole broker. It may be used concurrently.
func (a *Assembly) Handler(b Border) http.Handler {
	limits := a.Config.Limits
	return api.New(api.Options{
		Broker: a.Broker, Catalog: a.Catalog, Clients: clients(a.Config.Clients), BasePath: b.BasePath,
		RequestBudget: a.Config.Operations.RequestBudget,
		RequestBytes:  limits.RequestBytes, ParametersBytes: limits.ParametersBytes,
		ConcurrentRequests: limits.ConcurrentRequests,
		Logger:             a.parts.Logger, Now: a.parts.Now, Observer: a.parts.Figures,
		Ready:   func(ctx context.Context) error { return a.ready(ctx, b.CatalogKnown) },
		Metrics: b.Metrics, MetricsCredentials: credentials(a.Config.Metrics.Credentials),
		Stop: b.Stop,
	})
}

// ready names the part that is missing.
func (a *Assembly) ready(ctx context.Context, known func(ctx context.Context, client string) bool) error {
	if err := a.parts.Store.Ping(ctx); err != nil {
		a.parts.Logger.LogAttrs(ctx, slog.LevelWarn, "the store cannot be read", slog.String("error", err.Error()))
		return errors.New("store: it cannot be read")
	}
	for _, client := range a.Clients() {
		if known(ctx, client) {
			return nil
		}
	}
	return errors.New("catalog: none is known yet, because Cloud Foundry was not reached")
}

// clients are the platforms that the border lets in.
func clients(clients []config.Client) []api.Client {
	out := make([]api.Client, 0, len(clients))
	for _, c := range clients {
		out = append(out, api.Client{
			Name: c.Name, Credentials: credentials(c.Credentials),
			MissingVersion: c.Quirks.MissingVersion, FinishedDelete: c.Quirks.FinishedDelete,
			ConcurrentRequests: c.ConcurrentRequests,
		})
	}
	return out
}

// credentials are ways to log in, as the border checks them.
func credentials(list []config.Credential) []api.Credential {
	out := make([]api.Credential, 0, len(list))
	for _, c := range list {
		out = append(out, api.Credential{Username: c.Username, Password: c.Password.Text(), PasswordHash: c.PasswordHash.Text()})
	}
	return out
}
