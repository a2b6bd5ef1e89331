package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	berrors "go.etcd.io/bbolt/errors"
)

// wipePages is how many pages are overwritten at a stretch. Nobody reads or writes meanwhile, for about a millisecond.
const wipePages = 256

// wipe writes zeros over the pages that no record uses, if anything was committed since it last did. bbolt is
// copy-on-write: it writes what changes to other pages and leaves in the old ones what they held, parameters that were
// dropped among it, until it needs the space.
//
// A page that is free is one that the last commit does not refer to. That commit is durable, so no loss of power brings
// back a state that needs the page; and no reader is in an older one.
func (s *Store) wipe(ctx context.Context) error {
	commits := s.commits.Load() + 1
	if s.wiped.Load() == commits {
		return nil
	}
	content := make([]byte, wipePages*s.pageSize)
	for page := firstData; page != 0; {
		err := s.guard(func() (err error) {
			page, err = s.wipeFrom(ctx, page, content)
			return err
		})
		if errors.Is(err, berrors.ErrDatabaseNotOpen) {
			return ErrClosed
		}
		if err != nil {
			return fmt.Errorf("overwrite free pages: %w", err)
		}
	}
	if err := s.sync(s.db); err != nil {
		return fmt.Errorf("overwrite free pages: %w", err)
	}
	s.wiped.Store(commits)
	return nil
}

// wipeFrom overwrites the free ones of as many pages as content has place for, and returns where to go on; 0 at the end
// of the file.
func (s *Store) wipeFrom(ctx context.Context, first int, content []byte) (next int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	tx, err := s.db.Begin(true) // nobody commits meanwhile
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	if err := s.durable.wait(ctx, tx.ID()-1); err != nil {
		return 0, err
	}
	s.readers.Lock()
	defer s.readers.Unlock()
	size := s.pageSize
	zeros := make([]byte, size)
	n, err := s.file.ReadAt(content, int64(first)*int64(size))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for i := range n / size {
		info, err := tx.Page(first + i)
		if err != nil {
			return 0, err
		}
		// nil: it was never used, but a commit that failed may have written there.
		if info != nil && info.Type != "free" || bytes.Equal(content[i*size:(i+1)*size], zeros) {
			continue
		}
		if _, err := s.file.WriteAt(zeros, int64(first+i)*int64(size)); err != nil {
			return 0, err
		}
	}
	if n < len(content) {
		return 0, nil
	}
	return first + wipePages, nil
}
