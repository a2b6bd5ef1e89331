package bench

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// syncRate returns how often a second the machine can make a page of a file in this folder durable, one after the
// other.
func syncRate(b *testing.B, folder string) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(folder, "sync-rate"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	const pages = 64
	if err := f.Truncate(pages * int64(len(page))); err != nil {
		b.Fatal(err)
	}
	n, began := 0, time.Now()
	for ; time.Since(began) < 500*time.Millisecond; n++ {
		page[0]++
		if _, err := f.WriteAt(page, int64(n%pages*len(page))); err != nil {
			b.Fatal(err)
		}
		if err := dataSync(f); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(began).Seconds()
}

// syncsPerCommit: bbolt syncs the pages, then the page that points to them.
const syncsPerCommit = 2

// commits returns the number of the store's last transaction, read from the two pages at the beginning of bbolt's file
// that hold it in turn. The store itself is out of reach behind HTTP, and its file is locked.
func commits(b *testing.B, folder string) uint64 {
	b.Helper()
	f, err := os.Open(filepath.Join(folder, "ferry.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	const header, numberAt = 16, 48
	var last uint64
	for _, page := range []int64{0, int64(os.Getpagesize())} {
		var number [8]byte
		if _, err := f.ReadAt(number[:], page+header+numberAt); err != nil {
			b.Fatal(err)
		}
		last = max(last, binary.NativeEndian.Uint64(number[:]))
	}
	return last
}
