package clienttest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/wire"
	osbc "sigs.k8s.io/go-open-service-broker-client/v2"
)

// patience is how long a condition may take to come true on a loaded machine.
const patience = 40 * time.Second

// platform is a service-catalog in one test.
type platform struct {
	osbc.Client
	t     *testing.T
	url   string
	plans map[string]plan
	last  *atomic.Int64
}

// plan is what a request says to mean a plan.
type plan struct{ service, plan string }

// start runs a broker with a simulated Cloud Foundry until the test has ended, and
// returns a client of the version, with the alpha features on.
func start(t *testing.T, version osbc.APIVersion) platform {
	t.Helper()
	url := serve(t, quick())
	p := platform{Client: client(t, url, version), t: t, url: url, last: new(atomic.Int64)}
	p.eventually("the broker is ready", func() bool { return ready(url) })
	p.plans = p.catalog()
	return p
}

func client(t *testing.T, url string, version osbc.APIVersion) osbc.Client {
	t.Helper()
	c := osbc.DefaultClientConfiguration()
	c.Name, c.URL, c.APIVersion, c.EnableAlphaFeatures = "ferry", url, version, true
	c.AuthConfig = &osbc.AuthConfig{BasicAuthConfig: &osbc.BasicAuthConfig{Username: "demo", Password: "demo"}}
	made, err := osbc.NewClient(c)
	if err != nil {
		t.Fatalf("the client library does not take the configuration: %v", err)
	}
	return made
}

// quick is a broker and a simulator in which nothing takes long.
func quick() wire.ServeOptions {
	c := config.Demo()
	c.Polling = config.Polling{First: 20 * time.Millisecond, Max: 100 * time.Millisecond}
	c.Operations.SettleAfter = 2 * time.Second
	c.Operations.RequestBudget = 10 * time.Second
	sim := wire.DefaultSimOptions()
	sim.Listen = "127.0.0.1:0"
	sim.JobDelay, sim.BrokerDelay, sim.PollInterval = 5*time.Millisecond, 150*time.Millisecond, 20*time.Millisecond
	return wire.ServeOptions{
		Config: c, Listen: "127.0.0.1:0", Simulate: true, Sim: sim,
		Version: "test", Commit: "none", Logger: slog.New(slog.DiscardHandler), LookupEnv: os.LookupEnv,
	}
}

func serve(t *testing.T, o wire.ServeOptions) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served, started := make(chan error, 1), make(chan string, 1)
	o.Data = t.TempDir()
	o.Started = func(broker, _ string) { started <- broker }
	go func() { served <- wire.Serve(ctx, o) }()
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
func (p platform) id() string { return fmt.Sprintf("id-%d", p.last.Add(1)) }

// eventually polls a condition, and ends the test when it does not come true.
func (p platform) eventually(what string, holds func() bool) {
	p.t.Helper()
	deadline, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			p.t.Fatalf("it did not come true in %s: %s", patience, what)
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
