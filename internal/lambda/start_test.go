package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
)

var errDown = errors.New("out of order")

func newEcho() *httpadapter.HandlerAdapter {
	return httpadapter.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.URL.EscapedPath()))
	}))
}

// environment looks up what template.yaml sets.
func environment(without string, more map[string]string) func(string) (string, bool) {
	values := map[string]string{
		"FERRY_TABLE": "t", "FERRY_STATE_MACHINE_ARN": "arn:m", "FERRY_CONFIG_SECRET_ARN": "arn:s", "AWS_REGION": "eu-central-1",
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "none", "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
	}
	for name, value := range more {
		values[name] = value
	}
	delete(values, without)
	return func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
}

func TestTheEnvironmentIsChecked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		without string
		more    map[string]string
		want    string
	}{
		"all is there":             {"", map[string]string{"FERRY_LOG_LEVEL": "debug", "FERRY_CONFIG_MAX_AGE": "2s"}, ""},
		"no table":                 {"FERRY_TABLE", nil, "FERRY_TABLE is missing"},
		"no state machine":         {"FERRY_STATE_MACHINE_ARN", nil, "FERRY_STATE_MACHINE_ARN is missing"},
		"no secret":                {"FERRY_CONFIG_SECRET_ARN", nil, "FERRY_CONFIG_SECRET_ARN is missing"},
		"no region":                {"AWS_REGION", nil, "AWS_REGION is missing"},
		"an unknown level":         {"", map[string]string{"FERRY_LOG_LEVEL": "loud"}, "FERRY_LOG_LEVEL"},
		"an age that is no age":    {"", map[string]string{"FERRY_CONFIG_MAX_AGE": "soon"}, "FERRY_CONFIG_MAX_AGE"},
		"an age of nothing":        {"", map[string]string{"FERRY_CONFIG_MAX_AGE": "0s"}, "FERRY_CONFIG_MAX_AGE"},
		"two faults are both told": {"FERRY_TABLE", map[string]string{"FERRY_LOG_LEVEL": "loud"}, "FERRY_LOG_LEVEL"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lookup := environment(test.without, test.more)
			_, a := NewAPI(lookup, &logged{})
			_, p := NewPoller(lookup, &logged{})
			_, j := NewJanitor(lookup, &logged{})
			for _, err := range []error{a, p, j} {
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
			}
		})
	}
}

