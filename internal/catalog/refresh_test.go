package catalog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Law 10: a process that starts while Cloud Foundry is down has a catalog.
func TestStoredCopyServesWhileCloudFoundryIsDown(t *testing.T) {
	t.Parallel()
	first := newRig(newMemory())
	first.market.set(shop("db"), nil)
	before, err := first.Document(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	second := newRig(first.store)
	second.clock.advance(time.Hour)
	second.market.set(broker.Marketplace{}, errDown)
	after, err := second.Document(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if n := second.market.count(); n != 0 {
		t.Errorf("%d fetches, want none: a stored copy is enough to answer", n)
	}
	if p, err := second.Plan(t.Context(), "a", "id-db", "id-db-small"); err != nil || p.PlanGUID != "guid-db-small" {
		t.Errorf("plan %+v, %v", p, err)
	}
	if !second.Ready("a") {
		t.Error("not ready with a stored copy")
	}
}

func TestWritesOfUnchangedCatalog(t *testing.T) {
	t.Parallel()
	r := newRig(newMemory())
	r.market.set(shop("db"), nil)
	for range 10 {
		r.mustRefresh(t)
		r.clock.advance(5 * time.Minute)
	}
	if n := r.store.writes(); n != 1 {
		t.Errorf("%d writes within the hour, want 1", n)
	}
	r.clock.advance(10 * time.Minute)
	want := r.clock.Now()
	r.mustRefresh(t)
	stored := r.store.stored("a")
	if stored.Revision != 2 || !stored.Fetched.Equal(want) {
		t.Errorf("after an hour: revision %d, fetched %v; want 2, %v", stored.Revision, stored.Fetched, want)
	}
}

func TestRestartedProcessDoesNotWriteTheSameAgain(t *testing.T) {
	t.Parallel()
	first := newRig(newMemory())
	first.market.set(shop("db"), nil)
	first.mustRefresh(t)
	second := newRig(first.store)
	second.market.set(shop("db"), nil)
	second.mustRefresh(t)
	if n := first.store.writes(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
}

func TestWriteThatLostTheRace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		theirs  string
		after   time.Duration // when they fetched, seen from us
		serves  string
		stores  string
		written int // by us, refused writes included
	}{
		"takes what was fetched later":       {theirs: "queue", after: time.Minute, serves: "queue", stores: "queue", written: 2},
		"writes over what was fetched first": {theirs: "queue", after: -time.Minute, serves: "db2", stores: "db2", written: 3},
		"leaves the same alone":              {theirs: "db2", after: -time.Minute, serves: "db2", stores: "db2", written: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(newMemory())
			r.market.set(shop("db"), nil)
			r.mustRefresh(t)
			r.clock.advance(10 * time.Minute)
			r.store.plant("a", textOf(t, shop(tt.theirs)), r.clock.Now().Add(tt.after))
			r.market.set(shop("db2"), nil)
			r.mustRefresh(t)
			if diff := cmp.Diff([]string{tt.serves}, r.names(t)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(string(textOf(t, shop(tt.stores))), string(r.store.stored("a").Body)); diff != "" {
				t.Error(diff)
			}
			if n := r.store.writes(); n != tt.written {
				t.Errorf("%d writes, want %d", n, tt.written)
			}
			// Whoever won, the next refresh knows the revision and wins.
			r.clock.advance(time.Hour)
			r.market.set(shop("db3"), nil)
			r.mustRefresh(t)
			if diff := cmp.Diff(string(textOf(t, shop("db3"))), string(r.store.stored("a").Body)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnreadableCopyOfAnotherIsWrittenOver(t *testing.T) {
	t.Parallel()
	r := newRig(newMemory())
	r.store.plant("a", []byte("not json"), startOfTime.Add(time.Hour))
	r.market.set(shop("db"), nil)
	r.mustRefresh(t)
	if diff := cmp.Diff(string(textOf(t, shop("db"))), string(r.store.stored("a").Body)); diff != "" {
		t.Error(diff)
	}
}

func TestWritersWhoNeverStopDoNotHoldARefresh(t *testing.T) {
	t.Parallel()
	store := newMemory()
	r := newRig(store)
	text := textOf(t, shop("other"))
	store.before = func() { store.plant("a", text, startOfTime.Add(-time.Hour)) }
	r.market.set(shop("db"), nil)
	r.mustRefresh(t)
	if n := store.writes(); n != keepTries {
		t.Errorf("%d writes, want %d", n, keepTries)
	}
	if diff := cmp.Diff([]string{"db"}, r.names(t)); diff != "" {
		t.Error(diff)
	}
}

func TestStoreTroubleDoesNotSpoilARefresh(t *testing.T) {
	t.Parallel()
	r := newRig(newMemory())
	r.store.fault = errDown
	r.market.set(shop("db"), nil)
	r.mustRefresh(t)
	r.mustRefresh(t)
	if diff := cmp.Diff([]string{"db"}, r.names(t)); diff != "" {
		t.Error(diff)
	}
	if n := r.log.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	r.store.fault = nil
	r.mustRefresh(t)
	if stored := r.store.stored("a"); stored.Revision != 1 {
		t.Errorf("stored revision %d after the store came back, want 1", stored.Revision)
	}
}
