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
	first := newService(newStore())
	first.cf.set(marketOf("db"), nil)
	before := first.document(t)
	second := newService(first.store)
	second.clock.advance(time.Hour)
	second.cf.set(broker.Marketplace{}, errDown)
	after := second.document(t)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if n := second.cf.count(); n != 0 {
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
	r := newService(newStore())
	r.cf.set(marketOf("db"), nil)
	for range 10 {
		r.mustRefresh(t)
		r.clock.advance(5 * time.Minute)
	}
	if n := r.store.writes; n != 1 {
		t.Errorf("%d writes within the hour, want 1", n)
	}
	r.clock.advance(10 * time.Minute)
	want := r.clock.Now()
	r.mustRefresh(t)
	stored := r.store.stored(t)
	if stored.Revision != 2 || !stored.Fetched.Equal(want) {
		t.Errorf("after an hour: revision %d, fetched %v; want 2, %v", stored.Revision, stored.Fetched, want)
	}
}

func TestRestartedProcessDoesNotWriteTheSameAgain(t *testing.T) {
	t.Parallel()
	first := serving(t, marketOf("db"))
	second := newService(first.store)
	second.offer(t, marketOf("db"))
	if n := first.store.writes; n != 1 {
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
			r := serving(t, marketOf("db"))
			r.clock.advance(10 * time.Minute)
			r.store.plant(t, textOf(t, marketOf(tt.theirs)), r.clock.Now().Add(tt.after))
			r.offer(t, marketOf("db2"))
			r.serves(t, tt.serves)
			r.keeps(t, marketOf(tt.stores))
			if n := r.store.writes; n != tt.written {
				t.Errorf("%d writes, want %d", n, tt.written)
			}
			// Whoever won, the next refresh knows the revision and wins.
			r.clock.advance(time.Hour)
			r.offer(t, marketOf("db3"))
			r.keeps(t, marketOf("db3"))
		})
	}
}

func TestUnreadableCopyOfAnotherIsWrittenOver(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	r.store.plant(t, []byte("not json"), startOfTime.Add(time.Hour))
	r.offer(t, marketOf("db"))
	r.keeps(t, marketOf("db"))
}

func TestWritersWhoNeverStopDoNotHoldARefresh(t *testing.T) {
	t.Parallel()
	store := newStore()
	r := newService(store)
	text := textOf(t, marketOf("other"))
	store.before = func() { store.plant(t, text, startOfTime.Add(-time.Hour)) }
	r.offer(t, marketOf("db"))
	if n := store.writes; n != keepTries {
		t.Errorf("%d writes, want %d", n, keepTries)
	}
	r.serves(t, "db")
}

func TestStoreTroubleDoesNotSpoilARefresh(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	r.store.fault = errDown
	r.offer(t, marketOf("db"))
	r.mustRefresh(t)
	r.serves(t, "db")
	if n := r.log.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	r.store.fault = nil
	r.mustRefresh(t)
	if stored := r.store.stored(t); stored.Revision != 1 {
		t.Errorf("stored revision %d after the store came back, want 1", stored.Revision)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	janitor := serving(t, marketOf("db"))
	reader := newService(janitor.store)
	reader.cf.set(marketOf("elsewhere"), nil)
	if err := reader.Reload(t.Context(), "a"); err != nil || reader.Ready("a") {
		t.Errorf("%v: a catalog was loaded that nobody asked for", err)
	}
	if err := reader.Load(t.Context(), "a"); err != nil || !reader.Ready("a") {
		t.Errorf("the stored catalog was not loaded: %v", err)
	}
	reader.serves(t, "db")
	janitor.clock.advance(5 * time.Minute)
	janitor.offer(t, marketOf("queue"))
	reader.serves(t, "db") // until it is asked to
	if err := reader.Reload(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	reader.serves(t, "queue")
	if n := reader.cf.count(); n != 0 {
		t.Errorf("%d fetches, want none", n)
	}
	janitor.store.plant(t, []byte("{}"), janitor.clock.Now())
	if err := reader.Reload(t.Context(), "a"); err == nil {
		t.Error("an empty catalog was taken over")
	}
	reader.serves(t, "queue")
	if reader.Reload(t.Context(), "nobody") == nil || reader.Load(t.Context(), "nobody") == nil {
		t.Error("a client that is not configured has a catalog")
	}
}

// whileRunning calls body beside Run, in virtual time.
func whileRunning(t *testing.T, prepare, body func(*service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newService(newStore())
		prepare(r)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		synctest.Wait()
		body(r)
		cancel()
		running.Wait()
		n := r.cf.count()
		if _ = r.Refresh(t.Context(), "a"); r.cf.count() != n+1 {
			t.Error("Refresh does not work any more after Run ended")
		}
	})
}

func isDown(r *service) { r.cf.set(broker.Marketplace{}, errDown) }

// pass lets virtual time go by, and all that is due in it happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestRunRetriesQuicklyUntilTheFirstSuccess(t *testing.T) {
	t.Parallel()
	whileRunning(t, isDown, func(r *service) {
		// At 0, 0.1, 0.3, 0.7, 1.5 and 3.1 seconds.
		for i, pause := range []time.Duration{0, 100, 200, 400, 800, 1600} {
			pass(pause * time.Millisecond)
			if n := r.cf.count(); n != i+1 {
				t.Fatalf("%d fetches before pause %d, want %d", n, i+1, i+1)
			}
		}
		r.cf.set(marketOf("db"), nil)
		pass(3200 * time.Millisecond)
		if !r.Ready("a") || r.cf.count() != 7 {
			t.Fatalf("ready %v after %d fetches, want true after 7", r.Ready("a"), r.cf.count())
		}
		isDown(r)
		pass(5*time.Minute + time.Second)
		if n := r.cf.count(); n != 12 {
			t.Errorf("%d fetches after five intervals, want 12", n)
		}
		r.serves(t, "db")
	})
}

