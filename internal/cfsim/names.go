package cfsim

import (
	"slices"
	"strings"
)

// collation is how a column of the database compares names: two names are the
// same when their collations are.
type collation func(string) string

func exactly(name string) string { return name }

// withoutCase is the collation of organizations, spaces, offerings and plans in
// every Cloud Controller, and of instances and keys in some.
func withoutCase(name string) string { return strings.ToLower(name) }

// collations are those of a simulated Cloud Foundry.
type collations struct {
	places collation // organizations, spaces, offerings and plans
	rows   collation // instances and keys
}

func collationsOf(o Options) collations {
	c := collations{places: withoutCase, rows: exactly}
	if o.Korifi {
		c.places = exactly // its names are labels of Kubernetes
	}
	if o.NamesIgnoreCase {
		c.rows = withoutCase
	}
	return c
}

// same tells whether two names are one.
func (c collation) same(a, b string) bool { return c(a) == c(b) }

// passes tells whether a name is among those wanted; a filter that is not set
// lets everything through.
func (c collation) passes(wanted []string, name string) bool {
	return wanted == nil || slices.ContainsFunc(wanted, func(other string) bool { return c.same(other, name) })
}
