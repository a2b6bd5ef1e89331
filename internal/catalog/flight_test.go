package catalog

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestManyFirstReadersShareOneFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(newMemory())
		r.market.set(shop("db"), nil)
		r.market.hold = make(chan struct{})
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
		close(r.market.hold)
		all.Wait()
		if n := r.market.count(); n != 1 {
			t.Errorf("%d fetches for 100 callers, want 1", n)
		}
	})
}

func TestFollowerTakesTheLeadWhenTheLeaderGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(newMemory())
		r.market.set(shop("db"), nil)
		r.market.hold = make(chan struct{})
		impatient, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		go func() { errs <- r.Refresh(impatient, "a") }()
		synctest.Wait()
		go func() { errs <- r.Refresh(t.Context(), "a") }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("the leader got %v, want context.Canceled", err)
		}
		synctest.Wait()
		close(r.market.hold)
		if err := <-errs; err != nil {
			t.Errorf("the follower got %v, want its own fetch", err)
		}
		if n := r.market.count(); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
	})
}

func TestFollowerDoesNotWaitBeyondItsOwnContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f flight
		hold := make(chan struct{})
		led := make(chan error, 1)
		go func() { led <- f.do(t.Context(), func(context.Context) error { <-hold; return nil }) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := f.do(ctx, func(context.Context) error { t.Error("a second call ran"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
		close(hold)
		if err := <-led; err != nil {
			t.Errorf("the leader got %v", err)
		}
	})
}

func TestPanicOfTheLeaderFreesTheFollowers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f flight
		hold := make(chan struct{})
		recovered := make(chan any, 1)
		go func() {
			defer func() { recovered <- recover() }()
			_ = f.do(t.Context(), func(context.Context) error { <-hold; panic("boom") })
		}()
		synctest.Wait()
		followed := make(chan error, 1)
		go func() { followed <- f.do(t.Context(), func(context.Context) error { return nil }) }()
		synctest.Wait()
		close(hold)
		if got := <-recovered; got != "boom" {
			t.Errorf("the leader's panic became %v", got)
		}
		if err := <-followed; !errors.Is(err, errBroken) {
			t.Errorf("the follower got %v, want errBroken", err)
		}
	})
}

// For the race detector: readers see either the old or the new catalog, whole.
func TestReadersBesideRefreshes(t *testing.T) {
	t.Parallel()
	r := newRig(newMemory())
	r.market.set(shop("one"), nil)
	r.mustRefresh(t)
	valid := map[string]string{}
	for _, name := range []string{"one", "two"} {
		s, err := build(textOf(t, shop(name)), Source{IDs: IDsBroker})
		if err != nil {
			t.Fatal(err)
		}
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
		r.market.set(shop([]string{"one", "two"}[i%2]), nil)
		r.clock.advance(1)
		r.mustRefresh(t)
	}
	all.Wait()
}
