package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
