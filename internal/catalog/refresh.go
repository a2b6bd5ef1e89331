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
	"github.com/ferry-broker/ferry/internal/singleflight"
)

const (
	// firstRetry is the pause after the first fetch that failed; it doubles.
	firstRetry = 100 * time.Millisecond
	// warnEvery is how often one kind of trouble of one client is logged at most.
	warnEvery = time.Minute
	// touchEvery is how often Fetched is written for a marketplace that stays the same: often enough to see that
	// refreshing works, rarely enough to cost nothing.
	touchEvery = time.Hour
	// keepTries bounds the writes of one refresh when other processes write as well.
	keepTries = 3
)

// Run keeps all catalogs fresh until ctx ends, and returns when nothing of it runs any more. For each client it loads
// the stored copy, fetches at once, with quick retries until the first success, and then again whenever Refresh is
// over.
func (s *Service) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i, c := range s.order {
		// The clients' fetches are spread over the interval, so that they do not all ask one Cloud Foundry at the same
		// moment.
		first := c.source.Refresh - c.source.Refresh*time.Duration(i)/time.Duration(len(s.order))
		all.Go(func() { c.run(ctx, first) })
	}
	all.Wait()
}

// Refresh fetches the client's marketplace now and returns when the catalog is the new one, or why the old one stays. A
// fetch that already runs is joined instead of starting a second. That the store could not be written is logged, not
// returned.
func (s *Service) Refresh(ctx context.Context, client string) error {
	c, err := s.client(client)
	if err != nil {
		return err
	}
	return c.refresh(ctx)
}

// Load takes the client's stored catalog into memory, when there is none yet. Nothing stored is no error, and Cloud
// Foundry is not asked. The error is logged as well.
func (s *Service) Load(ctx context.Context, client string) error {
	c, err := s.client(client)
	if err != nil {
		return err
	}
	return c.loading.Do(ctx, c.load)
}

// Reload takes over the client's stored catalog when another process has stored one since this process looked, for
// processes that leave the fetching to somebody else. It does nothing while no catalog is in memory: the first question
// loads it anyway. The old catalog stays when the stored one cannot be read or used; the error, which is logged as
// well, says so.
func (s *Service) Reload(ctx context.Context, client string) error {
	c, err := s.client(client)
	if err != nil || c.current.Load() == nil {
		return err
	}
	return c.fetching.Do(ctx, c.reload) // publishes, as a fetch does
}

// clientCatalog holds one client's catalog. Readers load current and nothing else; load and fetch each run at most once
// at a time.
type clientCatalog struct {
	source  Source
	store   broker.CatalogStore
	now     func() time.Time
	timeout time.Duration
	log     *slog.Logger

	current atomic.Pointer[snapshot]
	kept    atomic.Pointer[kept]

	loading, fetching    singleflight.Group
	outages, storeFaults *broker.Throttle
}

// kept is what this process believes to be stored.
type kept struct {
	revision int64
	digest   [sha256.Size]byte
	fetched  time.Time
}

func keptOf(stored broker.StoredCatalog) *kept {
	return &kept{revision: stored.Revision, digest: sha256.Sum256(stored.Body), fetched: stored.Fetched}
}

// known returns the snapshot in memory, or else waits for the first one.
func (c *clientCatalog) known(ctx context.Context) (*snapshot, error) {
	if s := c.current.Load(); s != nil {
		return s, nil
	}
	return c.first(ctx)
}

