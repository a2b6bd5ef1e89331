package metrics

import "github.com/prometheus/client_golang/prometheus"

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