func TestRunNeverWaitsLongerThanTheInterval(t *testing.T) {
	t.Parallel()
	whileRunning(t, isDown, func(r *service) {
		pass(time.Hour)
		if n := r.cf.count(); n < 60 || n > 75 {
			t.Errorf("%d fetches in an hour, want about one a minute", n)
		}
	})
}

func TestRunServesTheStoredCopyWhileTheFirstFetchHangs(t *testing.T) {
	t.Parallel()
	whileRunning(t, func(r *service) {
		r.store.plant(t, textOf(t, marketOf("db")), startOfTime)
		r.cf.hold = make(chan struct{})
	}, func(r *service) {
		if !r.Ready("a") || r.cf.count() != 1 {
			t.Fatalf("ready %v after %d fetches, want true after 1", r.Ready("a"), r.cf.count())
		}
		r.serves(t, "db")
		// One fetch is given up after its timeout of ten seconds.
		pass(10*time.Second + firstRetry)
		if n := r.cf.count(); n != 2 {
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
		o := Options{Store: newStore(), Now: time.Now}
		for _, client := range []string{"a", "b", "c"} {
			o.Sources = append(o.Sources, Source{Client: client, Refresh: time.Minute, Fetch: func(context.Context) (broker.Marketplace, error) {
				mu.Lock()
				defer mu.Unlock()
				if at := time.Since(start); at > 0 {
					log = append(log, fmt.Sprint(client, at))
				}
				return marketOf("db"), nil
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
		r := newService(newStore())
		r.cf.hold = make(chan struct{})
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
		r := newService(newStore())
		r.store.hangs = true
		r.cf.set(marketOf("db"), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 26*time.Second)
		defer cancel()
		if _, err := r.Document(ctx, "a"); err != nil {
			t.Error(err)
		}
	})
}

func TestManyFirstReadersShareOneFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newService(newStore())
		r.cf.set(marketOf("db"), nil)
		r.cf.hold = make(chan struct{})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := r.Document(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := r.Refresh(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(r.cf.hold)
		all.Wait()
		if n := r.cf.count(); n != 1 {
			t.Errorf("%d fetches for 100 callers, want 1", n)
		}
	})
}

// For the race detector: readers see either the old or the new catalog, whole.
func TestReadersBesideRefreshes(t *testing.T) {
	t.Parallel()
	r := serving(t, marketOf("one"))
	valid := map[string]string{}
	for _, name := range []string{"one", "two"} {
		s := built(t, marketOf(name), Source{IDs: IDsBroker})
		valid[s.document.ETag] = string(s.document.Body)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				doc, err := r.Document(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				if diff := cmp.Diff(valid[doc.ETag], string(doc.Body)); diff != "" {
					t.Error(diff)
					return
				}
			}
		})
	}
	for i := range 100 {
		r.clock.advance(1)
		r.offer(t, marketOf([]string{"one", "two"}[i%2]))
	}
	all.Wait()
}