// TestAFunctionWithoutAWSAnswers: nothing is called before the first event, and that
// one is answered though nobody listens.
func TestAFunctionWithoutAWSAnswers(t *testing.T) {
	t.Parallel()
	log := &logged{}
	a, err := NewAPI(environment("", nil), log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	answer, err := a.Handle(ctx, read[events.APIGatewayProxyRequest](t, "catalog"))
	if err != nil || answer.StatusCode != 503 || answer.Headers["Retry-After"] == "" || !strings.HasPrefix(answer.Body, `{"description":`) {
		t.Errorf("%d %v %s, %v; want 503 in OSB's shape", answer.StatusCode, answer.Headers, answer.Body, err)
	}
	if !strings.Contains(log.String(), `"msg":"no configuration"`) {
		t.Errorf("the log: %s", log)
	}
}

func TestCredentialsAreReadEachTime(t *testing.T) {
	t.Parallel()
	more := map[string]string{"AWS_SESSION_TOKEN": "one"}
	values := environment("", nil)
	s, err := readSettings(func(name string) (string, bool) {
		if v, ok := more[name]; ok {
			return v, true
		}
		return values(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	more["AWS_SESSION_TOKEN"] = "two"
	c, err := s.aws.Credentials.Retrieve(t.Context())
	if err != nil || c.SessionToken != "two" || c.AccessKeyID != "id" {
		t.Errorf("%v, %v", c.SessionToken, err)
	}
	more["AWS_ACCESS_KEY_ID"] = ""
	if _, err := s.aws.Credentials.Retrieve(t.Context()); err == nil {
		t.Error("no key, but credentials")
	}
}

func TestAPanicIsAnsweredAndTheEnvironmentSurvives(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if answer := r.send(t, "provision"); answer.StatusCode != 202 {
		t.Fatalf("%d %s", answer.StatusCode, answer.Body)
	}
	tick := sfn.NewTick(r.machine.take()[0])
	r.table.set(nil, "s3cr3t")
	if answer := r.send(t, "last-operation"); answer.StatusCode != 500 || strings.Contains(answer.Body, "s3cr3t") {
		t.Errorf("api: %d %s", answer.StatusCode, answer.Body)
	}
	_, err := r.poller.Handle(t.Context(), tick)
	if _, ok := errors.AsType[*TickPanicked](err); !ok {
		t.Errorf("poller: %v, want *TickPanicked", err)
	}
	err = r.janitor.Handle(t.Context(), Schedule{})
	if _, ok := errors.AsType[*JanitorFailed](err); !ok {
		t.Errorf("janitor: %v, want *JanitorFailed", err)
	}
	r.table.set(nil, nil)
	if answer := r.send(t, "last-operation"); answer.StatusCode != 200 {
		t.Errorf("afterwards: %d %s", answer.StatusCode, answer.Body)
	}
	if text := r.log.String(); strings.Count(text, `"stack":`) != 3 || strings.Contains(text, "s3cr3t") {
		t.Errorf("the log: %s", text)
	}
}

func TestAPanicAroundTheHandlerIsAnsweredToo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.api.core.configuration = func(context.Context) (secrets.Copy, error) { panic("s3cr3t") }
	if answer := r.send(t, "catalog"); answer.StatusCode != 500 || !strings.HasPrefix(answer.Body, `{"description":`) {
		t.Errorf("%d %s", answer.StatusCode, answer.Body)
	}
	if text := r.log.String(); !strings.Contains(text, `"msg":"panic"`) || strings.Contains(text, "s3cr3t") {
		t.Errorf("the log: %s", text)
	}
}

func TestTheErrorsOfThePoller(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tick := sfn.NewTick(broker.Start{Key: broker.Key{Client: "demo", InstanceID: "i"}, Operation: "create-1"})
	_, err := r.poller.Handle(t.Context(), sfn.Tick{Client: "demo"})
	if _, ok := errors.AsType[*BadInput](err); !ok {
		t.Errorf("%v, want *BadInput", err)
	}
	r.table.set(errDown, nil)
	_, err = r.poller.Handle(t.Context(), tick)
	if _, ok := errors.AsType[*TickFailed](err); !ok {
		t.Errorf("%v, want *TickFailed", err)
	}
	r.configure(nil, errDown)
	_, err = r.poller.Handle(t.Context(), tick)
	if _, ok := errors.AsType[*NoConfiguration](err); !ok {
		t.Errorf("%v, want *NoConfiguration", err)
	}
}

// deadlines is a table that keeps by when each read was to end.
type deadlines struct {
	*table
	ends []time.Time
}

func (d *deadlines) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	deadline, _ := ctx.Deadline()
	d.ends = append(d.ends, deadline)
	return d.table.Get(ctx, key)
}

// TestThePollerLeavesTimeForItsNotes: twelve seconds before Lambda ends the function.
func TestThePollerLeavesTimeForItsNotes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := &deadlines{table: r.table}
	r.poller.core.parts.Store = seen
	deadline := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	tick := sfn.NewTick(broker.Start{Key: broker.Key{Client: "demo", InstanceID: "i"}, Operation: "create-1"})
	for name, ctx := range map[string]context.Context{"with a deadline": ctx, "without one": t.Context()} {
		if next, err := r.poller.Handle(ctx, tick); err != nil || !next.Done {
			t.Errorf("%s: %+v, %v; want the end of an operation that nobody knows", name, next, err)
		}
	}
	slices.SortFunc(seen.ends, time.Time.Compare)
	if diff := cmp.Diff([]time.Time{{}, deadline.Add(-12 * time.Second)}, seen.ends); diff != "" {
		t.Errorf("the ticks end (-want +got):\n%s", diff)
	}
}

// TestAFunctionSleeps: the other tests have a sleep of their own.
func TestAFunctionSleeps(t *testing.T) {
	t.Parallel()
	p, err := NewPoller(environment("", nil), &logged{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		for _, test := range []struct {
			ctx   context.Context
			sleep time.Duration
			took  time.Duration
			err   error
		}{
			{t.Context(), 0, 0, nil},
			{t.Context(), 6 * time.Second, 6 * time.Second, nil},
			{ended, 6 * time.Second, 0, context.Canceled},
		} {
			began := time.Now()
			err := p.sleep(test.ctx, test.sleep)
			if took := time.Since(began); took != test.took || !errors.Is(err, test.err) {
				t.Errorf("a sleep of %v took %v, %v; want %v, %v", test.sleep, took, err, test.took, test.err)
			}
		}
	})
}

func TestAnOperationWhoseStartWasLostIsRestarted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.machine.fault = errDown
	if answer := r.send(t, "provision"); answer.StatusCode != 202 {
		t.Fatalf("%d %s: the platform is not to notice", answer.StatusCode, answer.Body)
	}
	r.pass(time.Hour)
	err := r.janitor.Handle(t.Context(), Schedule{Task: TaskRound})
	if _, ok := errors.AsType[*JanitorFailed](err); !ok {
		t.Errorf("%v, want *JanitorFailed while nothing can be started", err)
	}
	r.machine.fault = nil
	r.pass(time.Hour)
	if err := r.janitor.Handle(t.Context(), Schedule{Task: TaskRound}); err != nil {
		t.Fatal(err)
	}
	starts := r.machine.take()
	if len(starts) != 1 || starts[0].Restart != 2 {
		t.Fatalf("started %+v, want the second restart: the first one's number is spent", starts)
	}
	r.machine.starts = starts
	r.drive(t)
	if answer := r.send(t, "last-operation"); !strings.Contains(answer.Body, `"succeeded"`) {
		t.Errorf("%s", answer.Body)
	}
}

