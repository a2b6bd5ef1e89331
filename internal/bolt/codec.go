package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// format1 is the first byte of an item of the only format so far. A later format
// gets another number; items of format 1 stay readable for ever (testdata).
const format1 = 1

// headerSize is the length of the fixed part of format 1: format, revision,
// expiry, due, slot.
const headerSize = 1 + 8 + stampSize + stampSize + 4

var errBadItem = errors.New("malformed item")

// header is what a condition or an index asks for; it is read without the JSON.
type header struct {
	revision     int64
	expires, due time.Time
	// slot of the parameters; 0: the item has none.
	slot uint32
}

// expired is broker.Record.Expired for an item whose JSON was not read.
func (h header) expired(now time.Time) bool {
	return !h.expires.IsZero() && !now.Before(h.expires)
}

// item is a record as it is stored. What a record holds letter for letter
// (context, identity, parameters) stays outside of the JSON, which would compact
// the one and repair the other.
type item struct {
	header
	body     []byte
	context  []byte
	identity []byte
	sealed   []byte
}

// storedRecord keeps the key, which may hold any bytes, out of the JSON: it is read
// back from the item's id.
type storedRecord struct {
	broker.Record
	Key *struct{} `json:"key,omitempty"`
}

// newItem encodes all of r but the key and the parameters.
func newItem(r broker.Record) (item, error) {
	it := item{context: r.Context, identity: []byte(r.OriginatingIdentity)}
	it.revision, it.expires, it.due = r.Revision, r.Lifecycle.ExpiresAt, r.Due()
	r.Context, r.OriginatingIdentity, r.Parameters = nil, "", nil
	var err error
	it.body, err = json.Marshal(storedRecord{Record: r})
	return it, err
}

func (it item) encode() []byte {
	n := headerSize + len(it.body) + len(it.context) + len(it.identity) + len(it.sealed)
	b := make([]byte, 0, n+3*binary.MaxVarintLen32)
	b = append(b, format1)
	b = binary.BigEndian.AppendUint64(b, uint64(it.revision))
	b = appendStamp(b, it.expires)
	b = appendStamp(b, it.due)
	b = binary.BigEndian.AppendUint32(b, it.slot)
	b = appendCounted(b, it.body)
	b = appendCounted(b, it.context)
	b = appendCounted(b, it.identity)
	return append(b, it.sealed...)
}

// decodeItem takes b apart; the parts share its memory.
func decodeItem(b []byte) (item, error) {
	if len(b) < headerSize {
		return item{}, errBadItem
	}
	if b[0] != format1 {
		return item{}, fmt.Errorf("item of format %d: written by a newer Ferry", b[0])
	}
	var it item
	it.revision = int64(binary.BigEndian.Uint64(b[1:]))
	it.expires, it.due = readStamp(b[9:]), readStamp(b[9+stampSize:])
	it.slot = binary.BigEndian.Uint32(b[9+2*stampSize:])
	var ok [3]bool
	rest := b[headerSize:]
	it.body, rest, ok[0] = cutCounted(rest)
	it.context, rest, ok[1] = cutCounted(rest)
	it.identity, rest, ok[2] = cutCounted(rest)
	if ok != [3]bool{true, true, true} || (it.slot == 0) != (len(rest) == 0) {
		return item{}, errBadItem
	}
	it.sealed = rest
	return it, nil
}

// record returns the record that it holds, with the given parameters, sharing no
// memory with it.
func (it item) record(key broker.Key, parameters []byte) (broker.Record, error) {
	var stored storedRecord
	if err := json.Unmarshal(it.body, &stored); err != nil {
		return broker.Record{}, fmt.Errorf("%w: %w", errBadItem, err)
	}
	r := stored.Record
	r.Key, r.Revision = key, it.revision
	r.Context = clone(it.context)
	r.OriginatingIdentity = string(it.identity)
	r.Parameters = clone(parameters)
	return r, nil
}

// clone copies b; what is empty becomes nil.
func clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

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
