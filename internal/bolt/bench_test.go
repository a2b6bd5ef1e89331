package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// BenchmarkPut reports what group commit is worth: records per second and per commit,
// and how that compares with the number of times a second that this machine makes
// 4 KiB durable (measured in the same run). bbolt syncs twice a commit, so a lone
// writer cannot exceed half of it.
func BenchmarkPut(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			syncs := syncsPerSecond(b)
			s := openAt(b, b.TempDir(), time.Now)
			before := s.Stats()
			b.ResetTimer()
			errs := putInParallel(b, s, writers)
			b.StopTimer()
			if err := errors.Join(errs...); err != nil {
				b.Fatal(err)
			}
			after := s.Stats()
			writes := float64(after.Writes - before.Writes)
			rate := writes / b.Elapsed().Seconds()
			b.ReportMetric(rate, "writes/s")
			b.ReportMetric(writes/float64(after.Commits-before.Commits), "writes/commit")
			b.ReportMetric(rate/syncs, "writes/fdatasync")
		})
	}
}

// putInParallel shares b.N writes out among writers, each on a record of its own.
func putInParallel(b *testing.B, s *Store, writers int) []error {
	errs := make([]error, writers)
	var all sync.WaitGroup
	for n := range writers {
		share := b.N / writers
		if n < b.N%writers {
			share++
		}
		all.Go(func() {
			r := typical(bindingOf(n))
			for revision := range int64(share) {
				if _, errs[n] = s.Put(b.Context(), r, revision); errs[n] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errs
}

func syncsPerSecond(b *testing.B) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "syncs"))
	if err != nil {
		b.Fatal(err)
	}
	const places, times = 64, 300
	page := make([]byte, 4096)
	write := func(n int) {
		if _, err := f.WriteAt(page, int64(n%places)*int64(len(page))); err != nil {
			b.Fatal(err)
		}
	}
	for n := range places {
		write(n)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for n := range times {
		write(n)
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	rate := times / time.Since(began).Seconds()
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return rate
}
