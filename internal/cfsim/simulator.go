// Package cfsim is a Cloud Foundry to develop and test against: the Cloud Controller's v3 API over real HTTP, as far as
// services and the cf command line client need it, a UAA on the same listener, and a backing service broker inside,
// with one plan for each thing that can happen to an operation.
//
// It does what a real Cloud Controller does wherever a client can notice it: rows can be seen as soon as a request is
// answered with 202, a worker takes a job up later, an asynchronous backing broker is polled, a DELETE changes nothing
// that can be seen until the backing broker was asked, names are unique in each space, and the error texts are the real
// ones. With Options.Korifi it answers as Korifi does instead.
//
// Everything lives in memory and ends with the process. Tests steer it through /__sim: what happened so far, faults on
// the wire, what the backing broker answers, quotas and permissions, a changing marketplace, instances of somebody
// else, held workers, the clean-ups of the clock, states that a Cloud Controller only reaches by accident.
// docs/simulator.md lists the calls, and how to stage each known race. docs/cf-contract.md is the contract that the
// simulator keeps to.
//
// # Routes
//
// Requests are counted, and faults are matched, by method and route pattern. A GUID in a path is written :guid, as in
// "/v3/service_instances/:guid" or "/v3/service_credential_bindings/:guid/details". The token endpoint is
// "/uaa/oauth/token"; a fault may also name it "/oauth/token".
//
// # Reading the code
//
// routes.go names the function behind each route. Such a function, a handler, reads the request (request.go, query.go),
// reads and changes the rows (database.go) while it has the lock, and returns an answer (answer.go). What a job does
// later stands in the same file as the handler that queues it, and jobs.go says when it runs. The functions under
// /__sim (control.go) work in the same way.
package cfsim

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Options says how fast the simulated Cloud Foundry works and where it takes time and randomness from. The zero value
// works without noticeable delay.
type Options struct {
	// JobDelay is how long a worker takes to pick a job up.
	JobDelay time.Duration
	// BrokerDelay is how long an asynchronous operation of the backing broker takes.
	BrokerDelay time.Duration
	// PollInterval is how often the Cloud Controller polls such an operation.
	PollInterval time.Duration
	// BrokerTimeout is how long the Cloud Controller waits for an answer of the backing broker.
	BrokerTimeout time.Duration
	// RecursiveDelete takes the Cloud Controller's newer way to delete an instance: its keys get deletes of their own
	// that are waited for, and a second DELETE gets the job of the first.
	RecursiveDelete bool
	// RateLimit is how many requests a login (or, without one, an address) may send in a RateWindow; 0 means any
	// number. A zero RateWindow is a second.
	RateLimit  int
	RateWindow time.Duration
	// RetryAfterUnix sends the Unix time of a window's end as Retry-After, as older Cloud Controllers do, in place of
	// the seconds until then.
	RetryAfterUnix bool
	// NamesIgnoreCase makes the names of instances and keys that differ in case only the same, as on a database that
	// ignores case. Those of organizations, spaces, offerings and plans always are.
	NamesIgnoreCase bool
	// Korifi answers as Korifi does wherever that differs, see docs/simulator.md.
	Korifi bool
	// KorifiDeleteTimeout is when Korifi's job of a delete gives up; 0 means two minutes, as there.
	KorifiDeleteTimeout time.Duration
	// Now gives timestamps and the age of tokens; nil means time.Now. Workers use real timers whatever it says. It must
	// be safe for concurrent use.
	Now func() time.Time
	// Random seeds GUIDs, tokens and passwords; nil means crypto/rand. It is read by New only.
	Random io.Reader
	// Logger gets one debug line a request; nil means none. Bodies, tokens and queries are never logged.
	Logger *slog.Logger
}

// DefaultOptions returns the figures of a hurried Cloud Foundry, meant for people at a keyboard and for tests.
func DefaultOptions() Options {
	return Options{
		JobDelay:      50 * time.Millisecond,
		BrokerDelay:   500 * time.Millisecond,
		PollInterval:  100 * time.Millisecond,
		BrokerTimeout: time.Minute,
	}
}

// Faithful returns a copy of o with the delays of a Cloud Controller as it is installed by default: jobs are picked up
// every 5 s, backing brokers polled every 60 s and waited for up to 60 s. BrokerDelay, which is the broker's own, is
// kept.
func (o Options) Faithful() Options {
	o.JobDelay = 5 * time.Second
	o.PollInterval = time.Minute
	o.BrokerTimeout = time.Minute
	return o
}

// Simulator is a Cloud Foundry in memory. All its methods may be called concurrently.
type Simulator struct {
	*controller
	log     *slog.Logger
	routes  []route
	control *http.ServeMux
	faults  faults
	counts  requestCounts
	closed  chan struct{} // by Close
}

