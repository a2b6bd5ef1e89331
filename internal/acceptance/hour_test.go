package acceptance

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
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
	"github.com/ferry-broker/ferry/internal/osbtest"
)

// hours is a broker put together as the program does it, but under a virtual clock that jumps to the next timer
// whenever nothing is left to do. Its Cloud Foundry is the simulator over real HTTP on loopback, outside of that clock:
// what is on the wire makes the clock wait. Nothing takes its time there, so that a pause of the broker is long enough
// for all that was asked for before.
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

// refresh is how old the catalog may grow here; a test that counts calls does not last so long.
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
	// A connection that is kept would be waited for, and the clock would stand. This is time of the wall: a busy
	// machine must not cut a request off in the middle.
	server.Config.ReadHeaderTimeout = 20 * time.Second
	server.Start()
	t.Cleanup(server.Close)
	synctest.Test(t, func(t *testing.T) {
		stop := h.open(t, server.URL, sim.Handler())
		defer stop()
		check(h)
	})
}

// then is the virtual time for those who live outside of it. Their clock is twenty years ahead of ours, which is the
// year 2000: nothing may compare the two.
func (h hours) then() time.Time { return time.Unix(0, h.clock.Load()).UTC().AddDate(20, 0, 0) }

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
	clock := osbtest.Clock{Now: h.now, Pause: func(time.Duration) { h.pass(10 * time.Second) }, Patience: 3 * time.Hour}
	h.tenant = tenant{t: t, journal: &journal{pages: &pages{}}, Tenant: osbtest.Tenant{
		Name:   "demo",
		Client: osbtest.Client{URL: "http://broker", Username: "demo", Password: "demo", NewID: osbtest.Numbered("id"), Clock: clock},
		Cloud:  osbtest.Cloud{URL: "http://sim", Org: "demo", Clock: clock},
	}.In(t)}
	logger := slog.New(h.journal)
	store := brokertest.NewMemoryStore(h.now)
	backend, err := cf.New(cf.Config{Client: "demo", API: cloud, Org: "demo", ClientID: "ferry", ClientSecret: "ferry", Now: h.now, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	outages := broker.NewThrottle(time.Minute)
	catalogs := catalog.New(catalog.Options{Store: store, Now: h.now, Logger: logger, Outages: outages,
		Sources: []catalog.Source{{Client: "demo", IDs: catalog.IDsBroker, Refresh: refresh, Fetch: backend.Marketplace}}})
	work := loop.New(loop.Options{Now: h.now, Logger: logger})
	b := broker.New(broker.Options{
		Store: store, Backends: map[string]broker.Backend{"demo": backend}, Catalog: catalogs,
		Workflow: work, Now: h.now, Logger: logger, Outages: outages, Process: "process", OnlyProcess: true,
		Pace: lifecycle.Pace{First: 2 * time.Second, Max: time.Minute},
	})
	work.Use(counted{b, h.ticks})
	network := &http.Client{Transport: direct{"sim": control, "broker": api.New(api.Options{
		Broker: b, Catalog: catalogs, Now: h.now, Logger: logger,
		Clients: []api.Client{{Name: "demo", Credentials: []api.Credential{{Username: "demo", Password: "demo"}}}},
	})}}
	h.Client.HTTP, h.Cloud.HTTP = network, network
	background, cancel := context.WithCancel(t.Context())
	refreshed := make(chan struct{})
	go func() { defer close(refreshed); catalogs.Run(background) }()
	h.Plans = h.Catalog()
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

// AdvanceAll makes one step of each.
func (c counted) AdvanceAll(ctx context.Context, operations []broker.Unfinished, ended func(int, broker.Step, error)) {
	c.ticks.Add(int64(len(operations)))
	c.Broker.AdvanceAll(ctx, operations, ended)
}

// direct is a network of handlers, by host.
type direct map[string]http.Handler

// RoundTrip answers at once.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d[r.URL.Host].ServeHTTP(w, r)
	return w.Result(), nil
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
	h.Succeeds(at(id), op)
	return id
}

// TestHour takes Cloud Foundry away for an hour: everything is answered, what is asked for is done afterwards, nothing
// fails, and the log stays readable (law 10).
func TestHour(t *testing.T) {
	t.Parallel()
	for name, trouble := range troubles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			underClock(t, nil, func(h hours) { h.outage(trouble) })
		})
	}
}

// troubles are ways in which a Cloud Foundry is not there.
func troubles() map[string]http.HandlerFunc {
	page := func(status int, router, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if router != "" {
				w.Header().Set("X-Cf-RouterError", router)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // whoever went does not miss it
		}
	}
	return map[string]http.HandlerFunc{
		"connections are cut":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a router knows no API":      page(404, "unknown_route", "404 Not Found: Requested route ('api.x') does not exist."),
		"a load balancer gives up":   page(504, "", "<html>504 Gateway Time-out</html>"),
		"it is down for maintenance": page(503, "", "API down for maintenance"),
	}
}

// errand is something that a platform wants, and asks for again and again.
type errand struct {
	path, operation string
	again           func() answer
}

