package catalog

import (
	"context"
	"crypto/sha256"
)

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
