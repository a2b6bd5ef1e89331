package bolt

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
)

// sealContext goes before the item's id into the additional data of a sealed blob,
// so that it opens in its own place only.
const sealContext = "ferry parameters 1\x00"

// errSealed: the key in the slot is not the one that sealed these parameters.
var errSealed = errors.New("the key of the parameters is not there any more")

// keyring hands out slots of the key file and replaces the keys of those that were
// given up. Keys are read when they are needed and never kept in memory.
//
// A free slot holds a key that is on disk and that nothing was ever sealed with.
type keyring struct {
	file   *os.File
	logger *slog.Logger

	randomMu sync.Mutex
	random   io.Reader

	// growMu is held while the file grows; it guards slots.
	growMu sync.Mutex
	slots  uint32

	mu            sync.Mutex
	free, retired []uint32
	shredErr      error

	wake, stop, stopped chan struct{}
}

// openKeyring opens the key file, has it checked, and then replaces the keys of all
// slots that are not used.
func openKeyring(path string, id []byte, used map[uint32]bool, check func(*keyring) error, o Options) (*keyring, error) {
	f, slots, err := openKeyFile(path, id)
	if err != nil {
		return nil, err
	}
	k := &keyring{
		file: f, logger: o.Logger, random: o.Random, slots: slots,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	for slot := range used {
		if slot == 0 || slot > slots {
			err := foreign(fmt.Sprintf("%s is cut off: it lacks slot %d, which a record uses", keyFile, slot))
			return nil, errors.Join(err, f.Close())
		}
	}
	for slot := uint32(1); slot <= slots; slot++ {
		if !used[slot] {
			k.retired = append(k.retired, slot)
		}
	}
	if err = check(k); err == nil {
		err = k.shred()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	go k.run()
	return k, nil
}

// take returns a free slot. It does no I/O unless none is left.
func (k *keyring) take() (uint32, error) {
	for {
		if slot, ok := k.pop(); ok {
			return slot, nil
		}
		if err := k.grow(); err != nil {
			return 0, err
		}
	}
}

func (k *keyring) pop() (uint32, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.free)
	if n <= fewSlots {
		k.nudge()
	}
	if n == 0 {
		return 0, false
	}
	slot := k.free[n-1]
	k.free = k.free[:n-1]
	return slot, true
}

// grow adds slots at the end of the file unless there are enough free ones.
func (k *keyring) grow() error {
	k.growMu.Lock()
	defer k.growMu.Unlock()
	if k.freeSlots() > fewSlots {
		return nil
	}
	fresh, err := k.bytes(moreSlots * slotSize)
	if err != nil {
		return err
	}
	first := k.slots + 1
	if _, err := k.file.WriteAt(fresh, slotOffset(first)); err != nil {
		return fmt.Errorf("add slots to %s: %w", keyFile, err)
	}
	if err := syncFile(k.file); err != nil {
		return fmt.Errorf("add slots to %s: %w", keyFile, err)
	}
	k.slots += moreSlots
	k.mu.Lock()
	defer k.mu.Unlock()
	for slot := k.slots; slot >= first; slot-- {
		k.free = append(k.free, slot)
	}
	return nil
}

func (k *keyring) freeSlots() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.free)
}

// seal encrypts with the key of the slot: nonce, ciphertext, tag.
func (k *keyring) seal(slot uint32, id, plain []byte) ([]byte, error) {
	aead, err := k.aead(slot)
	if err != nil {
		return nil, err
	}
	nonce, err := k.bytes(aead.NonceSize())
	if err != nil {
		return nil, err
	}
	return aead.Seal(nonce, nonce, plain, append([]byte(sealContext), id...)), nil
}

