package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// shelf holds one client's catalog. Readers load current and nothing else; load
// and fetch each run at most once at a time.
type shelf struct {
	source  Source
	store   broker.CatalogStore
	now     func() time.Time
	timeout time.Duration
	log     *slog.Logger

	current atomic.Pointer[snapshot]
	kept    atomic.Pointer[kept]

	loading, fetching flight
	outages           *broker.Throttle
	storeFault        throttle
}

// known returns the snapshot in memory, or else waits for the first one.
func (sh *shelf) known(ctx context.Context) (*snapshot, error) {
	if s := sh.current.Load(); s != nil {
		return s, nil
	}
	return sh.first(ctx)
}

// first tries the store, because that is near, and then Cloud Foundry.
func (sh *shelf) first(ctx context.Context) (*snapshot, error) {
	err := sh.loading.do(ctx, sh.load)
	if sh.current.Load() == nil && ctx.Err() == nil {
		if err := broker.BeginWaiting(ctx); err != nil {
			return nil, err
		}
		err = sh.refresh(ctx)
	}
	if s := sh.current.Load(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("catalog of client %s: %w: %w", sh.source.Client, broker.ErrNoCatalog, err)
}

func (sh *shelf) refresh(ctx context.Context) error {
	return sh.fetching.do(ctx, sh.fetch)
}

// fetch replaces the catalog by what Cloud Foundry offers now, or says why not.
func (sh *shelf) fetch(ctx context.Context) error {
	began := sh.now()
	text, next, err := sh.fetchOnce(ctx)
	if err != nil {
		// A caller who gave up or a process that stops is no fault of Cloud Foundry.
		if !errors.Is(ctx.Err(), context.Canceled) && sh.outages.Pass(sh.source.Client, sh.now()) {
			sh.log.Warn("the catalog was not refreshed, the last good one stays in use",
				"known", sh.current.Load() != nil, "error", err.Error())
		}
		return fmt.Errorf("refresh the catalog of client %s: %w", sh.source.Client, err)
	}
	sh.publish(next, sh.now())
	// A process that is told to stop right after its first fetch still keeps it.
	kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), sh.timeout)
	defer cancel()
	sh.keep(kept, text, began)
	return nil
}

func (sh *shelf) fetchOnce(ctx context.Context) ([]byte, *snapshot, error) {
	bounded, cancel := context.WithTimeout(ctx, sh.timeout)
	defer cancel()
	market, err := sh.source.Fetch(bounded)
	if err != nil {
		return nil, nil, err
	}
	text, err := encode(market)
	if err != nil {
		return nil, nil, err
	}
	if now := sh.current.Load(); now != nil && now.digest == sha256.Sum256(text) {
		return text, now, nil
	}
	next, err := build(text, sh.source)
	return text, next, err
}

// publish makes next the catalog that readers see, unless they do already. Only
// fetch and reload call it, one at a time.
func (sh *shelf) publish(next *snapshot, at time.Time) {
	prev := sh.current.Load()
	if prev != nil && prev.digest == next.digest {
		return
	}
	next.follow(prev, at)
	next.inherit(prev)
	sh.current.Store(next)
	sh.report(prev, next)
}

// report logs a change of the catalog, and what was left out or found no plan when
// that changed.
func (sh *shelf) report(prev, next *snapshot) {
	if prev == nil || prev.document.ETag != next.document.ETag {
		sh.log.Info("the catalog changed", "offerings", len(next.plans), "etag", next.document.ETag)
	}
	if len(next.leftOut) > 0 && (prev == nil || !slices.Equal(prev.leftOut, next.leftOut)) {
		sh.log.Warn("parts of the marketplace are left out of the catalog", "left_out", next.leftOut)
	}
	if len(next.unmatched) > 0 && (prev == nil || !slices.Equal(prev.unmatched, next.unmatched)) {
		sh.log.Info("names under catalog.rotatable have no plan that can be bound", "names", next.unmatched)
	}
}

const (
	// touchEvery is how often Fetched is written for a marketplace that stays the
	// same: often enough to see that refreshing works, rarely enough to cost nothing.
	touchEvery = time.Hour
	// keepTries bounds the writes of one refresh when other processes write as well.
	keepTries = 3
)

// kept is what this process believes to be stored.
type kept struct {
	revision int64
	digest   [sha256.Size]byte
	fetched  time.Time
}

func keptOf(c broker.StoredCatalog) *kept {
	return &kept{revision: c.Revision, digest: sha256.Sum256(c.Body), fetched: c.Fetched}
}

