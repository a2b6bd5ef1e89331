package bolt

import (
	"errors"
	"flag"
	"io/fs"
	"log/slog"
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

// With -write-fixtures fixtures that are missing are written. One that is there is
// never written again: it stands for what is in stores out there.
func TestFixtures(t *testing.T) {
	t.Parallel()
	for name, want := range format1Fixtures() {
		t.Run("format 1 "+name+" decodes", func(t *testing.T) {
			t.Parallel()
			keys := constantKeyring(t)
			path := filepath.Join("testdata", "format1", name+".item")
			if flag.Lookup("write-fixtures").Value.String() == "true" {
				writeFixture(t, path, want, keys)
			}
			value, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			it, err := decodeItem(value)
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&Store{keys: keys}).record(it, want.Key, itemID(want.Key))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if !it.due.Equal(want.Due()) || !it.expires.Equal(want.Lifecycle.ExpiresAt) {
				t.Errorf("header: due %v, expires %v; want %v, %v", it.due, it.expires, want.Due(), want.Lifecycle.ExpiresAt)
			}
		})
	}
}

func TestFixtureOfCatalog(t *testing.T) {
	t.Parallel()
	want := broker.StoredCatalog{Client: "cluster-a", Revision: 258, Fetched: time.Unix(1790000000, 5).UTC(), Body: []byte(`{"offerings":[]}`)}
	path := filepath.Join("testdata", "format1", "catalog.item")
	if flag.Lookup("write-fixtures").Value.String() == "true" {
		value, err := encodeCatalog(want)
		if err != nil {
			t.Fatal(err)
		}
		writeOnce(t, path, value)
	}
	value, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeCatalog("cluster-a", value)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func writeFixture(t *testing.T, path string, r broker.Record, keys *keyring) {
	t.Helper()
	it, err := newItem(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Parameters) > 0 {
		it.slot = 3
		if it.sealed, err = keys.seal(it.slot, itemID(r.Key), r.Parameters); err != nil {
			t.Fatal(err)
		}
	}
	writeOnce(t, path, it.encode())
}

func writeOnce(t *testing.T, path string, value []byte) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := os.WriteFile(path, value, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sevens is randomness that fixtures can be sealed with.
type sevens struct{}

func (sevens) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 7
	}
	return len(b), nil
}

// constantKeyring has the same key in every slot.
func constantKeyring(t *testing.T) *keyring {
	t.Helper()
	path := filepath.Join(t.TempDir(), keyFile)
	id, err := createKeyFile(path, sevens{})
	if err != nil {
		t.Fatal(err)
	}
	unchecked := func(*keyring) error { return nil }
	k, err := openKeyring(path, id, nil, unchecked, Options{Random: sevens{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// format1Fixtures must not change: the files hold exactly these.
func format1Fixtures() map[string]broker.Record {
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
	it, err := newItem(format1Fixtures()["tombstone"])
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
	t.Run("an item of a later format is named as such", func(t *testing.T) {
		t.Parallel()
		later := append([]byte{2}, whole[1:]...)
		if _, err := decodeItem(later); err == nil || !strings.Contains(err.Error(), "newer Ferry") {
			t.Errorf("format 2: %v", err)
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
