//go:build race

package bolt

const raceDetector = true