// load puts the stored copy on an empty shelf. Nothing stored is no error. It is
// bounded, because a store that hangs must not keep Cloud Foundry from being asked.
func (sh *shelf) load(ctx context.Context) error {
	if sh.current.Load() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sh.timeout)
	defer cancel()
	stored, err := sh.stored(ctx)
	if err != nil || stored.Revision == 0 {
		return err
	}
	next, err := build(stored.Body, sh.source)
	if err != nil {
		sh.storeTrouble(ctx, "the stored catalog is of no use", err)
		return err
	}
	next.follow(nil, stored.Fetched)
	// A fetch that ended meanwhile is newer than what is stored.
	if sh.current.CompareAndSwap(nil, next) {
		sh.report(nil, next)
	}
	return nil
}

// stored reads the stored copy and remembers what it saw; the zero value when
// there is none.
func (sh *shelf) stored(ctx context.Context) (broker.StoredCatalog, error) {
	c, err := sh.store.Catalog(ctx, sh.source.Client)
	if errors.Is(err, broker.ErrNotFound) {
		c, err = broker.StoredCatalog{}, nil
	}
	if err != nil {
		sh.storeTrouble(ctx, "the stored catalog could not be read", err)
		return broker.StoredCatalog{}, err
	}
	// What a write of ours returned meanwhile is newer than this read.
	sh.kept.CompareAndSwap(nil, keptOf(c))
	return c, nil
}

// keep stores the text that was fetched at began, unless that is stored already.
// Trouble is logged only: the catalog in memory is good without.
func (sh *shelf) keep(ctx context.Context, text []byte, began time.Time) {
	if sh.kept.Load() == nil {
		if _, err := sh.stored(ctx); err != nil {
			return
		}
	}
	digest := sha256.Sum256(text)
	for range keepTries {
		seen := sh.kept.Load()
		if seen.revision > 0 && seen.digest == digest && began.Sub(seen.fetched) < touchEvery {
			return
		}
		offer := broker.StoredCatalog{Client: sh.source.Client, Fetched: began, Body: text}
		now, err := sh.store.PutCatalog(ctx, offer, seen.revision)
		switch {
		case err == nil:
			sh.kept.Store(&kept{revision: now.Revision, digest: digest, fetched: began})
			return
		case !errors.Is(err, broker.ErrConflict):
			sh.storeTrouble(ctx, "the catalog could not be stored", err)
			return
		}
		sh.kept.Store(keptOf(now))
		if sh.take(ctx, now, began) {
			return
		}
	}
}

// take uses what another process stored if that was fetched after our own.
func (sh *shelf) take(ctx context.Context, theirs broker.StoredCatalog, began time.Time) bool {
	if theirs.Revision == 0 || !theirs.Fetched.After(began) {
		return false
	}
	next, err := build(theirs.Body, sh.source)
	if err != nil {
		sh.storeTrouble(ctx, "the stored catalog is of no use", err)
		return false
	}
	sh.publish(next, theirs.Fetched)
	return true
}

func (sh *shelf) storeTrouble(ctx context.Context, what string, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) && sh.storeFault.allow(sh.now()) {
		sh.log.Warn(what, "error", err.Error())
	}
}

// Load takes the client's stored catalog into memory, when there is none yet. Nothing
// stored is no error, and Cloud Foundry is not asked. The error is logged as well.
func (s *Service) Load(ctx context.Context, client string) error {
	sh, err := s.shelf(client)
	if err != nil {
		return err
	}
	return sh.loading.do(ctx, sh.load)
}

// Reload takes over the client's stored catalog when another process has stored one
// since this process looked, for processes that leave the fetching to somebody else.
// It does nothing while no catalog is in memory: the first question loads it anyway.
// The old catalog stays when the stored one cannot be read, or is of no use; the
// error, which is logged as well, says so.
func (s *Service) Reload(ctx context.Context, client string) error {
	sh, err := s.shelf(client)
	if err != nil || sh.current.Load() == nil {
		return err
	}
	return sh.fetching.do(ctx, sh.reload) // publishes, as a fetch does
}

func (sh *shelf) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sh.timeout)
	defer cancel()
	theirs, err := sh.stored(ctx)
	if err != nil || theirs.Revision == 0 {
		return err
	}
	if now := sh.current.Load(); now.digest == sha256.Sum256(theirs.Body) {
		return nil
	}
	if seen := sh.kept.Load(); seen != nil && theirs.Revision < seen.revision {
		return nil // a fetch of our own was stored meanwhile
	}
	next, err := build(theirs.Body, sh.source)
	if err != nil {
		sh.storeTrouble(ctx, "the stored catalog is of no use", err)
		return err
	}
	sh.kept.Store(keptOf(theirs))
	sh.publish(next, theirs.Fetched)
	return nil
}

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

// warnEvery is how often one kind of trouble of one client is logged at most.
const warnEvery = time.Minute

// throttle lets one message a minute through.
type throttle struct {
	mu   sync.Mutex
	next time.Time
}

func (t *throttle) allow(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		return false
	}
	t.next = now.Add(warnEvery)
	return true
}
