package server

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/bolt"
	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/catalog"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/loop"
	"github.com/ferry-broker/ferry/internal/metrics"
	"github.com/ferry-broker/ferry/internal/setup"
)

// work runs until its context ends, and then takes a second to end itself.
type work struct {
	begun chan struct{}
	ended atomic.Bool
}

func newWork() *work { return &work{begun: make(chan struct{})} }

func (w *work) do(ctx context.Context) error {
	close(w.begun)
	<-ctx.Done()
	err := broker.Sleep(context.WithoutCancel(ctx), time.Second)
	w.ended.Store(true)
	return errors.Join(err, ctx.Err())
}

func (w *work) fetch(ctx context.Context) (broker.Marketplace, error) {
	return broker.Marketplace{}, w.do(ctx)
}

// AdvanceAll makes the work a step of one operation.
func (w *work) AdvanceAll(ctx context.Context, _ []broker.Unfinished, ended func(int, broker.Step, error)) {
	ended(0, broker.Step{}, w.do(ctx))
}

// unread is a store whose unfinished operations are asked for once everything runs.
type unread struct {
	*brokertest.MemoryStore
	runs  []*work
	fault error
}

func (s *unread) Unfinished(context.Context, time.Time, string, int) (broker.UnfinishedPage, error) {
	for _, w := range s.runs {
		<-w.begun
	}
	return broker.UnfinishedPage{}, s.fault
}

// TestNothingOutlivesLive, however that ends: the store is closed next. The fetch of a catalog and the step of an
// operation end side by side: the step has a second for itself, and takes another one.
func TestNothingOutlivesLive(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	for name, test := range map[string]struct {
		resume, answer error
		text           string
	}{
		"when the answers end":                          {},
		"when the answers end with an error":            {answer: mine, text: "mine"},
		"when the unfinished operations cannot be read": {resume: mine, text: "The unfinished operations cannot be read: mine."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fetch, step := newWork(), newWork()
				p := busyProcess(t, fetch, step, test.resume)
				answered, began := false, time.Now()
				err := p.live(t.Context(), func(int) error { answered = true; return test.answer })
				if (err == nil) != (test.text == "") || err != nil && (!errors.Is(err, mine) || err.Error() != test.text) {
					t.Errorf("error %v, want %q", err, test.text)
				}
				if answered != (test.resume == nil) {
					t.Errorf("answered: %t", answered)
				}
				if took := time.Since(began); !fetch.ended.Load() || !step.ended.Load() || took != 2*time.Second {
					t.Errorf("after %v the fetch has ended: %t, the step: %t", took, fetch.ended.Load(), step.ended.Load())
				}
				if err := p.loop.Start(t.Context(), broker.Start{Operation: "create-2"}); !errors.Is(err, loop.ErrClosed) {
					t.Errorf("another start: %v", err)
				}
			})
		})
	}
}

// busyProcess drives one operation already, and answers no requests.
func busyProcess(t *testing.T, fetch, step *work, resume error) *process {
	t.Helper()
	store := &unread{MemoryStore: brokertest.NewMemoryStore(time.Now), runs: []*work{fetch, step}, fault: resume}
	p := &process{logger: slog.New(slog.DiscardHandler), figures: metrics.New(), loop: loop.New(loop.Options{Now: time.Now})}
	p.assembly = &setup.Assembly{Catalog: catalog.New(catalog.Options{
		Sources: []catalog.Source{{Client: "demo", Fetch: fetch.fetch}}, Store: store, Now: time.Now,
	})}
	p.assembly.Broker = broker.New(broker.Options{Store: store, Catalog: p.assembly.Catalog, Workflow: p.loop, Now: time.Now})
	p.loop.Use(step)
	if err := p.loop.Start(t.Context(), broker.Start{Operation: "create-1"}); err != nil {
		t.Fatal(err)
	}
	return p
}

// marked is a Cloud Foundry that is only asked for what carries our marks.
type marked struct {
	broker.Backend
	began time.Time
	at    []time.Duration
}

func (m *marked) Marked(context.Context) ([]broker.Marked, error) {
	m.at = append(m.at, time.Since(m.began))
	return nil, nil
}

// TestServeAuditsAfterItsStartAndThenDaily: once ten minutes after the first start, and not again after another one
// within the day.
func TestServeAuditsAfterItsStartAndThenDaily(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, err := bolt.Open(t.Context(), bolt.Options{Dir: t.TempDir(), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		m := &marked{began: time.Now()}
		for _, runs := range []time.Duration{12 * time.Hour, 15 * time.Hour} {
			p := &process{store: store, figures: metrics.New(), logger: slog.New(slog.DiscardHandler), loop: loop.New(loop.Options{Now: time.Now})}
			p.assembly = &setup.Assembly{Catalog: catalog.New(catalog.Options{Store: store, Now: time.Now})}
			p.assembly.Config.Clients = []config.Client{{Name: "demo"}}
			p.assembly.Broker = broker.New(broker.Options{
				Store: store, Catalog: p.assembly.Catalog, Workflow: p.loop, Now: time.Now, Backends: map[string]broker.Backend{"demo": m},
			})
			if err := p.live(t.Context(), func(int) error { return broker.Sleep(t.Context(), runs) }); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]time.Duration{10 * time.Minute, 24*time.Hour + 10*time.Minute}, m.at); diff != "" {
			t.Errorf("audits (-want +got):\n%s", diff)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
