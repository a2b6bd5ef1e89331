package broker

import "github.com/ferry-broker/ferry/internal/lifecycle"

// SetNext puts next in the place of lifecycle.Next, before b is used.
func SetNext(b *Broker, next func(lifecycle.Record, lifecycle.Event) (lifecycle.Decision, error)) {
	b.next = next
}
