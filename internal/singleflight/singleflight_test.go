package singleflight

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

var errFailed = errors.New("failed")

func TestCallersShareOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group
		var all sync.WaitGroup
		calls, hold := 0, make(chan struct{})
		for range 50 {
			all.Go(func() {
				err := g.Do(t.Context(), func(context.Context) error { calls++; <-hold; return errFailed })
				if !errors.Is(err, errFailed) {
					t.Errorf("error %v, want that of the call", err)
				}
			})
		}
		synctest.Wait()
		close(hold)
		all.Wait()
		if calls != 1 {
			t.Errorf("%d calls for 50 callers, want 1", calls)
		}
		if err := g.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Errorf("who came later got %v", err)
		}
	})
}

func TestWhoWaitsRunsTheCallThatWasCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group
		impatient, cancel := context.WithCancel(t.Context())
		calls, errs := 0, make(chan error, 2)
		work := func(ctx context.Context) error {
			if calls++; calls == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		go func() { errs <- g.Do(impatient, work) }()
		synctest.Wait()
		go func() { errs <- g.Do(t.Context(), work) }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v, want context.Canceled", err)
		}
		if err := <-errs; err != nil || calls != 2 {
			t.Errorf("the second caller got %v after %d calls, want its own call", err, calls)
		}
	})
}

func TestNobodyWaitsBeyondItsOwnContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group
		hold, first := make(chan struct{}), make(chan error, 1)
		go func() { first <- g.Do(t.Context(), func(context.Context) error { <-hold; return nil }) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := g.Do(ctx, func(context.Context) error { t.Error("a second call ran"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
		close(hold)
		if err := <-first; err != nil {
			t.Errorf("the first caller got %v", err)
		}
	})
}

func TestPanicFreesThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group
		hold, recovered, second := make(chan struct{}), make(chan any, 1), make(chan error, 1)
		go func() {
			defer func() { recovered <- recover() }()
			_ = g.Do(t.Context(), func(context.Context) error { <-hold; panic("boom") })
		}()
		synctest.Wait()
		go func() { second <- g.Do(t.Context(), func(context.Context) error { return nil }) }()
		synctest.Wait()
		close(hold)
		if got := <-recovered; got != "boom" {
			t.Errorf("the panic became %v", got)
		}
		if err := <-second; !errors.Is(err, ErrNoResult) {
			t.Errorf("who waited got %v, want ErrNoResult", err)
		}
	})
}
