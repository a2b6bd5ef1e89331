package lifecycle_test

import (
	"fmt"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// The numbers that the model lives by: the product's defaults.
const (
	settleAfter = 20 * time.Minute
	callTime    = time.Minute
	keep        = 8 * 24 * time.Hour
	week        = 7 * 24 * time.Hour
)

// next is the function under test, or one that was sabotaged.
type next func(lc.Record, lc.Event) (lc.Decision, error)

// world is a small model of everything around lifecycle.Next: a store with
// revisions, a Cloud Foundry, and actors whose every step is an event of its own.
type world struct {
	chance chance
	next   next
	now    time.Time
	items  map[string]*item
	cloud  cloud
	actors []*actor
	// told are the operations that a platform was told of.
	told     map[string]lc.Verb
	results  map[string]ending
	deadline time.Duration
	// leases is false when all drivers share one name, so that no lease holds any off.
	leases bool
	// fair is true once nothing fails by chance any more.
	fair     bool
	bindings bool
	serial   int
	trace    []string
	tracing  bool
	broken   *breach
}

// item is one stored record, with the attributes that the broker keeps beside it.
type item struct {
	id                 string
	record             lc.Record
	revision           int
	attributes, target string
	history            []lc.Record
	// gone counts how often a platform was told that the id is free.
	gone int
	// renamed: a row of it had another name at some time.
	renamed bool
}

// ending is the result of an operation, and what ended it when it was not Cloud Foundry.
type ending struct {
	lc.Finished
	overdue, superseded bool
}

// breach is the first law that did not hold.
type breach struct{ law, what string }

// actor is a request or a driver in the middle of its work.
type actor struct {
	name   string
	drives string // the operation, for a driver
	step   func()
}

func newWorld(c chance, n next, bindings, tracing bool) *world {
	w := &world{
		chance: c, next: n, now: time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC),
		items: map[string]*item{"instance": {id: "instance", record: lc.Record{Kind: lc.Instance}}},
		told:  map[string]lc.Verb{}, results: map[string]ending{},
		deadline: week, bindings: bindings, tracing: tracing,
	}
	if bindings {
		w.items["binding"] = &item{id: "binding", record: lc.Record{Kind: lc.Binding}}
	}
	for _, i := range w.items {
		i.history = []lc.Record{i.record}
	}
	w.cloud.world = w
	w.leases = oneIn(c, 2)
	if oneIn(c, 6) {
		w.deadline = 12 * time.Minute // ends operations in the middle of their calls
	}
	if oneIn(c, 8) {
		w.cloud.stranger("instance", "")
	}
	return w
}

func (w *world) say(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, w.now.Format("15:04:05  ")+fmt.Sprintf(format, args...))
	}
}

// law notes a breach unless the condition holds.
func (w *world) law(law string, holds bool, format string, args ...any) {
	if !holds && w.broken == nil {
		w.broken = &breach{law: law, what: fmt.Sprintf(format, args...)}
		w.say("BROKEN: %s: %s", law, w.broken.what)
	}
}

func (w *world) number() int { w.serial++; return w.serial }

func (w *world) enter(name string) *actor {
	a := &actor{name: fmt.Sprintf("%s #%d", name, w.number())}
	w.actors = append(w.actors, a)
	return a
}

// view is what a binding sees of its instance now.
func (w *world) view() lc.InstanceView {
	r := w.items["instance"].record
	return lc.InstanceView{State: r.State, CreateOp: r.CreateOp.ID, CFGUID: r.CFGUID}
}

// put is the conditional write. It reports whether it was made.
func (w *world) put(a *actor, i *item, r lc.Record, revision int) bool {
	if i.revision != revision {
		w.say("%s loses its write of the %s: revision %d, not %d", a.name, i.id, i.revision, revision)
		return false
	}
	before := i.record
	i.record, i.revision = r, i.revision+1
	i.history = append(i.history, r)
	w.say("%s writes the %s, revision %d: %s, operation %s, %d open calls", a.name, i.id, i.revision,
		r.State, r.Operation.ID, len(r.OpenCalls))
	w.watch(i, before)
	return true
}

// advance moves the clock. What Cloud Foundry's clean-up marked as failed although
// it runs has ended by the time that a mark counts as final.
func (w *world) advance(d time.Duration) {
	for _, j := range w.cloud.jobs {
		for j.marked && !j.ended() && !w.now.Add(d).Before(j.markedAt.Add(settleAfter)) {
			w.cloud.work(j)
		}
	}
	w.now = w.now.Add(d)
	w.cloud.expire()
}

// live is the list of actors that still have something to do.
func (w *world) live() []*actor {
	kept := w.actors[:0]
	for _, a := range w.actors {
		if a.step != nil {
			kept = append(kept, a)
		}
	}
	w.actors = kept
	return kept
}

func (w *world) take(a *actor) {
	step := a.step
	a.step = nil
	step()
}
