package brokertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Choice says how the call goes at which an actor waits.
type Choice string

// The choices. Drop, Lose and Delay let the actor see an error.
const (
	// Proceed makes the call and hands its answer over.
	Proceed Choice = "proceed"
	// Pause makes the call and lets the actor wait once more, before the answer.
	Pause Choice = "pause before the answer"
	// Lose makes the call and loses its answer; Drop loses the call itself.
	Lose Choice = "lose the answer"
	Drop Choice = "drop"
	// Delay loses the answer of a POST, PATCH or DELETE now, and keeps the call
	// itself in Late for later.
	Delay Choice = "delay"
	// Kill ends the actor where it is; KillAfter makes the call first.
	Kill      Choice = "kill"
	KillAfter Choice = "make the call and kill"
)

// ErrLost is what an actor sees of a call that was lost.
var ErrLost = errors.New("the answer was lost")

// ScheduleOptions are what a Scheduler is made of. Zero values get defaults.
type ScheduleOptions struct {
	Seed uint64
	// Deadline of operations; by default one that no schedule reaches.
	Deadline time.Duration
	// ClaimFirst is the Broker's option.
	ClaimFirst bool
	// Backend and Store wrap what is below the scheduler's gates, to watch or to
	// inject faults; ActorOf says whose call it is.
	Backend func(*Scheduler, broker.Backend) broker.Backend
	Store   func(*Scheduler, broker.Store) broker.Store
	// Cloud is nil for one whose jobs end when Finish is called.
	Cloud *CloudOptions
	// Configure changes what the Broker is made of; nil: nothing.
	Configure func(*broker.Options)
}

// SettleAfter and CallTimeout are those of every scheduled Broker, Deadline that of those whose options name none.
const (
	SettleAfter = 20 * time.Minute
	CallTimeout = time.Minute
	Deadline    = 100_000 * time.Hour
)

// Scheduler runs the real Broker's methods as actors that stop before every call
// of a port until they are told how it goes. One actor runs at a time and time is
// virtual, so that the same choices always give the same run.
//
// It belongs to one goroutine. Close ends actors that are left.
type Scheduler struct {
	Broker *broker.Broker
	Store  *MemoryStore
	Cloud  *FakeCloud
	// Started holds every start of a workflow, Late the calls that were delayed.
	Started []broker.Start
	Late    []*LateCall
	Trace   []string
	// Backend, Catalog and Workflow are what the Broker has. While no actor runs, others may be put in their places.
	Backend  *BackendInUse
	Catalog  *CatalogInUse
	Workflow *WorkflowInUse
	// Log gets the lines that the Broker logs, at every level; nil: they are lost.
	Log io.Writer

	clock  time.Time
	parked chan struct{}
	actors []*Actor
}

// LateCall is a POST, PATCH or DELETE that is still on its way.
type LateCall struct {
	Name string
	// Until is when it can take effect no more.
	Until time.Time
	do    func()
}

// Epoch is when every schedule begins.
func Epoch() time.Time { return time.Date(2031, time.May, 1, 8, 0, 0, 0, time.UTC) }

// NewScheduler returns a scheduler with an empty store and an empty cloud.
func NewScheduler(o ScheduleOptions) *Scheduler {
	s := &Scheduler{clock: Epoch(), parked: make(chan struct{})}
	s.Store = NewMemoryStore(s.Now)
	s.Cloud = NewFakeCloud(CloudOptions{Now: s.Now, Manual: true})
	if o.Cloud != nil {
		o.Cloud.Now = s.Now
		s.Cloud = NewFakeCloud(*o.Cloud)
	}
	var backend broker.Backend = s.Cloud
	if o.Backend != nil {
		backend = o.Backend(s, backend)
	}
	var store broker.Store = s.Store
	if o.Store != nil {
		store = o.Store(s, store)
	}
	if o.Deadline == 0 {
		o.Deadline = Deadline
	}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], o.Seed)
	s.Backend = &BackendInUse{gatedBackend{Backend: backend, s: s}}
	s.Catalog = &CatalogInUse{NewFakeCatalog()}
	s.Workflow = &WorkflowInUse{gatedWorkflow{s: s}}
	options := broker.Options{
		Store:    gatedStore{Store: store, s: s},
		Backends: map[string]broker.Backend{Client: s.Backend},
		Catalog:  s.Catalog, Workflow: s.Workflow, Logger: slog.New(logInUse{s}),
		Now: s.Now, Sleep: s.sleep, Random: rand.NewChaCha8(seed), Process: "process",
		Deadline: o.Deadline, SettleAfter: SettleAfter, CallTimeout: CallTimeout, RequestBudget: 26 * time.Second,
		ClaimFirst: o.ClaimFirst,
	}
	if o.Configure != nil {
		o.Configure(&options)
	}
	s.Broker = broker.New(options)
	return s
}

