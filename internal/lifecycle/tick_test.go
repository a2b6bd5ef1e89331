package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestTick: what comes before the rows of every operation.
func TestTick(t *testing.T) {
	t.Parallel()
	lease := func(until time.Duration) func(*lc.Record) {
		return func(r *lc.Record) { r.Operation.Lease = lc.Lease{Holder: "other", Until: noon().Add(until)} }
	}
	older, dead := bare(), seen()
	older.Operation, dead.LivingDrivers = "older", "driver"
	const c = lc.Creating
	runTicks(t, stored(lc.Instance, c), map[string]tickTest{
		"operation not current stops":        {as, older, got{Outcome: lc.Stopped, State: c}},
		"ended operation stops":              {func(r *lc.Record) { r.State = lc.Ready }, bare(), got{Outcome: lc.Stopped, State: lc.Ready}},
		"deadline looks once more":           {overdue, bare(), does(c, lc.FindByName, "")},
		"deadline ends it":                   {overdue, seen(), ends(lc.CreateFailed)},
		"deadline ends it blindly":           {overdue, blind(), ends(lc.CreateFailed)},
		"deadline ends it over an open call": {both(opened(lc.Create, 100), overdue), seen(), ends(lc.CreateFailed)},
		"deadline ends it over a lease":      {both(lease(time.Second), overdue), seen(), ends(lc.CreateFailed)},
		"deadline finds it made":             {overdue, seen(mine(lc.Create, lc.LastSucceeded)), ends(lc.Ready)},
		"deadline finds it in progress":      {overdue, seen(mine(lc.Create, lc.LastInProgress)), ends(lc.CreateFailed)},
		"lease of another waits":             {lease(time.Second), seen(), waits(c)},
		"lease that is over does not":        {lease(0), seen(), does(c, lc.SendCreate, "")},
		"lease of the dead does not":         {lease(time.Second), dead, does(c, lc.SendCreate, "")},
	})
}

func TestLeaseOfAnotherWritesNothing(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	r.Operation.Due = noon()
	r.Operation.Lease = lc.Lease{Holder: "other", Until: noon().Add(time.Second)}
	if d := decide(t, r, bare()); d.Write {
		t.Error("it writes: the holder would lose its note of the answer")
	}
}

// TestDue: a tick that waits writes only when the janitor would come before the next; and a driver that died waiting
// for the deadline is soon missed after it.
func TestDue(t *testing.T) {
	t.Parallel()
	type test struct {
		due, deadline, wait time.Duration
		write               bool
		least, most         time.Duration
	}
	each(t, map[string]test{
		"an hour ahead":       {time.Hour, week, time.Minute, false, time.Hour, time.Hour},
		"before the next":     {time.Minute, week, time.Minute, true, 3 * time.Minute, 5 * time.Minute},
		"up to the deadline":  {0, time.Hour, time.Hour, true, time.Hour + 1, time.Hour + 5*time.Minute},
		"beyond the deadline": {0, time.Minute, time.Hour, true, time.Hour + 1, time.Hour + 5*time.Minute},
	}, func(t *testing.T, test test) {
		r := stored(lc.Instance, lc.Deleting)
		r.Operation.Due, r.Operation.Deadline = noon().Add(test.due), noon().Add(test.deadline)
		r.OpenCalls = []lc.OpenCall{open(lc.Create, 90)}
		tick := seen()
		tick.Wait = test.wait
		d := decide(t, r, tick)
		due := d.Record.Operation.Due.Sub(noon())
		if d.Effect.Do != lc.Wait || d.Write != test.write || due < test.least || due > test.most {
			t.Errorf("%s, wrote %t, due in %s; want it to write: %t, and %s to %s", d.Effect.Do, d.Write, due, test.write, test.least, test.most)
		}
	})
}

func TestDeadlineKeepsOpenCalls(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	overdue(&r)
	r.OpenCalls = []lc.OpenCall{{Number: 1, Seq: 100, Verb: lc.Create, Until: noon()}, {Number: 2, Seq: 100, Verb: lc.Create, Until: noon().Add(1)}}
	if diff := cmp.Diff(r.OpenCalls[1:], decide(t, r, seen()).Record.OpenCalls); diff != "" {
		t.Errorf("open calls (-want +got):\n%s", diff)
	}
}

// TestAnOlderLookEndsNothing: one list may serve many operations, but "not there" ends one only when the list began
// after the record was read (docs/protocol.md 3.9).
func TestAnOlderLookEndsNothing(t *testing.T) {
	t.Parallel()
	type test struct {
		kind   lc.Kind
		state  lc.State
		change func(*lc.Record)
	}
	each(t, map[string]test{
		"a delete":           {lc.Instance, lc.Deleting, as},
		"an unbind":          {lc.Binding, lc.Deleting, as},
		"a refused create":   {lc.Instance, lc.Creating, refused},
		"a vanished one too": {lc.Instance, lc.Creating, func(r *lc.Record) { r.Operation.CreatedWithoutJob = true }},
	}, func(t *testing.T, test test) {
		r := stored(test.kind, test.state)
		test.change(&r)
		for began, want := range map[time.Duration]lc.Outcome{0: lc.Ended, time.Second: lc.Ended, -time.Second: lc.Ongoing} {
			tick := seen()
			tick.Look.Began = tick.ReadAt.Add(began)
			if d := decide(t, r, tick); d.Outcome != want {
				t.Errorf("the look-up began %v after the read: %q, want %q", began, d.Outcome, want)
			}
		}
	})
}

// TestElsewhereNothingIsAbsent: a client that is pointed at another Cloud Foundry or org than the one that the record's
// rows are in believes nothing that it sees there (docs/protocol.md 3.2).
func TestElsewhereNothingIsAbsent(t *testing.T) {
	t.Parallel()
	here, there := lc.Place{API: "https://api.example", OrgGUID: "org"}, lc.Place{API: "https://api.example", OrgGUID: "another"}
	type test struct {
		kind   lc.Kind
		state  lc.State
		change func(*lc.Record)
		tick   lc.Tick
	}
	each(t, map[string]test{
		"a delete":             {lc.Instance, lc.Deleting, as, seen()},
		"an unbind":            {lc.Binding, lc.Deleting, as, seen()},
		"a create":             {lc.Instance, lc.Creating, accepted, withJob(seen(), inState(lc.JobComplete))},
		"a refused create":     {lc.Instance, lc.Creating, refused, seen()},
		"a create's next POST": {lc.Instance, lc.Creating, as, seen()},
		"a bind's first POST":  {lc.Binding, lc.Creating, idWasFree, under(bare(), instance(lc.Ready))},
		"an update":            {lc.Instance, lc.Updating, as, seen()},
	}, func(t *testing.T, test test) {
		r := stored(test.kind, test.state)
		test.change(&r)
		r.Place = here
		for place, waits := range map[lc.Place]bool{here: false, there: true} {
			tick := test.tick
			if tick.Look != nil {
				tick.Look = &lc.Look{Began: tick.Look.Began, Place: place}
			} else {
				tick.Place = &place
			}
			if d := decide(t, r, tick); (d.Effect.Do == lc.Wait) != waits {
				t.Errorf("looking at %v: %s %s; want it to wait: %t", place, d.Outcome, d.Effect.Do, waits)
			}
		}
	})
}
