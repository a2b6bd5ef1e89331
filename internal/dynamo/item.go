package dynamo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// The attributes of items. Their names are in tables out there: they never change.
const (
	attrPK        = "pk"
	attrSK        = "sk"
	attrFormat    = "format"
	attrRevision  = "revision"
	attrWrite     = "write"      // the number of the write that left the item so
	attrExpires   = "expires"    // exact; absent for the living
	attrTTL       = "expires_at" // the next full second, for DynamoDB's TTL
	attrDueShard  = "due_shard"  // this and the next two: while an operation runs
	attrDueAt     = "due_at"
	attrOperation = "operation"
	attrBody      = "body"
	attrContext   = "context"
	attrIdentity  = "identity"
	attrLocation  = "api_info_location"
	attrParams    = "parameters"
	attrFetched   = "fetched" // this and the next: of catalogs
	attrParts     = "parts"
	attrAudited   = "audited" // when the last audit of a client was completed
	attrBegan     = "began"   // this and the next: of the last round
	attrRepeats   = "repeats"
)

const dueIndex = "due"

// item is what DynamoDB stores. What is empty is left out.
type item map[string]types.AttributeValue

// format1 is the only format of items so far. A later one gets another number; items of format 1 stay readable for ever
// (testdata).
const format1 = 1

var errBadItem = errors.New("malformed item")

// storedRecord keeps out of the JSON what has attributes of its own: the key, which may hold any bytes, and the
// revision.
type storedRecord struct {
	broker.Record
	Key      *struct{} `json:"key,omitempty"`
	Revision *struct{} `json:"revision,omitempty"`
}

// encode makes the item of a record; write is the number of the write.
func encode(r broker.Record, write []byte) (item, error) {
	at, err := placeOf(r.Key)
	if err != nil {
		return nil, err
	}
	it := item{attrPK: raw(at.pk), attrSK: raw(at.sk), attrFormat: number(format1), attrRevision: number(r.Revision)}
	it.setRaw(attrWrite, write)
	if expires := r.Lifecycle.ExpiresAt; !expires.IsZero() {
		it[attrExpires], it[attrTTL] = instant(expires), nextSecond(expires)
	}
	if due := r.Due(); !due.IsZero() {
		it[attrDueShard], it[attrDueAt] = number(at.shard()), instant(due)
		it.setText(attrOperation, r.Lifecycle.Operation.ID)
	}
	it.setRaw(attrParams, r.Parameters)
	it.setRaw(attrContext, r.Context)
	it.setRaw(attrIdentity, []byte(r.OriginatingIdentity))
	it.setRaw(attrLocation, []byte(r.APIInfoLocation))
	r.Parameters, r.Context, r.OriginatingIdentity, r.APIInfoLocation = nil, nil, "", ""
	body, err := json.Marshal(storedRecord{Record: r})
	it.setText(attrBody, string(body))
	return it, err
}

// decode is the reverse of encode. The record shares memory with the item.
func decode(it item) (broker.Record, error) {
	if err := checkFormat(it); err != nil {
		return broker.Record{}, err
	}
	key, err := it.place().key()
	if err != nil {
		return broker.Record{}, err
	}
	revision, err := it.number(attrRevision)
	if err != nil {
		return broker.Record{}, err
	}
	var stored storedRecord
	if err := json.Unmarshal([]byte(it.text(attrBody)), &stored); err != nil {
		return broker.Record{}, fmt.Errorf("%w: %w", errBadItem, err)
	}
	r := stored.Record
	r.Key, r.Revision = key, revision
	r.Parameters, r.Context = it.raw(attrParams), it.raw(attrContext)
	r.OriginatingIdentity, r.APIInfoLocation = string(it.raw(attrIdentity)), string(it.raw(attrLocation))
	return r, nil
}

func checkFormat(it item) error {
	format, err := it.number(attrFormat)
	switch {
	case err != nil:
		return err
	case format > format1:
		return fmt.Errorf("item of format %d: written by a newer Ferry", format)
	case format < format1:
		return fmt.Errorf("%w: no format", errBadItem)
	}
	return nil
}

// MaxRecordBytes is what one item may weigh, names of attributes included.
const MaxRecordBytes = 400 << 10

// size is what DynamoDB counts for the item, or a few bytes more: it does not say how long a number is, only how long
// it may be.
func (it item) size() int {
	n := 0
	for name, value := range it {
		n += len(name)
		switch v := value.(type) {
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += len(v.Value)/2 + 3 // two digits a byte, and exponent, sign and an odd half
		}
	}
	return n
}

// What DynamoDB allows for the two keys of an item.
const (
	maxPartitionBytes = 2048
	maxSortBytes      = 1024
)

const (
	separator     = "#"
	instanceSort  = "instance"
	bindingPrefix = "binding" + separator
	catalogSort   = "catalog"
	auditSort     = "audit"
	roundSort     = "round"
)

// dueShards is over how many partitions the index of operations that run is spread, so that its writes are not bound to
// what one partition can take. More may be added; fewer would hide the operations of those taken away.
const dueShards = 4

