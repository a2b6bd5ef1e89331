package cfsim

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Options says how fast the simulated Cloud Foundry works and where it takes
// time and randomness from. The zero value works without
// noticeable delay.
type Options struct {
	// JobDelay is how long a worker takes to pick a job up.
	JobDelay time.Duration
	// BrokerDelay is how long an asynchronous operation of the backing broker takes.
	BrokerDelay time.Duration
	// PollInterval is how often the Cloud Controller polls such an operation.
	PollInterval time.Duration
	// BrokerTimeout is how long the Cloud Controller waits for an answer of the
	// backing broker.
	BrokerTimeout time.Duration
	// RecursiveDelete takes the Cloud Controller's newer way to delete an
	// instance: its keys get deletes of their own that are waited for, and a
	// second DELETE gets the job of the first.
	RecursiveDelete bool
	// RateLimit is how many requests a login (or, without one, an address) may
	// send in a RateWindow; 0 means any number. A zero RateWindow is a second.
	RateLimit  int
	RateWindow time.Duration
	// RetryAfterUnix sends the Unix time of a window's end as Retry-After, as
	// older Cloud Controllers do, in place of the seconds until then.
	RetryAfterUnix bool
	// NamesIgnoreCase makes the names of instances and keys that differ in case
	// only the same, as on a database that ignores case. Those of
	// organizations, spaces, offerings and plans always are.
	NamesIgnoreCase bool
	// Korifi answers as Korifi does wherever that differs, see docs/simulator.md.
	Korifi bool
	// KorifiDeleteTimeout is when Korifi's job of a delete gives up; 0 means
	// two minutes, as there.
	KorifiDeleteTimeout time.Duration
	// Now gives timestamps and the age of tokens; nil means time.Now. Workers
	// use real timers whatever it says. It must be safe for concurrent use.
	Now func() time.Time
	// Random seeds GUIDs, tokens and passwords; nil means crypto/rand. It is
	// read by New only.
	Random io.Reader
	// Logger gets one debug line a request; nil means none. Bodies, tokens and
	// queries are never logged.
	Logger *slog.Logger
}

// DefaultOptions returns the figures of a hurried Cloud Foundry, meant for
// people at a keyboard and for tests.
func DefaultOptions() Options {
	return Options{
		JobDelay:      50 * time.Millisecond,
		BrokerDelay:   500 * time.Millisecond,
		PollInterval:  100 * time.Millisecond,
		BrokerTimeout: time.Minute,
	}
}

// Faithful returns a copy of o with the delays of a Cloud Controller as it is
// installed by default: jobs are picked up every 5 s, backing brokers polled
// every 60 s and waited for up to 60 s. BrokerDelay, which is the broker's own,
// is kept.
func (o Options) Faithful() Options {
	o.JobDelay = 5 * time.Second
	o.PollInterval = time.Minute
	o.BrokerTimeout = time.Minute
	return o
}

// Simulator is a Cloud Foundry in memory. All its methods may be called
// concurrently.
type Simulator struct {
	options Options
	log     *slog.Logger
	random  *randomness
	tokens  *tokenIssuer
	routes  []route
	control *http.ServeMux
	done    chan struct{} // closed by Close

	mu      sync.Mutex // guards all below
	closed  bool
	timers  map[*time.Timer]struct{}
	waiting []queuedJob // for a worker, oldest first
	held    bool        // workers are
	overdue int         // workers that came while they were held
	world   *world
	backing *backingBroker
	faults  faultList
	counts  map[string]int // requests by "METHOD route"
	limiter *rateLimiter

	conditions conditions
}

