package lambda

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/catalog"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/dynamo"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// store is what a function needs to keep things in.
type store interface {
	broker.Store
	broker.CatalogStore
	broker.AuditStore
	Ping(ctx context.Context) error
}

// core is what lives as long as the function's environment.
type core struct {
	configuration func(context.Context) (secrets.Copy, error)
	store         store
	workflow      broker.Workflow
	logger        *slog.Logger
	now           func() time.Time
	sleep         func(context.Context, time.Duration) error
	// process is unique to this environment, for leases.
	process string
	// version is the stack's.
	version string
	events  inFlight

	mu   sync.Mutex
	made *assembly
}

// assembly is what is made of one version of the configuration. It never changes.
type assembly struct {
	version string
	config  config.Config
	broker  *broker.Broker
	catalog *catalog.Service
}

// newCore makes the clients from the environment. It calls nobody.
func newCore(lookupEnv func(string) (string, bool), log io.Writer) (*core, error) {
	s, err := readSettings(lookupEnv)
	if err != nil {
		return nil, err
	}
	c := &core{now: time.Now, sleep: broker.Sleep, process: newProcessName(), version: s.version}
	c.logger = c.correlated(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: s.level}))
	table, err := dynamo.New(dynamo.Options{Config: s.aws, Table: s.table, Now: time.Now})
	if err != nil {
		return nil, err
	}
	source := secrets.New(secrets.Options{
		Config: s.aws, Secret: s.secret, MaxAge: s.maxAge,
		LookupEnv: lookupEnv, ReadFile: os.ReadFile, Now: time.Now, Logger: c.logger,
	})
	c.configuration, c.store = source.Current, table
	c.workflow = sfn.New(sfn.Options{Config: s.aws, StateMachine: s.stateMachine})
	return c, nil
}

// correlated makes a logger whose lines bear the ids of their event.
func (c *core) correlated(lines slog.Handler) *slog.Logger {
	return slog.New(correlated{lines, &c.events})
}

func newProcessName() string {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // never fails: it ends the process instead
	return hex.EncodeToString(name)
}

// current returns what is made of the configuration in force.
func (c *core) current(ctx context.Context) (*assembly, error) {
	now, err := c.configuration(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil && c.made.version == now.Version {
		return c.made, nil
	}
	next, err := c.assemble(now)
	if err != nil {
		// An alarm counts this line, as it does that of a text which is no configuration.
		c.logger.WarnContext(ctx, "the configuration cannot be used", "version", now.Version, "error", err.Error())
		return nil, err
	}
	c.made = next
	return next, nil
}

// assemble calls nobody. Unlike a process, an environment has others beside it, so
// that a lease of another holder may be a living one's.
func (c *core) assemble(from secrets.Copy) (*assembly, error) {
	backends, err := setup.Backends(from.Config, c.logger, nil)
	if err != nil {
		return nil, fmt.Errorf("version %s of the configuration: %w", from.Version, err)
	}
	outages := broker.NewThrottle(time.Minute)
	a := &assembly{version: from.Version, config: from.Config}
	a.catalog = setup.Catalog(from.Config, backends, c.store, outages, c.logger)
	ops := from.Config.Operations
	a.broker = broker.New(broker.Options{
		Store: c.store, Backends: backends, Catalog: a.catalog,
		Workflow: c.workflow, Now: c.now, Random: rand.Reader, Logger: c.logger, Outages: outages,
		Pace:     lifecycle.Pace{First: from.Config.Polling.First, Max: from.Config.Polling.Max},
		Deadline: ops.Deadline, TombstoneTTL: ops.Keep, SettleAfter: ops.SettleAfter, RequestBudget: ops.RequestBudget,
		Process: c.process, ClaimFirst: true,
	})
	return a, nil
}

// within ends a context some time before the deadline that Lambda set, so that there
// is time left to note what became of a call, and to answer.
func within(ctx context.Context, margin time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-margin))
}
