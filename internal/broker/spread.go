package broker

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// spread lengthens a wait after trouble by up to its own length, by a part that
// differs between operations and from one time to the next. Operations that were
// refused together would otherwise all come back in the same instant, for ever.
func (b *Broker) spread(wait time.Duration, rec Record) time.Duration {
	if wait <= 0 {
		return wait
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(rec.Lifecycle.Operation.ID))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(b.Now().UnixNano())))
	return wait + time.Duration(h.Sum64()%uint64(wait))
}
