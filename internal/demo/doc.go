// Package demo walks a platform's life against a running broker and its simulated Cloud Foundry, prints every request
// with its answer, and checks each answer.
package demo
