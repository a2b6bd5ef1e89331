package dynamo

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// format1 is the only format of items so far. A later one gets another number; items
// of format 1 stay readable for ever (testdata).
const format1 = 1

var errBadItem = errors.New("malformed item")

// storedRecord keeps out of the JSON what has attributes of its own: the key, which
// may hold any bytes, and the revision.
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
