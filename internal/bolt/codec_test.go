package bolt

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// With -write-fixtures fixtures that are missing are written. One that is there is never written again: it stands for
// what is in stores out there.
func TestFixtures(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"format1", "format2"} {
		for name, want := range fixtures() {
			t.Run(format+" "+name+" decodes", func(t *testing.T) {
				t.Parallel()
				it, err := decodeItem(fixture(t, format, name, func() ([]byte, error) {
					it, err := newItem(want)
					return it.encode(), err
				}))
				if err == nil && it.slot != 0 { // encrypted with sevens
					it.parameters, err = unseal(bytes.Repeat([]byte{7}, slotSize), itemID(want.Key), it.parameters)
					it.slot = 0
				}
				if err != nil {
					t.Fatal(err)
				}
				got, err := it.record(want.Key)
				if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
					t.Errorf("%v, -want +got:\n%s", err, d)
				}
				if !it.due.Equal(want.Due()) || !it.expires.Equal(want.Lifecycle.ExpiresAt) {
					t.Errorf("header: due %v, expires %v; want %v, %v", it.due, it.expires, want.Due(), want.Lifecycle.ExpiresAt)
				}
			})
		}
	}
	t.Run("format1 catalog decodes", func(t *testing.T) {
		t.Parallel()
		want := broker.StoredCatalog{Client: "cluster-a", Revision: 258, Fetched: time.Unix(1790000000, 5).UTC(), Body: []byte(`{"offerings":[]}`)}
		value := fixture(t, "format1", "catalog", func() ([]byte, error) { return encodeCatalog(want) })
		got, err := decodeCatalog("cluster-a", value)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%v, -want +got:\n%s", err, d)
		}
	})
}

