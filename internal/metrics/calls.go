package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