var (
	errClientName = errors.New("a client's name must have characters, and none of them '#'")
	errBadKey     = errors.New("malformed item key")
)

// place is where an item lies: its partition and its sort key.
type place struct{ pk, sk []byte }

// itemKey is a place in DynamoDB's words.
type itemKey = map[string]types.AttributeValue

func (p place) itemKey() itemKey { return itemKey{attrPK: raw(p.pk), attrSK: raw(p.sk)} }

func (it item) place() place { return place{pk: it.raw(attrPK), sk: it.raw(attrSK)} }

// placeOf returns ErrTooLarge (errors.Is) for ids that DynamoDB cannot take as keys.
func placeOf(k broker.Key) (place, error) {
	if err := checkClient(k.Client); err != nil {
		return place{}, err
	}
	p := place{pk: []byte(k.Client + separator + k.InstanceID), sk: []byte(instanceSort)}
	if k.BindingID != "" {
		p.sk = []byte(bindingPrefix + k.BindingID)
	}
	if len(p.pk) > maxPartitionBytes || len(p.sk) > maxSortBytes {
		return place{}, fmt.Errorf("the ids exceed the keys of a table, %d and %d bytes: %w",
			maxPartitionBytes, maxSortBytes, broker.ErrTooLarge)
	}
	return p, nil
}

// checkClient guards what makes keys unambiguous.
func checkClient(name string) error {
	if name == "" || strings.Contains(name, separator) {
		return fmt.Errorf("client %.64q: %w", name, errClientName)
	}
	return nil
}

// key is the reverse of placeOf.
func (p place) key() (broker.Key, error) {
	client, instance, ok := bytes.Cut(p.pk, []byte(separator))
	binding, isBinding := bytes.CutPrefix(p.sk, []byte(bindingPrefix))
	if !ok || len(client) == 0 || (isBinding && len(binding) == 0) || (!isBinding && string(p.sk) != instanceSort) {
		return broker.Key{}, fmt.Errorf("%w: %.64q %.64q", errBadKey, p.pk, p.sk)
	}
	k := broker.Key{Client: string(client), InstanceID: string(instance)}
	if isBinding {
		k.BindingID = string(binding)
	}
	return k, nil
}

// shard spreads by the whole key: the bindings of one instance may be many.
func (p place) shard() int64 {
	h := fnv.New32a()
	_, _ = h.Write(p.pk) // a hash takes everything
	_, _ = h.Write(p.sk)
	return int64(h.Sum32() % dueShards)
}

// named puts a key into an error text, cut to a length that a log can bear.
func named(k broker.Key) string {
	text := fmt.Sprintf("%s instance %.64q", k.Client, k.InstanceID)
	if k.BindingID != "" {
		text += fmt.Sprintf(" binding %.64q", k.BindingID)
	}
	return text
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// raw copies, so that what is sent, and answered from, is no longer the caller's.
func raw(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: bytes.Clone(b)} }

func (it item) setRaw(name string, b []byte) {
	if len(b) > 0 {
		it[name] = raw(b)
	}
}

func (it item) setText(name, s string) { it[name] = &types.AttributeValueMemberS{Value: s} }

// raw returns nil for none.
func (it item) raw(name string) []byte {
	if v, ok := it[name].(*types.AttributeValueMemberB); ok && len(v.Value) > 0 {
		return v.Value
	}
	return nil
}

func (it item) text(name string) string {
	if v, ok := it[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

// number returns 0 for none.
func (it item) number(name string) (int64, error) {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errBadItem, name, err)
	}
	return n, nil
}

// time returns the zero time for none.
func (it item) time(name string) (time.Time, error) {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return time.Time{}, nil
	}
	t, err := parseInstant(v.Value)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// instant is a time as a number that DynamoDB compares exactly: seconds since 1970, with nine decimals (numbers keep 38
// digits).
func instant(t time.Time) types.AttributeValue {
	seconds, nanos, sign := t.Unix(), int64(t.Nanosecond()), ""
	if seconds < 0 {
		seconds, sign = -seconds, "-"
		if nanos > 0 { // they count forward from the second before
			seconds, nanos = seconds-1, int64(time.Second)-nanos
		}
	}
	return &types.AttributeValueMemberN{Value: fmt.Sprintf("%s%d.%09d", sign, seconds, nanos)}
}

// parseInstant reads a number as DynamoDB gives it back: without trailing zeros.
func parseInstant(s string) (time.Time, error) {
	const decimals = 9
	whole, fraction, _ := strings.Cut(s, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || len(fraction) > decimals {
		return time.Time{}, fmt.Errorf("%w: time %.40q", errBadItem, s)
	}
	nanos, err := strconv.ParseUint(fraction+strings.Repeat("0", decimals-len(fraction)), 10, 32)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: time %.40q", errBadItem, s)
	}
	if strings.HasPrefix(whole, "-") {
		return time.Unix(seconds, -int64(nanos)).UTC(), nil
	}
	return time.Unix(seconds, int64(nanos)).UTC(), nil
}

// nextSecond is the first full second not before t.
func nextSecond(t time.Time) types.AttributeValue {
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return number(seconds)
}
