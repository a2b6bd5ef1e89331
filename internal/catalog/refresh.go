package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
