package bolt

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
)

// TestBodyReaderKnowsEveryField: a record with each field that goes into the JSON is read without encoding/json, one
// that has just one of them too, and what comes back is what was stored.
func TestBodyReaderKnowsEveryField(t *testing.T) {
	t.Parallel()
	var full broker.Record
	fill(reflect.ValueOf(&full).Elem(), 0)
	records := append(eachField(full), full, broker.Record{})
	for _, want := range fixtures() {
		records = append(records, want)
	}
	for n, want := range records {
		it, err := newItem(want)
		if err != nil {
			t.Fatal(err)
		}
		p := bodyReader{rest: string(it.body)}
		if p.record(&broker.Record{}); p.other || p.rest != "" {
			t.Errorf("record %d: given up before %.60q of %s", n, p.rest, it.body)
		}
		got, err := it.record(want.Key)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("record %d: %v, -want +got:\n%s", n, err, d)
		}
	}
}

// eachField returns records that have one field of full each, and of its structs one field each.
func eachField(full broker.Record) (records []broker.Record) {
	var walk func(from reflect.Value, to func(*broker.Record) reflect.Value)
	walk = func(from reflect.Value, to func(*broker.Record) reflect.Value) {
		for n := range from.NumField() {
			field := func(r *broker.Record) reflect.Value { return to(r).Field(n) }
			var r broker.Record
			field(&r).Set(from.Field(n))
			records = append(records, r)
			if kind := from.Field(n).Type(); kind.Kind() == reflect.Struct && kind != reflect.TypeFor[time.Time]() {
				walk(from.Field(n), field)
			}
		}
	}
	walk(reflect.ValueOf(full), func(r *broker.Record) reflect.Value { return reflect.ValueOf(r).Elem() })
	return records
}

// fill gives everything below v a value that is not zero, texts one that has to be escaped in JSON, or every other one.
func fill(v reflect.Value, n int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1790000000, int64(n)).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"plain", "<\"ümlaut\\\n"}[n%2])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n) - 7)
		if n == 7 {
			v.SetInt(7)
		}
	case reflect.Uint8:
		v.SetUint(uint64(n) + 1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "<b>"}))
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{ "a" : 1 }`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n+i)
		}
	default:
		panic(fmt.Sprintf("no value for a %s", v.Type()))
	}
}

// FuzzBodyReader: what is read without encoding/json is what encoding/json reads.
func FuzzBodyReader(f *testing.F) {
	var full broker.Record
	fill(reflect.ValueOf(&full).Elem(), 0)
	for _, r := range append(eachField(full), full) {
		it, err := newItem(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(it.body)
	}
	for _, text := range []string{
		`{"revision":01}`, `{"revision":-0}`, `{"revision":1.5}`, `{"token":"\ud800"}`, `{"token":"` + "\xff" + `"}`, `{"salt":"AA==\n"}`,
		`{"token":"a","token":"b"}`, `{"lifecycle":{"guids":["a",]}}`, `{"lifecycle":{"guids":[]}}`, `{"lifecycle":null}`, `{"Token":"a"}`,
		`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{}}}`, `{"metadata":null}`, `{"metadata":{}} `, `{,"token":"a"}`, `{"token":"a",}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := bodyReader{rest: string(body)}
		var got broker.Record
		if p.record(&got); p.other || p.rest != "" {
			return
		}
		var want storedRecord
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q is read, and encoding/json says: %v", body, err)
		}
		if d := cmp.Diff(want.Record, got); d != "" {
			t.Errorf("%q, -encoding/json +read:\n%s", body, d)
		}
	})
}
