package broker

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// bounded is the wait that a driver may make of a number that came from outside: an hour
// at most, and never past the operation's deadline, at which its end is due.
func (b *Broker) bounded(rec Record, wait time.Duration) time.Duration {
	wait = min(wait, lifecycle.LongestWait)
	if left := rec.Lifecycle.Operation.Deadline.Sub(b.Now()); left > 0 {
		wait = min(wait, left)
	}
	return wait
}

// stayAway is the wait after trouble: that of the pace, or as long as Cloud Foundry asked
// for, spread over time. In an operation's first hour the spread does not make it longer
// than the longest wait of the pace: most outages are short.
func (b *Broker) stayAway(rec Record, wait, asked time.Duration) time.Duration {
	if b.elapsed(rec) < time.Hour {
		wait = min(wait, max(b.Pace.First, b.Pace.Max/2))
	}
	// What asks for the longest wait is spread, too, so it may begin a little early.
	wait = min(max(wait, asked), lifecycle.LongestWait*5/6)
	return b.bounded(rec, b.spread(wait, rec))
}

// spread lengthens a wait after trouble by up to its own length, by a part that
// differs between operations and from one time to the next. Operations that were
// refused together would otherwise all come back in the same instant, for ever.
func (b *Broker) spread(wait time.Duration, rec Record) time.Duration {
	most := min(wait, lifecycle.LongestWait-wait)
	if most <= 0 {
		return wait
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(rec.Lifecycle.Operation.ID))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(b.Now().UnixNano())))
	return wait + time.Duration(h.Sum64()%uint64(most))
}