// BackendInUse is the broker.Backend that it holds now.
type BackendInUse struct{ broker.Backend }

// CatalogInUse is the broker.Catalog that it holds now.
type CatalogInUse struct{ broker.Catalog }

// WorkflowInUse is the broker.Workflow that it holds now, and a broker.Stopper when that is one.
type WorkflowInUse struct{ broker.Workflow }

// Stop implements broker.Stopper.
func (w *WorkflowInUse) Stop(ctx context.Context, start broker.Start) error {
	if stopper, ok := w.Workflow.(broker.Stopper); ok {
		return stopper.Stop(ctx, start)
	}
	return nil
}

// logInUse writes to the scheduler's Log.
type logInUse struct{ s *Scheduler }

// Enabled implements slog.Handler.
func (l logInUse) Enabled(context.Context, slog.Level) bool { return l.s.Log != nil }

// Handle implements slog.Handler.
func (l logInUse) Handle(ctx context.Context, r slog.Record) error {
	return slog.NewTextHandler(l.s.Log, &slog.HandlerOptions{Level: slog.LevelDebug}).Handle(ctx, r)
}

// WithAttrs implements slog.Handler. The Broker has no use for it.
func (l logInUse) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler. The Broker has no use for it.
func (l logInUse) WithGroup(string) slog.Handler { return l }

// Client is the client whose cloud a scheduler has.
const Client = "client"

// Now is the virtual time.
func (s *Scheduler) Now() time.Time { return s.clock }

// Advance lets time pass. Delayed calls whose time is over are forgotten.
func (s *Scheduler) Advance(d time.Duration) {
	s.clock = s.clock.Add(d)
	s.note("%s pass", d)
	var left []*LateCall
	for _, l := range s.Late {
		if l.Until.After(s.clock) {
			left = append(left, l)
		}
	}
	s.Late = left
}

// Land lets the i-th delayed call take effect now.
func (s *Scheduler) Land(i int) {
	l := s.Late[i]
	s.Late = append(s.Late[:i:i], s.Late[i+1:]...)
	s.note("late: %s takes effect", l.Name)
	l.do()
}

func (s *Scheduler) note(format string, args ...any) {
	s.Trace = append(s.Trace, fmt.Sprintf("%s ", s.clock.Sub(Epoch()))+fmt.Sprintf(format, args...))
}

// Actor is one method of the Broker on its way.
type Actor struct {
	Name string
	// At is the call before which it waits, empty once it is done.
	At     string
	Killed bool
	// Value and Err are what the method returned.
	Value any
	Err   error
	// Writes and Starts count the records and workflows that it wrote and started.
	Writes, Starts int

	s       *Scheduler
	resume  chan Choice
	cancel  context.CancelFunc
	expires time.Time
}

type actorKey struct{}

// ActorOf returns the actor whose call it is, or nil.
func ActorOf(ctx context.Context) *Actor {
	a, _ := ctx.Value(actorKey{}).(*Actor)
	return a
}

// Go starts an actor and lets it run up to its first call.
func (s *Scheduler) Go(name string, run func(context.Context) (any, error)) *Actor {
	a := &Actor{Name: name, s: s, resume: make(chan Choice)}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), actorKey{}, a))
	a.cancel = cancel
	s.actors = append(s.actors, a)
	s.note("%s begins", name)
	go func() {
		a.Killed = true // until it returned
		defer func() {
			if p := recover(); p != nil {
				a.Err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			a.At = ""
			cancel()
			s.parked <- struct{}{}
		}()
		a.Value, a.Err = run(ctx)
		a.Killed = false
	}()
	<-s.parked
	s.noteEnd(a)
	return a
}

func (s *Scheduler) noteEnd(a *Actor) {
	if a.At == "" && !a.Killed {
		s.note("%s ends: %+v, %v", a.Name, a.Value, a.Err)
	}
}

// Done reports whether the actor has returned or was killed.
func (a *Actor) Done() bool { return a.At == "" }

