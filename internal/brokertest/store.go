// Package brokertest holds the contracts of package broker's ports as tests that every adapter runs: what a Store
// promises, what a Backend promises. An adapter's own tests then need to cover only what is special about it.
//
// It is imported by tests only.
package brokertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Store is what an adapter has to offer for TestStore. One that is also an io.Closer is tested after its Close too.
type Store interface {
	broker.Store
	broker.CatalogStore
	broker.AuditStore
}

// storeClauses is the contract, a clause a line.
var storeClauses = []struct {
	name string
	test func(t *testing.T, s *storeUnderTest)
}{
	{"a record that was never put is not found", neverPut},
	{"a create at revision 0 stores revision 1", createStores},
	{"a create over a record conflicts and returns it", createConflicts},
	{"an update at the stored revision stores the next one", updateStores},
	{"an update at a revision too low or too high conflicts and changes nothing", updateConflicts},
	{"an update of what is absent conflicts and returns revision 0", updateOfAbsent},
	{"the revision inside of the record decides nothing", innerRevision},
	{"a put with a context already cancelled writes nothing", cancelledPut},
	{"the store shares no memory with what it was given or gave", sharesNothing},
	{"every field comes back", everyField},
	{"a record with only its key comes back", bareRecord},
	{"parameters come back letter for letter", lettersOfParameters},
	{"parameters dropped, replaced and kept are what is read", parametersChange},
	{"of 2 creates at once one wins", raceOf(2, creates)},
	{"of 8 creates at once one wins", raceOf(8, creates)},
	{"of 64 creates at once one wins", raceOf(64, creates)},
	{"of 2 updates at once one wins", raceOf(2, updates)},
	{"of 8 updates at once one wins", raceOf(8, updates)},
	{"of 64 updates at once one wins", raceOf(64, updates)},
	{"of 8 creates at once over an expired record one wins", raceOf(8, createsOverExpired)},
	{"writers on different keys do not conflict", noFalseConflicts},
	{"a reader never sees a revision go back", monotonicReads},
	{"an expired record is not found, from that instant on", expiredGet},
	{"an expired record is no binding", expiredBinding},
	{"a create over an expired record stores revision 1 and nothing of the old", expiredCreate},
	{"an update of an expired record conflicts and returns revision 0", expiredUpdate},
	{"a record written over with a later expiry lives on", expiryMoves},
	{"many records are read in the order of their keys, each as Get would", manyAtOnce},
	{"many records are read as they were just written", manyJustWritten},
	{"of no keys nothing is read", manyOfNone},
	{"many records read with a context that has ended are an error", manyTooLate},
	{"awkward ids name records of their own", awkwardIDs},
	{"ids of 900 bytes are kept apart", longIDs},
	{"the bindings of an instance are its own and all of them", bindingsAreOwn},
	{"an instance without bindings has none", noBindings},
	{"a hundred bindings are listed", manyBindings},
	{"an operation is unfinished from its due time on", dueIsInclusive},
	{"unfinished operations come oldest first, up to the limit", unfinishedOrder},
	{"an operation that ended is not unfinished", unfinishedEnds},
	{"a due time that moves moves the operation", unfinishedMoves},
	{"a new operation takes the place of the old one", unfinishedSuperseded},
	{"an expired record is not unfinished", unfinishedExpired},
	{"pages of unfinished operations follow one another, whatever their size", unfinishedPages},
	{"a page goes on behind operations that have moved or ended meanwhile", unfinishedGoesOn},
	{"the last audit of a client is that client's, and never goes back", lastAudit},
	{"parameters of 256 KiB fit", largeParameters},
	{"what is too large leaves the old record", tooLarge},
	{"a catalog that was never put is not found", catalogNeverPut},
	{"a catalog comes back and is one client's", catalogRoundTrip},
	{"a catalog at another revision conflicts and returns the stored one", catalogConflicts},
	{"of 8 catalogs at once one wins", catalogRace},
	{"a catalog of 2 MB comes back, and a small one after it", catalogLarge},
	{"a catalog with a context already cancelled is not written", catalogCancelled},
	{"a closed store returns errors", closedStore},
}

// TestStore runs the contract of broker.Store, broker.CatalogStore and broker.AuditStore. open is called once for each
// clause, returns an empty store that tells time by now, and cleans up through t. The clauses run in parallel and touch
// no store but their own.
func TestStore(t *testing.T, open func(t *testing.T, now func() time.Time) Store) {
	t.Helper()
	for _, c := range storeClauses {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := &storeClock{at: storeEpoch}
			c.test(t, &storeUnderTest{Store: open(t, clock.now), clock: clock})
		})
	}
}

// storeEpoch lies far ahead, so that a store that deletes by its own clock what has expired (DynamoDB's TTL) does not
// take part.
var storeEpoch = time.Date(2060, time.March, 1, 12, 0, 0, 123456789, time.UTC)

// storeClock is the time of one clause.
type storeClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *storeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *storeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// storeUnderTest is a store under test with its clock and the steps that clauses share.
type storeUnderTest struct {
	Store
	clock *storeClock
}

