package brokertest

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func everyField(t *testing.T, s *storeRoom) {
	for _, key := range []broker.Key{instanceKey("i"), bindingKey("i", "b")} {
		r := fullRecord(key)
		s.mustHold(t, s.mustPut(t, r, 0))
		s.mustHold(t, s.mustPut(t, r, 1))
	}
}

// fullRecord has every field set. Its times have nanoseconds, zones and years that a
// store could trip over. A field that the record got since this was written is filled
// in, so that it cannot escape the clauses.
func fullRecord(key broker.Key) broker.Record {
	r := broker.Record{
		Key:        key,
		Token:      "token-1",
		Lifecycle:  fullLifecycle(key),
		Attributes: fullAttributes("now"),
		Target:     new(fullAttributes("then")),
		Salt:       []byte{0, 255, 1, 254, '"', '\n'},
		Parameters: json.RawMessage(`{ "user": "ö", "n": 9007199254740993, "html": "<&>" }`),
		Context:    json.RawMessage(`{"platform":"kubernetes","namespace":"blue","text":"<&>` + "\u2028" + `"}`),
		// A header is bytes; these are not UTF-8.
		OriginatingIdentity: "kubernetes eyJ1c2VybmFtZSI6ImR1a2UifQ== \xe4\xff",
		DashboardURL:        "https://dashboard.example/?a=1&b=<2>",
	}
	fillZero(reflect.ValueOf(&r).Elem())
	r.Key = key
	return r
}

// fillZero sets what is zero in v to something.
func fillZero(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		if v.IsZero() {
			v.Set(reflect.ValueOf(storeEpoch))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fillZero(v.Field(i))
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			fillZero(v.Index(i))
		}
	case v.IsZero():
		v.Set(someValue(v.Type()))
	}
}

func someValue(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString("some")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(42)
	case reflect.Slice:
		v.Set(reflect.Append(v, someValue(t.Elem())))
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(someValue(t.Key()), someValue(t.Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		fillZero(v.Elem())
	default:
		panic("fullRecord cannot fill a " + t.String())
	}
	return v
}

func fullAttributes(word string) broker.Attributes {
	return broker.Attributes{
		ServiceID: "service " + word, PlanID: "plan " + word, OfferingName: "offering " + word,
		PlanGUID: "guid " + word, Parameters: "digest " + word, Owner: "owner " + word,
		MaintenanceVersion: "1.2.3+" + word, PredecessorID: "predecessor " + word,
	}
}

func fullLifecycle(key broker.Key) lifecycle.Record {
	zone := time.FixedZone("somewhere", -(3*3600 + 30*60))
	return lifecycle.Record{
		Kind:      key.Kind(),
		State:     lifecycle.Updating,
		Life:      3,
		Seq:       1<<53 + 1,
		Operation: fullOperation(),
		CreateOp:  lifecycle.Reference{ID: "create-abc", Seq: 1<<53 - 7},
		CFGUID:    "cf-guid",
		OpenCalls: []lifecycle.OpenCall{
			{Number: 1, Seq: 8, Verb: lifecycle.Create, Until: storeEpoch.Add(time.Hour)},
			{Number: 2, Seq: 9, Verb: lifecycle.Update, Until: storeEpoch.In(zone)},
		},
		LastCall: 2,
		Finished: []lifecycle.Finished{
			{ID: "create-abc", Verb: lifecycle.Create, Succeeded: true, Description: "done \"<&>\" ✓", Code: "OK", EndedAt: storeEpoch.Add(-time.Nanosecond)},
			{ID: "update-abc", Verb: lifecycle.Update, Succeeded: true, Description: "d", Code: "c", EndedAt: time.Date(1970, 1, 1, 0, 0, 0, 1, time.UTC)},
		},
		InstanceCreateOp: "create-i",
		InstanceGUID:     "instance-guid",
		ExpiresAt:        time.Date(2399, 12, 31, 23, 59, 59, 999999999, time.UTC),
	}
}

func fullOperation() lifecycle.Operation {
	return lifecycle.Operation{
		ID: "update-xyz", Seq: 1<<53 + 1, Verb: lifecycle.Update,
		Started: storeEpoch, Deadline: storeEpoch.Add(7 * 24 * time.Hour),
		Held: true, IDWasFree: true, Job: "job", JobGUID: "job-guid",
		Calls: 4, Answered: 3, FinalRefusal: "no such thing", Code: "Word",
		Cleanup:  lifecycle.Cleanup{GUID: "leftover-guid", Job: "leftover-job"},
		Lease:    lifecycle.Lease{Holder: "driver", Until: storeEpoch.Add(time.Minute)},
		Due:      storeEpoch.Add(2 * time.Minute),
		Restarts: 5,
	}
}
