package bolt

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
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
