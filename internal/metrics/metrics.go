// Package metrics counts and times what Ferry does and serves the result to Prometheus.
//
// It knows no other package of Ferry: its methods take words and durations, so that each package can declare the small
// observer interface that it needs and be handed a Metrics. Labels hold words of Ferry (verbs, states, outcomes), never
// ids of anybody, and a bound on the number of words keeps a mistake from filling the memory. docs/metrics.md lists
// every metric.
package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is one set of metrics with a registry of its own, so that two of them in one process do not meet. All methods
// may be called by any number of goroutines.
type Metrics struct {
	registry *prometheus.Registry
	build    *prometheus.GaugeVec

	requestVerb, outcome words
	requests, duplicates *prometheus.CounterVec
	requestTime          *prometheus.HistogramVec
	series               series

	kind, verb, state words
	running           *prometheus.GaugeVec
	ended             *prometheus.CounterVec
	operationTime     *prometheus.HistogramVec
	mu                sync.Mutex
	runs              map[[2]string]int // operations that run, by kind and verb

	call, callResult words
	calls            *prometheus.CounterVec
	callTime         *prometheus.HistogramVec

	result          words
	audits, overdue *prometheus.CounterVec
}

// New returns metrics that count from zero, with those of the Go runtime and of the process beside them.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), runs: map[[2]string]int{}}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.build = m.gauge("ferry_build_info", "Always 1; the labels say what is running.", "version", "commit", "go_version")

	m.requests = m.counter("ferry_http_requests_total",
		"HTTP requests answered, by verb, status and outcome.", "verb", "status", "outcome")
	m.requestTime = m.histogram("ferry_http_request_duration_seconds",
		"Time from an HTTP request to the end of its answer.", shortBuckets, "verb", "outcome")
	m.duplicates = m.counter("ferry_duplicates_absorbed_total",
		"Requests that repeated an earlier one and changed nothing.", "verb")

	m.running = m.gauge("ferry_operations_running",
		"Operations that this process started and has not seen end.", "kind", "verb")
	m.ended = m.counter("ferry_operations_ended_total",
		"Operations that ended, by the state they ended in.", "kind", "verb", "state")
	m.operationTime = m.histogram("ferry_operation_duration_seconds",
		"Time from the acceptance of an operation to its end.", longBuckets, "kind", "verb", "state")

	m.calls = m.counter("ferry_cloud_foundry_calls_total",
		"Calls to Cloud Foundry, by call and result.", "call", "result")
	m.callTime = m.histogram("ferry_cloud_foundry_call_duration_seconds",
		"Time that a call to Cloud Foundry took.", shortBuckets, "call", "result")

	m.audits = m.counter("ferry_audits_total", "Audits of a client's Cloud Foundry, by result.", "result")
	m.overdue = m.counter("ferry_overdue_operations_total",
		"Overdue operations that a round of the janitor met, by result.", "result")
	return m
}

// Handler answers a scrape in the format that the scraper asks for. It does not check credentials.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Build says what is running. Only the last call counts.
func (m *Metrics) Build(version, commit, goVersion string) {
	m.build.Reset()
	m.build.WithLabelValues(clean(version), clean(commit), clean(goVersion)).Set(1)
}

// Request counts one answered HTTP request: the verb of Ferry (not of HTTP), the status sent, what it meant, and how
// long it took.
func (m *Metrics) Request(verb string, status int, outcome string, took time.Duration) {
	one := m.series.of(requestLabels{verb, status, outcome}, func() requestSeries {
		verb, outcome := m.requestVerb.of(verb), m.outcome.of(outcome)
		return requestSeries{m.requests.WithLabelValues(verb, statusWord(status), outcome), m.requestTime.WithLabelValues(verb, outcome)}
	})
	one.count.Inc()
	one.time.Observe(inSeconds(took))
}

// requestLabels are what a request is counted by, as it is told.
type requestLabels struct {
	verb    string
	status  int
	outcome string
}

// requestSeries are the two series that a request counts in.
type requestSeries struct {
	count prometheus.Counter
	time  prometheus.Observer
}

// maxSeries is how many series are kept at hand. Those that Ferry's words can make are fewer.
const maxSeries = 1024

