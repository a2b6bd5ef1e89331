// Package api answers platforms over HTTP: it has the routes of the Open Service Broker API 2.17, and beside them
// /healthz, /readyz and /metrics. It turns requests into the use cases of package broker and their results into
// answers; it decides nothing else.
//
// Each translation stands in one place: paths and the order of checks in handler.go, bodies in decode.go, outcomes in
// write.go, errors in errors.go. A handler returns an answer or an error and never writes: conclude in write.go does,
// once.
package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/catalog"
)

// Instances are the use cases of service instances. Errors are *broker.Error for refusals; anything else is taken for a
// fault of our own. Methods are called concurrently, with a context that ends with the request's time budget.
type Instances interface {
	Provision(ctx context.Context, r broker.ProvisionRequest) (broker.Result, error)
	Update(ctx context.Context, r broker.UpdateRequest) (broker.Result, error)
	Deprovision(ctx context.Context, r broker.DeleteRequest) (broker.Result, error)
	FetchInstance(ctx context.Context, r broker.FetchRequest) (broker.InstanceBody, error)
}

// Bindings are the use cases of service bindings, under the terms of [Instances]. Bind and Unbind may hold the request
// until the budget is spent.
type Bindings interface {
	Bind(ctx context.Context, r broker.BindRequest) (broker.Result, error)
	Unbind(ctx context.Context, r broker.DeleteRequest) (broker.Result, error)
	FetchBinding(ctx context.Context, r broker.FetchRequest) (broker.BindingBody, error)
}

// Operations answers polls, of instances when the request names no binding.
type Operations interface {
	LastOperation(ctx context.Context, r broker.PollRequest) (broker.Poll, error)
}

// Broker is everything that the routes under /v2 but the catalog need.
type Broker interface {
	Instances
	Bindings
	Operations
}

// Catalog hands out the catalog of a client. The error is broker.ErrNoCatalog (errors.Is) while none is known. The
// document is shared and never changed.
type Catalog interface {
	Document(ctx context.Context, client string) (catalog.Document, error)
}

// Observer is told what happened, for metrics. Its methods are called concurrently and must not wait. Verb, status and
// outcome come from small fixed sets.
type Observer interface {
	// Request is called once for each request under /v2, after its answer.
	Request(verb string, status int, outcome string, took time.Duration)
	// Duplicate is called for each request that changed and started nothing because an earlier one had done so.
	Duplicate(verb string)
}

// Client is one configured platform.
type Client struct {
	// Name is the client's part of every key in the store.
	Name string
	// Credentials may name a username several times, so that passwords can be changed without an outage; a username
	// belongs to one client.
	Credentials []Credential
	// MissingVersion is the status for a request without the version header: 400 (the default) or 412.
	MissingVersion int
	// FinishedDelete is the status of a poll of a delete that ended: 200 (the default) or 410.
	FinishedDelete int
	// ConcurrentRequests is how many of [Options.ConcurrentRequests] are this client's at most; 0: no limit of its own.
	ConcurrentRequests int
}

// Credential is one way to log in. Exactly one of Password and PasswordHash (bcrypt) is set; one that has neither lets
// nobody in.
type Credential struct {
	Username     string
	Password     string `json:"-"`
	PasswordHash string `json:"-"`
}

// Format prints the username alone, whatever the verb, so that no log shows more.
func (c Credential) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{%s …}", c.Username)
}

// Options is what the border is made of. Broker, Catalog and Now are required; the zero values of the rest are what a
// small installation wants.
type Options struct {
	Broker  Broker
	Catalog Catalog
	Clients []Client
	// BasePath is what stands before /v2 in the paths that arrive; zero: nothing.
	BasePath BasePath
	// RequestBudget is how long one request may be held; 0: 26 s. A deadline of the request's own context, which Lambda
	// sets, shortens it.
	RequestBudget time.Duration
	// RequestBytes bounds a body (413 above; 0: 1 MiB), ParametersBytes the parameters in it (400 above; 0: 256 KiB).
	RequestBytes    int64
	ParametersBytes int64
	// ConcurrentRequests bounds the requests under /v2 at once (503 above; 0: 256). Those that wait for Cloud Foundry
	// may be half of it, and half of each half is divided among the clients, at least one each, who share the rest.
	ConcurrentRequests int
	// Logger receives one line a request; nil: none.
	Logger *slog.Logger
	// Now is the clock of durations and deadlines.
	Now func() time.Time
	// Observer may be nil.
	Observer Observer
	// Ready says whether the process can serve, for /readyz. The text of its error is shown to everybody: it names the
	// part that is missing and nothing secret. Nil: always ready.
	Ready func(context.Context) error
	// Metrics answers /metrics; nil: 404.
	Metrics http.Handler
	// MetricsCredentials guard /metrics; none: only loopback may read it.
	MetricsCredentials []Credential
	// Random makes the process's key of password digests; nil: crypto/rand.
	Random io.Reader
	// Stop, once closed, ends the contexts of the requests in flight. May be nil.
	Stop <-chan struct{}
}

// New returns the handler of a whole broker. It may be used by any number of goroutines, recovers from panics and
// answers every request itself.
func New(o Options) http.Handler {
	h := &handler{Options: o}
	h.RequestBudget = cmp.Or(o.RequestBudget, 26*time.Second)
	h.RequestBytes = cmp.Or(o.RequestBytes, 1<<20)
	h.ParametersBytes = cmp.Or(o.ParametersBytes, 256<<10)
	h.shares = newShares(cmp.Or(o.ConcurrentRequests, 256), o.Clients)
	if h.Logger == nil {
		h.Logger = slog.New(slog.DiscardHandler)
	}
	key := newDigestKey(o.Random)
	h.platforms = newGuard(key)
	for _, client := range o.Clients {
		h.platforms.admit(client.Credentials, client)
	}
	h.scrapers = newGuard(key)
	h.scrapers.admit(o.MetricsCredentials, Client{})
	return h
}
