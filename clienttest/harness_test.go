package clienttest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/server"
	osbc "sigs.k8s.io/go-open-service-broker-client/v2"
)

// platform is a service-catalog in one test.
type platform struct {
	osbc.Client
	t *testing.T
	broker
	plans map[string]plan
	// run is in every id: others use the same broker, when it is not the test's own.
	run  string
	last *atomic.Int64
}

// broker is what a test talks to.
type broker struct {
	url, username, password string
	// patience is how long a condition may take to come true on a loaded machine; pause is between two looks at it.
	patience, pause time.Duration
	// foreign: it was there before the test, and may have other plans.
	foreign bool
}

// plan is what a request says to mean a plan.
type plan struct{ service, plan string }

// start returns a client of the version, with the alpha features on. Its broker has a simulated Cloud Foundry and ends
// with the test, unless FERRY_CLIENT_URL, FERRY_CLIENT_USERNAME and FERRY_CLIENT_PASSWORD name one that runs already.
func start(t *testing.T, version osbc.APIVersion) platform {
	t.Helper()
	b, given := fromEnvironment()
	if !given {
		b = broker{url: serve(t, quick()), username: "demo", password: "demo", patience: 40 * time.Second, pause: 20 * time.Millisecond}
	}
	p := platform{Client: client(t, b, version), t: t, broker: b, run: rand.Text()[:8], last: new(atomic.Int64)}
	p.eventually("the broker is ready", func() bool { return ready(b.url) })
	p.plans = p.catalog()
	return p
}

// fromEnvironment is more patient: such a broker polls at the pace of its operator.
func fromEnvironment() (b broker, given bool) {
	url, given := os.LookupEnv("FERRY_CLIENT_URL")
	return broker{
		url: url, username: os.Getenv("FERRY_CLIENT_USERNAME"), password: os.Getenv("FERRY_CLIENT_PASSWORD"),
		patience: 3 * time.Minute, pause: 250 * time.Millisecond, foreign: true,
	}, given
}

func client(t *testing.T, b broker, version osbc.APIVersion) osbc.Client {
	t.Helper()
	c := osbc.DefaultClientConfiguration()
	c.Name, c.URL, c.APIVersion, c.EnableAlphaFeatures = "ferry", b.url, version, true
	c.AuthConfig = &osbc.AuthConfig{BasicAuthConfig: &osbc.BasicAuthConfig{Username: b.username, Password: b.password}}
	made, err := osbc.NewClient(c)
	if err != nil {
		t.Fatalf("the client library does not take the configuration: %v", err)
	}
	return made
}

// quick is a broker and a simulator in which nothing takes long.
func quick() server.ServeOptions {
	c := config.Demo()
	c.Polling = config.Polling{First: 20 * time.Millisecond, Max: 100 * time.Millisecond}
	c.Operations.SettleAfter = 2 * time.Second
	c.Operations.RequestBudget = 10 * time.Second
	sim := server.DefaultSimOptions()
	sim.Listen = "127.0.0.1:0"
	sim.JobDelay, sim.BrokerDelay, sim.PollInterval = 5*time.Millisecond, 150*time.Millisecond, 20*time.Millisecond
	return server.ServeOptions{
		Config: c, Listen: "127.0.0.1:0", Simulate: true, Sim: sim,
		Version: "test", Commit: "none", Logger: slog.New(slog.DiscardHandler), LookupEnv: os.LookupEnv,
	}
}

func serve(t *testing.T, o server.ServeOptions) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served, started := make(chan error, 1), make(chan string, 1)
	o.Data = t.TempDir()
	o.Started = func(broker, _ string) { started <- broker }
	go func() { served <- server.Serve(ctx, o) }()
	select {
	case err := <-served:
		cancel()
		t.Fatalf("the broker did not start: %v", err)
	case url = <-started:
	}
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("the broker did not stop in order: %v", err)
		}
	})
	return url
}

func ready(url string) bool {
	resp, err := http.Get(url + "/readyz")
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// parallel is the same platform in a subtest that runs beside the others.
func (p platform) parallel(t *testing.T) platform {
	t.Parallel()
	p.t = t
	return p
}

// id returns an id that nobody has used.
func (p platform) id() string { return fmt.Sprintf("%s-%d", p.run, p.last.Add(1)) }

// eventually polls a condition, and ends the test when it does not come true.
func (p platform) eventually(what string, holds func() bool) {
	p.t.Helper()
	deadline, tick := time.NewTimer(p.patience), time.NewTicker(p.pause)
	defer deadline.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			p.t.Fatalf("it did not come true in %s: %s", p.patience, what)
		}
	}
}

// must ends the test at an error of the client library.
func must[T any](t *testing.T, what string, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return value
}
