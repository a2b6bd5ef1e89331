// Package acceptance holds black-box tests: each starts the whole broker with a
// simulated Cloud Foundry behind it and talks to both over HTTP alone, the way a
// platform and an operator do. It exports nothing.
//
// Tests are named after what the broker promises: the bug that it exists to end, the
// lifecycle table, the decisions in docs/osb-choices.md, recorded traffic of real
// platforms. Ids such as CON-07 are those of the OSB requirements.
package acceptance
