// Package acceptance holds black-box tests of a process: each starts the whole broker with a simulated Cloud Foundry
// behind it and talks to both over HTTP alone, the way a platform and an operator do. It exports nothing.
//
// TestConformance plays the clauses of OSB that every target shares (internal/osbtest). The rest needs what only a
// process has: a Cloud Foundry whose answers get lost, come late or are wrong, a marketplace that changes, a log, a
// clock that runs at will, recorded traffic of real platforms, public bug reports.
package acceptance
