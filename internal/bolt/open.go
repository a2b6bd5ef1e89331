package bolt

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/ferry-broker/ferry/internal/broker"
)

const (
	storeFile = "ferry.db"
	keyFile   = "parameter-keys"

	// lockTimeout is below bbolt's pause between two tries, so that it tries once.
	lockTimeout = time.Millisecond
)

// storeFormat is the layout of ferry.db as a whole; items have formats of their own.
const storeFormat = "1"

var (
	formatKey = []byte("format")
	keyFileID = []byte("parameter-keys")
)

// Options say where a store is and what it may use.
type Options struct {
	// Dir is made, for its owner only, when it is not there.
	Dir string
	// Now is the clock that records expire by. Required.
	Now func() time.Time
	// Random is what keys and nonces are made of; nil means crypto/rand.
	Random io.Reader
	// Logger hears of keys that could not be replaced; nil means nobody does.
	Logger *slog.Logger

	// sync makes durable what the file shows, for tests that have it fail.
	sync func(*bbolt.DB) error
}

// Open returns the store in o.Dir, made anew when there is none. ErrInUse (errors.Is),
// without waiting, when somebody else has it; *FolderError, and nothing changed, for
// files that are damaged, do not belong together, are none of Ferry's or may be read by
// everybody. It reads the whole file for that. Before it returns, the keys of all
// parameters that no record has any more are replaced. The caller closes the store.
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
	if o.Random == nil {
		o.Random = rand.Reader
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
	db, found, err := openFile(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := start(db, found, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// openFile locks the file and reads all of it before bbolt maps it into memory and
// believes it.
func openFile(dir string) (db *bbolt.DB, found survey, err error) {
	locked := func(path string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(path, flag, mode)
		if err != nil {
			return nil, err
		}
		if err = lock(f); err == nil {
			found, err = surveyOf(f)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	_, err = guarded(func() (err error) {
		db, err = bbolt.Open(filepath.Join(dir, storeFile), fileMode, &bbolt.Options{
			Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, OpenFile: locked,
		})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		err = ErrInUse
	}
	if err != nil {
		return nil, survey{}, fmt.Errorf("%s: %w", storeFile, err)
	}
	return db, found, nil
}

// surveyOf takes an empty file for a new one: checkFolder has looked whether there was
// another.
func surveyOf(f *os.File) (survey, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return survey{}, err
	}
	return surveyFile(f)
}

// start brings both files in order and starts the committer. The sync comes first:
// a process that was killed may have left a commit that can be read but is not on
// disk yet, and a key must not be replaced on the word of such a commit.
func start(db *bbolt.DB, found survey, o Options) (*Store, error) {
	if err := o.sync(db); err != nil {
		return nil, err
	}
	s := &Store{
		db: db, now: o.Now, queue: newQueue(), contents: found.contents,
		committed: make(chan struct{}), stuck: make(chan struct{}),
	}
	keys, err := s.openKeys(o)
	if err != nil {
		return nil, err
	}
	durable, err := lastCommit(db)
	if err != nil {
		return nil, errors.Join(err, keys.close())
	}
	s.keys, s.horizon = keys, newHorizon(durable)
	go s.commitAll()
	return s, nil
}

// openKeys opens the key file that belongs to the store. The first time it makes the
// file under a name of its own, and gives it its name once the store knows of it: a
// process that was stopped in between goes on there, and no key file is ever written
// over.
func (s *Store) openKeys(o Options) (*keyring, error) {
	id, err := readMeta(s.db)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, keyFile)
	if id == nil {
		if there(path) {
			return nil, keysAlone()
		}
		if id, err = createKeyFile(path+unnamed, o.Random); err != nil {
			return nil, err
		}
		if s.contents, err = createBuckets(s.db, id); err != nil {
			return nil, err
		}
	}
	if err := nameKeyFile(path, id); err != nil {
		return nil, err
	}
	if err := syncDirs(o.Dir); err != nil {
		return nil, err
	}
	used, err := usedSlots(s.db)
	if err != nil {
		return nil, err
	}
	check := func(k *keyring) error { return checkSealed(s.db, k) }
	return openKeyring(path, id, used, check, o)
}

// readMeta returns the id of the key file, nil for a new store.
func readMeta(db *bbolt.DB) (id []byte, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return nil
		}
		if f := meta.Get(formatKey); string(f) != storeFormat {
			return newerFormat(f)
		}
		id = append(id, meta.Get(keyFileID)...)
		return nil
	})
	return id, err
}

func createBuckets(db *bbolt.DB, id []byte) (sum contents, err error) {
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range allBuckets() {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		b := newBatch(tx, nil, nil, contents{})
		if err := errors.Join(b.put(metaBucket, formatKey, []byte(storeFormat)), b.put(metaBucket, keyFileID, id)); err != nil {
			return err
		}
		sum = b.sum
		return sum.store(tx)
	})
	return sum, err
}

// usedSlots returns the slots of the parameters that records have.
func usedSlots(db *bbolt.DB) (map[uint32]bool, error) {
	used := map[uint32]bool{}
	err := db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(slotsBucket).ForEach(func(slot, _ []byte) error {
			if len(slot) != 4 {
				return errBadItem
			}
			used[binary.BigEndian.Uint32(slot)] = true
			return nil
		})
	})
	return used, err
}

// checkSealed opens the parameters of every record: a key file of another day has other
// keys in the same slots.
func checkSealed(db *bbolt.DB, k *keyring) error {
	return db.View(func(tx *bbolt.Tx) error {
		items := tx.Bucket(itemsBucket)
		return tx.Bucket(slotsBucket).ForEach(func(slot, id []byte) error {
			it, err := decodeItem(items.Get(id))
			if err != nil {
				return nil // of a newer format
			}
			if _, err = k.open(binary.BigEndian.Uint32(slot), id, it.sealed); errors.Is(err, errSealed) {
				return foreign(fmt.Sprintf("%s is of another time than %s: the parameters of an operation that runs cannot be opened", keyFile, storeFile))
			}
			return err
		})
	})
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

const (
	folderMode = 0o700
	fileMode   = 0o600
	// world are the rights of those who are neither the owner nor in the group. The
	// group's are left alone: Kubernetes gives a volume to a group (fsGroup).
	world = 0o007
)

// checkFolder makes the folder when it is not there, and looks at what lies in it before
// anything is opened. It changes nothing else.
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

// checkFile returns nil for a file that is not there. A file that everybody may read, in
// a folder that everybody may enter, may have been read; one that everybody may write may
// hold anything.
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

// there reports whether something has this name.
func there(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

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
