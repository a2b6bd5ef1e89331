package dynamo

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
)

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
)

// dueShards is over how many partitions the index of operations that run is spread,
// so that its writes are not bound to what one partition can take. More may be added;
// fewer would hide the operations of those taken away.
const dueShards = 4

var (
	errClientName = errors.New("a client's name must have characters, and none of them '#'")
	errBadKey     = errors.New("malformed item key")
)

// place is where an item lies: its partition and its sort key.
type place struct{ pk, sk []byte }

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
