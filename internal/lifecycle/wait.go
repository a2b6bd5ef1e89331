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

// Wait returns how long to wait when the operation has run for elapsed: First twice,
// then 1.6 times as long each time up to Max, and five times Max after an hour, but never
// more than LongestWait. It depends on the time alone, so that a poll can name the same
// number as the driver without a write in between.
func (p Pace) Wait(elapsed time.Duration) time.Duration { return p.WaitSince(elapsed, elapsed) }

// Turn counts the waits that an operation which has run for elapsed has behind it, at
// this pace and with ticks that take no time.
func (p Pace) Turn(elapsed time.Duration) int { return p.TurnSince(elapsed, elapsed) }

// WaitSince is Wait of an operation whose pace began anew since ago. It grows from First
// as at the beginning; once the operation is an hour old it grows up to five times Max.
func (p Pace) WaitSince(since, elapsed time.Duration) time.Duration {
	if since >= slowAfter {
		return p.slow()
	}
	wait, _ := p.walk(since, elapsed)
	return wait
}

// TurnSince counts the waits since the pace began anew.
func (p Pace) TurnSince(since, elapsed time.Duration) int {
	_, turn := p.walk(since, elapsed)
	return turn
}

func (p Pace) slow() time.Duration { return min(slowFactor*p.Max, LongestWait) }

// walk goes through the waits since the pace began, up to the one that runs now.
func (p Pace) walk(since, elapsed time.Duration) (time.Duration, int) {
	most, slow := min(p.Max, LongestWait), p.slow()
	wait, passed, turn := min(max(p.First, time.Millisecond), most), time.Duration(0), 0
	if most <= 0 {
		return 0, 0
	}
	for passed < slowAfter {
		left := min(slowAfter-passed, max(0, slowAfter-(elapsed-since)-passed))
		now := min(wait, slow)
		if left > 0 {
			now = min(wait, most)
		}
		if now == most && left > 0 { // the same wait until the operation is an hour old
			if n := int((min(since, passed+left) - passed) / now); n > 0 {
				passed, turn = passed+time.Duration(n)*now, turn+n
				wait = slow
				continue
			}
		}
		if since < passed+now {
			return now, turn
		}
		passed += now
		if turn++; turn > 1 {
			wait = min(time.Duration(float64(wait)*growth), slow)
		}
	}
	return slow, turn + int((since-passed)/slow)
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
