package bolt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
)

// BenchmarkGroupCommit compares the store's group commit with bbolt's own Batch, which waits for MaxBatchDelay before
// it begins a commit. They take turns within the run, on stores of their own, so that the ratios mean something on a
// busy machine: for 1, 8 and 64 writers at once, how much longer a create takes than with the store's (time/ours), and
// how many commits, of two fdatasyncs each, there are for a write.
func BenchmarkGroupCommit(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			ways := []*benchWay{
				newBenchWay(b, "ours", func(s *Store) putFunc { return s.Put }),
				newBenchWay(b, "batch-10ms", func(s *Store) putFunc { return viaBatch(s, 10*time.Millisecond) }),
				newBenchWay(b, "batch-1ms", func(s *Store) putFunc { return viaBatch(s, time.Millisecond) }),
				newBenchWay(b, "batch-100us", func(s *Store) putFunc { return viaBatch(s, 100*time.Microsecond) }),
			}
			round := 0
			for b.Loop() {
				for n := range ways { // another one first each time
					ways[(n+round)%len(ways)].create(b, writers, round)
				}
				round++
			}
			for _, w := range ways {
				b.ReportMetric(w.took.Seconds()/ways[0].took.Seconds(), w.name+":time/ours")
				b.ReportMetric(float64(w.commits())/float64(w.writes), w.name+":commits/write")
			}
		})
	}
}

type putFunc func(context.Context, broker.Record, int64) (broker.Record, error)

type benchWay struct {
	name  string
	store *Store
	put   putFunc

	first  int // transaction
	writes int
	took   time.Duration
}

func newBenchWay(b *testing.B, name string, put func(*Store) putFunc) *benchWay {
	b.Helper()
	s := openAt(b, b.TempDir(), time.Now)
	first, err := lastCommit(s.db)
	if err != nil {
		b.Fatal(err)
	}
	return &benchWay{name: name, store: s, put: put(s), first: first}
}

func (w *benchWay) commits() int {
	last, _ := lastCommit(w.store.db)
	return last - w.first
}

// create lets each writer create 32 records, one after the other.
func (w *benchWay) create(b *testing.B, writers, round int) {
	b.Helper()
	const each = 32
	errs := make([]error, writers)
	var all sync.WaitGroup
	began := time.Now()
	for n := range writers {
		all.Go(func() {
			for i := range each {
				r := typical(bindingOf((round*writers+n)*each + i))
				if _, err := w.put(b.Context(), r, 0); err != nil {
					errs[n] = err
					return
				}
			}
		})
	}
	all.Wait()
	w.took += time.Since(began)
	w.writes += writers * each
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
}

// viaBatch is Put with the commits of bbolt's Batch. Readers wait for what is durable as before; the sum is stored by
// each write, since none knows which is the last of its commit.
func viaBatch(s *Store, delay time.Duration) putFunc {
	s.db.MaxBatchDelay = delay
	return func(_ context.Context, r broker.Record, revision int64) (broker.Record, error) {
		p, err := newPut(r, revision)
		if err != nil {
			return broker.Record{}, err
		}
		err = s.db.Batch(func(tx *bbolt.Tx) error {
			sum, _, _ := decodeChecksum(tx.Bucket(metaBucket).Get(sumKey))
			t := &batch{tx: tx, now: s.now, sum: sum}
			p.refused, p.found = false, nil // it may be called again
			if err := p.apply(t); err != nil || t.changes == 0 {
				return err
			}
			id := tx.ID()
			tx.OnCommit(func() { s.durable.reach(id) })
			return t.sum.store(tx)
		})
		if err != nil {
			return broker.Record{}, err
		}
		return p.answer()
	}
}
