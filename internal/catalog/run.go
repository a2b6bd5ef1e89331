package catalog

import (
	"context"
	"sync"
	"time"
)

// firstRetry is the pause after the first fetch that failed; it doubles.
const firstRetry = 100 * time.Millisecond

// Run keeps all catalogs fresh until ctx ends, and returns when nothing of it runs
// any more. For each client it loads the stored copy, fetches at once, with quick
// retries until the first success, and then again whenever Refresh is over.
func (s *Service) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i, sh := range s.order {
		// The clients' fetches are spread over the interval, so that they do not all
		// ask one Cloud Foundry at the same moment.
		first := sh.source.Refresh - sh.source.Refresh*time.Duration(i)/time.Duration(len(s.order))
		all.Go(func() { sh.run(ctx, first) })
	}
	all.Wait()
}

// run refreshes one catalog: first after the first success, then each Refresh.
func (sh *shelf) run(ctx context.Context, first time.Duration) {
	// Trouble with the store is logged where it happens; Cloud Foundry is next.
	_ = sh.loading.do(ctx, sh.load)
	every := sh.source.Refresh
	for wait := min(firstRetry, every); sh.refresh(ctx) != nil; wait = min(2*wait, every) {
		if !pause(ctx, wait) {
			return
		}
	}
	for wait := first; pause(ctx, wait); wait = every {
		// The failure is logged where it happens, and the old catalog stays.
		_ = sh.refresh(ctx)
	}
}

// pause reports whether d went by before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
