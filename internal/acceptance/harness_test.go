package acceptance

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/osbtest"
	"github.com/ferry-broker/ferry/internal/server"
)

// patience is how long a condition may take to come true on a loaded machine.
const patience = 30 * time.Second

// TestMain lets more tests run beside each other than there are processors: most of them wait for a simulated Cloud
// Foundry most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if given := flag.Lookup("test.parallel"); given.Value.String() == given.DefValue {
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

type (
	answer = osbtest.Answer
	fault  = osbtest.Fault
)

// Routes of Cloud Foundry's API.
const (
	instances = osbtest.Instances
	instance  = osbtest.OneInstance
	keys      = osbtest.Keys
	key       = osbtest.OneKey
)

func at(id string) string                 { return osbtest.InstancePath(id) }
func bindingAt(id, binding string) string { return osbtest.BindingPath(id, binding) }

// settings are what a test may want otherwise.
type settings struct {
	config config.Config
	sim    server.SimOptions
	// loudest is the highest log level that the test expects to see.
	loudest slog.Level
}

// tenant is a platform of a broker that runs in this process, with its org in a simulated Cloud Foundry, in one test.
type tenant struct {
	osbtest.Tenant
	t *testing.T
	// other is the second platform of the same broker, with an org of its own.
	other   osbtest.Tenant
	journal *journal
}

// start runs a broker until the test has ended, and returns its platform demo.
func start(t *testing.T, adjust ...func(*settings)) tenant {
	t.Helper()
	s := quick()
	for _, f := range adjust {
		f(&s)
	}
	c := tenant{t: t, journal: &journal{pages: &pages{}}}
	broker, sim := serve(t, s, c.journal)
	transport := &http.Transport{MaxIdleConnsPerHost: 80}
	t.Cleanup(transport.CloseIdleConnections)
	network := &http.Client{Timeout: patience, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	clock := osbtest.Clock{Now: time.Now, Pause: func(time.Duration) { <-time.After(10 * time.Millisecond) }, Patience: patience}
	c.Tenant = osbtest.Tenant{
		Name:   "demo",
		Client: osbtest.Client{URL: broker, Username: "demo", Password: "demo", HTTP: network, NewID: osbtest.Numbered("id"), Clock: clock},
		Cloud:  osbtest.Cloud{URL: sim, Org: "demo", HTTP: network, Clock: clock},
	}.In(t)
	c.Eventually("the broker is ready", func() bool { return c.Send("GET", "/readyz", "").Status == http.StatusOK })
	c.Plans = c.Catalog()
	c.other = c.Tenant
	c.other.Name, c.other.Username, c.other.Password, c.other.Org = "second", "second", "second's", "ferry-b"
	if len(s.config.Clients) > 1 {
		// It waits for the other client's first fetch, whatever comes of it: nothing of the start may run into what a
		// test does.
		c.other.Fetch("/v2/catalog")
	}
	return c
}

// quick is a configuration with two clients in which nothing takes long.
func quick() settings {
	c := config.Demo()
	c.Polling = config.Polling{First: 20 * time.Millisecond, Max: 100 * time.Millisecond}
	c.Operations.SettleAfter = 2 * time.Second
	second := c.Clients[0]
	second.Name = "second"
	second.Credentials = []config.Credential{{Username: "second", Password: config.NewSecret("second's")}}
	second.CloudFoundry.Org = "ferry-b"
	c.Clients = append(c.Clients, second)
	sim := server.DefaultSimOptions()
	sim.Listen = "127.0.0.1:0"
	sim.JobDelay, sim.BrokerDelay, sim.PollInterval = 5*time.Millisecond, 150*time.Millisecond, 20*time.Millisecond
	return settings{config: c, sim: sim, loudest: slog.LevelInfo}
}

// budget sets how long one request may be held.
func budget(d time.Duration) func(*settings) {
	return func(s *settings) { s.config.Operations.RequestBudget = d }
}

// settle is how long calls of unknown fate may take effect.
func settle(d time.Duration) func(*settings) {
	return func(s *settings) { s.config.Operations.SettleAfter = d }
}

// warnings lets a test expect them.
func warnings(s *settings) { s.loudest = slog.LevelWarn }

// restless fetches the marketplace again and again.
func restless(s *settings) { s.config.Clients[0].CatalogRefresh = 50 * time.Millisecond }

func korifi(s *settings) { s.sim.Korifi = true }

// isKorifi tells which of the two a scenario runs against.
func (c tenant) isKorifi() bool {
	c.t.Helper()
	return c.Operator("GET", "/v3/service_instances?organization_guids=x", "").Status == http.StatusBadRequest
}

// serve runs the broker and its simulator, and returns where they listen.
func serve(t *testing.T, s settings, log *journal) (broker, sim string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served, started := make(chan error, 1), make(chan [2]string, 1)
	go func() {
		served <- server.Serve(ctx, server.ServeOptions{
			Config: s.config, Listen: "127.0.0.1:0", Data: t.TempDir(), Simulate: true, Sim: s.sim,
			Version: "test", Commit: "none", Logger: slog.New(log), LookupEnv: os.LookupEnv,
			Started: func(broker, sim string) { started <- [2]string{broker, sim} },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("the broker did not stop in order: %v", err)
		}
		log.check(t, s.loudest)
	})
	select {
	case err := <-served:
		served <- nil
		t.Fatalf("the broker did not start: %v", err)
	case at := <-started:
		broker, sim = at[0], at[1]
	}
	return broker, sim
}

// in is the same platform in a subtest.
func (c tenant) in(t *testing.T) tenant {
	c.t, c.Tenant, c.other = t, c.Tenant.In(t), c.other.In(t)
	return c
}

// parallel is in, for a subtest that runs beside the others.
func (c tenant) parallel(t *testing.T) tenant {
	t.Parallel()
	return c.in(t)
}

// struck waits until all faults that were limited in times have hit.
func (c tenant) struck() {
	c.t.Helper()
	c.Eventually("the faults strike", func() bool { return c.Control("GET", "/faults", "").Body == "[]" })
}

func (c tenant) heal() { c.t.Helper(); c.Control("DELETE", "/faults", "") }

// journal keeps every log line of a broker, and of its simulator, from INFO on.
type journal struct {
	*pages
	attrs []slog.Attr
}

// pages are shared by all loggers that were derived from one.
type pages struct {
	mu    sync.Mutex
	lines []line
}

type line struct {
	level slog.Level
	text  string
}

// Enabled leaves out the simulator's line for each request.
func (j *journal) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle keeps the line.
func (j *journal) Handle(ctx context.Context, r slog.Record) error {
	var text strings.Builder
	r.AddAttrs(j.attrs...)
	h := slog.NewTextHandler(&text, nil)
	if err := h.Handle(ctx, r); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line{r.Level, text.String()})
	return nil
}

