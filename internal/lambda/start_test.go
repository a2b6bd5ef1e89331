package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/setup"
)

// environment looks up what template.yaml sets.
func environment(without string, more map[string]string) func(string) (string, bool) {
	values := map[string]string{
		"FERRY_TABLE": "t", "FERRY_STATE_MACHINE_ARN": "arn:m", "FERRY_CONFIG_SECRET_ARN": "arn:s", "AWS_REGION": "eu-central-1",
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "none", "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
	}
	maps.Copy(values, more)
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

// TestAFunctionWithoutAWSAnswers: nothing is called before the first event, and that one is answered though nobody
// listens.
func TestAFunctionWithoutAWSAnswers(t *testing.T) {
	t.Parallel()
	log := &logged{}
	a, err := NewAPI(environment("", nil), log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	answer, err := a.Handle(ctx, readEvent(t, "catalog"))
	if err != nil || answer.StatusCode != 503 || answer.Headers["Retry-After"] == "" || !strings.HasPrefix(answer.Body, `{"description":`) {
		t.Errorf("%d %v %s, %v; want 503 in OSB's shape", answer.StatusCode, answer.Headers, answer.Body, err)
	}
	if !strings.Contains(log.String(), `"msg":"no configuration"`) {
		t.Errorf("the log: %s", log)
	}
}

// TestEachEnvironmentHasANameAndSaysItsVersion: an environment knows by its name which lease is its own, so that two of
// one name would take each other's. The version is logged once, at the start.
func TestEachEnvironmentHasANameAndSaysItsVersion(t *testing.T) {
	t.Parallel()
	log, names := &logged{}, map[string]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody is called
	lookup := environment("", map[string]string{"FERRY_VERSION": "1.2.3"})
	for range 2 {
		a, errA := NewAPI(lookup, log)
		p, errP := NewPoller(lookup, log)
		j, errJ := NewJanitor(lookup, log)
		if err := errors.Join(errA, errP, errJ); err != nil {
			t.Fatal(err)
		}
		for _, prepare := range []func(context.Context){a.prepare, p.prepare, j.prepare} {
			prepare(ctx)
		}
		for _, c := range []*core{a.core, p.core, j.core} {
			names[c.parts.Process] = true
		}
		if err := p.sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("the poller sleeps: %v", err)
		}
	}
	if len(names) != 6 || names[""] {
		t.Errorf("six environments have the names %v", names)
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
	if n != 6 {
		t.Errorf("%d lines tell the version, want one of each environment: %s", n, log)
	}
}

// slowTable is a table whose reads wait for the test, and tell what was asked.
type slowTable struct {
	*table
	asked chan string
	gate  chan struct{} // lets one go on
	open  chan struct{} // closed, lets all
}

func (s *slowTable) wait(ctx context.Context, what string) error {
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

func (s *slowTable) Ping(ctx context.Context) error { return s.wait(ctx, "ping") }

func (s *slowTable) Catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	if err := s.wait(ctx, client); err != nil {
		return broker.StoredCatalog{}, err
	}
	return s.MemoryStore.Catalog(ctx, client)
}

// waiting returns who waits now, and lets them go on.
func (s *slowTable) waiting() []string {
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

// TestInitReadsInParallel: the secret and the way to the table together, then the catalogs of all clients together; the
// first event waits for none of them.
func TestInitReadsInParallel(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.send(t, "catalog") // stores one
	h.configure(func(c *secrets.Copy) {
		other := c.Config.Clients[0]
		other.Name, other.Credentials = "other", nil
		c.Config.Clients = append(c.Config.Clients, other)
	}, nil)
	synctest.Test(t, func(t *testing.T) {
		s := &slowTable{table: h.table, asked: make(chan string, 9), gate: make(chan struct{}), open: make(chan struct{})}
		a := &API{core: &core{}}
		a.core.parts = setup.Parts{Store: s, Workflow: h.machine, Now: h.now, Process: "p", Logger: a.core.correlated(newLines(h.log))}
		a.core.configuration = func(ctx context.Context) (secrets.Copy, error) {
			if err := s.wait(ctx, "secret"); err != nil {
				return secrets.Copy{}, err
			}
			return h.configuration(ctx)
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
			h.pass(reloadEvery)
		}
	})
}

// TestInitSurvivesEverything: what cannot be read in init is read by the first event.
func TestInitSurvivesEverything(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.configure(nil, errDown)
	h.table.set(errDown, nil)
	h.api.prepare(t.Context())
	h.poller.prepare(t.Context())
	h.janitor.prepare(t.Context())
	h.configure(nil, nil)
	h.table.set(nil, nil)
	if answer := h.send(t, "catalog"); answer.StatusCode != 200 {
		t.Errorf("%d %s", answer.StatusCode, answer.Body)
	}
}

// TestANewConfigurationIsTakenOverWithoutARestart, and ends a pause: logins that were refused are held back for
// minutes, but not those with the credentials that somebody has put right.
func TestANewConfigurationIsTakenOverWithoutARestart(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if answer := h.send(t, "unauthorised"); answer.StatusCode != 401 {
		t.Fatalf("%d", answer.StatusCode)
	}
	before := h.api.serving
	h.send(t, "unauthorised")
	if h.api.serving != before {
		t.Error("the same version was assembled twice")
	}
	secret := h.copied.Config.Clients[0].CloudFoundry.ClientSecret
	for _, step := range []struct {
		version string
		change  func(c *secrets.Copy)
		event   string
		status  int
	}{
		{"wrong", func(c *secrets.Copy) { c.Config.Clients[0].CloudFoundry.ClientSecret = config.NewSecret("wrong") }, "catalog", 503},
		{"wrong", func(*secrets.Copy) {}, "catalog", 503}, // is not sent
		{"right", func(c *secrets.Copy) { c.Config.Clients[0].CloudFoundry.ClientSecret = secret }, "catalog", 200},
		{"password", func(c *secrets.Copy) { // the one that the event sends
			c.Config.Clients[0].Credentials = slices.Clone(c.Config.Clients[0].Credentials)
			c.Config.Clients[0].Credentials[0].Password = config.NewSecret("wrong")
		}, "unauthorised", 200},
		{"certificate", func(c *secrets.Copy) { c.Config.Clients[0].CloudFoundry.CA = []byte("none") }, "catalog", 503},
	} {
		h.configure(func(c *secrets.Copy) { c.Version = step.version; step.change(c) }, nil)
		if answer := h.send(t, step.event); answer.StatusCode != step.status {
			t.Errorf("%s: %d %s, want %d", step.version, answer.StatusCode, answer.Body, step.status)
		}
	}
	if n := matches(t, "ConfigurationFaultsMetric", h.log); n != 1 {
		t.Errorf("the alarm counts %d lines of a certificate that is none: %s", n, h.log)
	}
}