func (h hours) outage(trouble http.HandlerFunc) {
	const plan = "postgres/small"
	updated, doomed, bound, other := h.prepared(plan), h.prepared(plan), h.prepared(plan), h.prepared(plan)
	h.Bind(bound, "old", plan, "").Want(201)
	underway, op := h.starts("postgres/async")
	h.trouble.Store(&trouble)
	began := h.now()
	errands := []errand{{at(underway), op, func() answer { return h.Provision(underway, "postgres/async", `{"a":1}`) }}}
	for _, again := range []struct {
		path string
		send func() answer
	}{
		{at("fresh"), func() answer { return h.Provision("fresh", plan, `{"a":1}`) }},
		{at(updated), func() answer { return h.Update(updated, plan, `"parameters":{"a":2}`) }},
		{at(doomed), func() answer { return h.Deprovision(doomed, plan) }},
		{bindingAt(bound, "new"), func() answer { return h.Bind(bound, "new", plan, "", osbtest.Async) }},
		{bindingAt(bound, "old"), func() answer { return h.Unbind(bound, "old", plan, osbtest.Async) }},
	} {
		errands = append(errands, errand{again.path, again.send().Want(202).Operation(), again.send})
	}
	for h.now().Sub(began) < time.Hour {
		h.pass(time.Minute)
		h.business(errands, other)
	}
	h.trouble.Store(nil)
	for _, e := range errands {
		h.Succeeds(e.path, e.operation)
	}
	h.settled(underway, updated, doomed, bound)
	h.quiet(began)
}

// business is what platforms do once a minute.
func (h hours) business(errands []errand, ready string) {
	h.t.Helper()
	h.Send("GET", "/v2/catalog", "").Want(200)
	h.Provision(ready, "postgres/small", `{"a":1}`).Bare(200)
	for _, e := range errands {
		if a := e.again().Want(202); a.Operation() != e.operation {
			h.t.Errorf("%s: the operation %s, want %s", a.Request, a.Operation(), e.operation)
		}
		if a := h.Poll(e.path, e.operation).Want(200); a.State() != "in progress" {
			h.t.Errorf("%s: %s, want in progress", a.Request, a.Body)
		}
	}
}

// settled checks what became of the errands.
func (h hours) settled(underway, updated, doomed, bound string) {
	h.t.Helper()
	for _, id := range []string{underway, "fresh", updated, bound} {
		h.Row(id)
		h.AskedFor(1, "provision", id, "")
	}
	h.HasParameters(updated, `{"a":2}`)
	h.AskedFor(1, "update", updated, "")
	h.NothingLeft(doomed)
	h.AskedFor(1, "deprovision", doomed, "")
	h.AskedFor(1, "unbind", bound, "old")
	h.AskedFor(1, "bind", bound, "new")
	h.Send("GET", bindingAt(bound, "new"), "").Want(200)
}

var stamp = regexp.MustCompile(`time=(\S+)`)

// quiet checks the log of an outage: no line above WARN, and at most one WARN a minute, all of one client here.
func (h hours) quiet(began time.Time) {
	h.t.Helper()
	h.journal.check(h.t, slog.LevelWarn)
	lines := h.journal.find(slog.LevelWarn)
	if len(lines) == 0 || len(lines) > 62 {
		h.t.Errorf("%d warnings in an hour, want some and at most one a minute:\n%s", len(lines), strings.Join(lines, ""))
	}
	last := time.Time{}
	for _, l := range lines {
		when, err := time.Parse(time.RFC3339, stamp.FindStringSubmatch(l)[1])
		if err != nil {
			h.t.Fatal(err)
		}
		if when.Sub(last) < time.Minute-time.Millisecond {
			h.t.Errorf("a warning %s after the one before: %s", when.Sub(last), l)
		}
		if last = when; when.Before(began.Truncate(time.Second)) {
			h.t.Errorf("a warning before the outage: %s", l)
		}
	}
}

// TestHourOfPolling has a job that is POLLING for hours: it goes on, and Cloud Foundry is asked at the pace that the
// configuration has (scenario 21).
func TestHourOfPolling(t *testing.T) {
	t.Parallel()
	underClock(t, nil, func(h hours) {
		id, op := h.starts("faults/create-stalls")
		h.pass(10 * time.Second)
		before, ticks := h.sent("GET "+instances), h.ticks.Load()
		for range 5 {
			h.pass(time.Hour)
			a := h.Poll(at(id), op).Want(200)
			if a.State() != "in progress" || a.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %s, Retry-After %q", a.Request, a.Body, a.Header.Get("Retry-After"))
			}
		}
		asked, steps := h.sent("GET "+instances)-before, int(h.ticks.Load()-ticks)
		if asked != steps || steps < 60 || steps > 5*60+20 {
			t.Errorf("%d look-ups in %d steps in five hours", asked, steps)
		}
		h.Force(h.Row(id).GUID, "create", "succeeded", "COMPLETE")
		h.Succeeds(at(id), op)
		h.AskedFor(1, "provision", id, "")
		h.sentTimes(1, "POST "+instances)
	})
}

// TestHourOfAStuckUpdate: a job that failed over a row in progress is believed once the row is written no more
// (scenario 28). A delete waits then, since Cloud Foundry refuses it until somebody repairs the row.
func TestHourOfAStuckUpdate(t *testing.T) {
	t.Parallel()
	const plan = "faults/update-stalls"
	underClock(t, nil, func(h hours) {
		id := h.prepared(plan)
		update := h.changes(id, plan)
		h.pass(10 * time.Second)
		guid := h.Row(id).GUID
		h.Control("PATCH", "/instances/"+guid, `{"job":"FAILED"}`)
		h.pass(30 * time.Second)
		h.Poll(at(id), update).Has("state", `"in progress"`) // the row may still be written
		h.Fails(at(id), update)
		h.Poll(at(id), update).Lacks("instance_usable")
		if len(h.journal.find(slog.LevelInfo, "operation ended", update, "failed")) == 0 {
			t.Error("the log does not tell that it failed")
		}
		op := h.removes(id, plan)
		h.Eventually("the DELETE was refused", func() bool { return h.sent("DELETE "+instance) > 1 })
		h.runs(at(id), op)
		h.AskedFor(0, "deprovision", id, "")
		h.Forced(guid, "update", "failed", "repaired", "")
		h.goneFor(id, op)
		h.AskedFor(1, "deprovision", id, "")
	})
}
