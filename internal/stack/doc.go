// Package stack holds the tests of what AWS is told: template.yaml, samconfig.toml, the state machine, and that the
// binaries are of the kind that the template says.
package stack
