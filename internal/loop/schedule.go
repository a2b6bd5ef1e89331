package loop

import (
	"container/heap"
	"time"
)

const (
	// largestCrowd is how many operations a crowd has at most, so that one list of Cloud Foundry can serve it.
	largestCrowd = 200
	// crowdGap is how long after a crowd, or after the first tick that ends when as many as may be are under way, the
	// next crowd of the client begins at the earliest. What is started, or ends, in quick succession makes one crowd
	// then, instead of many of one.
	crowdGap = 10 * time.Millisecond
	// shortestRounded is the shortest wait that is rounded up. It becomes longer by a twelfth of it at most.
	shortestRounded = 10 * time.Second
	roundingParts   = 12
	// minuteStep is for a wait of a minute; others have the double, the half, and so on.
	minuteStep = time.Minute / roundingParts
)

// roundedUp returns when the wait ends that begins now. A long one ends at a multiple of its step, in Unix time, so
// that operations come due together, however many they are. All multiples of a longer step are multiples of the
// shorter ones: those that wait unequally long meet as well.
func roundedUp(now time.Time, wait time.Duration) time.Time {
	at := now.Add(wait)
	if wait < shortestRounded {
		return at
	}
	step := minuteStep
	for step > wait/roundingParts {
		step /= 2
	}
	for 2*step <= wait/roundingParts {
		step *= 2
	}
	if over := at.UnixNano() % int64(step); over > 0 {
		at = at.Add(step - time.Duration(over))
	}
	return at
}

// client is what is driven of one client.
type client struct {
	waiting schedule
	// underWay counts its ticks; the next of them begin at notBefore at the earliest.
	underWay  int
	notBefore time.Time
}

// next returns when the next crowd may begin with at most so many ticks under way, or false when that depends on those
// that are under way already.
func (c *client) next(most int) (time.Time, bool) {
	if len(c.waiting) == 0 || c.underWay >= most {
		return time.Time{}, false
	}
	at := c.waiting[0].at
	if at.Before(c.notBefore) {
		at = c.notBefore
	}
	return at, true
}

// ended notes that a tick has ended, of which at most so many may be under way.
func (c *client) ended(now time.Time, most int) {
	if c.underWay == most {
		c.notBefore = now.Add(crowdGap)
	}
	c.underWay--
}

// due takes what is due out of the schedule, the oldest first, until so many ticks are under way.
func (c *client) due(now time.Time, most int) (crowds [][]*entry) {
	if now.Before(c.notBefore) {
		return nil
	}
	var crowd []*entry
	for c.underWay < most && len(c.waiting) > 0 && !c.waiting[0].at.After(now) {
		if len(crowd) == largestCrowd {
			crowds, crowd = append(crowds, crowd), nil
		}
		e := c.waiting[0]
		c.waiting.remove(e)
		crowd = append(crowd, e)
		c.underWay++
	}
	if len(crowd) > 0 {
		crowds, c.notBefore = append(crowds, crowd), now.Add(crowdGap)
	}
	return crowds
}

// entry is one operation that is driven.
type entry struct {
	job job
	// at is when its next tick is due; of those that are due at the same time the lower turn comes first.
	at   time.Time
	turn int
	// index is its place in the schedule, or ticking.
	index int
	// again: a start came during the tick.
	again bool
}

// ticking is the index of an operation that is not in the schedule.
const ticking = -1

// schedule is a heap of operations that wait, the earliest first.
type schedule []*entry

func (s *schedule) add(e *entry)    { heap.Push(s, e) }
func (s *schedule) remove(e *entry) { heap.Remove(s, e.index) }

// Len implements heap.Interface.
func (s *schedule) Len() int { return len(*s) }

// Less implements heap.Interface.
func (s *schedule) Less(i, j int) bool {
	a, b := (*s)[i], (*s)[j]
	return a.at.Before(b.at) || a.at.Equal(b.at) && a.turn < b.turn
}

// Swap implements heap.Interface.
func (s *schedule) Swap(i, j int) {
	h := *s
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(x any) {
	e, _ := x.(*entry) // add has no others
	e.index = len(*s)
	*s = append(*s, e)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	e := (*s)[last]
	e.index = ticking
	(*s)[last] = nil
	*s = (*s)[:last]
	return e
}