func TestAnUnknownTaskFails(t *testing.T) {
	t.Parallel()
	if err := newRig(t).janitor.Handle(t.Context(), Schedule{Task: "sweep"}); err == nil {
		t.Error("a task that nobody knows succeeded")
	}
}

func TestANewConfigurationIsTakenOverWithoutARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if answer := r.send(t, "unauthorised"); answer.StatusCode != 401 {
		t.Fatalf("%d", answer.StatusCode)
	}
	before := r.api.serving
	r.send(t, "catalog")
	if r.api.serving != before {
		t.Error("the same version was assembled twice")
	}
	r.configure(func(c *secrets.Copy) {
		c.Version = "v2"
		c.Config.Clients[0].Credentials[0].Password = "wrong" // the one that the event sends
	}, nil)
	if answer := r.send(t, "unauthorised"); answer.StatusCode != 200 {
		t.Errorf("%d with the new password", answer.StatusCode)
	}
	r.configure(func(c *secrets.Copy) {
		c.Version = "v3"
		c.Config.Clients[0].CloudFoundry.CA = []byte("no certificate")
	}, nil)
	if answer := r.send(t, "catalog"); answer.StatusCode != 503 {
		t.Errorf("%d with a certificate that is none", answer.StatusCode)
	}
}

func TestCatalogsAreFetchedByTheJanitorAndReadByTheAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.send(t, "catalog")
	hide, err := fresh().Post(r.sim+"/__sim/marketplace", "application/json", strings.NewReader(`{"hide":["postgres/large"]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = hide.Body.Close()
	if err := r.janitor.Handle(t.Context(), Schedule{}); err != nil {
		t.Fatal(err)
	}
	if answer := r.send(t, "catalog"); answer.Body != before.Body {
		t.Error("the store was read within the minute")
	}
	r.pass(reloadEvery)
	if answer := r.send(t, "catalog"); answer.Body == before.Body {
		t.Error("what the janitor stored was not taken over")
	}
	if r.janitor.due("demo", 5*time.Minute) {
		t.Error("the catalog is fetched again before its time")
	}
	r.pass(4 * time.Minute)
	if !r.janitor.due("demo", 5*time.Minute) {
		t.Error("the catalog is not fetched again")
	}
}

func TestTheBudgetEndsBeforeLambdaDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.send(t, "catalog")
	r.send(t, "provision")
	r.drive(t)
	post, err := fresh().Post(r.sim+"/__sim/faults", "application/json", strings.NewReader(
		`{"method":"POST","route":"/v3/service_credential_bindings","when":"before","action":"delay","delay_ms":60000}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = post.Body.Close()
	deadline := time.Now().Add(1500 * time.Millisecond)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	answer, err := r.api.Handle(ctx, read[events.APIGatewayProxyRequest](t, "bind"))
	if err != nil || answer.StatusCode != 500 || !time.Now().Before(deadline) {
		t.Errorf("%d %s, %v, %v after the deadline; want an answer of our own before it", answer.StatusCode, answer.Body, err, time.Since(deadline))
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	event := read[events.APIGatewayProxyRequest](t, "catalog")
	event.Path = "/readyz"
	if answer, _ := r.api.Handle(t.Context(), event); answer.StatusCode != 200 {
		t.Errorf("%d %s", answer.StatusCode, answer.Body)
	}
	r.table.set(errDown, nil)
	if answer, _ := r.api.Handle(t.Context(), event); answer.StatusCode != 503 || !strings.Contains(answer.Body, "store") {
		t.Errorf("%d %s, want 503 that names the store", answer.StatusCode, answer.Body)
	}
}

func newLines(log *logged) slog.Handler { return slog.NewJSONHandler(log, nil) }

// slow is a table whose reads wait for the test, and tell what was asked.
type slow struct {
	*table
	asked chan string
	gate  chan struct{} // lets one go on
	open  chan struct{} // closed, lets all
}

func (s *slow) wait(ctx context.Context, what string) error {
	s.asked <- what
	select {
	case <-s.gate:
		return nil
	case <-s.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slow) Ping(ctx context.Context) error { return s.wait(ctx, "ping") }

func (s *slow) Catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	if err := s.wait(ctx, client); err != nil {
		return broker.StoredCatalog{}, err
	}
	return s.MemoryStore.Catalog(ctx, client)
}

// waiting returns who waits now, and lets them go on.
func (s *slow) waiting() []string {
	synctest.Wait()
	all := []string{}
	for len(s.asked) > 0 {
		all = append(all, <-s.asked)
		select {
		case s.gate <- struct{}{}:
		case <-s.open:
		}
	}
	slices.Sort(all)
	return all
}

// TestInitReadsInParallel: the secret and the way to the table together, then the
// catalogs of all clients together; the first event waits for none of them.
func TestInitReadsInParallel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.send(t, "catalog") // stores one
	r.configure(func(c *secrets.Copy) {
		other := c.Config.Clients[0]
		other.Name, other.Credentials = "other", nil
		c.Config.Clients = append(c.Config.Clients, other)
	}, nil)
	synctest.Test(t, func(t *testing.T) {
		s := &slow{table: r.table, asked: make(chan string, 9), gate: make(chan struct{}), open: make(chan struct{})}
		a := &API{core: &core{}}
		a.core.parts = setup.Parts{Store: s, Workflow: r.machine, Now: r.now, Process: "p", Logger: a.core.correlated(newLines(r.log))}
		a.core.configuration = func(ctx context.Context) (secrets.Copy, error) {
			if err := s.wait(ctx, "secret"); err != nil {
				return secrets.Copy{}, err
			}
			return r.configuration(ctx)
		}
		go a.prepare(t.Context())
		for _, want := range []string{"[ping secret]", "[demo other]", "[]"} {
			if together := s.waiting(); fmt.Sprint(together) != want {
				t.Errorf("asked together: %q, want %s", together, want)
			}
		}
		close(s.open)
		for _, want := range []string{"[secret]", "[demo secret]"} { // the first event, and one that came late
			if answer, _ := a.Handle(t.Context(), readEvent(t, "catalog")); answer.StatusCode != 200 {
				t.Errorf("%d %s", answer.StatusCode, answer.Body)
			}
			if asked := s.waiting(); fmt.Sprint(asked) != want {
				t.Errorf("an event asked for %q, want %s", asked, want)
			}
			r.pass(reloadEvery)
		}
	})
}

// TestInitSurvivesEverything: what cannot be read in init is read by the first event.
func TestInitSurvivesEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.configure(nil, errDown)
	r.table.set(errDown, nil)
	r.api.prepare(t.Context())
	r.poller.prepare(t.Context())
	r.janitor.prepare(t.Context())
	r.configure(nil, nil)
	r.table.set(nil, nil)
	if answer := r.send(t, "catalog"); answer.StatusCode != 200 {
		t.Errorf("%d %s", answer.StatusCode, answer.Body)
	}
}

