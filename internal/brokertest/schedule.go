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
	// Delay loses the answer of a POST, PATCH or DELETE now, and keeps the call itself in Late for later.
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
	// Backend and Store wrap what is below the scheduler's gates, to watch or to inject faults; ActorOf says whose call
	// it is.
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

// Scheduler runs the real Broker's methods as actors that stop before every call of a port until they are told how it
// goes. One actor runs at a time and time is virtual, so that the same choices always give the same run.
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
	// running is the actor at work; nil while all wait.
	running *Actor
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
	s.Backend = &BackendInUse{gatedBackend(s, backend)}
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

// WorkflowInUse is the broker.Workflow that it holds now.
type WorkflowInUse struct{ broker.Workflow }

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
	s.running = a
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
	s.running = nil
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

// Choose lets the actor's next call go as chosen, and the actor run up to the one after it. A done actor stays done.
func (s *Scheduler) Choose(a *Actor, c Choice) {
	if a.Done() {
		return
	}
	s.note("%s: %s: %s", a.Name, a.At, c)
	s.running = a
	a.resume <- c
	<-s.parked
	s.running = nil
	s.noteEnd(a)
}

// Running returns the actor that is at work now, or nil.
func (s *Scheduler) Running() *Actor { return s.running }

// Reach lets the actor proceed until it waits before a call of this name, or is done. One that makes thousands of calls
// without getting there is killed.
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
