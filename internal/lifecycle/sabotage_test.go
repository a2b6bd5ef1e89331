package lifecycle_test

import (
	"slices"
	"testing"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// sabotage is Next with one safeguard turned off.
type sabotage struct {
	bindings bool
	next     next
	laws     []string // one of them must be the first to break
}

// onTick changes what a tick of the verb is told; an empty verb means any.
func onTick(verb lc.Verb, change func(lc.Record, *lc.Tick)) next {
	return func(r lc.Record, e lc.Event) (lc.Decision, error) {
		if t, ok := e.(lc.Tick); ok && (verb == "" || verb == r.Operation.Verb) {
			change(r, &t)
			e = t
		}
		return lc.Next(r, e)
	}
}

// onRows changes what a look-up seems to see.
func onRows(verb lc.Verb, change func(lc.Record, *lc.Row)) next {
	return onTick(verb, func(r lc.Record, t *lc.Tick) {
		if t.Look == nil {
			return
		}
		l := *t.Look
		l.Rows = slices.Clone(l.Rows)
		for i := range l.Rows {
			change(r, &l.Rows[i])
		}
		t.Look = &l
	})
}

// onDecision changes what was decided.
func onDecision(change func(lc.Record, lc.Event, *lc.Decision)) next {
	return func(r lc.Record, e lc.Event) (lc.Decision, error) {
		d, err := lc.Next(r, e)
		change(r, e, &d)
		return d, err
	}
}

// impatient ends operations of the verb as if all open calls had expired.
func impatient(verb lc.Verb) next {
	return func(r lc.Record, e lc.Event) (lc.Decision, error) {
		t, ok := e.(lc.Tick)
		if ok && r.Operation.Verb == verb {
			t.ReadAt = t.ReadAt.Add(settleAfter)
			if t.Look != nil {
				t.Look = &lc.Look{Began: t.ReadAt, Rows: t.Look.Rows}
			}
			d, err := lc.Next(r, t)
			ends := d.Result != nil && d.Result.Succeeded == (verb == lc.Delete) && t.Now.Before(r.Operation.Deadline)
			if ends || d.Effect.Do == lc.ListBindings {
				return d, err
			}
		}
		return lc.Next(r, e)
	}
}

// safeguards are the rules of docs/protocol.md section 11 that are this package's.
func safeguards() map[string]sabotage {
	return map[string]sabotage{
		"a call leaves without its open call": {next: onDecision(func(r lc.Record, _ lc.Event, d *lc.Decision) {
			if d.Effect.Do == lc.SendCreate || d.Effect.Do == lc.SendUpdate {
				d.Record.OpenCalls = r.OpenCalls
			}
		}), laws: []string{lawRecord}},
		"a DELETE leaves without its intent": {next: onDecision(func(r lc.Record, _ lc.Event, d *lc.Decision) {
			if d.Effect.Do == lc.SendDelete {
				d.Record.Operation.JobGUID = ""
			}
		}), laws: []string{lawRecord}},
		"a cancel forgets the open calls": {next: onDecision(func(_ lc.Record, e lc.Event, d *lc.Decision) {
			if _, ok := e.(lc.Request); ok && d.Write {
				d.Record.OpenCalls = nil
			}
		}), laws: []string{lawRecord}},
		"an unknown answer counts as one": {next: func(r lc.Record, e lc.Event) (lc.Decision, error) {
			if a, ok := e.(lc.Replied); ok && a.Answer.Reply == lc.ReplyUnknown {
				a.Answer.Reply = lc.ReplyRefused
				e = a
			}
			return lc.Next(r, e)
		}, laws: []string{lawRecord}},
		"a lost claim is made again": {next: func(r lc.Record, e lc.Event) (lc.Decision, error) {
			if q, ok := e.(lc.Request); ok {
				q.FirstRead = nil
				e = q
			}
			return lc.Next(r, e)
		}, laws: []string{lawClaim}},
		"a 410 moves nothing": {next: onDecision(func(r lc.Record, _ lc.Event, d *lc.Decision) {
			if d.Outcome == lc.AlreadyGone {
				d.Record, d.Write = r, false
			}
		}), laws: []string{lawClaim, lawRefusal}},
		"a duplicate gets an operation of its own": {next: onDecision(func(_ lc.Record, _ lc.Event, d *lc.Decision) {
			if d.Outcome == lc.Running {
				d.Record.Operation.ID += "-again"
			}
		}), laws: []string{lawDuplicate}},
		"a refusal is noted": {next: onDecision(func(_ lc.Record, _ lc.Event, d *lc.Decision) {
			if d.Outcome == lc.Conflict {
				d.Write = true
			}
		}), laws: []string{lawRefusal}},
		"a cancelled operation gets no result": {next: onDecision(func(r lc.Record, e lc.Event, d *lc.Decision) {
			if _, ok := e.(lc.Request); ok {
				d.Record.Finished = r.Finished
			}
		}), laws: []string{lawEnds}},
		"a delete that finds nothing waits on": {next: onDecision(func(_ lc.Record, e lc.Event, d *lc.Decision) {
			if _, ok := e.(lc.Tick); ok && d.Record.State == lc.Gone {
				*d = lc.Decision{Outcome: lc.Ongoing, Effect: lc.Effect{Do: lc.Wait}}
			}
		}), laws: []string{lawEnds}},
		"a DELETE is refused while something runs": {next: onDecision(func(r lc.Record, e lc.Event, d *lc.Decision) {
			if q, ok := e.(lc.Request); ok && q.Verb == lc.Delete && r.State.Busy() {
				*d = lc.Decision{Record: r, Outcome: lc.Busy}
			}
		}), laws: []string{lawGone}},
		"a delete does not wait for open POSTs":  {next: impatient(lc.Delete), laws: []string{lawGone}},
		"an unbind does not either":              {bindings: true, next: impatient(lc.Delete), laws: []string{lawGone, lawRecord}},
		"a failure does not wait for open calls": {next: impatient(lc.Create), laws: []string{lawUnknown}},
		"a failed update does not wait":          {next: impatient(lc.Update), laws: []string{lawUnknown, lawRecord}},
		"a bind does not wait":                   {bindings: true, next: impatient(lc.Create), laws: []string{lawUnknown}},
		"a leftover is adopted": {next: onRows(lc.Create, func(r lc.Record, row *lc.Row) {
			if row.Marked {
				row.Operation = r.Operation.ID
			}
		}), laws: []string{lawTwice}},
		"a stranger is adopted": {next: onRows(lc.Create, func(r lc.Record, row *lc.Row) {
			row.Marked, row.Operation = true, r.Operation.ID
		}), laws: []string{lawTwice}},
		"a stranger is deleted": {next: onRows(lc.Delete, func(r lc.Record, row *lc.Row) {
			if !row.Marked {
				row.Marked, row.Operation = true, r.Operation.ID
			}
		}), laws: []string{lawTwice}},
		"a look-up asks for the name alone": {next: onDecision(func(_ lc.Record, _ lc.Event, d *lc.Decision) {
			d.Effect.GUIDs = nil
		}), laws: []string{lawGone, lawUnknown, lawTwice, lawEnds}},
		"a failed row is believed without its job": {next: onTick(lc.Create, func(_ lc.Record, t *lc.Tick) {
			t.Job = &lc.JobStatus{State: lc.JobFailed}
		}), laws: []string{lawUnknown}},
		"a row in progress counts as made": {next: onRows(lc.Create, func(_ lc.Record, row *lc.Row) {
			row.Last.State = lc.LastSucceeded
		}), laws: []string{lawUnknown}},
		"an update is believed without its mark": {next: onRows(lc.Update, func(r lc.Record, row *lc.Row) {
			row.Update = r.Operation.ID
		}), laws: []string{lawUnknown}},
		"a look-up that failed counts as empty": {next: onDecision(func(_ lc.Record, e lc.Event, d *lc.Decision) {
			if t, ok := e.(lc.Tick); ok && d.Effect.Do == lc.FindByName {
				t.Look = &lc.Look{Began: t.ReadAt}
				*d, _ = lc.Next(d.Record, t)
			}
		}), laws: []string{lawGone, lawTwice, lawUnknown}},
		"a held bind leaves its failed key": {bindings: true, next: func(r lc.Record, e lc.Event) (lc.Decision, error) {
			held := r.Operation.Held
			if _, ok := e.(lc.Tick); ok {
				r.Operation.Held = false
			}
			d, err := lc.Next(r, e)
			if _, ok := e.(lc.Tick); ok {
				d.Record.Operation.Held = held
			}
			return d, err
		}, laws: []string{lawUnknown}},
		"the clock of the deadline stands still": {next: onTick("", func(r lc.Record, t *lc.Tick) {
			t.Now = r.Operation.Started.Add(-time.Hour)
		}), laws: []string{lawRecord, lawEnds, lawUnknown}},
	}
}

// TestLawsNeedTheirSafeguards turns each safeguard off and demands that the schedules of TestLaws notice: a law that
// cannot break proves nothing.
func TestLawsNeedTheirSafeguards(t *testing.T) {
	t.Parallel()
	each(t, safeguards(), func(t *testing.T, s sabotage) {
		for seed := uint64(1); seed <= *schedules; seed++ {
			w := play(s.next, seed, s.bindings, false)
			if w.broken == nil {
				continue
			}
			t.Logf("seed %d breaks %s: %s", seed, w.broken.law, w.broken.what)
			if !slices.Contains(s.laws, w.broken.law) {
				t.Errorf("it broke another law first, want one of %q\n%s", s.laws, story(play(s.next, seed, s.bindings, true)))
			}
			return
		}
		t.Errorf("%d schedules did not notice", *schedules)
	})
}
