package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
