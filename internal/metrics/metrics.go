package metrics

import (
	"net/http"
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
