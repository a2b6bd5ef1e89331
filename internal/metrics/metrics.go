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

// Metrics is one set of metrics with a registry of its own, so that two of them in
// one process do not meet. All methods may be called by any number of goroutines.
type Metrics struct {
	registry *prometheus.Registry
	requests *requests
	operate  *operations
	calls    *calls
	janitor  *janitor
	build    *prometheus.GaugeVec
}

// New returns metrics that count from zero, with those of the Go runtime and of
// the process beside them.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: newRequests(),
		operate:  newOperations(),
		calls:    newCalls(),
		janitor:  newJanitor(),
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ferry_build_info",
			Help: "Always 1; the labels say what is running.",
		}, []string{"version", "commit", "go_version"}),
	}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.build)
	m.registry.MustRegister(m.requests.collectors()...)
	m.registry.MustRegister(m.operate.collectors()...)
	m.registry.MustRegister(m.calls.collectors()...)
	m.registry.MustRegister(m.janitor.collectors()...)
	return m
}

// Handler answers a scrape in the format that the scraper asks for. It does not
// check credentials.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Build says what is running. Only the last call counts.
func (m *Metrics) Build(version, commit, goVersion string) {
	m.build.Reset()
	m.build.WithLabelValues(clean(version), clean(commit), clean(goVersion)).Set(1)
}

// shortBuckets are in seconds: from an answer out of the store to a call that
// Cloud Foundry held for the minute that it may take.
func shortBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// longBuckets are in seconds: from a backing broker that answers at once to a day.
func longBuckets() []float64 {
	const minute, hour = 60, 3600
	return []float64{
		.1, .5, 1, 5, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 30 * minute,
		hour, 3 * hour, 6 * hour, 12 * hour, 24 * hour,
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// inSeconds never is negative: a clock that was set back must not spoil a sum.
func inSeconds(d time.Duration) float64 { return max(d, 0).Seconds() }

// requests are the metrics of the HTTP border.
type requests struct {
	verb, outcome *words
	total         *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	duplicates    *prometheus.CounterVec
}

func newRequests() *requests {
	return &requests{
		verb: newWords(), outcome: newWords(),
		total: counter("ferry_http_requests_total",
			"HTTP requests answered, by verb, status and outcome.", "verb", "status", "outcome"),
		seconds: histogram("ferry_http_request_duration_seconds",
			"Time from an HTTP request to the end of its answer.", shortBuckets(), "verb", "outcome"),
		duplicates: counter("ferry_duplicates_absorbed_total",
			"Requests that repeated an earlier one and changed nothing.", "verb"),
	}
}

func (r *requests) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.total, r.seconds, r.duplicates}
}

// Request counts one answered HTTP request: the verb of Ferry (not of HTTP), the
// status sent, what it meant, and how long it took.
func (m *Metrics) Request(verb string, status int, outcome string, took time.Duration) {
	r := m.requests
	verb, outcome = r.verb.of(verb), r.outcome.of(outcome)
	r.total.WithLabelValues(verb, statusWord(status), outcome).Inc()
	r.seconds.WithLabelValues(verb, outcome).Observe(inSeconds(took))
}

// Duplicate counts one request that repeated an earlier one and was answered as
// that was.
func (m *Metrics) Duplicate(verb string) {
	m.requests.duplicates.WithLabelValues(m.requests.verb.of(verb)).Inc()
}

// statusWord keeps what is no HTTP status from making up label values.
func statusWord(status int) string {
	if status < 100 || status > 599 {
		return other
	}
	return strconv.Itoa(status)
}

// operations are the metrics of what runs in the background.
type operations struct {
	kind, verb, state *words
	running           *prometheus.GaugeVec
	ended             *prometheus.CounterVec
	seconds           *prometheus.HistogramVec

	mu    sync.Mutex
	count map[[2]string]int
}

