package dynamo

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// With -write-fixtures fixtures that are missing are written. One that is there is never written again: it stands for
// what is in tables out there.
var writeFixtures = flag.Bool("write-fixtures", false, "write the fixtures that are missing")

func TestFixtures(t *testing.T) {
	t.Parallel()
	for name, want := range format1Fixtures() {
		t.Run("format 1 "+name+" decodes", func(t *testing.T) {
			t.Parallel()
			it := fixture(t, name, func() item {
				it, err := encode(want, []byte("0123456789abcdef"))
				if err != nil {
					t.Fatal(err)
				}
				return it
			})
			got, err := decode(it)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			again, err := encode(got, it.raw(attrWrite))
			if err != nil {
				t.Fatal(err)
			}
			for _, attribute := range []string{attrPK, attrSK, attrRevision, attrExpires, attrTTL, attrDueShard, attrDueAt, attrOperation} {
				if d := cmp.Diff(it[attribute], again[attribute], unexported); d != "" {
					t.Errorf("%s, which conditions and indexes ask for (-fixture +now):\n%s", attribute, d)
				}
			}
		})
	}
	t.Run("format 1 catalog decodes", func(t *testing.T) {
		t.Parallel()
		want := header{revision: 258, write: []byte("0123456789abcdef"), fetched: time.Unix(1790000000, 5).UTC()}
		var err error
		if want.packed, err = pack([]byte(`{"offerings":[]}`)); err != nil {
			t.Fatal(err)
		}
		got, err := decodeHeader(fixture(t, "catalog", func() item { return want.encode("cluster-a") }))
		if err != nil {
			t.Fatal(err)
		}
		body, err := unpack(got.packed)
		if err != nil || string(body) != `{"offerings":[]}` || got.revision != 258 || !got.fetched.Equal(want.fetched) {
			t.Errorf("body %q, revision %d, fetched %v, %v", body, got.revision, got.fetched, err)
		}
	})
	t.Run("format 1 catalog in parts decodes", func(t *testing.T) {
		t.Parallel()
		want := header{revision: 3, write: []byte("0123456789abcdef"), fetched: time.Unix(1790000000, 0).UTC(), parts: 4}
		got, err := decodeHeader(fixture(t, "catalog-in-parts", func() item { return want.encode("cluster-a") }))
		if d := cmp.Diff(want, got, cmp.AllowUnexported(header{})); d != "" || err != nil {
			t.Errorf("%v, -want +got:\n%s", err, d)
		}
		if prefix := got.partPrefix(); prefix != "catalog#00000000000000000003#30313233343536373839616263646566#" {
			t.Errorf("its parts lie under %s", prefix)
		}
	})
}

var unexported = cmpopts.IgnoreUnexported(
	types.AttributeValueMemberB{}, types.AttributeValueMemberN{}, types.AttributeValueMemberS{})

