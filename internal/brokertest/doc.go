// Package brokertest holds the contracts of package broker's ports as tests that every adapter runs: what a Store
// promises, what a Backend promises. An adapter's own tests then need to cover only what is special about it.
//
// It is imported by tests only.
package brokertest
