package brokertest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Store is what an adapter has to offer for TestStore. One that is also an io.Closer
// is tested after its Close too.
type Store interface {
	broker.Store
	broker.CatalogStore
	broker.AuditStore
}

// storeClauses is the contract, a clause a line.
var storeClauses = []struct {
	name string
	test func(t *testing.T, s *storeRoom)
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

// TestStore runs the contract of broker.Store, broker.CatalogStore and broker.AuditStore. open is called
// once for each clause, returns an empty store that tells time by now, and cleans up
// through t. The clauses run in parallel and touch no store but their own.
func TestStore(t *testing.T, open func(t *testing.T, now func() time.Time) Store) {
	t.Helper()
	for _, c := range storeClauses {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := &storeClock{at: storeEpoch}
			c.test(t, &storeRoom{Store: open(t, clock.now), clock: clock})
		})
	}
}

// storeEpoch lies far ahead, so that a store that deletes by its own clock what has
// expired (DynamoDB's TTL) does not take part.
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

// storeRoom is a store under test with its clock and the steps that clauses share.
type storeRoom struct {
	Store
	clock *storeClock
}

// mustPut stores r and checks what came back.
func (s *storeRoom) mustPut(t *testing.T, r broker.Record, revision int64) broker.Record {
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
func (s *storeRoom) mustHold(t *testing.T, want broker.Record) {
	t.Helper()
	got, err := s.Get(t.Context(), want.Key)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	sameRecord(t, "what Get returned", got, want)
}

// mustLack checks that there is no record.
func (s *storeRoom) mustLack(t *testing.T, key broker.Key) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); !errors.Is(err, broker.ErrNotFound) {
		t.Fatalf("Get = revision %d, %v; want ErrNotFound", got.Revision, err)
	}
}

// mustConflict checks that a put is refused and comes back with want, which is the
// zero record for none.
func (s *storeRoom) mustConflict(t *testing.T, r broker.Record, revision int64, want broker.Record) {
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

// byContent compares bytes at once (go-cmp would go through them one by one) and
// takes nil and empty for the same.
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
