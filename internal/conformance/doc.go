// Package conformance holds the requirements of OSB 2.17 against the tests of this project: every duty of a broker is
// shown by a test that names its id, or has a reason why it does not apply. It writes docs/osb-conformance.md and
// exports nothing.
package conformance
