package bolt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"

	"go.etcd.io/bbolt"
)

// found is what a file holds, as far as opening it asks for.
type found struct {
	sum checksum
	// txid is the number of the last commit.
	txid uint64

	format  []byte // nil for a new file
	buckets map[string]bool
	stored  []byte // the sum of the last commit that knew of it
	// indexed is the sum of the entries that the indexes have, less those that the items ask for; unsure, when items of
	// a newer format ask for what is not known.
	indexed checksum
	unsure  bool
	bad     error
}

// checkContent reads the whole file and returns a *FolderError for one that no Ferry left so. An empty file is a new
// one: checkFolder has looked whether there was another.
func checkContent(file *os.File) (found, error) {
	f := found{buckets: map[string]bool{}}
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return f, err
	}
	header, err := newestHeader(file, info.Size())
	if err != nil {
		return f, err
	}
	if header.high < firstData || header.high > uint64(info.Size())/uint64(header.pageSize) {
		return f, damaged("it has %d bytes, and %d pages of %d were written", info.Size(), header.high, header.pageSize)
	}
	p := &pages{file: file, header: header, entry: f.entry, bucketFound: func(name string) { f.buckets[name] = true }}
	lost, err := p.walk()
	if err != nil {
		return f, err
	}
	f.txid = header.txid
	return f, f.checkConsistent(lost)
}

// entry takes up one entry of a bucket.
func (f *found) entry(bucket string, key, value []byte) {
	if bucket == string(metaBucket) && bytes.Equal(key, sumKey) {
		f.stored = bytes.Clone(value)
		return
	}
	if bucket == string(metaBucket) && bytes.Equal(key, formatKey) {
		f.format = bytes.Clone(value)
	}
	f.sum.add(bucket, key, value)
	switch bucket {
	case string(itemsBucket):
		f.item(key, value)
	case string(dueBucket), string(expiryBucket):
		f.indexed.add(bucket, key, nil)
	case string(slotsBucket):
		f.indexed.add(bucket, key, value)
	}
}

func (f *found) item(id, value []byte) {
	if len(value) > 0 && value[0] > format2 {
		f.unsure = true
		return
	}
	it, err := decodeItem(value)
	if err != nil {
		f.bad = err
		return
	}
	if !it.due.IsZero() {
		f.indexed.remove(string(dueBucket), stamped(it.due, id), nil)
	}
	if !it.expires.IsZero() {
		f.indexed.remove(string(expiryBucket), stamped(it.expires, id), nil)
	}
	if it.slot != 0 {
		f.indexed.remove(string(slotsBucket), binary.BigEndian.AppendUint32(nil, it.slot), id)
	}
}

// checkConsistent is about what the buckets hold: the pages are in order. Where the last commit has not stored its sum,
// because an older Ferry made it, what the entries say of each other has to do.
func (f *found) checkConsistent(lost int) error {
	if err := f.checkLayout(); err != nil {
		return err
	}
	sum, txid, known := decodeChecksum(f.stored)
	switch {
	case known && txid > f.txid:
		return damaged("commit %d is named in what commit %d left", txid, f.txid)
	case known && txid == f.txid && sum != f.sum:
		return damaged("records of different times are mixed")
	case known && txid == f.txid:
		return nil
	case f.bad != nil:
		return damaged("a record is malformed")
	case !f.unsure && f.indexed != checksum{}:
		return damaged("records and their indexes are of different times")
	case lost > 0:
		return damaged("%d pages have no use", lost)
	}
	return nil
}

// checkLayout returns an error for buckets that are not those of a format that this Ferry knows. None at all is what a
// first start leaves that was cut short.
func (f *found) checkLayout() error {
	if len(f.buckets) == 0 {
		return nil
	}
	if !f.buckets[string(metaBucket)] {
		return foreign(storeFile + " is a database of another program")
	}
	expected := allBuckets()
	switch string(f.format) {
	case storeFormat:
	case storeFormat1:
		expected = append(expected, slotsBucket)
	default:
		return newerFormat(f.format)
	}
	for _, name := range expected {
		if !f.buckets[string(name)] {
			return damaged("it has no %s", name)
		}
	}
	return nil
}

// checksum is a sum over everything that the buckets hold, whatever the order: a file that is put together of pages of
// different commits has another one. Each commit stores it with its number, so that a commit of a Ferry that does not
// know it shows.
type checksum [4]uint64

// sumKey is where the bucket meta has it; this entry itself is left out.
var sumKey = []byte("contents")

const checksumSize = 8 + 32

// entrySum is what one entry adds.
func entrySum(bucket string, key, value []byte) (c checksum) {
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

func (c *checksum) add(bucket string, key, value []byte) {
	for n, part := range entrySum(bucket, key, value) {
		c[n] += part
	}
}

func (c *checksum) remove(bucket string, key, value []byte) {
	for n, part := range entrySum(bucket, key, value) {
		c[n] -= part
	}
}

func (c checksum) encode(txid uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, checksumSize), txid)
	for _, part := range c {
		b = binary.BigEndian.AppendUint64(b, part)
	}
	return b
}

// decodeChecksum returns false for none.
func decodeChecksum(b []byte) (c checksum, txid uint64, ok bool) {
	if len(b) != checksumSize {
		return c, 0, false
	}
	for n := range c {
		c[n] = binary.BigEndian.Uint64(b[8+8*n:])
	}
	return c, binary.BigEndian.Uint64(b), true
}

// store writes the sum as that of the transaction, into which nothing else is written any more.
func (c checksum) store(tx *bbolt.Tx) error {
	return tx.Bucket(metaBucket).Put(sumKey, c.encode(uint64(tx.ID())))
}
