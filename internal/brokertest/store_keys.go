package brokertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
)

// awkward are ids that a clumsy key would confuse: prefixes of each other, separators,
// words that stores use themselves, bytes that are no text.
var awkward = []string{
	"a", "aa", "a#", "#", "#a", "a/b", "/", "//", ".", "..", " ", "a ", "\t\n",
	"\x00", "a\x00", "a\x00\x00", "\x00a", "\x01", "\xff", "\xff\xff", "a\xff", "\xc3\x28", "\xed\xa0\x80",
	"instance", "binding", "binding#a", "binding#", "a#binding#a", "client-a", "client-a#a",
	"é", "e\u0301", "🚢", "🚢🚢", "\u202e", "\ufffd", `"`, `\`, "%", "%00", "A", "9", "10",
}

// awkwardIDs stores each id as an instance and as a binding, for two clients.
func awkwardIDs(t *testing.T, s *storeRoom) {
	var records []broker.Record
	for n, id := range awkward {
		records = append(records,
			ready(broker.Key{Client: "client-a", InstanceID: id}, fmt.Sprintf("a instance %d", n)),
			ready(broker.Key{Client: "client-a-b", InstanceID: id}, fmt.Sprintf("b instance %d", n)),
			ready(broker.Key{Client: "client-a", InstanceID: "a", BindingID: id}, fmt.Sprintf("binding of a %d", n)),
			ready(broker.Key{Client: "client-a", InstanceID: id, BindingID: "a#"}, fmt.Sprintf("binding a# %d", n)),
		)
	}
	s.keepApart(t, records)
}

// keepApart stores the records, leaving out keys met twice, and checks each one.
func (s *storeRoom) keepApart(t *testing.T, records []broker.Record) {
	t.Helper()
	stored := map[broker.Key]broker.Record{}
	for _, r := range records {
		if _, twice := stored[r.Key]; !twice {
			stored[r.Key] = s.mustPut(t, r, 0)
		}
	}
	instances := map[broker.Key][]broker.Record{}
	for key, r := range stored {
		s.mustHold(t, r)
		instances[key.Instance()] = append(instances[key.Instance()], r)
	}
	for instance, of := range instances {
		var bindings []broker.Record
		for _, r := range of {
			if r.Key.BindingID != "" {
				bindings = append(bindings, r)
			}
		}
		s.mustList(t, instance, bindings...)
	}
}

func longIDs(t *testing.T, s *storeRoom) {
	long := strings.Repeat("ab\xff\x00", 225)
	client := strings.Repeat("c", 40)
	var records []broker.Record
	for n, id := range []string{long, long[:899], long[:899] + "x", "x" + long[1:]} {
		records = append(records,
			busy(broker.Key{Client: client, InstanceID: id}, fmt.Sprintf("instance-%d", n), storeEpoch),
			busy(broker.Key{Client: client, InstanceID: long, BindingID: id}, fmt.Sprintf("binding-%d", n), storeEpoch),
			gone(broker.Key{Client: client, InstanceID: id, BindingID: long}, fmt.Sprintf("gone-%d", n), storeEpoch.Add(1)),
		)
	}
	s.keepApart(t, records)
	eventually(t, s.unfinishedCount(storeEpoch, 100, 8))
}

// mustList checks the bindings of an instance, in any order.
func (s *storeRoom) mustList(t *testing.T, instance broker.Key, want ...broker.Record) {
	t.Helper()
	got, err := s.Bindings(t.Context(), instance)
	if err != nil {
		t.Fatalf("Bindings: %v", err)
	}
	byID := cmpopts.SortSlices(func(a, b broker.Record) bool { return a.Key.BindingID < b.Key.BindingID })
	if d := cmp.Diff(want, got, append(byContent(), byID)...); d != "" {
		t.Fatalf("the bindings of %q (-want +got):\n%.4000s", instance.InstanceID, d)
	}
}

func bindingsAreOwn(t *testing.T, s *storeRoom) {
	s.mustPut(t, ready(instanceKey("i"), "instance"), 0)
	one := s.mustPut(t, fullRecord(bindingKey("i", "one")), 0)
	two := s.mustPut(t, ready(bindingKey("i", "two"), "two"), 0)
	for _, other := range []string{"", "i", "ii", "i#", "i\x00", "h"} {
		if other != "i" {
			s.mustPut(t, ready(bindingKey(other+"x", "one"), "other"), 0)
		}
		s.mustPut(t, ready(broker.Key{Client: "client-b", InstanceID: other + "i", BindingID: "one"}, "b"), 0)
	}
	s.mustList(t, instanceKey("i"), one, two)
	two = s.mustPut(t, fullRecord(two.Key), 1)
	s.mustList(t, instanceKey("i"), one, two)
}

func noBindings(t *testing.T, s *storeRoom) {
	s.mustList(t, instanceKey("i"))
	s.mustPut(t, ready(instanceKey("i"), "a"), 0)
	s.mustList(t, instanceKey("i"))
}

// manyBindings are more than fit into one page of an answer.
func manyBindings(t *testing.T, s *storeRoom) {
	var want []broker.Record
	for n := range 100 {
		r := ready(bindingKey("i", fmt.Sprintf("b-%03d", n)), "t")
		r.Context = textOf(16 << 10)
		want = append(want, s.mustPut(t, r, 0))
	}
	s.mustList(t, instanceKey("i"), want...)
}