// first tries the store, because that is near, and then Cloud Foundry.
func (c *clientCatalog) first(ctx context.Context) (*snapshot, error) {
	err := c.loading.Do(ctx, c.load)
	if c.current.Load() == nil && ctx.Err() == nil {
		if err := broker.BeginWaiting(ctx); err != nil {
			return nil, err
		}
		err = c.refresh(ctx)
	}
	if s := c.current.Load(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("catalog of client %s: %w: %w", c.source.Client, broker.ErrNoCatalog, err)
}

// run refreshes one catalog: first after the first success, then each Refresh.
func (c *clientCatalog) run(ctx context.Context, first time.Duration) {
	// Trouble with the store is logged where it happens; Cloud Foundry is next.
	_ = c.loading.Do(ctx, c.load)
	every := c.source.Refresh
	for wait := min(firstRetry, every); c.refresh(ctx) != nil; wait = min(2*wait, every) {
		if !pause(ctx, wait) {
			return
		}
	}
	for wait := first; pause(ctx, wait); wait = every {
		// The failure is logged where it happens, and the old catalog stays.
		_ = c.refresh(ctx)
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

func (c *clientCatalog) refresh(ctx context.Context) error {
	return c.fetching.Do(ctx, c.fetch)
}

// fetch replaces the catalog by what Cloud Foundry offers now, or says why not.
func (c *clientCatalog) fetch(ctx context.Context) error {
	began := c.now()
	text, next, err := c.fetchOnce(ctx)
	if err != nil {
		// A caller who gave up or a process that stops is no fault of Cloud Foundry.
		if !errors.Is(ctx.Err(), context.Canceled) && c.outages.Pass(c.source.Client, c.now()) {
			c.log.Warn("the catalog was not refreshed, the last good one stays in use",
				"known", c.current.Load() != nil, "error", err.Error())
		}
		return fmt.Errorf("refresh the catalog of client %s: %w", c.source.Client, err)
	}
	c.publish(next, c.now())
	// A process that is told to stop right after its first fetch still keeps it.
	kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	c.keep(kept, text, began)
	return nil
}

func (c *clientCatalog) fetchOnce(ctx context.Context) ([]byte, *snapshot, error) {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	market, err := c.source.Fetch(bounded)
	if err != nil {
		return nil, nil, err
	}
	text, err := encode(market)
	if err != nil {
		return nil, nil, err
	}
	if now := c.current.Load(); now != nil && now.digest == sha256.Sum256(text) {
		return text, now, nil
	}
	next, err := build(text, c.source)
	return text, next, err
}

// publish makes next the catalog that readers see, unless they do already. Only fetch and reload call it, one at a
// time.
func (c *clientCatalog) publish(next *snapshot, at time.Time) {
	prev := c.current.Load()
	if prev != nil && prev.digest == next.digest {
		return
	}
	next.follow(prev, at)
	next.inherit(prev)
	c.current.Store(next)
	c.report(prev, next)
}

// report logs a change of the catalog, and what was left out or found no plan when that changed.
func (c *clientCatalog) report(prev, next *snapshot) {
	if prev == nil {
		prev = &snapshot{}
	}
	if prev.document.ETag != next.document.ETag {
		c.log.Info("the catalog changed", "offerings", len(next.plans), "etag", next.document.ETag)
	}
	if len(next.leftOut) > 0 && !slices.Equal(prev.leftOut, next.leftOut) {
		c.log.Warn("parts of the marketplace are left out of the catalog", "left_out", next.leftOut)
	}
	if len(next.unmatched) > 0 && !slices.Equal(prev.unmatched, next.unmatched) {
		c.log.Info("names under catalog.rotatable have no plan that can be bound", "names", next.unmatched)
	}
}

// keep stores the text that was fetched at began, unless that is stored already. Trouble is logged only: the catalog in
// memory is good without.
func (c *clientCatalog) keep(ctx context.Context, text []byte, began time.Time) {
	if c.kept.Load() == nil {
		if _, err := c.stored(ctx); err != nil {
			return
		}
	}
	digest := sha256.Sum256(text)
	for range keepTries {
		seen := c.kept.Load()
		if seen.revision > 0 && seen.digest == digest && began.Sub(seen.fetched) < touchEvery {
			return
		}
		offer := broker.StoredCatalog{Client: c.source.Client, Fetched: began, Body: text}
		now, err := c.store.PutCatalog(ctx, offer, seen.revision)
		switch {
		case err == nil:
			c.kept.Store(&kept{revision: now.Revision, digest: digest, fetched: began})
			return
		case !errors.Is(err, broker.ErrConflict):
			c.storeTrouble(ctx, "the catalog could not be stored", err)
			return
		}
		c.kept.Store(keptOf(now))
		if c.take(ctx, now, began) {
			return
		}
	}
}

// take uses what another process stored if that was fetched after our own.
func (c *clientCatalog) take(ctx context.Context, theirs broker.StoredCatalog, began time.Time) bool {
	if theirs.Revision == 0 || !theirs.Fetched.After(began) {
		return false
	}
	next, err := c.buildStored(ctx, theirs)
	if err != nil {
		return false
	}
	c.publish(next, theirs.Fetched)
	return true
}

// load makes the stored copy the first catalog. Nothing stored is no error. It is bounded, because a store that hangs
// must not keep Cloud Foundry from being asked.
func (c *clientCatalog) load(ctx context.Context) error {
	if c.current.Load() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	stored, err := c.stored(ctx)
	if err != nil || stored.Revision == 0 {
		return err
	}
	next, err := c.buildStored(ctx, stored)
	if err != nil {
		return err
	}
	next.follow(nil, stored.Fetched)
	// A fetch that ended meanwhile is newer than what is stored.
	if c.current.CompareAndSwap(nil, next) {
		c.report(nil, next)
	}
	return nil
}

func (c *clientCatalog) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	theirs, err := c.stored(ctx)
	if err != nil || theirs.Revision == 0 {
		return err
	}
	if now := c.current.Load(); now.digest == sha256.Sum256(theirs.Body) {
		return nil
	}
	if seen := c.kept.Load(); seen != nil && theirs.Revision < seen.revision {
		return nil // a fetch of our own was stored meanwhile
	}
	next, err := c.buildStored(ctx, theirs)
	if err != nil {
		return err
	}
	c.kept.Store(keptOf(theirs))
	c.publish(next, theirs.Fetched)
	return nil
}

// stored reads the stored copy and remembers what it saw; the zero value when there is none.
func (c *clientCatalog) stored(ctx context.Context) (broker.StoredCatalog, error) {
	stored, err := c.store.Catalog(ctx, c.source.Client)
	if errors.Is(err, broker.ErrNotFound) {
		stored, err = broker.StoredCatalog{}, nil
	}
	if err != nil {
		c.storeTrouble(ctx, "the stored catalog could not be read", err)
		return broker.StoredCatalog{}, err
	}
	// What a write of ours returned meanwhile is newer than this read.
	c.kept.CompareAndSwap(nil, keptOf(stored))
	return stored, nil
}

func (c *clientCatalog) buildStored(ctx context.Context, stored broker.StoredCatalog) (*snapshot, error) {
	next, err := build(stored.Body, c.source)
	if err != nil {
		c.storeTrouble(ctx, "the stored catalog is of no use", err)
	}
	return next, err
}

func (c *clientCatalog) storeTrouble(ctx context.Context, what string, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) && c.storeFaults.Pass(c.source.Client, c.now()) {
		c.log.Warn(what, "error", err.Error())
	}
}
