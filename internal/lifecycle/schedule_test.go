package lifecycle_test

import (
	"slices"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// play lets chance write a schedule, brings everything to rest under a fair one, and
// at last deletes what is left.
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

// mishap is a death, a clean-up that is wrong, a job forgotten, somebody else, or a hand
// that renames.
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

// rounds bounds the fair schedule: three minutes each, so that every wait for a call
// of unknown fate fits in many times.
const rounds = 200

// settle is the fair schedule: everybody goes on, nothing fails by chance, whoever
// died is replaced. It ends when nothing moves any more.
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