func fixture(t *testing.T, format, name string, now func() ([]byte, error)) []byte {
	t.Helper()
	path := filepath.Join("testdata", format, name+".item")
	if !there(path) && flag.Lookup("write-fixtures").Value.String() == "true" {
		value, err := now()
		if err := errors.Join(err, os.WriteFile(path, value, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	value, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// fixtures must not change: the files hold exactly these.
func fixtures() map[string]broker.Record {
	at := time.Date(2026, 10, 3, 8, 30, 0, 1500, time.UTC)
	instance := broker.Record{
		Key: broker.Key{Client: "cluster-a", InstanceID: "i#1/\xff"}, Revision: 2, Token: "t-2",
		Lifecycle: lifecycle.Record{
			Kind: lifecycle.Instance, State: lifecycle.Creating, Life: 1, Seq: 1790000001,
			Operation: lifecycle.Operation{
				ID: "create-1", Seq: 1790000001, Verb: lifecycle.Create, Started: at, Deadline: at.Add(168 * time.Hour),
				IDWasFree: true, Calls: 1, Lease: lifecycle.Lease{Holder: "h", Until: at.Add(time.Minute)}, Due: at.Add(2 * time.Minute),
			},
			CreateOp:  lifecycle.Reference{ID: "create-1", Seq: 1790000001},
			OpenCalls: []lifecycle.OpenCall{{Number: 1, Seq: 1790000001, Verb: lifecycle.Create, Until: at.Add(20 * time.Minute)}},
			LastCall:  1,
		},
		Attributes:          broker.Attributes{ServiceID: "s", PlanID: "p", OfferingName: "postgres", PlanGUID: "g", Parameters: "digest", Owner: "owner"},
		Salt:                []byte("0123456789abcdef"),
		Parameters:          []byte(`{ "size" : 9007199254740993 }`),
		Context:             []byte(`{"platform":"kubernetes", "namespace":"blue"}`),
		OriginatingIdentity: "kubernetes eyJ9 \xe4",
	}
	binding := broker.Record{
		Key: broker.Key{Client: "cluster-a", InstanceID: "i#1/\xff", BindingID: "b"}, Revision: 5, Token: "t-5",
		Lifecycle: lifecycle.Record{
			Kind: lifecycle.Binding, State: lifecycle.Ready, Seq: 1790000007,
			Operation: lifecycle.Operation{ID: "create-b", Seq: 1790000007, Verb: lifecycle.Create, Started: at, Held: true},
			CreateOp:  lifecycle.Reference{ID: "create-b", Seq: 1790000007}, CFGUID: "key-guid",
			Finished:         []lifecycle.Finished{{ID: "create-b", Verb: lifecycle.Create, Succeeded: true, EndedAt: at}},
			InstanceCreateOp: "create-1", InstanceGUID: "instance-guid",
		},
		Attributes: broker.Attributes{ServiceID: "s", PlanID: "p", PredecessorID: "a"},
	}
	tombstone := broker.Record{
		Key: broker.Key{Client: "cluster-b", InstanceID: "gone"}, Revision: 9, Token: "t-9",
		Lifecycle: lifecycle.Record{
			Kind: lifecycle.Instance, State: lifecycle.Gone, Life: 2, Seq: 1790000009, ExpiresAt: at.Add(192 * time.Hour),
			Finished: []lifecycle.Finished{{ID: "delete-9", Verb: lifecycle.Delete, Succeeded: true, EndedAt: at}},
		},
	}
	ghost := broker.Record{
		Key: broker.Key{Client: "cluster-b", InstanceID: "ghost", BindingID: "b"}, Revision: 1, Token: "t-1",
		Lifecycle: lifecycle.Record{Kind: lifecycle.Binding, State: lifecycle.Ghost, Life: 1, ExpiresAt: at.Add(192 * time.Hour)},
	}
	return map[string]broker.Record{"instance": instance, "binding": binding, "tombstone": tombstone, "ghost": ghost}
}

func TestDecodeItem(t *testing.T) {
	t.Parallel()
	it, err := newItem(fixtures()["instance"])
	if err != nil {
		t.Fatal(err)
	}
	whole := it.encode()
	t.Run("an item cut short is refused, not read beyond its end", func(t *testing.T) {
		t.Parallel()
		for n := range whole {
			if _, err := decodeItem(whole[:n]); !errors.Is(err, errBadItem) {
				t.Errorf("%d of %d bytes: %v; want errBadItem", n, len(whole), err)
			}
		}
	})
	t.Run("so is a catalog", func(t *testing.T) {
		t.Parallel()
		value, err := encodeCatalog(broker.StoredCatalog{Body: []byte(`{"offerings":[]}`)})
		if err != nil {
			t.Fatal(err)
		}
		for n := range value {
			if _, err := decodeCatalog("c", value[:n]); !errors.Is(err, errBadItem) {
				t.Errorf("%d of %d bytes: %v; want errBadItem", n, len(value), err)
			}
		}
		value[0] = format1 + 1
		if _, err := decodeCatalog("c", value); err == nil || !strings.Contains(err.Error(), "newer Ferry") {
			t.Errorf("format 2: %v", err)
		}
	})
	t.Run("an item of a later format is named as such", func(t *testing.T) {
		t.Parallel()
		later := append([]byte{format2 + 1}, whole[1:]...)
		if _, err := decodeItem(later); err == nil || !strings.Contains(err.Error(), "newer Ferry") {
			t.Errorf("format 3: %v", err)
		}
	})
}

func TestItemID(t *testing.T) {
	t.Parallel()
	t.Run("ids are what they are in stores out there", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("x", 200)
		for want, key := range map[string]broker.Key{
			"\x01c\x01i":                 {Client: "c", InstanceID: "i"},
			"\x01c\x01ib":                {Client: "c", InstanceID: "i", BindingID: "b"},
			"\x01c\x00":                  {Client: "c"},
			"\x01c\xc8\x01" + long + "b": {Client: "c", InstanceID: long, BindingID: "b"},
		} {
			if got := itemID(key); string(got) != want {
				t.Errorf("itemID(%v) = %q; want %q", key, got, want)
			}
			if got, err := parseItemID([]byte(want)); got != key || err != nil {
				t.Errorf("parseItemID(%q) = %v, %v; want %v", want, got, err, key)
			}
		}
	})
	t.Run("what is no id is refused", func(t *testing.T) {
		t.Parallel()
		for _, id := range []string{"", "\x05c", "\x01c", "\x01c\x05i", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01c"} {
			if _, err := parseItemID([]byte(id)); !errors.Is(err, errBadID) {
				t.Errorf("parseItemID(%q): %v", id, err)
			}
		}
	})
	t.Run("stamps sort like their times", func(t *testing.T) {
		t.Parallel()
		times := []time.Time{{}, time.Unix(-1, 0), time.Unix(-1, 999), time.Unix(0, 0), time.Unix(0, 1), time.Unix(1e9, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
		for i, at := range times {
			stamp := appendStamp(nil, at)
			if got := readStamp(stamp); !got.Equal(at) || got.IsZero() != at.IsZero() {
				t.Errorf("%v came back as %v", at, got)
			}
			if i > 0 && string(appendStamp(nil, times[i-1])) >= string(stamp) {
				t.Errorf("the stamp of %v is not before that of %v", times[i-1], at)
			}
		}
	})
}
