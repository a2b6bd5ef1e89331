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
}

// Open returns the store in o.Dir, made anew when there is none. ErrInUse (errors.Is),
// without waiting, when somebody else has it. Before it returns, the keys of all
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
	db, err := openFile(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := start(db, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func openFile(dir string) (*bbolt.DB, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, storeFile), 0o600, &bbolt.Options{
		Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType,
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", storeFile, err)
	}
	return db, nil
}

// start brings both files in order and starts the committer. The sync comes first:
// a process that was killed may have left a commit that can be read but is not on
// disk yet, and a key must not be replaced on the word of such a commit.
func start(db *bbolt.DB, o Options) (*Store, error) {
	if err := db.Sync(); err != nil {
		return nil, err
	}
	keys, err := openKeys(db, o)
	if err != nil {
		return nil, err
	}
	durable, err := lastCommit(db)
	if err != nil {
		return nil, errors.Join(err, keys.close())
	}
	s := &Store{
		db: db, keys: keys, now: o.Now,
		queue: newQueue(), horizon: newHorizon(durable), committed: make(chan struct{}),
	}
	go s.commitAll()
	return s, nil
}

// openKeys opens the key file that belongs to db. The first time it makes the file,
// and then says so in db; if it was stopped in between, there are no records yet.
func openKeys(db *bbolt.DB, o Options) (*keyring, error) {
	id, err := readMeta(db)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, keyFile)
	if id == nil {
		if id, err = createKeyFile(path, o.Random); err != nil {
			return nil, err
		}
		if err = createBuckets(db, id); err != nil {
			return nil, err
		}
	}
	if err := syncDirs(o.Dir); err != nil {
		return nil, err
	}
	used, err := usedSlots(db)
	if err != nil {
		return nil, err
	}
	return openKeyring(path, id, used, o.Random, o.Logger)
}

// readMeta returns the id of the key file, nil for a new store.
func readMeta(db *bbolt.DB) (id []byte, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return nil
		}
		if f := meta.Get(formatKey); string(f) != storeFormat {
			return fmt.Errorf("%s has format %.20q; this Ferry knows format %s", storeFile, f, storeFormat)
		}
		id = append(id, meta.Get(keyFileID)...)
		return nil
	})
	return id, err
}

func createBuckets(db *bbolt.DB, id []byte) error {
	return db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{itemsBucket, dueBucket, expiryBucket, slotsBucket, catalogsBucket, metaBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(metaBucket)
		return errors.Join(meta.Put(formatKey, []byte(storeFormat)), meta.Put(keyFileID, id))
	})
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