// New returns a Cloud Foundry with the organizations ferry, ferry-b and demo, the marketplace, and nothing else in it.
// It starts nothing; workers run when there are jobs, until Close.
func New(o Options) *Simulator {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	// Without a pause a stalled operation would keep a processor busy.
	o.PollInterval = max(o.PollInterval, time.Millisecond)
	if o.KorifiDeleteTimeout <= 0 {
		o.KorifiDeleteTimeout = 2 * time.Minute
	}
	s := &Simulator{
		controller: newController(o),
		log:        o.Logger,
		routes:     routesOf(o),
		counts:     requestCounts{lines: map[string]int{}},
		closed:     make(chan struct{}),
	}
	s.control = controlMux(s)
	return s
}

// Handler serves the Cloud Foundry and, under /__sim, its control. Links in answers are built from the scheme and the
// Host header of each request. A fault that drops a connection panics with http.ErrAbortHandler, which http.Server
// understands.
func (s *Simulator) Handler() http.Handler {
	return http.HandlerFunc(s.serve)
}

// Close stops all workers and delayed faults; when it returns, no worker changes anything any more. Requests are still
// answered, but jobs stay where they are. Calling it again does nothing.
func (s *Simulator) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers.closed {
		return
	}
	s.workers.close()
	close(s.closed)
}

// maxBody is the longest body that the front end of a Cloud Controller lets through.
const maxBody = 15 << 20

// maxAddress is the longest path with its query that it lets through.
const maxAddress = 8 << 10

// serve answers every request: it is counted, disturbed by a fault where there is one, handled, and answered.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == controlPrefix || strings.HasPrefix(r.URL.Path, controlPrefix+"/") {
		s.control.ServeHTTP(w, r)
		return
	}
	// The body is read before anything else: a request that a fault delays must have it even when its caller has gone.
	body, readErr := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	found, guids := find(s.routes, r)
	s.counts.add(r.Method + " " + found.pattern)
	c := newCall(s.controller, r, body, guids)
	a := s.faults.disturb(c, found.pattern, s.closed, func() *answer { return s.handle(found, c, readErr) })
	a.header.Set("X-Vcap-Request-Id", s.requestID(r))
	a.write(w)
	s.log.Debug("request", "method", r.Method, "route", found.pattern, "status", a.status)
}

// handle passes a request through the front end, the token check and the rate limiter, which counts whoever sent it.
func (s *Simulator) handle(found route, c *call, readErr error) *answer {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](readErr); tooLarge {
		return frontPages()["nginx-413"].answer(c.request)
	}
	if len(c.request.URL.RequestURI()) > maxAddress {
		return frontPages()["nginx-414"].answer(c.request)
	}
	unauthenticated := c.authenticate(found.access)
	limits, a := c.limit(found.pattern)
	if a == nil {
		a = s.dispatch(found, c, readErr, unauthenticated)
	}
	maps.Copy(a.header, limits)
	return a
}

// dispatch calls the handler of a request with the lock held, unless there is something wrong with the request before.
// What takes time, a wait and the encoding, comes after the lock.
func (s *Simulator) dispatch(found route, c *call, readErr, unauthenticated error) *answer {
	switch {
	case readErr != nil:
		return errorAnswer(unparseable())
	case found.handle == nil:
		return errorAnswer(unknownRequest())
	case unauthenticated != nil:
		return errorAnswer(unauthenticated)
	}
	a, err := locked(&s.mu, func() (*answer, error) { return found.handle(c) })
	if err != nil {
		return errorAnswer(err)
	}
	pause(a.wait, s.closed)
	return a.encoded()
}

// locked calls a function with a lock that is released even when the function panics.
func locked[R any](mu *sync.Mutex, do func() (R, error)) (R, error) {
	mu.Lock()
	defer mu.Unlock()
	return do()
}

// pause waits. When the simulator is closed meanwhile, the request ends there.
func pause(d time.Duration, closed <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closed:
		panic(http.ErrAbortHandler)
	}
}

var traceID = regexp.MustCompile(`^[\w-]{1,255}$`)

// requestID continues the caller's own request id, as the Cloud Controller does.
func (s *Simulator) requestID(r *http.Request) string {
	own := s.random.guid()
	for _, name := range []string{"X-Vcap-Request-Id", "X-Request-Id"} {
		if sent := r.Header.Get(name); traceID.MatchString(sent) {
			return sent + "::" + own
		}
	}
	return own
}

// requestCounts are how many requests there were, by "METHOD route".
type requestCounts struct {
	mu    sync.Mutex
	lines map[string]int
}

func (n *requestCounts) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines[line]++
}

// all returns a copy.
func (n *requestCounts) all() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.lines)
}

func (n *requestCounts) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.lines)
}
