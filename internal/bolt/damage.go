package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ferry-broker/ferry/internal/broker"
)

// FolderError says why a data folder cannot be used, and what to do about it. Nothing
// in the folder was changed.
type FolderError struct {
	// What is wrong, with the name of the file; Do is what the operator can do. Both
	// are sentences without the full stop.
	What, Do string
}

// Error returns both sentences.
func (e *FolderError) Error() string { return e.What + ". " + e.Do }

const restoreBoth = "Nothing was changed. Restore " + storeFile + " and " + keyFile +
	" from one backup that was made while Ferry was stopped; or, to begin without any record, move both out of the folder"

// damaged is about ferry.db.
func damaged(format string, args ...any) error {
	return &FolderError{
		What: storeFile + " is damaged, as a copy is that was made while Ferry ran: " + fmt.Sprintf(format, args...),
		Do:   restoreBoth,
	}
}

// foreign is about a file that is none of Ferry's, or another folder's.
func foreign(what string) error { return &FolderError{What: what, Do: restoreBoth} }

func newerFormat(format []byte) error {
	return &FolderError{
		What: fmt.Sprintf("%s has format %.20q, and this Ferry knows format %s", storeFile, format, storeFormat),
		Do:   "Nothing was changed. Start the Ferry that wrote it, or restore a backup from before that",
	}
}

func keysAlone() error {
	return foreign(keyFile + " is there, but the " + storeFile + " that belongs to it is not, or holds nothing")
}

// guarded runs what reads the mapped file. A file that is damaged, or cut off by
// somebody, while it is in use makes bbolt panic and memory fault; both come back as an
// error, so that other requests and the log go on.
func guarded(f func() error) (panicked bool, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			panicked, err = true, fmt.Errorf("%s cannot be read: %w", storeFile, broker.Recovered(p))
		}
	}()
	return false, f()
}

// guard is guarded for a store in use. After a panic bbolt may hold its locks for ever,
// so that it is not asked anything any more.
func (s *Store) guard(f func() error) error {
	panicked, err := guarded(f)
	if !panicked {
		return err
	}
	err = fmt.Errorf("%w; the store is not used any more until Ferry starts again", err)
	s.givenUp.Do(func() {
		if p, ok := errors.AsType[*broker.PanicError](err); ok {
			s.keys.logger.Error("the store was damaged while it was in use; stop ferry and restore it", "error", err.Error(), "stack", p.Stack)
		}
		s.horizon.fail(err)
		close(s.stuck)
	})
	return err
}
