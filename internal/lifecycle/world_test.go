package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// world is a small model of everything around lifecycle.Next: a store with revisions, a Cloud Foundry, and actors whose
// every step is an event of its own.
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

// advance moves the clock. What Cloud Foundry's clean-up marked as failed although it runs has ended by the time that a
// mark counts as final, and a row that stays in progress under a job that has ended is marked as failed at last.
func (w *world) advance(d time.Duration) {
	for _, j := range w.cloud.jobs {
		for j.marked && !j.ended() && !w.now.Add(d).Before(j.markedAt.Add(settleAfter)) {
			w.cloud.work(j)
		}
	}
	w.now = w.now.Add(d)
	for _, r := range w.cloud.rows {
		if r.stuck && w.now.Sub(r.changed) > settleAfter {
			r.stuck = false
			w.cloud.set(r, lc.Update, lc.LastFailed)
		}
	}
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

// play lets chance write a schedule, brings everything to rest under a fair one, and at last deletes what is left.
func (w *world) play() {
	w.ask("instance", lc.Create, "small", true)
	if oneIn(w.chance, 2) { // begin with an instance that is there
		w.settle()
		w.fair = false
	}
	for range 60 + 4*w.chance.pick(86) {
		if w.broken != nil || w.chance.spent() {
			break
		}
		w.event()
	}
	w.settle()
	if w.broken == nil && !oneIn(w.chance, 4) {
		w.deadline = week
		w.ask("instance", lc.Delete, "", true)
		w.settle()
		gone := w.items["instance"].record.State
		w.law(lawGone, gone == lc.Gone || gone == lc.Ghost, "after a DELETE the instance is %q", gone)
		for _, r := range w.cloud.rows {
			w.law(lawGone, !r.Marked, "after a DELETE %s is left", r.GUID)
		}
	}
}

// event is one step of somebody.
func (w *world) event() {
	switch n := w.chance.pick(40); {
	case n < 22:
		if live := w.live(); len(live) > 0 {
			w.take(live[w.chance.pick(len(live))])
		}
	case n < 27:
		if calls := w.cloud.underway(); len(calls) > 0 {
			w.cloud.deliver(calls[w.chance.pick(len(calls))])
		}
	case n < 32:
		if jobs := w.cloud.unfinished(); len(jobs) > 0 {
			w.cloud.work(jobs[w.chance.pick(len(jobs))])
		}
	case n < 34:
		steps := []time.Duration{time.Second, 20 * time.Second, time.Minute, 7 * time.Minute, 21 * time.Minute}
		w.advance(steps[w.chance.pick(len(steps))])
	case n < 36:
		w.request()
	case n < 38:
		w.janitor()
	default:
		w.mishap()
	}
}

// request is what a platform may send: same, different, at any time.
func (w *world) request() {
	plans := []string{"small", "small", "large"}
	plan := plans[w.chance.pick(len(plans))]
	if w.bindings && w.chance.pick(4) != 0 {
		if w.chance.pick(3) == 0 {
			w.ask("binding", lc.Delete, "", oneIn(w.chance, 2))
			return
		}
		w.ask("binding", lc.Create, plan, oneIn(w.chance, 2))
		return
	}
	switch w.chance.pick(9) {
	case 0, 1:
		w.ask("instance", lc.Delete, "", true)
	case 2, 3, 4, 5:
		w.ask("instance", lc.Update, plan, true)
	case 6:
		w.ask("instance", []lc.Verb{lc.Create, lc.Update, lc.Delete}[w.chance.pick(3)], plan, false)
	default:
		w.ask("instance", lc.Create, plan, true)
	}
}

// order gives the items always in the same order.
func (w *world) order() []*item {
	items := []*item{w.items["instance"]}
	if w.bindings {
		items = append(items, w.items["binding"])
	}
	return items
}

// janitor starts one more driver for what runs, be there one or not.
func (w *world) janitor() {
	for _, i := range w.order() {
		if i.record.State.Busy() && len(w.actors) < 12 {
			w.drive(i, i.record.Operation.ID)
		}
	}
}

// mishap is a death, a clean-up that is wrong, a job forgotten, somebody else, or a hand that renames.
func (w *world) mishap() {
	switch w.chance.pick(7) {
	case 0, 1:
		if live := w.live(); len(live) > 0 {
			a := live[w.chance.pick(len(live))]
			w.say("%s dies", a.name)
			a.step = nil
		}
	case 2:
		if jobs := w.cloud.unfinished(); len(jobs) > 0 {
			w.cloud.mark(jobs[w.chance.pick(len(jobs))])
		}
	case 3:
		if len(w.cloud.jobs) > 0 {
			j := w.cloud.jobs[w.chance.pick(len(w.cloud.jobs))]
			j.forgotten = j.ended()
		}
	case 4:
		if oneIn(w.chance, 4) {
			w.cloud.stranger("instance", "")
		}
	case 5:
		if r := w.cloud.named("instance", ""); r != nil && w.bindings && oneIn(w.chance, 4) {
			w.cloud.stranger("binding", r.GUID)
		}
	case 6:
		if len(w.cloud.rows) > 0 {
			if r := w.cloud.rows[w.chance.pick(len(w.cloud.rows))]; r.item != "" {
				w.cloud.rename(w.items[r.item], r)
			}
		}
	}
}

// rounds bounds the fair schedule: three minutes each, so that every wait for a call of unknown fate fits in many
// times.
const rounds = 200

// settle is the fair schedule: everybody goes on, nothing fails by chance, whoever died is replaced. It ends when
// nothing moves any more.
func (w *world) settle() {
	w.fair = true
	for range rounds {
		if w.broken != nil || w.quiet() {
			break
		}
		w.revive()
		for range 8 {
			for _, a := range w.live() {
				w.take(a)
			}
			for _, m := range w.cloud.underway() {
				w.cloud.deliver(m)
			}
		}
		for _, j := range w.cloud.unfinished() {
			w.cloud.work(j)
		}
		w.advance(3 * time.Minute)
	}
	w.law(lawEnds, w.quiet() || w.broken != nil, "%d rounds of a fair schedule were not enough", rounds)
	w.atRest()
}

func (w *world) quiet() bool {
	for _, i := range w.order() {
		if i.record.State.Busy() {
			return false
		}
	}
	return len(w.live()) == 0 && len(w.cloud.underway()) == 0 && len(w.cloud.unfinished()) == 0
}

// revive gives a driver to what has none.
func (w *world) revive() {
	for _, i := range w.order() {
		op := i.record.Operation.ID
		driven := slices.ContainsFunc(w.live(), func(a *actor) bool { return a.drives == op })
		if i.record.State.Busy() && !driven {
			w.drive(i, op)
		}
	}
}

// chance decides what happens next in a schedule.
type chance interface {
	// pick returns a number from 0 to n-1.
	pick(n int) int
	// spent reports that there are no more choices to make.
	spent() bool
}

// seeded draws from a generator that gives the same numbers for the same seed.
type seeded struct{ r *rand.Rand }

func newSeeded(seed uint64) seeded {
	return seeded{rand.New(rand.NewPCG(seed, 2026))}
}

func (s seeded) pick(n int) int { return s.r.IntN(n) }
func (s seeded) spent() bool    { return false }

// scripted draws from bytes, one a choice, so that a fuzzer can write schedules.
type scripted struct{ bytes []byte }

func (s *scripted) pick(n int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := int(s.bytes[0])
	s.bytes = s.bytes[1:]
	return b % n
}

func (s *scripted) spent() bool { return len(s.bytes) == 0 }

// recorder writes down what another chance picks, for scripted to repeat.
type recorder struct {
	chance
	bytes []byte
}

func (r *recorder) pick(n int) int {
	picked := r.chance.pick(n)
	r.bytes = append(r.bytes, byte(picked))
	return picked
}

// oneIn is true once in n times.
func oneIn(c chance, n int) bool { return c.pick(n) == n-1 }