// Choose lets the actor's next call go as chosen, and the actor run up to the one
// after it. A done actor stays done.
func (s *Scheduler) Choose(a *Actor, c Choice) {
	if a.Done() {
		return
	}
	s.note("%s: %s: %s", a.Name, a.At, c)
	a.resume <- c
	<-s.parked
	s.noteEnd(a)
}

// Reach lets the actor proceed until it waits before a call of this name, or is
// done. One that makes thousands of calls without getting there is killed.
func (s *Scheduler) Reach(a *Actor, call string) *Actor {
	for n := 0; !a.Done() && a.At != call; n++ {
		if n == endless {
			s.note("%s goes on for ever", a.Name)
			s.Choose(a, Kill)
			continue
		}
		s.Choose(a, Proceed)
	}
	return a
}

const endless = 2000

// Finish lets the actor proceed until it is done. It returns the actor.
func (s *Scheduler) Finish(a *Actor) *Actor { return s.Reach(a, "") }

// Expire spends the actor's time: its context ends.
func (s *Scheduler) Expire(a *Actor) {
	s.note("%s has no time left", a.Name)
	a.cancel()
}

// Waiting lists the actors that are not done, oldest first.
func (s *Scheduler) Waiting() []*Actor {
	var out []*Actor
	for _, a := range s.actors {
		if !a.Done() {
			out = append(out, a)
		}
	}
	return out
}

// Close kills what is left, so that no goroutine stays.
func (s *Scheduler) Close() {
	for _, a := range s.Waiting() {
		for !a.Done() {
			s.Choose(a, Kill)
		}
	}
}

// ask stops the actor before a call.
func (a *Actor) ask(call string) Choice {
	a.At = call
	a.s.parked <- struct{}{}
	c := <-a.resume
	if c == Kill {
		runtime.Goexit()
	}
	return c
}

func (s *Scheduler) sleep(ctx context.Context, d time.Duration) error {
	if a := ActorOf(ctx); a != nil && a.ask("Sleep") == Drop {
		a.cancel()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.clock = s.clock.Add(d)
	return nil
}

// gate stops the actor of ctx before a call and lets it go as chosen. lost is what
// a lost call returns. Without an actor the call is made.
func gate[T any](ctx context.Context, s *Scheduler, call string, lost T, do func(context.Context) (T, error)) (T, error) {
	a := ActorOf(ctx)
	if a == nil {
		return do(ctx)
	}
	a.expires = s.expiry(ctx)
	choice := a.ask(call)
	if !a.expires.IsZero() && s.clock.After(a.expires) {
		return lost, fmt.Errorf("%s: %w", call, context.DeadlineExceeded)
	}
	if err := ctx.Err(); err != nil {
		return lost, err
	}
	switch choice {
	case Drop:
		return lost, ErrLost
	case Delay:
		s.postpone(a, call, func() { _, _ = do(context.WithoutCancel(ctx)) })
		return lost, ErrLost
	default: // the call is made
	}
	v, err := do(ctx)
	switch choice {
	case Lose:
		return lost, ErrLost
	case KillAfter:
		runtime.Goexit()
	case Pause:
		a.ask(call + " answered")
	default: // it is answered at once
	}
	return v, err
}

// expiry is when the context of a call ends, in virtual time: deadlines that the
// Broker sets are as long as they say, only counted from another clock. It is
// rounded down, so that a call never counts as alive for longer than it is.
func (s *Scheduler) expiry(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return s.clock.Add(time.Until(deadline).Truncate(time.Second))
}

// postpone keeps a call for later. It takes effect within SettleAfter of its
// intent, CallTimeout before which its sender gave up, or never.
func (s *Scheduler) postpone(a *Actor, call string, do func()) {
	s.Late = append(s.Late, &LateCall{
		Name: a.Name + ": " + call, Until: a.expires.Add(SettleAfter - CallTimeout), do: do,
	})
}

type gatedStore struct {
	broker.Store
	s *Scheduler
}

func (g gatedStore) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	return gate(ctx, g.s, "Get "+string(key.Kind()), broker.Record{}, func(ctx context.Context) (broker.Record, error) {
		return g.Store.Get(ctx, key)
	})
}

func (g gatedStore) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	return gate(ctx, g.s, "Put", broker.Record{}, func(ctx context.Context) (broker.Record, error) {
		stored, err := g.Store.Put(ctx, r, revision)
		if a := ActorOf(ctx); a != nil && err == nil {
			a.Writes++
		}
		return stored, err
	})
}