// series keeps at hand what the library would look up by its labels. The zero value has nothing yet.
type series struct {
	mu    sync.RWMutex
	known map[requestLabels]requestSeries
}

// of returns the series of these labels, which find looks up the first time.
func (s *series) of(labels requestLabels, find func() requestSeries) requestSeries {
	s.mu.RLock()
	found, ok := s.known[labels]
	s.mu.RUnlock()
	if ok {
		return found
	}
	found = find()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[requestLabels]requestSeries{}
	}
	if len(s.known) < maxSeries {
		s.known[labels] = found
	}
	return found
}

// statusWord keeps what is no HTTP status from making up label values.
func statusWord(status int) string {
	if status < 100 || status > 599 {
		return other
	}
	return strconv.Itoa(status)
}

// Duplicate counts one request that repeated an earlier one and was answered as that was.
func (m *Metrics) Duplicate(verb string) {
	m.duplicates.WithLabelValues(m.requestVerb.of(verb)).Inc()
}

// OperationStarted counts an operation as running: kind is instance or binding, verb what is done to it.
func (m *Metrics) OperationStarted(kind, verb string) {
	m.run(m.kind.of(kind), m.verb.of(verb), 1)
}

// OperationEnded counts the end of an operation, its state and how long it took since it was accepted. One that this
// process never saw start, as after a restart, may end too.
func (m *Metrics) OperationEnded(kind, verb, state string, took time.Duration) {
	kind, verb, state = m.kind.of(kind), m.verb.of(verb), m.state.of(state)
	m.run(kind, verb, -1)
	m.ended.WithLabelValues(kind, verb, state).Inc()
	m.operationTime.WithLabelValues(kind, verb, state).Observe(inSeconds(took))
}

// run changes the number of running operations, which never falls below zero: an operation may end here that was
// started elsewhere.
func (m *Metrics) run(kind, verb string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{kind, verb}
	m.runs[key] = max(m.runs[key]+n, 0)
	m.running.WithLabelValues(kind, verb).Set(float64(m.runs[key]))
}

// Call counts one call to Cloud Foundry: its name without ids, what came of it, and how long it took.
func (m *Metrics) Call(call, result string, took time.Duration) {
	call, result = m.call.of(call), m.callResult.of(result)
	m.calls.WithLabelValues(call, result).Inc()
	m.callTime.WithLabelValues(call, result).Observe(inSeconds(took))
}

// Audit counts the audit of one client.
func (m *Metrics) Audit(result string) {
	m.audits.WithLabelValues(m.result.of(result)).Inc()
}

// Overdue counts so many overdue operations.
func (m *Metrics) Overdue(result string, n int) {
	m.overdue.WithLabelValues(m.result.of(result)).Add(float64(max(n, 0)))
}

// The buckets of histograms, in seconds.
var (
	// shortBuckets reach from an answer out of the store to a call that Cloud Foundry held for the minute that it may
	// take.
	shortBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	// longBuckets reach from a backing broker that answers at once to a day.
	longBuckets = []float64{
		.1, .5, 1, 5, 15, 30, 60, 2 * 60, 5 * 60, 10 * 60, 30 * 60, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600,
	}
)

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}

// inSeconds never is negative: a clock that was set back must not spoil a sum.
func inSeconds(d time.Duration) float64 { return max(d, 0).Seconds() }

const (
	// maxWords is how many values one label may have. Ferry's own words are far fewer; whatever comes later counts as
	// other.
	maxWords = 64
	other    = "other"
)

// words bounds the values of one label. The zero value has none yet.
type words struct {
	mu    sync.RWMutex
	known map[string]bool
}

// of returns the value to use for word.
func (w *words) of(word string) string {
	w.mu.RLock()
	known := w.known[word]
	w.mu.RUnlock()
	if known {
		return word
	}
	return w.admit(clean(word))
}

func (w *words) admit(word string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known[word] && len(w.known) >= maxWords {
		return other
	}
	if w.known == nil {
		w.known = map[string]bool{}
	}
	w.known[word] = true
	return word
}

// clean makes a value that Prometheus takes: its library panics at what is not UTF-8.
func clean(word string) string { return strings.ToValidUTF8(word, "?") }