// TestTheVersionIsLoggedOnce at the start of each environment.
func TestTheVersionIsLoggedOnce(t *testing.T) {
	t.Parallel()
	log := &logged{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody is called
	lookup := environment("", map[string]string{"FERRY_VERSION": "1.2.3"})
	a, _ := NewAPI(lookup, log)
	p, _ := NewPoller(lookup, log)
	j, _ := NewJanitor(lookup, log)
	for _, prepare := range []func(context.Context){a.prepare, p.prepare, j.prepare} {
		prepare(ctx)
	}
	n := 0
	for line := range strings.Lines(log.String()) {
		var said struct{ Msg, Version, Build string }
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		if said.Msg == "the function starts" && said.Version == "1.2.3" && said.Build == build {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d lines tell the version, want one of each function: %s", n, log)
	}
}

// TestEachEnvironmentHasItsOwnName: an environment knows by its name which lease is
// its own, so that two of one name would take each other's.
func TestEachEnvironmentHasItsOwnName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	lookup := environment("", nil)
	for range 3 {
		a, errA := NewAPI(lookup, &logged{})
		p, errP := NewPoller(lookup, &logged{})
		j, errJ := NewJanitor(lookup, &logged{})
		if errA != nil || errP != nil || errJ != nil {
			t.Fatal(errA, errP, errJ)
		}
		for _, c := range []*core{a.core, p.core, j.core} {
			if name := c.parts.Process; name == "" || seen[name] {
				t.Errorf("the name %q is another environment's, or none", name)
			} else {
				seen[name] = true
			}
		}
	}
}

// TestANewConfigurationEndsThePause: logins that were refused are held back for minutes,
// but not those with the credentials that somebody has put right.
func TestANewConfigurationEndsThePause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	right := r.copied.Config.Clients[0].CloudFoundry.ClientSecret
	secret := func(text, version string) {
		r.configure(func(c *secrets.Copy) {
			clients := append(c.Config.Clients[:0:0], c.Config.Clients...)
			clients[0].CloudFoundry.ClientSecret = text
			c.Config.Clients, c.Version = clients, version
		}, nil)
	}
	secret("wrong", "v2")
	for range 3 { // the first is refused, the others are not sent
		if answer := r.send(t, "catalog"); answer.StatusCode != 503 {
			t.Errorf("with a wrong secret: %d %s", answer.StatusCode, answer.Body)
		}
	}
	secret(right, "v3")
	if answer := r.send(t, "catalog"); answer.StatusCode != 200 {
		t.Errorf("with the right one: %d %s", answer.StatusCode, answer.Body)
	}
}