// WithAttrs keeps the attributes for every line to come.
func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journal{pages: j.pages, attrs: slices.Concat(j.attrs, attrs)}
}

// WithGroup drops the group.
func (j *journal) WithGroup(string) slog.Handler { return j }

// find returns the lines of a level that hold all the parts.
func (j *journal) find(level slog.Level, parts ...string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for _, l := range j.lines {
		if l.level == level && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(l.text, part) }) {
			found = append(found, l.text)
		}
	}
	return found
}

// check holds for every test: nothing louder than expected, nothing secret.
func (j *journal) check(t *testing.T, loudest slog.Level) {
	t.Helper()
	for _, complaint := range j.complaints(loudest) {
		t.Error(complaint)
	}
}

func (j *journal) complaints(loudest slog.Level) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for _, l := range j.lines {
		if l.level > loudest {
			found = append(found, "logged above "+loudest.String()+": "+l.text)
		}
		for _, word := range []string{osbtest.Secret, "postgres://", osbtest.Big, "second's"} {
			if strings.Contains(l.text, word) {
				found = append(found, "the log tells "+word+": "+l.text)
			}
		}
	}
	return found
}

// TestLogsAreRead shows that a loud line and a secret are found, and that attributes of derived loggers are read too.
func TestLogsAreRead(t *testing.T) {
	t.Parallel()
	j := &journal{pages: &pages{}}
	logger := slog.New(j)
	logger.Info("healthy")
	if found := j.complaints(slog.LevelInfo); len(found) != 0 {
		t.Errorf("complaints about a healthy log: %v", found)
	}
	logger.Warn("loud")
	logger.With("parameters", osbtest.Secret).Info("telling")
	if found := j.complaints(slog.LevelInfo); len(found) != 2 {
		t.Errorf("complaints %v, want two", found)
	}
	if found := j.complaints(slog.LevelWarn); len(found) != 1 {
		t.Errorf("complaints %v, want one", found)
	}
}

// TestTracesAreSeen shows that Print, by which a refusal is found to have left no trace, changes with everything that
// it should see.
func TestTracesAreSeen(t *testing.T) {
	t.Parallel()
	c := start(t)
	const plan = "postgres/small"
	id, binding := c.NewID(), c.NewID()
	prints := []string{c.Print(id, binding)}
	note := func(what string) {
		t.Helper()
		if p := c.Print(id, binding); slices.Contains(prints, p) {
			t.Errorf("%s is not seen:\n%s", what, p)
		} else {
			prints = append(prints, p)
		}
	}
	c.Succeeds(at(id), c.Provision(id, plan, "").Want(http.StatusAccepted).Operation())
	note("a create")
	c.Updated(id, plan, `"parameters":{"a":1}`)
	note("an update")
	c.Bind(id, binding, plan, "").Want(http.StatusCreated)
	note("a bind")
	c.Unbind(id, binding, plan).Want(http.StatusOK)
	note("an unbind")
	c.Deleted(id, plan)
	note("a delete")
}
