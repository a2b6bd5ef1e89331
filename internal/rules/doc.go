// Package rules holds the rules for our code as tests, and nothing else: which package may import which (the table of
// ARCHITECTURE.md), which library is imported where (docs/dependencies.md), how long files and functions get, and what
// never stands in the source. A rule that only a page states is forgotten; these fail.
//
// Each rule is a function from what was read to findings, and each is tried on a small offender, so that a rule that
// has gone blind is noticed.
package rules
