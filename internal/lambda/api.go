package lambda

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/ferry-broker/ferry/internal/setup"
)

// reloadEvery is how often an environment looks whether the janitor has stored another catalog.
const reloadEvery = time.Minute

// API answers the events of a REST API. It may be used concurrently.
type API struct {
	core *core

	mu       sync.Mutex
	serving  *assembly
	adapter  *httpadapter.HandlerAdapter
	reloaded time.Time
}

// NewAPI makes the API from the function's environment; the JSON log goes to log. It calls nobody. The error lists
// every setting that is missing or wrong.
func NewAPI(lookupEnv func(string) (string, bool), log io.Writer) (*API, error) {
	c, err := newCore(lookupEnv, log)
	if err != nil {
		return nil, err
	}
	return &API{core: c}, nil
}

// prepare is what the API does before its first event. An environment may be kept warm for hours before that comes: the
// catalogs are as old by then as they are in memory.
func (a *API) prepare(ctx context.Context) {
	a.core.announce(ctx)
	if now := a.core.prepare(ctx, true); now != nil {
		a.adopt(now)
	}
}

// Handle answers one event with the same handler that `ferry serve` has. The time that a request may take ends before
// the context's deadline. The error is always nil: API Gateway would make a 502 of one, and whoever sent the event to
// the function directly reads the answer as well.
func (a *API) Handle(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	defer a.core.events.begin(ctx)()
	return proxy{logger: a.core.parts.Logger, ready: a.ready}.handle(ctx, event), nil
}

// ready returns the handler for the configuration in force, after a look at the store when the catalogs in memory may
// be old.
func (a *API) ready(ctx context.Context) (*httpadapter.HandlerAdapter, error) {
	now, err := a.core.current(ctx)
	if err != nil {
		return nil, err
	}
	adapter, reload := a.adopt(now)
	if reload {
		a.reload(ctx, now)
	}
	return adapter, nil
}

// adopt makes a handler for what is new, and says whether a reload is due.
func (a *API) adopt(now *assembly) (*httpadapter.HandlerAdapter, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.core.parts.Now()
	if a.serving != now {
		// The whole border but for /metrics: an environment counts for itself alone, and CloudWatch counts for all.
		handler := now.Handler(setup.Border{CatalogKnown: now.known})
		a.serving, a.adapter, a.reloaded = now, httpadapter.New(handler), at
		return a.adapter, false
	}
	reload := at.Sub(a.reloaded) >= reloadEvery
	if reload {
		a.reloaded = at
	}
	return a.adapter, reload
}

// reload takes over what the janitor stored. Trouble is logged where it happens; the catalog in memory is good without.
func (a *API) reload(ctx context.Context, now *assembly) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, client := range now.Clients() {
		_ = now.Catalog.Reload(ctx, client)
	}
}

// known reports whether there is a catalog for the client. It is loaded on demand here, so the question itself is a
// demand.
func (a *assembly) known(ctx context.Context, client string) bool {
	_, err := a.Catalog.Document(ctx, client)
	return err == nil
}
