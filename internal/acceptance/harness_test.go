package acceptance

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/server"
)

// patience is how long a condition may take to come true on a loaded machine.
const patience = 20 * time.Second

// settings are what a test may want otherwise.
type settings struct {
	config config.Config
	sim    server.SimOptions
	// loudest is the highest log level that the test expects to see.
	loudest slog.Level
}

// world is a broker and its simulated Cloud Foundry, running.
type world struct {
	broker, sim string
	http        *http.Client
	journal     *journal
	plans       map[string]plan
	last        *atomic.Int64
}

// plan is what a request says to mean a plan.
type plan struct{ service, plan string }

// tenant is a platform: one client of the configuration, in one test.
type tenant struct {
	world
	t                       *testing.T
	name, user, secret, org string
}

// start runs a broker until the test has ended. It returns the platform demo; other
// is the second one of the same broker.
func start(t *testing.T, adjust ...func(*settings)) tenant {
	t.Helper()
	s := quick()
	for _, f := range adjust {
		f(&s)
	}
	w := serve(t, s)
	c := tenant{world: w, t: t, name: "demo", user: "demo", secret: "demo", org: "demo"}
	c.eventually("the broker is ready", func() bool { return c.get(w.broker+"/readyz").status == http.StatusOK })
	c.plans = c.catalog()
	if len(s.config.Clients) > 1 {
		// It waits for the other client's first fetch, whatever comes of it: nothing of
		// the start may run into what a test does.
		c.other().send("GET", "/v2/catalog", "")
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

// warnings lets a test expect them.
func warnings(s *settings) { s.loudest = slog.LevelWarn }

// slow makes asynchronous backing brokers take their time.
func slow(d time.Duration) func(*settings) {
	return func(s *settings) { s.sim.BrokerDelay = d }
}

func serve(t *testing.T, s settings) world {
	t.Helper()
	w := world{http: &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 80},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, journal: &journal{pages: &pages{}}, last: new(atomic.Int64)}
	ctx, cancel := context.WithCancel(context.Background())
	served, started := make(chan error, 1), make(chan world, 1)
	go func() {
		served <- server.Serve(ctx, server.ServeOptions{
			Config: s.config, Listen: "127.0.0.1:0", Data: t.TempDir(), Simulate: true, Sim: s.sim,
			Version: "test", Commit: "none", Logger: slog.New(w.journal), LookupEnv: os.LookupEnv,
			Started: func(broker, sim string) { started <- world{broker: broker, sim: sim} },
		})
	}()
	select {
	case err := <-served:
		cancel()
		t.Fatalf("the broker did not start: %v", err)
	case at := <-started:
		w.broker, w.sim = at.broker, at.sim
	}
	t.Cleanup(func() {
		w.http.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("the broker did not stop in order: %v", err)
		}
		w.journal.check(t, s.loudest)
	})
	return w
}

// other is the second client of the same broker, with an org of its own.
func (c tenant) other() tenant {
	c.name, c.user, c.secret, c.org = "second", "second", "second's", "ferry-b"
	return c
}

// in is the same platform in a subtest.
func (c tenant) in(t *testing.T) tenant {
	c.t = t
	return c
}

// parallel is in, for a subtest that runs beside the others.
func (c tenant) parallel(t *testing.T) tenant {
	t.Parallel()
	return c.in(t)
}

// id returns an id that nobody has used.
func (c tenant) id() string { return fmt.Sprintf("id-%d", c.last.Add(1)) }

// eventually polls a condition, and ends the test when it does not come true.
func (c tenant) eventually(what string, holds func() bool) {
	c.t.Helper()
	deadline, tick := time.NewTimer(patience), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			c.t.Fatalf("it did not come true in %s: %s", patience, what)
		}
	}
}

// catalog maps offering/plan to ids.
func (c tenant) catalog() map[string]plan {
	c.t.Helper()
	a := c.send("GET", "/v2/catalog", "")
	var body struct {
		Services []struct {
			ID, Name string
			Plans    []struct{ ID, Name string }
		}
	}
	a.want(c.t, 200).decode(c.t, &body)
	plans := map[string]plan{}
	for _, s := range body.Services {
		for _, p := range s.Plans {
			plans[s.Name+"/"+p.Name] = plan{s.ID, p.ID}
		}
	}
	return plans
}

// plan returns the ids of offering/plan.
func (c tenant) plan(name string) plan {
	c.t.Helper()
	p, ok := c.plans[name]
	if !ok {
		c.t.Fatalf("the catalog has no plan %s", name)
	}
	return p
}

func at(id string) string { return "/v2/service_instances/" + url.PathEscape(id) }

func bindingAt(id, binding string) string {
	return at(id) + "/service_bindings/" + url.PathEscape(binding)
}

// mode is what accepts_incomplete says.
type mode bool

const (
	async mode = true
	plain mode = false
)

func (m mode) String() string {
	if m {
		return "with accepts_incomplete"
	}
	return "without accepts_incomplete"
}

func (m mode) query(rest ...string) string {
	if m {
		rest = append([]string{"accepts_incomplete=true"}, rest...)
	}
	if len(rest) == 0 {
		return ""
	}
	return "?" + strings.Join(rest, "&")
}