func (g gatedStore) Bindings(ctx context.Context, instance broker.Key) ([]broker.Record, error) {
	return gate(ctx, g.s, "Bindings", nil, func(ctx context.Context) ([]broker.Record, error) {
		return g.Store.Bindings(ctx, instance)
	})
}

func (g gatedStore) Unfinished(ctx context.Context, due time.Time, after string, limit int) (broker.UnfinishedPage, error) {
	return gate(ctx, g.s, "Unfinished", broker.UnfinishedPage{}, func(ctx context.Context) (broker.UnfinishedPage, error) {
		return g.Store.Unfinished(ctx, due, after, limit)
	})
}

type gatedWorkflow struct{ s *Scheduler }

func (g gatedWorkflow) Start(ctx context.Context, start broker.Start) error {
	_, err := gate(ctx, g.s, "Start", struct{}{}, func(ctx context.Context) (struct{}, error) {
		g.s.Started = append(g.s.Started, start)
		if a := ActorOf(ctx); a != nil {
			a.Starts++
		}
		return struct{}{}, nil
	})
	return err
}

type gatedBackend struct {
	broker.Backend
	s *Scheduler
}

func (g gatedBackend) look(ctx context.Context, call string, do func(context.Context) (broker.Look, error)) (broker.Look, error) {
	return gate(ctx, g.s, call, broker.Look{}, do)
}

func (g gatedBackend) FindInstances(ctx context.Context, name string, guids ...string) (broker.Look, error) {
	return g.look(ctx, "FindInstances", func(ctx context.Context) (broker.Look, error) {
		return g.Backend.FindInstances(ctx, name, guids...)
	})
}

func (g gatedBackend) FindInstance(ctx context.Context, guid string) (broker.Look, error) {
	return g.look(ctx, "FindInstance", func(ctx context.Context) (broker.Look, error) {
		return g.Backend.FindInstance(ctx, guid)
	})
}

func (g gatedBackend) FindKeys(ctx context.Context, instanceGUID, name string, guids ...string) (broker.Look, error) {
	return g.look(ctx, "FindKeys", func(ctx context.Context) (broker.Look, error) {
		return g.Backend.FindKeys(ctx, instanceGUID, name, guids...)
	})
}

func (g gatedBackend) Job(ctx context.Context, guid string) (broker.JobStatus, error) {
	unclear := broker.JobStatus{State: lifecycle.JobUnclear}
	return gate(ctx, g.s, "Job", unclear, func(ctx context.Context) (broker.JobStatus, error) {
		return g.Backend.Job(ctx, guid)
	})
}

func (g gatedBackend) call(ctx context.Context, call string, do func(context.Context) (broker.Answer, error)) (broker.Answer, error) {
	return gate(ctx, g.s, call, broker.Answer{Reply: lifecycle.ReplyUnknown}, do)
}

func (g gatedBackend) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	return g.call(ctx, "CreateInstance", func(ctx context.Context) (broker.Answer, error) {
		return g.Backend.CreateInstance(ctx, c)
	})
}

func (g gatedBackend) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	return g.call(ctx, "UpdateInstance", func(ctx context.Context) (broker.Answer, error) {
		return g.Backend.UpdateInstance(ctx, guid, c)
	})
}

func (g gatedBackend) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	return g.call(ctx, "DeleteInstance", func(ctx context.Context) (broker.Answer, error) {
		return g.Backend.DeleteInstance(ctx, guid)
	})
}

func (g gatedBackend) CreateKey(ctx context.Context, c broker.KeyCall) (broker.Answer, error) {
	return g.call(ctx, "CreateKey", func(ctx context.Context) (broker.Answer, error) {
		return g.Backend.CreateKey(ctx, c)
	})
}

func (g gatedBackend) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	return g.call(ctx, "DeleteKey", func(ctx context.Context) (broker.Answer, error) {
		return g.Backend.DeleteKey(ctx, guid)
	})
}

func (g gatedBackend) KeyDetails(ctx context.Context, guid string) (broker.KeyDetails, error) {
	return gate(ctx, g.s, "KeyDetails", broker.KeyDetails{}, func(ctx context.Context) (broker.KeyDetails, error) {
		return g.Backend.KeyDetails(ctx, guid)
	})
}
