package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
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

// typical weighs what a Kubernetes platform makes a record weigh.
func typical(key broker.Key) broker.Record {
	guid := "6f1b3e0a-9f3e-4c55-8a59-0123456789ab"
	r := plain(key, guid, "")
	r.Salt = make([]byte, 16)
	r.Attributes = broker.Attributes{ServiceID: guid, PlanID: guid, OfferingName: "postgres", PlanGUID: guid, Parameters: guid + guid, Owner: guid + guid}
	r.Context = []byte(`{"platform":"kubernetes","namespace":"a-namespace","clusterid":"` + guid + `","instance_name":"` + guid + `"}`)
	r.OriginatingIdentity = "kubernetes " + strings.Repeat("eyJ1c2VybmFtZSI6", 12)
	r.Lifecycle.CFGUID = guid
	r.Lifecycle.Finished = []lifecycle.Finished{{ID: "create-" + guid, Verb: lifecycle.Create, Succeeded: true, EndedAt: time.Unix(1e9, 0)}}
	return r
}

// BenchmarkOpen reads a folder of 10,000 instances, each of which was written five times.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(b.Context(), Options{Dir: dir, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	for revision := range int64(5) {
		var all sync.WaitGroup
		for n := range 10_000 {
			all.Go(func() {
				key := broker.Key{Client: "client", InstanceID: fmt.Sprint(n)}
				if _, err := s.Put(b.Context(), typical(key), revision); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	for b.Loop() {
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if s, err = Open(b.Context(), Options{Dir: dir, Now: time.Now}); err != nil {
			b.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, storeFile))
	if err = errors.Join(err, s.Close()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
}
