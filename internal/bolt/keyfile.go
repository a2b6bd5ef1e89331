package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

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
