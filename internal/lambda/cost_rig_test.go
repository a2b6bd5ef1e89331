package lambda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/ferry-broker/ferry/internal/dynamo"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// stack is the three functions as they are deployed, one environment of each, with
// everything that they call behind one meter.
type stack struct {
	*testing.T
	api     *API
	poller  *Poller
	janitor *Janitor
	meter   *meter
	foundry *foundry
	clock   *clock
	asl     machineDefinition
	running []*execution
	tag     string // the catalog's
	maxAge  time.Duration
	// patient has the poller spend short waits itself; without, each tick is a turn.
	patient bool
	// own is the time that invocations spent in our code, by function.
	own map[string][]time.Duration
}

// stacks numbers tables and secrets.
var stacks atomic.Int64

const configuration = `clients:
  - name: demo
    credentials: [{username: demo, password: demo}]
    cloud_foundry: {api: %q, org: demo, client_id: ferry, client_secret: ferry}
`

// newStack reads the secret anew once it is of the given age.
func newStack(t *testing.T, maxAge time.Duration) *stack {
	t.Helper()
	endpoint := cloud.URL(t)
	c := &clock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	m := newMeter(c)
	s := &stack{
		T: t, meter: m, foundry: newFoundry(m), asl: definition(t), own: map[string][]time.Duration{}, clock: c, maxAge: maxAge,
	}
	server := httptest.NewServer(s.foundry)
	t.Cleanup(func() { s.foundry.sim.Close(); server.Close() })
	config := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), HTTPClient: m,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}
	name := fmt.Sprintf("ferry-cost-%d", stacks.Add(1))
	s.furnish(config, name, server.URL)
	s.api, s.poller = &API{core: s.core(config, name)}, &Poller{core: s.core(config, name), sleep: s.stay}
	s.janitor = &Janitor{core: s.core(config, name), fetched: map[string]time.Time{}}
	return s
}

// furnish makes the table and the secret.
func (s *stack) furnish(config aws.Config, name, foundry string) {
	s.Helper()
	_, err := dynamodb.NewFromConfig(config).CreateTable(s.Context(), dynamo.Table(name))
	if _, made := errors.AsType[*types.ResourceInUseException](err); err != nil && !made {
		s.Fatal(err)
	}
	_, err = secretsmanager.NewFromConfig(config).CreateSecret(s.Context(), &secretsmanager.CreateSecretInput{
		Name: aws.String(name), SecretString: aws.String(fmt.Sprintf(configuration, foundry)),
	})
	if err != nil {
		s.Fatal(err)
	}
}

// core is what newCore makes, but for the clock and the log.
func (s *stack) core(config aws.Config, name string) *core {
	s.Helper()
	table, err := dynamo.New(dynamo.Options{Config: config, Table: name, Now: s.clock.now})
	if err != nil {
		s.Fatal(err)
	}
	c := &core{audits: table}
	c.parts = setup.Parts{
		Store: table, Workflow: sfn.New(sfn.Options{Config: config, StateMachine: "arn:aws:states:us-east-1:123456789012:stateMachine:" + name}),
		Now: s.clock.now, Sleep: s.sleep, Process: setup.NewProcessName(), ClaimFirst: true,
		Logger: c.correlated(slog.NewJSONHandler(lines{s.meter}, &slog.HandlerOptions{ReplaceAttr: sameLength})),
	}
	c.configuration = secrets.New(secrets.Options{
		Config: config, Secret: name, MaxAge: s.maxAge, Now: s.clock.now, Logger: c.parts.Logger,
		LookupEnv: func(string) (string, bool) { return "", false }, ReadFile: func(string) ([]byte, error) { return nil, errors.ErrUnsupported },
	}).Current
	if _, err := c.current(s.Context()); err != nil {
		s.Fatal(err)
	}
	return c
}

// sleep takes no time but the clock's.
func (s *stack) sleep(_ context.Context, d time.Duration) error {
	s.clock.pass(d)
	return nil
}

// stay is how the poller sleeps.
func (s *stack) stay(ctx context.Context, d time.Duration) error {
	if !s.patient {
		return context.DeadlineExceeded
	}
	return s.sleep(ctx, d)
}

// event is the context that Lambda hands over with an event.
func (s *stack) event() context.Context {
	return lambdaContext(s.Context(), "8f507cfc-xmpl-4697-b07a-ac58fc914c95", "1-67891233-abcdef012345678912345678")
}

// lines count what is logged.
type lines struct{ meter *meter }

func (l lines) Write(p []byte) (int, error) {
	l.meter.mu.Lock()
	defer l.meter.mu.Unlock()
	l.meter.counts.logged += len(p)
	return len(p), nil
}

// sameLength writes times in one length; the clock's nanoseconds would come and go.
func sameLength(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, "2026-01-01T00:00:00.123456789Z")
	}
	return a
}

// invoke notes an invocation of a function and the time that it spent by itself.
func (s *stack) invoke(name string, f func()) {
	began, away, at := time.Now(), s.meter.spent(), s.clock.now()
	s.clock.pass(assumed()[own])
	f()
	s.own[name] = append(s.own[name], time.Since(began)-(s.meter.spent()-away))
	s.meter.invoked(name, s.clock.now().Sub(at))
}

// counted returns what f took.
func (s *stack) counted(f func()) tally {
	s.meter.take()
	f()
	return s.meter.take()
}