// New returns a Cloud Foundry with the organizations ferry, ferry-b and demo,
// the marketplace, and nothing else in it. It starts nothing; workers run when
// there are jobs, until Close.
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
	random := newRandomness(o.Random)
	s := &Simulator{
		options: o,
		log:     o.Logger,
		random:  random,
		tokens:  newTokenIssuer(o.Now, random),
		done:    make(chan struct{}),
		timers:  map[*time.Timer]struct{}{},
		counts:  map[string]int{},
		world:   newWorld(o.Now(), collationsOf(o)),
		limiter: newRateLimiter(o.RateLimit, o.RateWindow, o.RetryAfterUnix),

		conditions: noConditions(),
	}
	s.backing = newBackingBroker(o.BrokerDelay, random)
	s.routes = s.routeTable()
	s.control = s.controlMux()
	return s
}

// Handler serves the Cloud Foundry and, under /__sim, its control. Links in
// answers are built from the scheme and the Host header of each request. A
// fault that drops a connection panics with http.ErrAbortHandler, which
// http.Server understands.
func (s *Simulator) Handler() http.Handler {
	return http.HandlerFunc(s.serve)
}

// Close stops all workers and delayed faults; when it returns, no worker
// changes anything any more. Requests are still answered, but jobs stay where
// they are. Calling it again does nothing.
func (s *Simulator) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.cancelTimers()
	close(s.done)
}

// maxBody is what the front end of a Cloud Controller lets through.
const maxBody = 15 << 20

// call is one request on its way through a handler.
type call struct {
	request *http.Request
	query   url.Values
	body    []byte
	guid    string // the :guid of the route
	second  string // another one behind it
	base    string // scheme and host that links begin with
	caller  string // subject of the token, "" without one
	korifi  bool   // answers are to be Korifi's
	names   collations
}

// serve is the way of every request: count, fault, handle, write.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == controlPrefix || strings.HasPrefix(r.URL.Path, controlPrefix+"/") {
		s.control.ServeHTTP(w, r)
		return
	}
	// The body is read before anything else: a call that is delayed must have
	// it even when its caller has gone.
	body, readErr := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	found, values := s.find(r)
	s.count(r.Method + " " + found.pattern)
	values = append(values, "", "")
	c := &call{request: r, query: r.URL.Query(), body: body, guid: values[0], second: values[1], base: baseURL(r), korifi: s.options.Korifi, names: s.world.names}
	handle := func() *answer { return s.handle(found, c, readErr) }
	answer := s.throughFaults(c, found.pattern, handle)
	answer.header.Set("X-Vcap-Request-Id", s.requestID(r))
	answer.write(w)
	s.log.Debug("request", "method", r.Method, "route", found.pattern, "status", answer.status)
}

func (s *Simulator) count(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[line]++
}

// handle passes a request through the front end, the token check and the rate
// limiter, which counts whoever sent it.
func (s *Simulator) handle(found route, c *call, readErr error) *answer {
	var tooLarge *http.MaxBytesError
	if errors.As(readErr, &tooLarge) {
		return frontPages()["nginx-413"].answer(c.request)
	}
	unknown := s.authenticate(found.access, c)
	limits, result := s.limited(found, c)
	if result == nil {
		result = s.dispatch(found, c, readErr, unknown)
	}
	for name, values := range limits {
		result.header[name] = values
	}
	return result
}

func (s *Simulator) dispatch(found route, c *call, readErr, unknown error) *answer {
	switch {
	case readErr != nil:
		return errorAnswer(unparseable())
	case found.handle == nil:
		return errorAnswer(unknownRequest())
	case unknown != nil:
		return errorAnswer(unknown)
	}
	result, err := found.handle(c)
	if err != nil {
		return errorAnswer(err)
	}
	return result
}

func (s *Simulator) authenticate(a access, c *call) error {
	if a == open {
		return nil
	}
	header := c.request.Header.Get("Authorization")
	if header == "" {
		if a == optional {
			return nil
		}
		return notAuthenticated()
	}
	scheme, token, _ := strings.Cut(header, " ")
	subject, err := s.tokens.subject(strings.TrimSpace(token), accessToken)
	if err != nil || !strings.EqualFold(scheme, "bearer") {
		return invalidToken()
	}
	c.caller = subject
	return nil
}

func baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
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
