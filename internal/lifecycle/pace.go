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
	// LongestWait is how long a driver stays away at most, whoever asks for more.
	LongestWait = time.Hour
)

// Wait returns how long to wait when an operation has run for elapsed: First twice, then
// 1.6 times as long each time up to Max, and five times Max after an hour, but never more
// than LongestWait. It depends on the time alone, so that a poll can name the same number
// as the driver without a write in between.
func (p Pace) Wait(elapsed time.Duration) time.Duration { return p.waitSince(elapsed, elapsed) }

// WaitOf returns how long the driver of the record's operation waits now. Where the pace
// began anew it grows from First as at the beginning, up to what is the longest at the
// age of the operation.
func (p Pace) WaitOf(r Record, now time.Time) time.Duration {
	return p.waitSince(max(0, now.Sub(r.paceBegan())), max(0, now.Sub(r.Operation.Started)))
}

// waitSince walks through the waits of a pace that began since ago, up to the one that
// runs now. The operation has run for elapsed.
func (p Pace) waitSince(since, elapsed time.Duration) time.Duration {
	longest, slow := min(p.Max, LongestWait), min(slowFactor*p.Max, LongestWait)
	wait, passed := min(max(p.First, time.Millisecond), longest), time.Duration(0)
	if since >= slowAfter || longest <= 0 {
		return max(0, slow)
	}
	for n := 1; ; n++ {
		young := slowAfter - (elapsed - since) - passed // for so long no wait is longer than Max
		step := min(wait, slow)
		if young > 0 {
			step = min(wait, longest)
		}
		switch {
		case young <= 0 && step == slow:
			return slow
		case young >= longest && step == longest: // all the waits of this length at once
			if step = young / longest * longest; since < passed+step {
				return longest
			}
			wait = slow
		case since < passed+step:
			return step
		}
		passed += step
		if n > 1 {
			wait = min(time.Duration(float64(wait)*growth), slow)
		}
	}
}

// pause is how long the n-th refusal in a row of one call keeps it from being sent
// again: not at all at first, so that a passing trouble costs no time, then First, and
// twice as long each time up to most.
func (p Pace) pause(n int, most time.Duration) time.Duration {
	if n < 2 {
		return 0
	}
	d := min(max(p.First, time.Millisecond), most)
	for ; n > 2 && d < most; n-- {
		d = min(2*d, most)
	}
	return d
}

// Seconds rounds a wait to what Retry-After can say: a whole number from 1 to 300.
func Seconds(wait time.Duration) int {
	s := int((wait + time.Second/2) / time.Second)
	return max(1, min(s, longestHint))
}
