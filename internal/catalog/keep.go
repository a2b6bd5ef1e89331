package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

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
