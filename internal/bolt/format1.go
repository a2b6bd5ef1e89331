package bolt

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Format 1 of a data folder had a second file, an array of 32-byte keys. The first place named the file; each other one
// was a slot with an AES-256 key, numbered from 1, that the parameters of one record were encrypted with. The bucket
// slots told which record that was, and the entry parameter-keys of the bucket meta the file's id.
const (
	storeFormat1 = "1"

	keyFile      = "parameter-keys"
	keyFileMagic = "ferry slot keys1"
	slotSize     = 32
	// unnamed was the end of a new key file's name until the store knew of it. No record needed a key from it.
	unnamed = ".new"
	// sealContext went before the item's id into the additional data, so that what was encrypted opened in its own
	// place only.
	sealContext = "ferry parameters 1\x00"
)

var (
	slotsBucket = []byte("slots") // slot number → id
	keyFileID   = []byte("parameter-keys")
)

func keysAlone() error {
	return foreign(keyFile + " is there, but the " + storeFile + " that belongs to it is not, or holds nothing")
}

// convertFormat1 makes a store of format 1 one of this Ferry's, in one transaction: the parameters of operations that
// run are decrypted, and come to lie in their items. *FolderError, and nothing changed, when the key file is not the
// one that they were encrypted with. The key file itself is left to removeKeyFile.
func convertFormat1(db *bbolt.DB, dir string, sum checksum) (checksum, error) {
	keys, missing := os.ReadFile(filepath.Join(dir, keyFile))
	err := db.Update(func(tx *bbolt.Tx) error {
		if missing == nil && !ownKeyFile(tx, keys) {
			return foreign(keyFile + " and " + storeFile + " do not belong together: one is of another folder, or damaged")
		}
		b := &batch{tx: tx, sum: sum}
		err := tx.Bucket(slotsBucket).ForEach(func(slot, id []byte) error {
			if missing != nil {
				return foreign(fmt.Sprintf("%s, which belongs to %s, cannot be opened: %v", keyFile, storeFile, missing))
			}
			b.forget(slotsBucket, slot)
			return b.decrypt(keys, slot, id)
		})
		if err == nil {
			err = tx.DeleteBucket(slotsBucket)
		}
		if err == nil {
			err = b.put(metaBucket, formatKey, []byte(storeFormat))
		}
		if err != nil {
			return err
		}
		sum = b.sum
		return sum.store(tx)
	})
	return sum, err
}

// decrypt puts an item with its parameters in the place of the one that has them encrypted.
func (b *batch) decrypt(keys, slot, id []byte) error {
	it, _, err := b.find(id)
	if err != nil {
		return err
	}
	if len(slot) != 4 || binary.BigEndian.Uint32(slot) != it.slot {
		return errBadItem
	}
	at := int64(it.slot) * slotSize
	if at+slotSize > int64(len(keys)) {
		return foreign(fmt.Sprintf("%s is cut off: it lacks slot %d, which a record uses", keyFile, it.slot))
	}
	it.parameters, err = unseal(keys[at:at+slotSize], id, it.parameters)
	if err != nil {
		return err
	}
	it.slot = 0
	return b.put(itemsBucket, id, it.encode())
}

// unseal decrypts nonce, ciphertext and tag.
func unseal(key, id, sealed []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	n := min(aead.NonceSize(), len(sealed))
	plain, err := aead.Open(nil, sealed[:n], sealed[n:], append([]byte(sealContext), id...))
	if err != nil {
		return nil, foreign(fmt.Sprintf("%s is of another time than %s: the parameters of an operation that runs cannot be opened", keyFile, storeFile))
	}
	return plain, nil
}

// removeKeyFile removes the key file that the store does not need any more. One of another store is left alone.
func removeKeyFile(db *bbolt.DB, dir string) error {
	path := filepath.Join(dir, keyFile)
	if err := os.Remove(path + unnamed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keys, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	own := false
	if err == nil {
		err = db.View(func(tx *bbolt.Tx) error {
			own = ownKeyFile(tx, keys)
			return nil
		})
	}
	if err == nil && own {
		err = os.Remove(path)
	}
	return err
}

// ownKeyFile reports whether these are the content of the store's key file.
func ownKeyFile(tx *bbolt.Tx, keys []byte) bool {
	id := tx.Bucket(metaBucket).Get(keyFileID)
	return len(id) > 0 && bytes.HasPrefix(keys, append([]byte(keyFileMagic), id...))
}
