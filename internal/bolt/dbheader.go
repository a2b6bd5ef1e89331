package bolt

import (
	"encoding/binary"
	"hash/fnv"
	"io"
)

const (
	dbMagic     = 0xED0CDAED
	dbVersion   = 2
	maxPageSize = 1 << 24
)

// The file's numbers are in the order of the machine.
func number16(b []byte) uint16 { return binary.NativeEndian.Uint16(b) }
func number32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func number64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// dbHeader is one of the two headers.
type dbHeader struct {
	pageSize             uint32
	root, freelist, high uint64
	txid                 uint64
}

// readHeader returns false for what is no header.
func readHeader(page []byte) (h dbHeader, ok bool) {
	if len(page) < pageHeader+64 {
		return h, false
	}
	m := page[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(m[:56]) // a hash takes everything
	if number32(m) != dbMagic || number32(m[4:]) != dbVersion || number64(m[56:]) != sum.Sum64() {
		return h, false
	}
	h = dbHeader{pageSize: number32(m[8:]), root: number64(m[16:]), freelist: number64(m[32:]), high: number64(m[40:]), txid: number64(m[48:])}
	return h, h.pageSize >= 1024 && h.pageSize <= maxPageSize && h.pageSize&(h.pageSize-1) == 0
}

// newestHeader finds the header of the last commit. bbolt would go by the other one when
// a header is damaged, and forget the last commit; but a header lies within one sector,
// which a loss of power leaves old or new, and commits write the two in turn.
func newestHeader(file io.ReaderAt, size int64) (dbHeader, error) {
	buffer := make([]byte, pageHeader+64)
	at := func(offset int64) (dbHeader, bool) {
		n, _ := file.ReadAt(buffer, offset)
		return readHeader(buffer[:n])
	}
	first, ok := at(0)
	for page := int64(1024); !ok && page < size && page <= maxPageSize; page *= 2 {
		if h, found := at(page); found && int64(h.pageSize) == page {
			return dbHeader{}, damaged("its first page is")
		}
	}
	if !ok {
		return dbHeader{}, foreign(storeFile + " is not a file that Ferry wrote, or its beginning is damaged")
	}
	second, ok := at(int64(first.pageSize))
	if !ok || second.pageSize != first.pageSize {
		return dbHeader{}, damaged("its second page is")
	}
	switch second.txid - first.txid {
	case 1:
		return second, nil
	case 1<<64 - 1:
		return first, nil
	default:
		return dbHeader{}, damaged("its two headers are of the commits %d and %d", first.txid, second.txid)
	}
}
