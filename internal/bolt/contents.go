package bolt

import (
	"crypto/sha256"
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// contents is a sum over everything that the buckets hold, whatever the order: a file
// that is put together of pages of different commits has another one. Each commit
// stores it with its number, so that a commit of a Ferry that does not know it shows.
type contents [4]uint64

// contentsKey is where the bucket meta has it; this entry itself is left out.
var contentsKey = []byte("contents")

const contentsSize = 8 + 32

// entrySum is what one entry adds.
func entrySum(bucket string, key, value []byte) (c contents) {
	h := sha256.New()
	var sizes [16]byte
	binary.BigEndian.PutUint64(sizes[:], uint64(len(bucket)))
	binary.BigEndian.PutUint64(sizes[8:], uint64(len(key)))
	for _, part := range [][]byte{sizes[:], []byte(bucket), key, value} {
		_, _ = h.Write(part) // a hash takes everything
	}
	sum := h.Sum(nil)
	for n := range c {
		c[n] = binary.BigEndian.Uint64(sum[8*n:])
	}
	return c
}

func (c *contents) add(bucket string, key, value []byte) {
	for n, part := range entrySum(bucket, key, value) {
		c[n] += part
	}
}

func (c *contents) remove(bucket string, key, value []byte) {
	for n, part := range entrySum(bucket, key, value) {
		c[n] -= part
	}
}

func (c contents) encode(txid uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, contentsSize), txid)
	for _, part := range c {
		b = binary.BigEndian.AppendUint64(b, part)
	}
	return b
}

// decodeContents returns false for none.
func decodeContents(b []byte) (c contents, txid uint64, ok bool) {
	if len(b) != contentsSize {
		return c, 0, false
	}
	for n := range c {
		c[n] = binary.BigEndian.Uint64(b[8+8*n:])
	}
	return c, binary.BigEndian.Uint64(b), true
}

// store writes the sum as that of the transaction, into which nothing else is written
// any more.
func (c contents) store(tx *bbolt.Tx) error {
	return tx.Bucket(metaBucket).Put(contentsKey, c.encode(uint64(tx.ID())))
}
