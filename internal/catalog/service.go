// Package catalog keeps the catalog of every client: what GET /v2/catalog answers (OSB 2.17 "Catalog Management") and
// what the use cases ask about a plan.
//
// A marketplace of Cloud Foundry is turned into a catalog once, when it was fetched. Readers then share the result
// without a lock, and go on doing so while Cloud Foundry cannot be reached: a failed or empty fetch never replaces what
// is known. The last good marketplace is also kept in the store, so that a process that starts while Cloud Foundry is
// down still has a catalog.
//
// There is one way to build: a fetched marketplace is first written as the text that the store keeps, and the catalog
// is made of that text. So every process serves the same bytes and the same ETag for the same marketplace.
package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// The values of Source.IDs.
const (
	// IDsBroker gives offerings and plans the ids of the backing broker's catalog, which survive that the broker is
	// registered anew.
	IDsBroker = "broker"
	// IDsCloudFoundry gives them Cloud Foundry's GUIDs.
	IDsCloudFoundry = "cloud_foundry"
)

// Source says where the catalog of one client comes from.
type Source struct {
	// Client is the configured client's name.
	Client string
	// IDs is IDsBroker or IDsCloudFoundry; anything else counts as IDsBroker.
	IDs string
	// Rotatable names the plans that get binding_rotatable, as far as they can be bound: "offering" for all plans of
	// one, "offering/plan" for one plan.
	Rotatable []string
	// Refresh is how old the marketplace may grow before Run fetches it again; 5 minutes when it is not positive.
	Refresh time.Duration
	// Fetch returns the marketplace as it is now. It must not outlive its context, and the texts of its errors are
	// logged, so they hold no secrets.
	Fetch func(context.Context) (broker.Marketplace, error)
}

// What stands in for an option that is not set.
const (
	defaultRefresh = 5 * time.Minute
	defaultTimeout = 30 * time.Second
)

// Options is what New needs.
type Options struct {
	// Sources are the clients, each once.
	Sources []Source
	// Store keeps the last good marketplace of each client.
	Store broker.CatalogStore
	// Now is the clock.
	Now func() time.Time
	// Logger may be nil: nothing is logged then.
	Logger *slog.Logger
	// Outages is asked before a warning that a refresh failed, so that one outage of a Cloud Foundry is one warning a
	// minute whoever notices it; nil: its own.
	Outages *broker.Throttle
	// Timeout bounds one fetch, and one read of the stored copy at start; 30 seconds when it is not positive.
	Timeout time.Duration
}

// Document is the catalog of one client as the broker serves it. It is shared by every reader: nobody may change Body.
type Document struct {
	// Body is the JSON text of the answer to GET /v2/catalog.
	Body []byte
	// ETag is the strong entity tag of Body, quotes included, ready for the ETag header and for comparison with
	// If-None-Match.
	ETag string
	// Modified is the moment Body last became different, for Last-Modified.
	Modified time.Time
}

// Service answers from the catalogs of all clients. Any number of goroutines may use it, and several processes may
// share one store.
type Service struct {
	clients map[string]*clientCatalog
	order   []*clientCatalog
	// checks has a place for each check of parameters that may run.
	checks chan struct{}
}

var _ broker.Catalog = (*Service)(nil)

// New returns a Service that knows no catalog yet. It does no I/O: the first Document, Plan or Refresh does, or Run.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Outages == nil {
		o.Outages = broker.NewThrottle(warnEvery)
	}
	storeFaults := broker.NewThrottle(warnEvery)
	s := &Service{clients: make(map[string]*clientCatalog, len(o.Sources)), checks: make(chan struct{}, parallelChecks)}
	for _, source := range o.Sources {
		if source.Refresh <= 0 {
			source.Refresh = defaultRefresh
		}
		c := &clientCatalog{
			source: source, store: o.Store, now: o.Now, timeout: o.Timeout,
			log: o.Logger.With("client", source.Client), outages: o.Outages, storeFaults: storeFaults,
		}
		s.clients[source.Client] = c
		s.order = append(s.order, c)
	}
	return s
}

// Document returns the client's catalog, the last good one however old. Only when none is in memory does it wait,
// within ctx: for the stored copy and then for one fetch, shared with all others who wait. broker.ErrNoCatalog
// (errors.Is) when there is still none.
func (s *Service) Document(ctx context.Context, client string) (Document, error) {
	known, err := s.known(ctx, client)
	if err != nil {
		return Document{}, err
	}
	return known.document, nil
}

// Plan returns the plan of that offering and waits no more than Document does. The error is broker.ErrUnknownPlan, its
// text a sentence for the platform's user, or broker.ErrNoCatalog (errors.Is).
func (s *Service) Plan(ctx context.Context, client, serviceID, planID string) (broker.Plan, error) {
	known, err := s.known(ctx, client)
	if err != nil {
		return broker.Plan{}, err
	}
	plans, ok := known.plans[serviceID]
	if !ok {
		return broker.Plan{}, unknownOffering(serviceID)
	}
	plan, ok := plans[planID]
	if !ok {
		return broker.Plan{}, unknownPlan(serviceID, planID)
	}
	return plan, nil
}

// unknown is broker.ErrUnknownPlan with a text that stands alone, because it ends up as the description of an answer.
// The ids in it come from requests: %.100q bounds their length and keeps what is not printable out of the text.
type unknown struct{ sentence string }

// Error is the sentence.
func (u unknown) Error() string { return u.sentence }

// Unwrap returns broker.ErrUnknownPlan.
func (unknown) Unwrap() error { return broker.ErrUnknownPlan }

func unknownOffering(serviceID string) error {
	return unknown{fmt.Sprintf("the catalog has no service offering with service_id %.100q; "+
		"fetch the catalog again and use an offering that it lists", serviceID)}
}

func unknownPlan(serviceID, planID string) error {
	return unknown{fmt.Sprintf("the service offering %.100q has no plan with plan_id %.100q; "+
		"fetch the catalog again and use a plan that it lists for this offering", serviceID, planID)}
}

// PlanOf returns the plan that has this GUID in Cloud Foundry. It waits no more than Document does; the errors are
// those of Plan.
func (s *Service) PlanOf(ctx context.Context, client, planGUID string) (broker.Plan, error) {
	known, err := s.known(ctx, client)
	if err != nil {
		return broker.Plan{}, err
	}
	for _, plans := range known.plans {
		for _, plan := range plans {
			if plan.PlanGUID == planGUID {
				return plan, nil
			}
		}
	}
	return broker.Plan{}, fmt.Errorf("no plan has the GUID %q in Cloud Foundry: %w", planGUID, broker.ErrUnknownPlan)
}

// Ready reports whether a catalog of the client is in memory. It never waits.
func (s *Service) Ready(client string) bool {
	c := s.clients[client]
	return c != nil && c.current.Load() != nil
}

func (s *Service) known(ctx context.Context, client string) (*snapshot, error) {
	c, err := s.client(client)
	if err != nil {
		return nil, err
	}
	return c.known(ctx)
}

func (s *Service) client(client string) (*clientCatalog, error) {
	c, ok := s.clients[client]
	if !ok {
		return nil, fmt.Errorf("catalog of %.60q, which is not a configured client: %w", client, broker.ErrNoCatalog)
	}
	return c, nil
}
