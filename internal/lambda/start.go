// Package lambda puts the three functions on AWS together: the API behind API Gateway, the poller that Step Functions
// calls, and the janitor on a schedule. What a functions/ folder starts is made and tested here.
//
// A function's environment serves one event after the other, for hours. Clients of AWS are made once in its life.
// Secret and catalogs are read before the first event, in parallel; what is made of the configuration is kept until the
// secret has another version. Nothing runs on after init, or after the event that it was started for, since the
// environment is frozen then: there are no goroutines in the background here.
package lambda

import (
	"context"
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
	"github.com/ferry-broker/ferry/internal/dynamo"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// StartAPI serves the events of the REST API until Lambda ends the process. It returns only when the environment is
// wrong.
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

// StartHandler serves the events of the REST API with a handler that was put together elsewhere, as StartAPI does with
// its own. It does not return.
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

// completeAWS takes what Lambda hands to every function. The SDK's own config package would look for profiles, SSO and
// instance roles as well, which no function has, at the price of a fifth of the binary
// (docs/adr/0014-functions-on-aws.md).
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

// notes keep what concerns no record: when audits were completed, and when rounds look.
type notes interface {
	broker.AuditStore
	broker.RoundStore
}

// core is what lives as long as the function's environment.
type core struct {
	configuration func(context.Context) (secrets.Copy, error)
	// parts are what every broker of this environment is made of.
	parts setup.Parts
	notes notes
	// version is the stack's.
	version string
	events  inFlight

	mu   sync.Mutex
	made *assembly
}

// assembly is what is made of one version of the configuration. It never changes.
type assembly struct {
	*setup.Assembly
	version string
}

// newCore makes the clients from the environment. It calls nobody.
func newCore(lookupEnv func(string) (string, bool), log io.Writer) (*core, error) {
	s, err := readSettings(lookupEnv)
	if err != nil {
		return nil, err
	}
	table, err := dynamo.New(dynamo.Options{Config: s.aws, Table: s.table, Now: time.Now})
	if err != nil {
		return nil, err
	}
	c := &core{notes: table, version: s.version}
	// Beside an environment there are others, so that a lease of another holder may be a living one's.
	c.parts = setup.Parts{
		Store: table, Workflow: sfn.New(sfn.Options{Config: s.aws, StateMachine: s.stateMachine}),
		Now: time.Now, Logger: c.correlated(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: s.level})),
		Process: setup.NewProcessName(), ClaimFirst: true, Swept: true,
	}
	c.configuration = secrets.New(secrets.Options{
		Config: s.aws, Secret: s.secret, MaxAge: s.maxAge,
		LookupEnv: lookupEnv, ReadFile: os.ReadFile, Now: time.Now, Logger: c.parts.Logger,
	}).Current
	return c, nil
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
	next, err := setup.New(now.Config, c.parts)
	if err != nil {
		err = fmt.Errorf("version %s of the configuration: %w", now.Version, err)
		// An alarm counts this line, as it does that of a text which is no configuration.
		c.parts.Logger.WarnContext(ctx, "the configuration cannot be used", "version", now.Version, "error", err.Error())
		return nil, err
	}
	c.made = &assembly{next, now.Version}
	return c.made, nil
}

// within ends a context some time before the deadline that Lambda set, so that there is time left to note what became
// of a call, and to answer.
func within(ctx context.Context, margin time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-margin))
}

// initTime bounds what is read before the first event: Lambda gives an environment ten seconds to start in, and begins
// anew when they are over.
const initTime = 5 * time.Second

// build is what the binary was made of, as git describes it; the Makefile sets it.
var build = "dev"

// announce says once in an environment's life what runs in it.
func (c *core) announce(ctx context.Context) {
	c.parts.Logger.InfoContext(ctx, "the function starts", "version", c.version, "build", build)
}

// prepare reads, while the environment starts and has a whole CPU, what its first event would wait for: the secret, and
// beside it the way to the table; then the clients' stored catalogs, if they are wanted, all at once. It has ended when
// it returns. Trouble is logged where it happens and is no fault: the first event tries again.
//
// It returns what is made of the configuration, nil when there is none.
func (c *core) prepare(ctx context.Context, catalogs bool) *assembly {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	var reads sync.WaitGroup
	defer reads.Wait()
	reads.Go(func() { _ = c.parts.Store.Ping(ctx) })
	now, err := c.current(ctx)
	if err != nil {
		return nil
	}
	if !catalogs {
		return now
	}
	reads.Wait() // the connection is there, and of use to the first of them
	for _, client := range now.Clients() {
		reads.Go(func() { _ = now.Catalog.Load(ctx, client) })
	}
	return now
}
