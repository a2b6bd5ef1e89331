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