// mustPut stores r and checks what came back.
func (s *storeUnderTest) mustPut(t *testing.T, r broker.Record, revision int64) broker.Record {
	t.Helper()
	got, err := s.Put(t.Context(), r, revision)
	if err != nil {
		t.Fatalf("Put at revision %d: %v", revision, err)
	}
	r.Revision = revision + 1
	sameRecord(t, "what Put returned", got, r)
	return got
}

// mustHold checks that Get returns want.
func (s *storeUnderTest) mustHold(t *testing.T, want broker.Record) {
	t.Helper()
	got, err := s.Get(t.Context(), want.Key)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	sameRecord(t, "what Get returned", got, want)
}

// mustHoldAll checks that GetAll returns for each key what is wanted, which is the zero record for ErrNotFound.
func (s *storeUnderTest) mustHoldAll(t *testing.T, keys []broker.Key, want map[broker.Key]broker.Record) {
	t.Helper()
	all, err := s.GetAll(t.Context(), keys)
	if err != nil || len(all) != len(keys) {
		t.Fatalf("GetAll of %d keys: %d, %v", len(keys), len(all), err)
	}
	for i, got := range all {
		if want, there := want[keys[i]]; there && got.Err == nil {
			sameRecord(t, fmt.Sprintf("what GetAll returned at %d", i), got.Record, want)
		} else if there || !errors.Is(got.Err, broker.ErrNotFound) {
			t.Fatalf("at %d GetAll = revision %d, %v; it is there: %t", i, got.Record.Revision, got.Err, there)
		}
	}
}

// mustLack checks that there is no record.
func (s *storeUnderTest) mustLack(t *testing.T, key broker.Key) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); !errors.Is(err, broker.ErrNotFound) {
		t.Fatalf("Get = revision %d, %v; want ErrNotFound", got.Revision, err)
	}
}

// mustConflict checks that a put is refused and comes back with want, which is the zero record for none.
func (s *storeUnderTest) mustConflict(t *testing.T, r broker.Record, revision int64, want broker.Record) {
	t.Helper()
	got, err := s.Put(t.Context(), r, revision)
	if !errors.Is(err, broker.ErrConflict) {
		t.Fatalf("Put at revision %d: error %v; want ErrConflict", revision, err)
	}
	if want.Revision == 0 {
		if got.Revision != 0 {
			t.Fatalf("Put at revision %d returned revision %d; want 0", revision, got.Revision)
		}
		return
	}
	sameRecord(t, "what the refused Put returned", got, want)
}

// sameRecord compares times as instants and takes nil and empty for the same.
func sameRecord(t *testing.T, what string, got, want broker.Record) {
	t.Helper()
	if d := cmp.Diff(want, got, byContent()...); d != "" {
		t.Fatalf("%s (-want +got):\n%.4000s", what, d)
	}
}

// byContent compares bytes at once (go-cmp would go through them one by one) and takes nil and empty for the same.
func byContent() []cmp.Option {
	some := func(a, b []byte) bool { return len(a)+len(b) > 0 }
	return []cmp.Option{cmpopts.EquateEmpty(), cmp.FilterValues(some, cmp.Comparer(bytes.Equal))}
}

// eventually checks a condition until it holds, for what may lag behind.
func eventually(t *testing.T, check func(ctx context.Context) (complaint string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		complaint := check(ctx)
		if complaint == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(complaint)
		case <-tick.C:
		}
	}
}

func instanceKey(id string) broker.Key { return broker.Key{Client: "client-a", InstanceID: id} }

func bindingKey(instance, id string) broker.Key {
	return broker.Key{Client: "client-a", InstanceID: instance, BindingID: id}
}

// ready is a record without an operation that runs.
func ready(key broker.Key, token string) broker.Record {
	return broker.Record{
		Key: key, Token: token,
		Lifecycle: lifecycle.Record{Kind: key.Kind(), State: lifecycle.Ready, Seq: 1},
	}
}

// busy is a record whose operation runs and is due at the given time.
func busy(key broker.Key, operation string, due time.Time) broker.Record {
	r := ready(key, operation)
	r.Lifecycle.State = lifecycle.Creating
	r.Lifecycle.Operation = lifecycle.Operation{ID: operation, Verb: lifecycle.Create, Due: due}
	return r
}

// gone is a tombstone.
func gone(key broker.Key, token string, expires time.Time) broker.Record {
	r := ready(key, token)
	r.Lifecycle.State, r.Lifecycle.ExpiresAt = lifecycle.Gone, expires
	return r
}

func everyField(t *testing.T, s *storeUnderTest) {
	for _, key := range []broker.Key{instanceKey("i"), bindingKey("i", "b")} {
		r := fullRecord(key)
		s.mustHold(t, s.mustPut(t, r, 0))
		s.mustHold(t, s.mustPut(t, r, 1))
	}
}

// fullRecord has every field set. Its times have nanoseconds, zones and years that a store could trip over. A field
// that the record got since this was written is filled in, so that it cannot escape the clauses.
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