func newOperations() *operations {
	return &operations{
		kind: newWords(), verb: newWords(), state: newWords(),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ferry_operations_running",
			Help: "Operations that this process started and has not seen end.",
		}, []string{"kind", "verb"}),
		ended: counter("ferry_operations_ended_total",
			"Operations that ended, by the state they ended in.", "kind", "verb", "state"),
		seconds: histogram("ferry_operation_duration_seconds",
			"Time from the acceptance of an operation to its end.", longBuckets(), "kind", "verb", "state"),
		count: map[[2]string]int{},
	}
}

func (o *operations) collectors() []prometheus.Collector {
	return []prometheus.Collector{o.running, o.ended, o.seconds}
}

// OperationStarted counts an operation as running: kind is instance or binding,
// verb what is done to it.
func (m *Metrics) OperationStarted(kind, verb string) {
	m.operate.add(m.operate.kind.of(kind), m.operate.verb.of(verb), 1)
}

// OperationEnded counts the end of an operation, its state and how long it took
// since it was accepted. One that this process never saw start, as after a
// restart, may end too.
func (m *Metrics) OperationEnded(kind, verb, state string, took time.Duration) {
	o := m.operate
	kind, verb, state = o.kind.of(kind), o.verb.of(verb), o.state.of(state)
	o.add(kind, verb, -1)
	o.ended.WithLabelValues(kind, verb, state).Inc()
	o.seconds.WithLabelValues(kind, verb, state).Observe(inSeconds(took))
}

// add changes the number of running operations, which ends at zero because an
// operation may end here that was started elsewhere.
func (o *operations) add(kind, verb string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := [2]string{kind, verb}
	o.count[key] = max(o.count[key]+n, 0)
	o.running.WithLabelValues(kind, verb).Set(float64(o.count[key]))
}

// calls are the metrics of what Ferry asks of Cloud Foundry.
type calls struct {
	call, result *words
	total        *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
}

func newCalls() *calls {
	return &calls{
		call: newWords(), result: newWords(),
		total: counter("ferry_cloud_foundry_calls_total",
			"Calls to Cloud Foundry, by call and result.", "call", "result"),
		seconds: histogram("ferry_cloud_foundry_call_duration_seconds",
			"Time that a call to Cloud Foundry took.", shortBuckets(), "call", "result"),
	}
}

func (c *calls) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.total, c.seconds}
}

// Call counts one call to Cloud Foundry: its name without ids, what came of it,
// and how long it took.
func (m *Metrics) Call(call, result string, took time.Duration) {
	call, result = m.calls.call.of(call), m.calls.result.of(result)
	m.calls.total.WithLabelValues(call, result).Inc()
	m.calls.seconds.WithLabelValues(call, result).Observe(inSeconds(took))
}

// janitor are the metrics of what is done without being asked for.
type janitor struct {
	result          *words
	audits, overdue *prometheus.CounterVec
}

func newJanitor() *janitor {
	return &janitor{
		result:  newWords(),
		audits:  counter("ferry_audits_total", "Audits of a client's Cloud Foundry, by result.", "result"),
		overdue: counter("ferry_overdue_operations_total", "Overdue operations that a round of the janitor met, by result.", "result"),
	}
}

func (j *janitor) collectors() []prometheus.Collector {
	return []prometheus.Collector{j.audits, j.overdue}
}

// Audit counts the audit of one client.
func (m *Metrics) Audit(result string) {
	m.janitor.audits.WithLabelValues(m.janitor.result.of(result)).Inc()
}

// Overdue counts so many overdue operations.
func (m *Metrics) Overdue(result string, n int) {
	m.janitor.overdue.WithLabelValues(m.janitor.result.of(result)).Add(float64(max(n, 0)))
}

const (
	// maxWords is how many values one label may have. Ferry's own words are far
	// fewer; whatever comes later counts as other.
	maxWords = 64
	other    = "other"
)

// words bounds the values of one label.
type words struct {
	mu    sync.RWMutex
	known map[string]bool
}

func newWords() *words { return &words{known: map[string]bool{}} }

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
	w.known[word] = true
	return word
}

// clean makes a value that Prometheus takes: its library panics at what is not UTF-8.
func clean(word string) string { return strings.ToValidUTF8(word, "?") }
