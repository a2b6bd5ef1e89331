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

// The first byte of an item. Items of format 1 stay readable for ever (testdata); a later format gets another number.
const (
	format1 = 1
	format2 = 2
)

// headerSize is the length of the fixed part of an item: format, revision, expiry, due. In format 1 four bytes follow,
// the slot.
const headerSize = 1 + 8 + stampSize + stampSize

var errBadItem = errors.New("malformed item")

// header is what a condition or an index asks for; it is read without the JSON.
type header struct {
	revision     int64
	expires, due time.Time
	// slot is not 0 in an item of format 1 with parameters: they are encrypted with a key in another file. Open gives
	// each of those format 2.
	slot uint32
}

// expired is broker.Record.Expired for an item whose JSON was not read.
func (h header) expired(now time.Time) bool {
	return !h.expires.IsZero() && !now.Before(h.expires)
}

// item is a record as it is stored. What a record holds letter for letter (context, identity, parameters) stays outside
// of the JSON, which would compact the one and repair the other.
type item struct {
	header
	body       []byte
	context    []byte
	identity   []byte
	parameters []byte
}

// storedRecord keeps the key, which may hold any bytes, out of the JSON: it is read back from the item's id.
type storedRecord struct {
	broker.Record
	Key *struct{} `json:"key,omitempty"`
}

// newItem encodes r without its key. The item shares memory with r.
func newItem(r broker.Record) (item, error) {
	it := item{context: r.Context, identity: []byte(r.OriginatingIdentity), parameters: r.Parameters}
	it.revision, it.expires, it.due = r.Revision, r.Lifecycle.ExpiresAt, r.Due()
	r.Context, r.OriginatingIdentity, r.Parameters = nil, "", nil
	var err error
	it.body, err = json.Marshal(storedRecord{Record: r})
	return it, err
}

// size is about the length of encode's result.
func (it item) size() int {
	return headerSize + len(it.body) + len(it.context) + len(it.identity) + len(it.parameters)
}

func (it item) encode() []byte {
	b := make([]byte, 0, it.size()+4*binary.MaxVarintLen32)
	b = append(b, format2)
	b = binary.BigEndian.AppendUint64(b, uint64(it.revision))
	b = appendStamp(b, it.expires)
	b = appendStamp(b, it.due)
	b = appendCounted(b, it.body)
	b = appendCounted(b, it.context)
	b = appendCounted(b, it.identity)
	return appendCounted(b, it.parameters)
}

// decodeItem takes b apart; the parts share its memory.
func decodeItem(b []byte) (item, error) {
	var it item
	if len(b) < headerSize {
		return item{}, errBadItem
	}
	if b[0] > format2 {
		return item{}, fmt.Errorf("item of format %d: written by a newer Ferry", b[0])
	}
	it.revision = int64(binary.BigEndian.Uint64(b[1:]))
	it.expires, it.due = readStamp(b[9:]), readStamp(b[9+stampSize:])
	rest, old := b[headerSize:], b[0] == format1
	if old && len(rest) >= 4 {
		it.slot, rest = binary.BigEndian.Uint32(rest), rest[4:]
	}
	var ok [4]bool
	it.body, rest, ok[0] = cutCounted(rest)
	it.context, rest, ok[1] = cutCounted(rest)
	it.identity, rest, ok[2] = cutCounted(rest)
	if old { // the rest, whatever its length
		it.parameters, rest, ok[3] = rest, nil, (it.slot == 0) == (len(rest) == 0)
	} else {
		it.parameters, rest, ok[3] = cutCounted(rest)
	}
	if b[0] == 0 || ok != [4]bool{true, true, true, true} || len(rest) > 0 {
		return item{}, errBadItem
	}
	return it, nil
}

// record returns the record that it holds, sharing no memory with it.
func (it *item) record(key broker.Key) (r broker.Record, err error) {
	err = it.fill(&r, key)
	return r, err
}

// fill is record for a place that is there: a record is large, and its copies make the stacks of requests grow.
func (it *item) fill(r *broker.Record, key broker.Key) error {
	if it.slot != 0 {
		return fmt.Errorf("%w: its parameters are encrypted", errBadItem)
	}
	if err := decodeBody(it.body, r); err != nil {
		*r = broker.Record{}
		return fmt.Errorf("%w: %w", errBadItem, err)
	}
	r.Key, r.Revision = key, it.revision
	r.Context, r.Parameters = clone(it.context), clone(it.parameters)
	r.OriginatingIdentity = string(it.identity)
	return nil
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
	catalogsBucket = []byte("catalogs") // client → catalog
	metaBucket     = []byte("meta")     // what the whole file is about
)

func allBuckets() [][]byte {
	return [][]byte{itemsBucket, dueBucket, expiryBucket, catalogsBucket, metaBucket}
}

var errBadID = errors.New("malformed item id")

// itemID puts the length of client and instance id before each, so that any bytes may occur in them, no id is the
// prefix of another instance's, and the items of an instance lie side by side: the instance itself first, then its
// bindings.
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

// appendStamp writes a time so that the order of the bytes is the order of time, for every time.Time (UnixNano ends in
// 2262). The zone is lost.
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
