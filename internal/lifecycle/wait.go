package lifecycle

import "time"

// Pace is how often an operation is looked at.
type Pace struct {
	// First is the first wait, taken twice; Max the longest in the first hour.
	First, Max time.Duration
}

const (
	growth      = 1.6
	slowAfter   = time.Hour
	slowFactor  = 5
	longestHint = 300
)

// Wait returns how long to wait when the operation has run for elapsed: First
// twice, then 1.6 times as long each time up to Max, and five times Max after an
// hour. It depends on the time alone, so that a poll can name the same number as
// the driver without a write in between.
func (p Pace) Wait(elapsed time.Duration) time.Duration {
	if elapsed >= slowAfter {
		return slowFactor * p.Max
	}
	wait := min(max(p.First, time.Millisecond), p.Max)
	for n, passed := 0, time.Duration(0); wait < p.Max; n++ {
		passed += wait
		if elapsed < passed {
			return wait
		}
		if n > 0 {
			wait = min(time.Duration(float64(wait)*growth), p.Max)
		}
	}
	return wait
}

// Turn counts the waits that an operation which has run for elapsed has behind it, at
// this pace and with ticks that take no time.
func (p Pace) Turn(elapsed time.Duration) int {
	n, passed := 0, time.Duration(0)
	for wait := p.Wait(0); wait < p.Max; wait = p.Wait(passed) {
		if passed += wait; elapsed < passed {
			return n
		}
		n++
	}
	early := min(elapsed, slowAfter)
	return n + int(max(0, early-passed)/p.Max) + int((elapsed-early)/(slowFactor*p.Max))
}

// Seconds rounds a wait to what Retry-After can say: a whole number from 1 to 300.
func Seconds(wait time.Duration) int {
	s := int((wait + time.Second/2) / time.Second)
	return max(1, min(s, longestHint))
}
