package acceptance

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/catalog"
	"github.com/ferry-broker/ferry/internal/cf"
	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/loop"
)

// hours is a broker put together as the program does it, but under a virtual clock
// that jumps to the next timer whenever nothing is left to do. Its Cloud Foundry is the
// simulator over real HTTP on loopback, outside of that clock: what is on the wire
// makes the clock wait. Nothing takes its time there, so that a pause of the broker is
// long enough for all that was asked for before.
type hours struct {
	tenant
	// trouble answers in Cloud Foundry's place; nil: nobody does.
	trouble *atomic.Pointer[http.HandlerFunc]
	// ticks are the steps that the workflow made, limited the calls that a limiter refused.
	ticks, limited *atomic.Int64
	clock          *atomic.Int64
	// seen is told of each answer, one at a time.
	seen *atomic.Pointer[func(now time.Time, path string, status int)]
}

// refresh is how old the catalog may grow here; a test that counts calls does not
// last so long.
const refresh = 5 * time.Minute

// underClock runs check in a bubble of virtual time.
func underClock(t *testing.T, adjust func(*cfsim.Options), check func(hours)) {
	t.Helper()
	h := hours{trouble: new(atomic.Pointer[http.HandlerFunc]), ticks: new(atomic.Int64), limited: new(atomic.Int64), clock: new(atomic.Int64), seen: new(atomic.Pointer[func(time.Time, string, int)])}
	options := cfsim.Options{BrokerTimeout: time.Minute, Now: h.then}
	if adjust != nil {
		adjust(&options)
	}
	sim := cfsim.New(options)
	t.Cleanup(sim.Close)
	server := httptest.NewUnstartedServer(h.front(sim))
	// A connection that is kept would be waited for, and the clock would stand. This is
	// time of the wall: a busy machine must not cut a request off in the middle.
	server.Config.ReadHeaderTimeout = 20 * time.Second
	server.Start()
	t.Cleanup(server.Close)
	synctest.Test(t, func(t *testing.T) {
		stop := h.open(t, server.URL, sim.Handler())
		defer stop()
		check(h)
	})
}

// then is the virtual time for those who live outside of it.
func (h hours) then() time.Time { return time.Unix(0, h.clock.Load()).UTC() }

// now is the virtual time, and tells it to those outside.
func (h hours) now() time.Time {
	now := time.Now()
	h.clock.Store(now.UnixNano())
	return now
}

// front stands before Cloud Foundry.
func (h hours) front(sim *cfsim.Simulator) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.Header().Set("Date", h.then().Format(http.TimeFormat))
		if trouble := h.trouble.Load(); trouble != nil {
			(*trouble)(w, r)
			return
		}
		sim.Handler().ServeHTTP(statuses{w, r.URL.Path, h}, r)
	})
}

// statuses looks at answers.
type statuses struct {
	http.ResponseWriter
	path string
	h    hours
}

// WriteHeader counts those of a limiter, and tells.
func (s statuses) WriteHeader(status int) {
	if status == http.StatusTooManyRequests {
		s.h.limited.Add(1)
	}
	if seen := s.h.seen.Load(); seen != nil {
		(*seen)(s.h.then(), s.path, status)
	}
	s.ResponseWriter.WriteHeader(status)
}

// watch has seen told of all answers from now on.
func (h hours) watch(seen func(now time.Time, path string, status int)) {
	var mu sync.Mutex
	one := func(now time.Time, path string, status int) {
		mu.Lock()
		defer mu.Unlock()
		seen(now, path, status)
	}
	h.seen.Store(&one)
}

// open starts the broker; the function that it returns stops it.
func (h *hours) open(t *testing.T, cloud string, control http.Handler) func() {
	h.tenant = tenant{t: t, name: "demo", user: "demo", secret: "demo", org: "demo"}
	h.world = world{broker: "http://broker", sim: "http://sim", journal: &journal{pages: &pages{}}, last: new(atomic.Int64)}
	logger := slog.New(h.journal)
	store := brokertest.NewMemoryStore(h.now)
	backend, err := cf.New(cf.Config{Client: "demo", API: cloud, Org: "demo", ClientID: "ferry", ClientSecret: "ferry", Now: h.now, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	outages := broker.NewThrottle(time.Minute)
	shelf := catalog.New(catalog.Options{Store: store, Now: h.now, Logger: logger, Outages: outages,
		Sources: []catalog.Source{{Client: "demo", IDs: catalog.IDsBroker, Refresh: refresh, Fetch: backend.Marketplace}}})
	work := loop.New(loop.Options{Now: h.now, Logger: logger})
	b := broker.New(broker.Options{
		Store: store, Backends: map[string]broker.Backend{"demo": backend}, Catalog: shelf,
		Workflow: work, Now: h.now, Logger: logger, Outages: outages, Process: "process", OnlyProcess: true,
		Pace: lifecycle.Pace{First: 2 * time.Second, Max: time.Minute},
	})
	work.Use(counted{b, h.ticks})
	h.http = &http.Client{Transport: direct{"sim": control, "broker": api.New(api.Options{
		Broker: b, Catalog: shelf, Now: h.now, Logger: logger,
		Clients: []api.Client{{Name: "demo", Credentials: []api.Credential{{Username: "demo", Password: "demo"}}}},
	})}}
	background, cancel := context.WithCancel(t.Context())
	refreshed := make(chan struct{})
	go func() { defer close(refreshed); shelf.Run(background) }()
	h.plans = h.catalog()
	return func() {
		cancel()
		work.Close(context.Background())
		<-refreshed
	}
}

// counted counts the steps that the workflow makes.
type counted struct {
	*broker.Broker
	ticks *atomic.Int64
}

// Advance makes one step.
func (c counted) Advance(ctx context.Context, key broker.Key, operation string) (broker.Step, error) {
	c.ticks.Add(1)
	return c.Broker.Advance(ctx, key, operation)
}

// direct is a network of handlers, by host.
type direct map[string]http.Handler

// RoundTrip answers at once.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d[r.URL.Host].ServeHTTP(w, r)
	return w.Result(), nil
}

// ends polls as a platform does: when it was told to.
func (h hours) ends(path, operation string) answer {
	h.t.Helper()
	for deadline := h.now().Add(3 * time.Hour); h.now().Before(deadline); h.pass(10 * time.Second) {
		if a := h.poll(path, operation).want(h.t, http.StatusOK); a.state() != "in progress" {
			return a
		}
	}
	h.t.Fatalf("%s of %s does not end", operation, path)
	return answer{}
}

func (h hours) succeeds(path, operation string) {
	h.t.Helper()
	if a := h.ends(path, operation); a.state() != "succeeded" {
		h.t.Fatalf("%s of %s: %s, want succeeded", operation, path, a.body)
	}
}

// pass lets virtual time go by.
func (h hours) pass(d time.Duration) {
	<-time.After(d) // of the virtual clock
	h.now()
}

// prepared makes an instance of a plan.
func (h hours) prepared(plan string) string {
	h.t.Helper()
	id, op := h.starts(plan)
	h.succeeds(at(id), op)
	return id
}
