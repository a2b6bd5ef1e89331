package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const (
	storeFile = "ferry.db"

	folderMode = 0o700
	fileMode   = 0o600
	// world are the rights of those who are neither the owner nor in the group. The group's are left alone: Kubernetes
	// gives a volume to a group (fsGroup).
	world = 0o007

	// lockTimeout is below bbolt's pause between two tries, so that it tries once.
	lockTimeout = time.Millisecond
)

// storeFormat is the layout of ferry.db as a whole; items have formats of their own.
const storeFormat = "2"

var formatKey = []byte("format")

// Options say where a store is and what it may use.
type Options struct {
	// Dir is made, for its owner only, when it is not there.
	Dir string
	// Now is the clock that records expire by. Required.
	Now func() time.Time
	// Logger hears of a file that is damaged while it is in use; nil means nobody does.
	Logger *slog.Logger

	// sync makes durable what the file shows, for tests that have it fail.
	sync func(*bbolt.DB) error
}

// Open returns the store in o.Dir, made anew when there is none. ErrInUse (errors.Is), without waiting, when somebody
// else has it; *FolderError, and nothing changed, for files that are damaged, are none of Ferry's or may be read by
// everybody. It reads the whole file for that. A folder of an older Ferry becomes one of this Ferry's, which the older
// one refuses. The caller closes the store.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", o.Dir, err)
	}
	return s, nil
}

func open(ctx context.Context, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		return nil, errors.New("no clock given")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.sync == nil {
		o.sync = (*bbolt.DB).Sync
	}
	if err := checkFolder(o.Dir); err != nil {
		return nil, err
	}
	s := &Store{
		now: o.Now, sync: o.sync, logger: o.Logger,
		submitted: make(chan *write), committed: make(chan struct{}), stuck: make(chan struct{}),
	}
	f, err := s.openFile(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, o.Dir, f); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// checkFolder makes the folder when it is not there, and looks at what lies in it before anything is opened. It changes
// nothing else.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, folderMode)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &FolderError{What: "It is a file and no folder", Do: "Nothing was changed. Choose another folder"}
	}
	store, err := checkFile(dir, info, storeFile)
	if err != nil {
		return err
	}
	keys, err := checkFile(dir, info, keyFile)
	if err != nil {
		return err
	}
	if keys != nil && (store == nil || store.Size() == 0) {
		return keysAlone()
	}
	return nil
}

// checkFile returns nil for a file that is not there. A file that everybody may read, in a folder that everybody may
// enter, may have been read; one that everybody may write may hold anything.
func checkFile(dir string, folder fs.FileInfo, name string) (fs.FileInfo, error) {
	info, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, foreign(name + " is a folder or something else that is no file")
	}
	if runtime.GOOS != "windows" && info.Mode()&world != 0 && folder.Mode()&0o001 != 0 {
		return nil, &FolderError{
			What: fmt.Sprintf("Everybody on this machine may read or write %s (its mode is %04o, that of the folder %04o), "+
				"and what it protects are passwords", name, info.Mode().Perm(), folder.Mode().Perm()),
			Do: "Nothing was changed. Take these rights away (chmod -R o-rwx), and change the passwords in parameters of " +
				"operations that run, if somebody may have read them",
		}
	}
	return info, nil
}

// openFile locks the file and reads all of it before bbolt maps it into memory and believes it.
func (s *Store) openFile(dir string) (f found, err error) {
	locked := func(path string, flag int, mode os.FileMode) (*os.File, error) {
		file, err := os.OpenFile(path, flag, mode)
		if err != nil {
			return nil, err
		}
		if err = lock(file); err == nil {
			f, err = checkContent(file)
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		s.file = file
		return file, nil
	}
	_, err = guarded(func() (err error) {
		s.db, err = bbolt.Open(filepath.Join(dir, storeFile), fileMode, &bbolt.Options{
			Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, OpenFile: locked,
		})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		err = ErrInUse
	}
	if err != nil {
		return found{}, fmt.Errorf("%s: %w", storeFile, err)
	}
	s.pageSize = s.db.Info().PageSize
	return f, nil
}

// start brings the file to this Ferry's format and starts the committer. The sync comes first: a process that was
// killed may have left a commit that can be read but is not on disk yet, and nothing may be overwritten on the word of
// such a commit.
func (s *Store) start(ctx context.Context, dir string, f found) (err error) {
	if err := s.sync(s.db); err != nil {
		return err
	}
	s.sum = f.sum
	switch string(f.format) {
	case "":
		if there(filepath.Join(dir, keyFile)) {
			return keysAlone()
		}
		s.sum, err = createBuckets(s.db)
	case storeFormat1:
		s.sum, err = convertFormat1(s.db, dir, f.sum)
	}
	if err == nil {
		err = removeKeyFile(s.db, dir)
	}
	if err == nil {
		err = syncDirs(dir)
	}
	if err != nil {
		return err
	}
	last, err := lastCommit(s.db)
	if err != nil {
		return err
	}
	s.durable = newDurable(last)
	if err := s.wipe(ctx); err != nil {
		return err
	}
	go s.commitAll()
	return nil
}

func createBuckets(db *bbolt.DB) (sum checksum, err error) {
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range allBuckets() {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		b := &batch{tx: tx}
		if err := b.put(metaBucket, formatKey, []byte(storeFormat)); err != nil {
			return err
		}
		sum = b.sum
		return sum.store(tx)
	})
	return sum, err
}

// syncDirs makes the names of the files durable, and that of the directory.
func syncDirs(dir string) error {
	for _, d := range []string{dir, filepath.Dir(filepath.Clean(dir))} {
		f, err := os.Open(d)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// there reports whether something has this name.
func there(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// FolderError says why a data folder cannot be used, and what to do about it. Nothing in the folder was changed.
type FolderError struct {
	// What is wrong, with the name of the file; Do is what the operator can do. Both are sentences without the full
	// stop.
	What, Do string
}

// Error returns both sentences.
func (e *FolderError) Error() string { return e.What + ". " + e.Do }

const restore = "Nothing was changed. Restore " + storeFile + " (and " + keyFile + ", where the backup has one) from one " +
	"backup that was made while Ferry was stopped; or, to begin without any record, move the files out of the folder"

// damaged is about ferry.db.
func damaged(format string, args ...any) error {
	return &FolderError{
		What: storeFile + " is damaged, as a copy is that was made while Ferry ran: " + fmt.Sprintf(format, args...),
		Do:   restore,
	}
}

// foreign is about a file that is none of Ferry's, or another folder's.
func foreign(what string) error { return &FolderError{What: what, Do: restore} }

func newerFormat(format []byte) error {
	return &FolderError{
		What: fmt.Sprintf("%s has format %.20q, and this Ferry knows format %s", storeFile, format, storeFormat),
		Do:   "Nothing was changed. Start the Ferry that wrote it, or restore a backup from before that",
	}
}
