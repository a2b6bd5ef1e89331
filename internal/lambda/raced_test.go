//go:build race

package lambda

// raced divides what is too much for the race detector.
const raced = 10
