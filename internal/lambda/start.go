// Package lambda puts the three functions on AWS together: the API behind API
// Gateway, the poller that Step Functions calls, and the janitor on a schedule. What
// a functions/ folder starts is made and tested here.
//
// A function's environment serves one event after the other, for hours. Clients of
// AWS are made once in its life. Secret and catalogs are read before the first event,
// in parallel; what is made of the configuration is kept until the secret has another
// version. Nothing runs on after init, or after the event that it was started for,
// since the environment is frozen then: there are no goroutines in the background here.
package lambda

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

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

// settings are what template.yaml puts into a function's environment.
type settings struct {
	table, stateMachine, secret string
	// version is the stack's, for people; it decides nothing.
	version string
	// maxAge is how old the configuration may grow before it is read again.
	maxAge time.Duration
	level  slog.Level
	aws    aws.Config
}

// readSettings reports everything that is missing or wrong at once.
func readSettings(lookupEnv func(string) (string, bool)) (settings, error) {
	var s settings
	var faults []error
	need := func(name string) string {
		value, _ := lookupEnv(name)
		if value == "" {
			faults = append(faults, fmt.Errorf("%s is missing", name))
		}
		return value
	}
	s.table, s.stateMachine, s.secret = need("FERRY_TABLE"), need("FERRY_STATE_MACHINE_ARN"), need("FERRY_CONFIG_SECRET_ARN")
	s.aws.Region = need("AWS_REGION")
	if level, _ := lookupEnv("FERRY_LOG_LEVEL"); level != "" {
		if err := s.level.UnmarshalText([]byte(level)); err != nil {
			faults = append(faults, fmt.Errorf("FERRY_LOG_LEVEL %q is none of debug, info, warn and error", level))
		}
	}
	if age, _ := lookupEnv("FERRY_CONFIG_MAX_AGE"); age != "" {
		var err error
		if s.maxAge, err = time.ParseDuration(age); err != nil || s.maxAge <= 0 {
			faults = append(faults, fmt.Errorf("FERRY_CONFIG_MAX_AGE %q is no duration above zero, such as 1m", age))
		}
	}
	s.version, _ = lookupEnv("FERRY_VERSION")
	completeAWS(&s.aws, lookupEnv)
	if len(faults) > 0 {
		return settings{}, fmt.Errorf("the function's environment: %w", errors.Join(faults...))
	}
	return s, nil
}

// completeAWS takes what Lambda hands to every function. The SDK's own config package
// would look for profiles, SSO and instance roles as well, which no function has, at
// the price of a fifth of the binary (docs/adr/0014-functions-on-aws.md).
func completeAWS(c *aws.Config, lookupEnv func(string) (string, bool)) {
	c.HTTPClient = awshttp.NewBuildableClient()
	c.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		id, _ := lookupEnv("AWS_ACCESS_KEY_ID")
		secret, _ := lookupEnv("AWS_SECRET_ACCESS_KEY")
		token, _ := lookupEnv("AWS_SESSION_TOKEN")
		if id == "" || secret == "" {
			return aws.Credentials{}, errors.New("the environment holds no AWS credentials")
		}
		return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token, Source: "environment"}, nil
	})
	if endpoint, _ := lookupEnv("AWS_ENDPOINT_URL"); endpoint != "" {
		c.BaseEndpoint = new(endpoint)
	}
}

// initTime bounds what is read before the first event: Lambda gives an environment ten
// seconds to start in, and begins anew when they are over.
const initTime = 5 * time.Second

// build is what the binary was made of, as git describes it; the Makefile sets it.
var build = "dev"

// announce says once in an environment's life what runs in it.
func (c *core) announce(ctx context.Context) {
	c.logger.InfoContext(ctx, "the function starts", "version", c.version, "build", build)
}

// prepare reads, while the environment starts and has a whole CPU, what its first event
// would wait for: the secret, and beside it the way to the table; then the clients'
// stored catalogs, if they are wanted, all at once. It has ended when it returns.
// Trouble is logged where it happens and is no fault: the first event tries again.
//
// It returns what is made of the configuration, nil when there is none.
func (c *core) prepare(ctx context.Context, catalogs bool) *assembly {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	var reads sync.WaitGroup
	defer reads.Wait()
	reads.Go(func() { _ = c.store.Ping(ctx) })
	now, err := c.current(ctx)
	if err != nil {
		return nil
	}
	if !catalogs {
		return now
	}
	reads.Wait() // the connection is there, and of use to the first of them
	for _, client := range now.config.Clients {
		reads.Go(func() { _ = now.catalog.Load(ctx, client.Name) })
	}
	return now
}

// prepare is what the API does before its first event. An environment may be kept warm
// for hours before that comes: the catalogs are as old by then as they are in memory.
func (a *API) prepare(ctx context.Context) {
	a.core.announce(ctx)
	if now := a.core.prepare(ctx, true); now != nil {
		a.adopt(now)
	}
}

// prepare is what the poller does before its first event.
func (p *Poller) prepare(ctx context.Context) {
	p.core.announce(ctx)
	p.core.prepare(ctx, true)
}

// prepare is what the janitor does before its first event. It fetches catalogs, and
// needs none that was stored.
func (j *Janitor) prepare(ctx context.Context) {
	j.core.announce(ctx)
	j.core.prepare(ctx, false)
}