// fixture reads an item that is kept as DynamoDB's JSON.
func fixture(t *testing.T, name string, now func() item) item {
	t.Helper()
	path := filepath.Join("testdata", "format1", name+".json")
	if _, err := os.Stat(path); *writeFixtures && errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(path, toJSON(t, now()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fromJSON(t, text)
}

// attribute is a value as DynamoDB writes it.
type attribute struct {
	B []byte  `json:",omitempty"`
	N *string `json:",omitempty"`
	S *string `json:",omitempty"`
}

func toJSON(t *testing.T, it item) []byte {
	t.Helper()
	all := map[string]attribute{}
	for name, value := range it {
		switch v := value.(type) {
		case *types.AttributeValueMemberB:
			all[name] = attribute{B: v.Value}
		case *types.AttributeValueMemberN:
			all[name] = attribute{N: &v.Value}
		case *types.AttributeValueMemberS:
			all[name] = attribute{S: &v.Value}
		default:
			t.Fatalf("%s is a %T", name, value)
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func fromJSON(t *testing.T, text []byte) item {
	t.Helper()
	var all map[string]attribute
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	it := item{}
	for name, a := range all {
		switch {
		case a.N != nil:
			it[name] = &types.AttributeValueMemberN{Value: *a.N}
		case a.S != nil:
			it[name] = &types.AttributeValueMemberS{Value: *a.S}
		default:
			it[name] = &types.AttributeValueMemberB{Value: a.B}
		}
	}
	return it
}

// format1Fixtures must not change: the files hold exactly these.
func format1Fixtures() map[string]broker.Record {
	at := time.Date(2026, 11, 5, 9, 15, 0, 2500, time.UTC)
	key := broker.Key{Client: "cluster-a", InstanceID: "i#1/\xff"}
	instance := broker.Record{
		Key: key, Revision: 2, Token: "t-2",
		Lifecycle: lifecycle.Record{
			Kind: lifecycle.Instance, State: lifecycle.Updating, Life: 1, Seq: 1790000002,
			Operation: lifecycle.Operation{
				ID: "update-2", Seq: 1790000002, Verb: lifecycle.Update, Started: at, Deadline: at.Add(168 * time.Hour),
				Calls: 1, Lease: lifecycle.Lease{Holder: "h", Until: at.Add(time.Minute)}, Due: at.Add(2 * time.Minute),
			},
			CreateOp:  lifecycle.Reference{ID: "create-1", Seq: 1790000001},
			CFGUID:    "instance-guid",
			OpenCalls: []lifecycle.OpenCall{{Number: 2, Seq: 1790000002, Verb: lifecycle.Update, Until: at.Add(20 * time.Minute)}},
			LastCall:  2,
			Finished:  []lifecycle.Finished{{ID: "create-1", Verb: lifecycle.Create, Succeeded: true, EndedAt: at}},
		},
		Attributes:          broker.Attributes{ServiceID: "s", PlanID: "p", OfferingName: "postgres", PlanGUID: "g", Parameters: "digest", Owner: "owner"},
		Target:              &broker.Attributes{ServiceID: "s", PlanID: "q"},
		Salt:                []byte("0123456789abcdef"),
		Parameters:          []byte(`{ "size" : 9007199254740993 }`),
		Context:             []byte(`{"platform":"kubernetes", "namespace":"blue"}`),
		OriginatingIdentity: "kubernetes eyJ9 \xe4",
		APIInfoLocation:     "api.example.org/\xe4",
		DashboardURL:        "https://dashboard.example.org/?a=1&b=<2>",
	}
	binding := broker.Record{
		Key: broker.Key{Client: "cluster-a", InstanceID: key.InstanceID, BindingID: "b"}, Revision: 5, Token: "t-5",
		Lifecycle: lifecycle.Record{
			Kind: lifecycle.Binding, State: lifecycle.Ready, Seq: 1790000007,
			Operation: lifecycle.Operation{ID: "create-b", Seq: 1790000007, Verb: lifecycle.Create, Started: at, Held: true},
			CreateOp:  lifecycle.Reference{ID: "create-b", Seq: 1790000007}, CFGUID: "key-guid",
			InstanceCreateOp: "create-1", InstanceGUID: "instance-guid",
		},
		Attributes: broker.Attributes{ServiceID: "s", PlanID: "p", PredecessorID: "a"},
	}
	tombstone := broker.Record{
		Key: broker.Key{Client: "cluster-b", InstanceID: "gone"}, Revision: 9, Token: "t-9",
		Lifecycle: lifecycle.Record{Kind: lifecycle.Instance, State: lifecycle.Gone, Life: 2, Seq: 1790000009, ExpiresAt: at.Add(192 * time.Hour)},
	}
	return map[string]broker.Record{"instance": instance, "binding": binding, "tombstone": tombstone}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(item)
		bad   bool // or of a newer format
	}{
		"no body":                      {func(it item) { delete(it, attrBody) }, true},
		"a body that is no JSON":       {func(it item) { it.setText(attrBody, "{") }, true},
		"no format":                    {func(it item) { delete(it, attrFormat) }, true},
		"a revision that is no number": {func(it item) { it[attrRevision] = &types.AttributeValueMemberN{Value: "1.5"} }, true},
		"a foreign sort key":           {func(it item) { it[attrSK] = raw([]byte("other")) }, true},
		"a later format":               {func(it item) { it[attrFormat] = number(2) }, false},
	}
	for name, test := range tests {
		t.Run("an item with "+name+" is refused", func(t *testing.T) {
			t.Parallel()
			it, err := encode(format1Fixtures()["instance"], nil)
			if err != nil {
				t.Fatal(err)
			}
			test.spoil(it)
			_, err = decode(it)
			if err == nil || errors.Is(err, errBadItem) != test.bad && !errors.Is(err, errBadKey) {
				t.Errorf("decode: %v; errBadItem wanted: %t", err, test.bad)
			}
			if !test.bad && !strings.Contains(err.Error(), "newer Ferry") {
				t.Errorf("decode: %v; want it to name the newer Ferry", err)
			}
		})
	}
}

func TestInstants(t *testing.T) {
	t.Parallel()
	for number, at := range map[string]time.Time{
		"0.000000000":            time.Unix(0, 0),
		"-0.000000001":           time.Unix(-1, 999999999),
		"-1.500000000":           time.Unix(-2, 500000000),
		"1790000000.000000005":   time.Unix(1790000000, 5),
		"253402300799.999999999": time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		"-62135596800.000000000": {},
	} {
		if got := instant(at).(*types.AttributeValueMemberN).Value; got != number {
			t.Errorf("%v is written as %s; want %s", at, got, number)
		}
		for _, text := range []string{number, strings.TrimRight(strings.TrimRight(number, "0"), ".")} {
			if text == "" {
				continue
			}
			if got, err := parseInstant(text); err != nil || !got.Equal(at) {
				t.Errorf("%s is read as %v, %v; want %v", text, got, err, at)
			}
		}
	}
	for _, text := range []string{"", "soon", "1.0000000001", "1e30"} {
		if got, err := parseInstant(text); !errors.Is(err, errBadItem) {
			t.Errorf("%q is read as %v, %v; want errBadItem", text, got, err)
		}
	}
	for at, want := range map[time.Time]string{time.Unix(7, 0): "7", time.Unix(7, 1): "8", time.Unix(7, 999999999): "8"} {
		if got := nextSecond(at).(*types.AttributeValueMemberN).Value; got != want {
			t.Errorf("TTL of %v is %s; want %s, so that nothing goes early", at, got, want)
		}
	}
}

func TestIndexAttributes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		record broker.Record
		want   string
	}{
		"a record whose operation runs is in the index":               {claimed(keyOf("i")), "due_at due_shard operation"},
		"one that is at rest is not":                                  {done(keyOf("i")), ""},
		"a tombstone has its exact time and the full second after it": {format1Fixtures()["tombstone"], "expires expires_at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			it, err := encode(test.record, nil)
			if err != nil {
				t.Fatal(err)
			}
			var has []string
			for _, attribute := range []string{attrDueAt, attrDueShard, attrOperation, attrExpires, attrTTL} {
				if _, ok := it[attribute]; ok {
					has = append(has, attribute)
				}
			}
			if got := fmt.Sprint(strings.Join(has, " ")); got != test.want {
				t.Errorf("attributes %q; want %q", got, test.want)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	t.Run("keys are what they are in tables out there", func(t *testing.T) {
		t.Parallel()
		for key, want := range map[broker.Key][2]string{
			{Client: "c", InstanceID: "i"}:                            {"c#i", "instance"},
			{Client: "c", InstanceID: "i", BindingID: "b"}:            {"c#i", "binding#b"},
			{Client: "c", InstanceID: "#i#", BindingID: "#"}:          {"c##i#", "binding##"},
			{Client: "c", InstanceID: "\xff\x00", BindingID: "\xfe/"}: {"c#\xff\x00", "binding#\xfe/"},
			{Client: "c"}: {"c#", "instance"},
		} {
			at, err := placeOf(key)
			if err != nil || string(at.pk) != want[0] || string(at.sk) != want[1] {
				t.Errorf("placeOf(%v) = %q, %q, %v; want %q", key, at.pk, at.sk, err, want)
			}
			if got, err := at.key(); err != nil || got != key {
				t.Errorf("%q read back: %v, %v; want %v", want, got, err, key)
			}
		}
	})
	t.Run("shards are what they are in tables out there", func(t *testing.T) {
		t.Parallel()
		for id, want := range map[string]int64{"a": 0, "b": 1, "c": 2, "d": 3} {
			at, err := placeOf(keyOf(id))
			if got := at.shard(); err != nil || got != want {
				t.Errorf("%q is in shard %d, %v; want %d", id, got, err, want)
			}
		}
	})
	t.Run("what is no key of a record is refused", func(t *testing.T) {
		t.Parallel()
		for _, at := range [][2]string{{"", "instance"}, {"c", "instance"}, {"#i", "instance"}, {"c#i", ""}, {"c#i", "binding#"}, {"c", "catalog"}} {
			if k, err := (place{pk: []byte(at[0]), sk: []byte(at[1])}).key(); !errors.Is(err, errBadKey) {
				t.Errorf("%q: %v, %v; want errBadKey", at, k, err)
			}
		}
	})
	t.Run("a client's name that would make keys ambiguous reaches no table", func(t *testing.T) {
		t.Parallel()
		s := offlineStore(t, offline(t, func(string, int) *http.Response { return nil }))
		for _, name := range []string{"", "a#b"} {
			key := broker.Key{Client: name, InstanceID: "i"}
			_, put := s.Put(t.Context(), ready(key, "t"), 0)
			_, get := s.Get(t.Context(), key)
			_, list := s.Bindings(t.Context(), key)
			_, catalog := s.Catalog(t.Context(), name)
			_, putCatalog := s.PutCatalog(t.Context(), broker.StoredCatalog{Client: name}, 0)
			for _, err := range []error{put, get, list, catalog, putCatalog} {
				if !errors.Is(err, errClientName) {
					t.Errorf("client %q: %v; want errClientName", name, err)
				}
			}
		}
	})
	t.Run("ids longer than keys may be are too large to put, and not there, without a call", func(t *testing.T) {
		t.Parallel()
		s := offlineStore(t, offline(t, func(string, int) *http.Response { return nil }))
		for _, key := range []broker.Key{
			keyOf(strings.Repeat("i", maxPartitionBytes)),
			{Client: "c", InstanceID: "i", BindingID: strings.Repeat("b", maxSortBytes)},
		} {
			if _, err := s.Put(t.Context(), ready(key, "t"), 0); !errors.Is(err, broker.ErrTooLarge) {
				t.Errorf("Put: %v; want ErrTooLarge", err)
			}
			if _, err := s.Get(t.Context(), key); !errors.Is(err, broker.ErrNotFound) {
				t.Errorf("Get: %v; want ErrNotFound", err)
			}
		}
		if got, err := s.Bindings(t.Context(), keyOf(strings.Repeat("i", maxPartitionBytes))); len(got) > 0 || err != nil {
			t.Errorf("Bindings = %v, %v; want none", got, err)
		}
	})
}

func TestSize(t *testing.T) {
	t.Parallel()
	t.Run("what is over the limit is refused with the limit and without a call", func(t *testing.T) {
		t.Parallel()
		s := offlineStore(t, offline(t, func(string, int) *http.Response { return nil }))
		r := claimed(keyOf("i"))
		for _, grow := range []func(*broker.Record){
			func(r *broker.Record) { r.Parameters = noise(1, MaxRecordBytes) },
			func(r *broker.Record) { r.Context = noise(1, MaxRecordBytes) },
			func(r *broker.Record) { r.DashboardURL = strings.Repeat("u", MaxRecordBytes) },
		} {
			large := r
			grow(&large)
			_, err := s.Put(t.Context(), large, 0)
			limit, ok := errors.AsType[*broker.LimitError](err)
			if !ok || limit.Bytes != MaxRecordBytes {
				t.Errorf("Put: %v; want a LimitError of %d bytes", err, MaxRecordBytes)
			}
		}
	})
	t.Run("a record that just fits is taken", func(t *testing.T) {
		t.Parallel()
		table, _ := newTable(t)
		s := on(t, table, atEpoch, newLine())
		mustHold(t, s, mustPut(t, s, filled(t, MaxRecordBytes), 0))
		if _, err := s.Put(t.Context(), filled(t, MaxRecordBytes+1), 1); !errors.Is(err, broker.ErrTooLarge) {
			t.Errorf("Put of one byte more: %v; want ErrTooLarge", err)
		}
	})
	t.Run("the size is DynamoDB's, or a few bytes more", func(t *testing.T) {
		t.Parallel()
		table, _ := newTable(t)
		for name, r := range format1Fixtures() {
			it, err := encode(r, []byte("0123456789abcdef"))
			if err != nil {
				t.Fatal(err)
			}
			delete(it, attrDueShard) // so that the index costs nothing
			told := sizeOf(t, table, it)
			if n := it.size(); n < told || n > told+20 {
				t.Errorf("%s: %d bytes; the stand-in says %d", name, n, told)
			}
		}
	})
}

// filled is a record whose item has the size.
func filled(t *testing.T, size int) broker.Record {
	t.Helper()
	r := claimed(keyOf("i"))
	r.Revision, r.Parameters = 1, []byte("x")
	it, err := encode(r, noise(1, 16))
	if err != nil {
		t.Fatal(err)
	}
	r.Parameters = noise(1, size-it.size()+1)
	return r
}

// sizeOf asks the stand-in, which tells kilobytes: the item is made longer, byte by byte, until it costs one unit more.
func sizeOf(t *testing.T, table string, it item) int {
	t.Helper()
	const filler = "z"
	client := dynamodb.NewFromConfig(configFor(standIn.URL(t), nil))
	longer := maps.Clone(it)
	units := it.size()/1024 + 1
	for n := units*1024 - it.size() - len(filler); n < 2048; n++ {
		longer[filler] = raw(make([]byte, n))
		out, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String(table), Item: longer, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			t.Fatal(err)
		}
		if told := aws.ToFloat64(out.ConsumedCapacity.CapacityUnits); told > float64(units) {
			return units*1024 + 1 - n - len(filler)
		}
	}
	t.Fatal("the stand-in does not charge for size")
	return 0
}
