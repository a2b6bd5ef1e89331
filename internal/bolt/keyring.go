package bolt

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
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
