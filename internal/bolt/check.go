package bolt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"

	"go.etcd.io/bbolt"
)

// survey is what a file holds, as far as opening it asks for.
type survey struct {
	contents contents
	// txid is the number of the last commit.
	txid uint64

	format  []byte
	buckets map[string]bool
	stored  []byte // the sum of the last commit that knew of it
	// indexed is the sum of the entries that the indexes have, less those that the items
	// ask for; unsure, when items of a newer format ask for what is not known.
	indexed contents
	unsure  bool
	bad     error
}

// surveyFile reads the whole file, which is not empty, and returns a *FolderError for
// one that no Ferry left so.
func surveyFile(file *os.File) (survey, error) {
	s := survey{buckets: map[string]bool{}}
	info, err := file.Stat()
	if err != nil {
		return s, err
	}
	header, err := newestHeader(file, info.Size())
	if err != nil {
		return s, err
	}
	if header.high < firstData || header.high > uint64(info.Size())/uint64(header.pageSize) {
		return s, damaged("it has %d bytes, and %d pages of %d were written", info.Size(), header.high, header.pageSize)
	}
	p := &pages{file: file, header: header, entry: s.entry, bucketFound: func(name string) { s.buckets[name] = true }}
	lost, err := p.walk()
	if err != nil {
		return s, err
	}
	s.txid = header.txid
	return s, s.judge(lost)
}

// entry takes up one entry of a bucket.
func (s *survey) entry(bucket string, key, value []byte) {
	if bucket == string(metaBucket) && bytes.Equal(key, contentsKey) {
		s.stored = bytes.Clone(value)
		return
	}
	if bucket == string(metaBucket) && bytes.Equal(key, formatKey) {
		s.format = bytes.Clone(value)
	}
	s.contents.add(bucket, key, value)
	switch bucket {
	case string(itemsBucket):
		s.item(key, value)
	case string(dueBucket), string(expiryBucket):
		s.indexed.add(bucket, key, nil)
	case string(slotsBucket):
		s.indexed.add(bucket, key, value)
	}
}

func (s *survey) item(id, value []byte) {
	if len(value) > 0 && value[0] > format1 {
		s.unsure = true
		return
	}
	it, err := decodeItem(value)
	if err != nil {
		s.bad = err
		return
	}
	if !it.due.IsZero() {
		s.indexed.remove(string(dueBucket), stamped(it.due, id), nil)
	}
	if !it.expires.IsZero() {
		s.indexed.remove(string(expiryBucket), stamped(it.expires, id), nil)
	}
	if it.slot != 0 {
		s.indexed.remove(string(slotsBucket), slotKey(it.slot), id)
	}
}

// judge is about contents: the pages are in order. Where the last commit has not stored
// its sum, because an older Ferry made it, what the entries say of each other has to do.
func (s *survey) judge(lost int) error {
	if len(s.buckets) > 0 && !s.buckets[string(metaBucket)] {
		return foreign(storeFile + " is a database of another program")
	}
	if len(s.buckets) > 0 && string(s.format) != storeFormat {
		return newerFormat(s.format)
	}
	if err := s.lacksBucket(); err != nil {
		return err
	}
	sum, txid, known := decodeContents(s.stored)
	switch {
	case known && txid > s.txid:
		return damaged("commit %d is named in what commit %d left", txid, s.txid)
	case known && txid == s.txid && sum != s.contents:
		return damaged("records of different times are mixed")
	case known && txid == s.txid:
		return nil
	case s.bad != nil:
		return damaged("a record is malformed")
	case !s.unsure && s.indexed != contents{}:
		return damaged("records and their indexes are of different times")
	case lost > 0:
		return damaged("%d pages have no use", lost)
	}
	return nil
}

// lacksBucket returns an error when some, but not all buckets are there.
func (s *survey) lacksBucket() error {
	for _, name := range allBuckets() {
		if len(s.buckets) > 0 && !s.buckets[string(name)] {
			return damaged("it has no %s", name)
		}
	}
	return nil
}

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
