// Package metrics counts and times what Ferry does and serves the result to
// Prometheus.
//
// It knows no other room: its methods take words and durations, so that each room
// can declare the small observer interface that it needs and be handed a Metrics.
// Labels hold words of Ferry (verbs, states, outcomes), never ids of anybody, and
// a bound on the number of words keeps a mistake from filling the memory.
// docs/metrics.md lists every metric.
package metrics
