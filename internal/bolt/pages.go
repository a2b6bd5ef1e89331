package bolt

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io"
)

// The layout of bbolt's files: pages of one size, of which the first two are headers that commits write in turn. bbolt
// believes what it reads, so that a torn file ends it; and it keeps no checksum but that of the headers. So the pages
// are read here before bbolt does.
const (
	pageHeader  = 16 // id, flags, count, overflow
	elementSize = 16
	bucketSize  = 16 // root, sequence; an inline page follows where root is 0

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketEntry  = 0x01

	dbMagic     = 0xED0CDAED
	dbVersion   = 2
	maxPageSize = 1 << 24

	firstData  = 2
	noFreelist = 1<<64 - 1
	maxDepth   = 64
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

// newestHeader finds the header of the last commit. bbolt would go by the other one when a header is damaged, and
// forget the last commit; but a header lies within one sector, which a loss of power leaves old or new, and commits
// write the two in turn.
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

// pages walks the tree of a file that nobody writes.
type pages struct {
	file   io.ReaderAt
	header dbHeader
	used   []bool // pages that something refers to, the list of free ones included
	// entry is told of every key that is no bucket; what it is given is valid during the call only.
	entry func(bucket string, key, value []byte)
	// bucketFound is told of every bucket.
	bucketFound func(name string)
}

// walk reads every page and returns how many pages nothing refers to.
func (p *pages) walk() (lost int, err error) {
	p.used = make([]bool, p.header.high)
	p.used[0], p.used[1] = true, true
	if err := p.tree("", p.header.root, nil, nil, 0); err != nil {
		return 0, err
	}
	if p.header.freelist == noFreelist {
		return 0, nil
	}
	if err := p.freelist(); err != nil {
		return 0, err
	}
	for _, used := range p.used {
		if !used {
			lost++
		}
	}
	return lost, nil
}

// use marks a page as used, which it must not have been.
func (p *pages) use(id uint64) error {
	if id < firstData || id >= p.header.high {
		return damaged("it refers to page %d of %d", id, p.header.high)
	}
	if p.used[id] {
		return damaged("page %d has two uses", id)
	}
	p.used[id] = true
	return nil
}

// page reads a page with those that it flows over to.
func (p *pages) page(id uint64) ([]byte, error) {
	if err := p.use(id); err != nil {
		return nil, err
	}
	size := uint64(p.header.pageSize)
	var head [pageHeader]byte
	if err := p.read(head[:], id); err != nil {
		return nil, err
	}
	more := uint64(number32(head[12:]))
	if number64(head[:]) != id || more >= p.header.high-id {
		return nil, damaged("page %d is not what was written there", id)
	}
	for n := range more {
		if err := p.use(id + 1 + n); err != nil {
			return nil, err
		}
	}
	content := make([]byte, (1+more)*size)
	return content, p.read(content, id)
}

func (p *pages) read(b []byte, id uint64) error {
	if _, err := p.file.ReadAt(b, int64(id)*int64(p.header.pageSize)); err != nil {
		return damaged("page %d cannot be read: %v", id, err)
	}
	return nil
}

// tree reads the page and what is below it, whose keys are from low on and before high.
func (p *pages) tree(bucket string, id uint64, low, high []byte, depth int) error {
	content, err := p.page(id)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return damaged("page %d lies too deep", id)
	}
	switch number16(content[8:]) {
	case leafPage:
		return p.leaf(bucket, id, content, low, high, depth)
	case branchPage:
		return p.branch(bucket, id, content, low, high, depth)
	default:
		return damaged("page %d is not of the kind that was written there", id)
	}
}

// element returns an element of a page and what it points at, of the given length.
func element(content []byte, n int) (e []byte, at uint64, ok bool) {
	start := pageHeader + n*elementSize
	if start+elementSize > len(content) {
		return nil, 0, false
	}
	return content[start : start+elementSize], uint64(start), true
}

// cut returns length bytes from an offset on.
func cut(content []byte, offset, length uint64) ([]byte, bool) {
	if offset > uint64(len(content)) || length > uint64(len(content))-offset {
		return nil, false
	}
	return content[offset : offset+length], true
}

func (p *pages) branch(bucket string, id uint64, content, low, high []byte, depth int) error {
	count := int(number16(content[10:]))
	keys, children := make([][]byte, count), make([]uint64, count)
	for n := range count {
		e, at, ok := element(content, n)
		if ok {
			keys[n], ok = cut(content, at+uint64(number32(e)), uint64(number32(e[4:])))
		}
		if !ok || !within(keys[n], low, high, n > 0) {
			return damaged("page %d holds what does not belong there", id)
		}
		low, children[n] = keys[n], number64(e[8:])
	}
	if count == 0 {
		return damaged("page %d is empty", id)
	}
	for n, child := range children {
		next := high
		if n+1 < count {
			next = keys[n+1]
		}
		if err := p.tree(bucket, child, keys[n], next, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// within reports whether a key is in its place; behind low, or at it at the earliest.
func within(key, low, high []byte, behind bool) bool {
	order := bytes.Compare(key, low)
	if len(key) == 0 || order < 0 || behind && order == 0 {
		return false
	}
	return high == nil || bytes.Compare(key, high) < 0
}

func (p *pages) leaf(bucket string, id uint64, content, low, high []byte, depth int) error {
	for n := range int(number16(content[10:])) {
		e, at, ok := element(content, n)
		var key, value []byte
		if ok {
			size := uint64(number32(e[8:]))
			at += uint64(number32(e[4:]))
			if key, ok = cut(content, at, size); ok {
				value, ok = cut(content, at+size, uint64(number32(e[12:])))
			}
		}
		if !ok || !within(key, low, high, n > 0) {
			return damaged("page %d holds what does not belong there", id)
		}
		low = key
		if number32(e)&bucketEntry == 0 {
			p.entry(bucket, key, value)
			continue
		}
		if err := p.bucket(bucket+string(key), id, value, depth); err != nil {
			return err
		}
	}
	return nil
}

// bucket reads a bucket: its tree, or the page that stands in its place when it is small.
func (p *pages) bucket(name string, id uint64, value []byte, depth int) error {
	if len(value) < bucketSize {
		return damaged("page %d holds what does not belong there", id)
	}
	p.bucketFound(name)
	if root := number64(value); root != 0 {
		return p.tree(name, root, nil, nil, depth+1)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || number16(inline[8:]) != leafPage || depth > maxDepth {
		return damaged("page %d holds what does not belong there", id)
	}
	return p.leaf(name, id, inline, nil, nil, depth+1)
}

// freelist marks the pages that are free.
func (p *pages) freelist() error {
	id := p.header.freelist
	content, err := p.page(id)
	if err != nil {
		return err
	}
	if number16(content[8:]) != freelistPage {
		return damaged("page %d is not of the kind that was written there", id)
	}
	ids := content[pageHeader:]
	count := uint64(number16(content[10:]))
	if count == 0xFFFF && len(ids) >= 8 { // the count itself stands first
		count, ids = number64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return damaged("page %d holds what does not belong there", id)
	}
	for n := range count {
		if err := p.use(number64(ids[8*n:])); err != nil {
			return err
		}
	}
	return nil
}
