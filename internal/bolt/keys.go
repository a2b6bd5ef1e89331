package bolt

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// The buckets of ferry.db. An item's id is the itemID of its key.
var (
	itemsBucket    = []byte("items")    // id → item
	dueBucket      = []byte("due")      // stamp of Due, id → operation
	expiryBucket   = []byte("expiry")   // stamp of ExpiresAt, id → nothing
	slotsBucket    = []byte("slots")    // slot number → id
	catalogsBucket = []byte("catalogs") // client → catalog
	metaBucket     = []byte("meta")     // what the whole file is about
)

func allBuckets() [][]byte {
	return [][]byte{itemsBucket, dueBucket, expiryBucket, slotsBucket, catalogsBucket, metaBucket}
}

var errBadID = errors.New("malformed item id")

// itemID puts the length of client and instance id before each, so that any bytes
// may occur in them, no id is the prefix of another instance's, and the items of an
// instance lie side by side: the instance itself first, then its bindings.
func itemID(k broker.Key) []byte {
	n := len(k.Client) + len(k.InstanceID) + len(k.BindingID)
	b := make([]byte, 0, n+2*binary.MaxVarintLen32)
	b = appendCounted(b, k.Client)
	b = appendCounted(b, k.InstanceID)
	return append(b, k.BindingID...)
}

func appendCounted[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// cutCounted is the reverse of appendCounted; the part shares b's memory.
func cutCounted(b []byte) (part, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	end := width + int(n)
	return b[width:end], b[end:], true
}

func parseItemID(id []byte) (broker.Key, error) {
	client, rest, ok := cutCounted(id)
	if !ok {
		return broker.Key{}, errBadID
	}
	instance, binding, ok := cutCounted(rest)
	if !ok {
		return broker.Key{}, errBadID
	}
	return broker.Key{Client: string(client), InstanceID: string(instance), BindingID: string(binding)}, nil
}

// stampSize is the length of a stamp: seconds and nanoseconds.
const stampSize = 12

// appendStamp writes a time so that the order of the bytes is the order of time,
// for every time.Time (UnixNano ends in 2262). The zone is lost.
func appendStamp(b []byte, t time.Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())^1<<63)
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

// readStamp reads the stamp that b begins with.
func readStamp(b []byte) time.Time {
	seconds := binary.BigEndian.Uint64(b) ^ 1<<63
	return time.Unix(int64(seconds), int64(binary.BigEndian.Uint32(b[8:]))).UTC()
}

func stamped(t time.Time, id []byte) []byte {
	return append(appendStamp(make([]byte, 0, stampSize+len(id)), t), id...)
}

func slotKey(slot uint32) []byte { return binary.BigEndian.AppendUint32(nil, slot) }
