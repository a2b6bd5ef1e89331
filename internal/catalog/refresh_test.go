package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
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

func TestReload(t *testing.T) {
	t.Parallel()
	janitor := newRig(newMemory())
	janitor.market.set(shop("db"), nil)
	janitor.mustRefresh(t)
	reader := newRig(janitor.store)
	reader.market.set(shop("elsewhere"), nil)
	if err := reader.Reload(t.Context(), "a"); err != nil || reader.Ready("a") {
		t.Errorf("%v: a catalog was loaded that nobody asked for", err)
	}
	before := reader.names(t)

	janitor.market.set(shop("queue"), nil)
	janitor.clock.advance(5 * time.Minute)
	janitor.mustRefresh(t)
	if diff := cmp.Diff(before, reader.names(t)); diff != "" {
		t.Errorf("it changed without being asked to (-want +got):\n%s", diff)
	}
	if err := reader.Reload(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	after := reader.names(t)
	if diff := cmp.Diff(janitor.names(t), after); diff != "" {
		t.Errorf("not what the other process stored (-want +got):\n%s", diff)
	}
	if n := reader.market.count(); n != 0 {
		t.Errorf("%d fetches, want none", n)
	}

	janitor.store.plant("a", []byte("{}"), janitor.clock.Now())
	if err := reader.Reload(t.Context(), "a"); err == nil {
		t.Error("an empty catalog was taken over")
	}
	if diff := cmp.Diff(after, reader.names(t)); diff != "" {
		t.Errorf("the old catalog did not stay (-want +got):\n%s", diff)
	}
}

func TestReloadOfAStranger(t *testing.T) {
	t.Parallel()
	if err := newRig(newMemory()).Reload(t.Context(), "nobody"); err == nil {
		t.Error("a client that is not configured has a catalog")
	}
}

// inBubble runs Run beside body in a bubble of virtual time and stops it after.
func inBubble(t *testing.T, setUp func() *rig, body func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := setUp()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		synctest.Wait()
		body(r)
		cancel()
		<-done
	})
}

// pass lets virtual time go by, and all that is due in it happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestRunRetriesQuicklyUntilTheFirstSuccess(t *testing.T) {
	t.Parallel()
	var r *rig
	inBubble(t, func() *rig {
		r = newRig(newMemory())
		r.market.set(broker.Marketplace{}, errDown)
		return r
	}, func(r *rig) {
		// At 0, 0.1, 0.3, 0.7, 1.5 and 3.1 seconds.
		for i, pause := range []time.Duration{0, 100, 200, 400, 800, 1600} {
			pass(pause * time.Millisecond)
			if n := r.market.count(); n != i+1 {
				t.Fatalf("%d fetches before pause %d, want %d", n, i+1, i+1)
			}
		}
		r.market.set(shop("db"), nil)
		pass(3200 * time.Millisecond)
		if !r.Ready("a") || r.market.count() != 7 {
			t.Fatalf("ready %v after %d fetches, want true after 7", r.Ready("a"), r.market.count())
		}
		r.market.set(broker.Marketplace{}, errDown)
		pass(5*time.Minute + time.Second)
		if n := r.market.count(); n != 12 {
			t.Errorf("%d fetches after five intervals, want 12", n)
		}
		if diff := cmp.Diff([]string{"db"}, r.names(t)); diff != "" {
			t.Error(diff)
		}
	})
	n := r.market.count()
	if err := r.Refresh(t.Context(), "a"); !errors.Is(err, errDown) || r.market.count() != n+1 {
		t.Errorf("Refresh after Run ended: %v", err)
	}
}

func TestRunNeverWaitsLongerThanTheInterval(t *testing.T) {
	t.Parallel()
	inBubble(t, func() *rig {
		r := newRig(newMemory())
		r.market.set(broker.Marketplace{}, errDown)
		return r
	}, func(r *rig) {
		pass(time.Hour)
		if n := r.market.count(); n < 60 || n > 75 {
			t.Errorf("%d fetches in an hour, want about one a minute", n)
		}
	})
}

func TestRunServesTheStoredCopyWhileTheFirstFetchHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, func() *rig {
		r := newRig(newMemory())
		r.store.plant("a", textOf(t, shop("db")), startOfTime)
		r.market.hold = make(chan struct{})
		return r
	}, func(r *rig) {
		if !r.Ready("a") || r.market.count() != 1 {
			t.Fatalf("ready %v after %d fetches, want true after 1", r.Ready("a"), r.market.count())
		}
		if diff := cmp.Diff([]string{"db"}, r.names(t)); diff != "" {
			t.Error(diff)
		}
		// One fetch is given up after its timeout of ten seconds.
		pass(10*time.Second + firstRetry)
		if n := r.market.count(); n != 2 {
			t.Errorf("%d fetches after the timeout, want 2", n)
		}
	})
}

func TestRunSpreadsClientsOverTheInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		start := time.Now()
		o := Options{Store: newMemory(), Now: time.Now}
		for _, client := range []string{"a", "b", "c"} {
			o.Sources = append(o.Sources, Source{Client: client, Refresh: time.Minute, Fetch: func(context.Context) (broker.Marketplace, error) {
				mu.Lock()
				defer mu.Unlock()
				if at := time.Since(start); at > 0 {
					log = append(log, fmt.Sprint(client, at))
				}
				return shop("db"), nil
			}})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
		defer cancel()
		New(o).Run(ctx)
		if diff := cmp.Diff([]string{"c20s", "b40s", "a1m0s", "c1m20s", "b1m40s"}, log); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFirstDocumentIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(newMemory())
		r.market.hold = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := r.Document(ctx, "a")
		if !errors.Is(err, broker.ErrNoCatalog) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want ErrNoCatalog for lack of time", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
	})
}

func TestStoreThatHangsDoesNotKeepCloudFoundryFromBeingAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(newMemory())
		r.store.hangs = true
		r.market.set(shop("db"), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 26*time.Second)
		defer cancel()
		if _, err := r.Document(ctx, "a"); err != nil {
			t.Error(err)
		}
	})
}
