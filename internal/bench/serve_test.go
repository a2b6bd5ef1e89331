package bench

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// row is one line of the table.
type row struct {
	what           string
	callers        int
	rate, pace     float64 // a second: of calls, and of the disk at that time
	creates, syncs float64 // of the creates only
}

// BenchmarkServe measures creates, duplicates and polls at 1, 8 and 64 callers, and prints them as a table. Each is
// also given in units of the disk's own pace, which is what a figure from one machine can be compared with on another.
// While creates are measured their operations run, too: that is what a broker under load does.
func BenchmarkServe(b *testing.B) {
	s := serve(b)
	var rows []row
	for _, callers := range []int{1, 8, 64} {
		// Anew each time: what a disk can do changes with what else it has to do.
		rows = append(rows, measureAt(b, s, callers, syncRate(b, s.data))...)
	}
	fmt.Print(table(rows)) // the log of a benchmark with parts is not shown
}

// measureAt runs the three kinds with so many callers. Duplicates and polls meet instances that are there.
func measureAt(b *testing.B, s *broker, callers int, pace float64) []row {
	b.Helper()
	made := 0 // how many ids of this round exist
	id := func(n int) string { return fmt.Sprintf("bench-%d-%d", callers, n) }
	rows := make([]row, 0, 3)
	for _, kind := range []struct {
		what string
		call func(n int) error
	}{
		{"creates", func(n int) error { return s.create(id(n), http.StatusAccepted) }},
		{"duplicates", func(n int) error { return s.create(id(n%made), http.StatusOK) }},
		{"polls", func(n int) error { return s.poll(id(n % made)) }},
	} {
		r := row{what: kind.what, callers: callers, pace: pace}
		b.Run(fmt.Sprintf("%s/callers=%d", kind.what, callers), func(b *testing.B) {
			first := 0
			if kind.what == "creates" {
				first = made
				made += b.N
			}
			before := commits(b, s.data)
			b.ResetTimer()
			together(b, callers, first, kind.call)
			b.StopTimer()
			r.rate = float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(r.rate, "op/s")
			b.ReportMetric(r.rate/pace, "op/fdatasync")
			if kind.what == "creates" {
				r.creates, r.syncs = float64(b.N), syncsPerCommit*float64(commits(b, s.data)-before)
				b.ReportMetric(r.creates/max(r.syncs, 1), "creates/sync-issued")
			}
			s.rest(b)
		})
		rows = append(rows, r)
	}
	return rows
}

// together makes b.N calls with so many callers, numbered from first.
func together(b *testing.B, callers, first int, call func(n int) error) {
	b.Helper()
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := next.Add(1) - 1; n < int64(b.N) && failed.Load() == nil; n = next.Add(1) - 1 {
				if err := call(first + int(n)); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
}

// table is what a person reads.
func table(rows []row) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%-12s %8s %10s %22s %14s %22s %20s\n",
		"", "callers", "a second", "disk: fdatasync/second", "per fdatasync", "creates a sync issued", "against a create")
	fresh := map[int]float64{}
	for _, r := range rows {
		perSync, ratio := "", ""
		if r.what == "creates" {
			fresh[r.callers] = r.rate
			perSync = fmt.Sprintf("%.2f", r.creates/max(r.syncs, 1))
		} else if f := fresh[r.callers]; f > 0 {
			ratio = fmt.Sprintf("%.1f times", r.rate/f)
		}
		fmt.Fprintf(&t, "%-12s %8d %10.0f %22.0f %14.2f %22s %20s\n", r.what, r.callers, r.rate, r.pace, r.rate/r.pace, perSync, ratio)
	}
	return t.String()
}
