// Package server puts a process together from its configuration. It is the one place
// that knows all the others; it decides nothing else.
package server