// open reverses seal; errSealed when the slot has another key by now.
func (k *keyring) open(slot uint32, id, sealed []byte) ([]byte, error) {
	aead, err := k.aead(slot)
	if err != nil {
		return nil, err
	}
	n := aead.NonceSize()
	if len(sealed) < n {
		return nil, errBadItem
	}
	plain, err := aead.Open(nil, sealed[:n], sealed[n:], append([]byte(sealContext), id...))
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

func (k *keyring) aead(slot uint32) (cipher.AEAD, error) {
	var key [slotSize]byte
	if _, err := k.file.ReadAt(key[:], slotOffset(slot)); err != nil {
		return nil, fmt.Errorf("read slot %d of %s: %w", slot, keyFile, err)
	}
	defer clear(key[:])
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (k *keyring) bytes(n int) ([]byte, error) {
	k.randomMu.Lock()
	defer k.randomMu.Unlock()
	b := make([]byte, n)
	if _, err := io.ReadFull(k.random, b); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	return b, nil
}

// The key file is an array of 32 bytes. The first place names the file, each other
// one is a slot and holds an AES-256 key; slots are numbered from 1. A place never
// straddles two sectors, so a write is there or not.
const (
	slotSize   = 32
	idSize     = 16
	firstSlots = 1023
	// moreSlots is how many are added when fewer than fewSlots are free.
	moreSlots = 1024
	fewSlots  = 256
)

const keyFileMagic = "ferry slot keys1"

func slotOffset(slot uint32) int64 { return int64(slot) * slotSize }

// unnamed is the end of a key file's name until the store knows of it.
const unnamed = ".new"

// nameKeyFile gives a new key file its name, if that is still to be done.
func nameKeyFile(path string, id []byte) error {
	if there(path) {
		return nil
	}
	f, err := os.Open(path + unnamed)
	if err != nil {
		return nil // openKeyFile says that there is none
	}
	_, err = checkKeyFile(f, id)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+unnamed, path)
}

// createKeyFile makes the file with its first keys and returns its id, durable but
// for the name of the file.
func createKeyFile(path string, random io.Reader) (id []byte, err error) {
	content := make([]byte, slotOffset(firstSlots+1))
	if _, err := io.ReadFull(random, content); err != nil {
		return nil, err
	}
	copy(content, keyFileMagic)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	return bytes.Clone(content[slotSize-idSize : slotSize]), err
}

// openKeyFile opens the file and returns how many slots it has. A file that is not
// the one the records were sealed with is refused: to go on with it would lose the
// parameters of running operations.
func openKeyFile(path string, id []byte) (*os.File, uint32, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, foreign(fmt.Sprintf("%s, which belongs to %s, cannot be opened: %v", keyFile, storeFile, err))
	}
	slots, err := checkKeyFile(f, id)
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, slots, nil
}

func checkKeyFile(f *os.File, id []byte) (slots uint32, err error) {
	var head [slotSize]byte
	if _, err := f.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if string(head[:]) != keyFileMagic+string(id) {
		return 0, foreign(keyFile + " and " + storeFile + " do not belong together: one is of another folder, or damaged")
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return uint32(info.Size()/slotSize) - 1, nil
}

// retire gives slots up. Their keys are replaced soon, and only then are they free.
func (k *keyring) retire(slots []uint32) {
	if len(slots) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.retired = append(k.retired, slots...)
	k.nudge()
}

// nudge wakes the shredder, which also tries again what failed.
func (k *keyring) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run replaces the keys of retired slots, and adds slots when few are free, until
// the keyring is closed.
func (k *keyring) run() {
	defer close(k.stopped)
	for {
		select {
		case <-k.wake:
		case <-k.stop:
			return
		}
		err := k.shred()
		if k.freeSlots() <= fewSlots {
			err = errors.Join(err, k.grow())
		}
		if err != nil {
			k.logger.Error("keys of dropped parameters could not be replaced; they stay on disk", "error", err)
		}
		k.report(err)
	}
}

// shred puts a fresh key over that of each retired slot and frees the slots once all
// of that is on disk. On an error they stay retired.
func (k *keyring) shred() error {
	slots := k.takeRetired()
	if len(slots) == 0 {
		return nil
	}
	err := k.overwrite(slots)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.retired = append(k.retired, slots...)
		return fmt.Errorf("replace %d keys in %s: %w", len(slots), keyFile, err)
	}
	k.free = append(k.free, slots...)
	return nil
}

func (k *keyring) takeRetired() []uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	slots := k.retired
	k.retired = nil
	return slots
}

// overwrite writes the keys of neighbours at once: after a start nearly all slots
// are neighbours.
func (k *keyring) overwrite(slots []uint32) error {
	slices.Sort(slots)
	for rest := slots; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n] == rest[0]+uint32(n) {
			n++
		}
		fresh, err := k.bytes(n * slotSize)
		if err != nil {
			return err
		}
		if _, err := k.file.WriteAt(fresh, slotOffset(rest[0])); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return syncFile(k.file)
}

// report keeps the last result for fault.
func (k *keyring) report(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shredErr = err
}

// fault returns why keys could not be replaced the last time, if so.
func (k *keyring) fault() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shredErr
}

// close replaces what is left to replace and closes the file.
func (k *keyring) close() error {
	close(k.stop)
	<-k.stopped
	return errors.Join(k.shred(), k.file.Close())
}
