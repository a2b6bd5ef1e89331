package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// mine is a row that the operation "mine" made.
func mine(verb lc.Verb, state lc.LastState) lc.Row {
	return lc.Row{GUID: "guid", Marked: true, Operation: "mine", Seq: 100, Last: lc.LastOperation{Verb: verb, State: state}}
}

// foreign is a row that another operation of the record made.
func foreign(seq int64) lc.Row {
	return lc.Row{GUID: "other", Marked: true, Operation: "theirs", Seq: seq, Last: lc.LastOperation{Verb: lc.Create, State: lc.LastSucceeded}}
}

// unknown is a row with our marks whose operation the record does not know.
func unknown() lc.Row {
	row := foreign(90)
	row.Operation = "lost"
	return row
}

// bare is a tick at noon that has learned nothing.
func bare() lc.Tick {
	return lc.Tick{
		Operation: "mine", ReadAt: noon(), Now: noon(), SettleAfter: settleAfter, TombstoneTTL: keep,
		Wait: time.Minute, Driver: "driver", LeaseUntil: noon().Add(callTime),
	}
}

// seen is a tick that has learned everything but a job, and saw these rows.
func seen(rows ...lc.Row) lc.Tick {
	t := bare()
	v := instance(lc.Ready)
	t.Instance, t.BindingsKnown, t.Look = &v, true, &lc.Look{Began: noon(), Rows: rows}
	return t
}

func withJob(t lc.Tick, j *lc.JobStatus) lc.Tick {
	t.Job = j
	return t
}

func inState(state lc.JobState) *lc.JobStatus { return &lc.JobStatus{State: state} }

// open is a call that may still take effect for a minute.
func open(verb lc.Verb, seq int64) lc.OpenCall {
	return lc.OpenCall{Number: 7, Seq: seq, Verb: verb, Until: noon().Add(time.Minute)}
}

// tickTest is a row of docs/protocol.md.
type tickTest struct {
	change func(*lc.Record)
	tick   lc.Tick
	want   got
}

// got is what a tick decided, in short.
type got struct {
	Outcome lc.Outcome
	State   lc.State
	Do      lc.Action
	GUID    string
	Job     string
}

func waits(s lc.State) got   { return got{Outcome: lc.Ongoing, State: s, Do: lc.Wait} }
func ends(s lc.State) got    { return got{Outcome: lc.Ended, State: s} }
func asksJob(s lc.State) got { return got{Outcome: lc.Ongoing, State: s, Do: lc.AskJob, Job: "job"} }

func does(s lc.State, do lc.Action, guid string) got {
	return got{Outcome: lc.Ongoing, State: s, Do: do, GUID: guid}
}

func as(*lc.Record) {}

func accepted(r *lc.Record) {
	r.Operation.Job, r.Operation.JobGUID, r.Operation.Calls = "job", "guid", 1
}

func opened(verb lc.Verb, seq int64) func(*lc.Record) {
	return func(r *lc.Record) { r.OpenCalls = append(r.OpenCalls, open(verb, seq)) }
}

func both(changes ...func(*lc.Record)) func(*lc.Record) {
	return func(r *lc.Record) {
		for _, c := range changes {
			c(r)
		}
	}
}

func refused(r *lc.Record) { r.Operation.FinalRefusal = "quota" }
func held(r *lc.Record)    { r.Operation.Held = true }

// runTicks decides each row, and checks what all decisions have in common.
func runTicks(t *testing.T, r lc.Record, tests map[string]tickTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := r.Clone()
			test.change(&r)
			before := r.Clone()
			d, err := lc.Next(r, test.tick)
			if err != nil {
				t.Fatal(err)
			}
			g := got{Outcome: d.Outcome, State: d.Record.State, Do: d.Effect.Do, GUID: d.Effect.GUID, Job: d.Effect.Job}
			if diff := cmp.Diff(test.want, g); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, r); diff != "" {
				t.Errorf("Next changed its argument:\n%s", diff)
			}
			checkEffect(t, before, d)
		})
	}
}

// checkEffect: nothing leaves unrecorded, and only ends have results.
func checkEffect(t *testing.T, before lc.Record, d lc.Decision) {
	t.Helper()
	switch d.Effect.Do {
	case lc.SendCreate, lc.SendUpdate:
		if !d.Write || !holds(d.Record, d.Effect.CallNumber) || holds(before, d.Effect.CallNumber) {
			t.Errorf("%s without an open call of its own: %+v", d.Effect.Do, d.Record.OpenCalls)
		}
	case lc.SendDelete, lc.SendDeleteLeftover:
		if !d.Write {
			t.Errorf("%s without a write", d.Effect.Do)
		}
	case lc.ReadInstance, lc.ListBindings, lc.FindByName, lc.FindByGUID, lc.AskJob, lc.FindOrg:
		if d.Write {
			t.Errorf("%s writes", d.Effect.Do)
		}
	default:
	}
	if (d.Outcome == lc.Ended) != (d.Result != nil) {
		t.Errorf("outcome %s with result %v", d.Outcome, d.Result)
	}
	if d.Result == nil {
		return
	}
	if f, ok := d.Record.Result("mine"); !ok || f != *d.Result || !d.Write || (!f.Succeeded && f.Description == "") {
		t.Errorf("result %+v, remembered as %+v", *d.Result, f)
	}
}

// TestTick: what comes before the rows of every operation.
func TestTick(t *testing.T) {
	t.Parallel()
	lease := func(until time.Duration) func(*lc.Record) {
		return func(r *lc.Record) { r.Operation.Lease = lc.Lease{Holder: "other", Until: noon().Add(until)} }
	}
	own := bare()
	own.Operation = "older"
	overdue := func(r *lc.Record) { r.Operation.Deadline = noon() }
	blind := bare()
	blind.LookupFailed = true
	dead := seen()
	dead.LivingDrivers = "driver"
	runTicks(t, stored(lc.Instance, lc.Creating), map[string]tickTest{
		"operation not current stops":        {as, own, got{Outcome: lc.Stopped, State: lc.Creating}},
		"ended operation stops":              {func(r *lc.Record) { r.State = lc.Ready }, bare(), got{Outcome: lc.Stopped, State: lc.Ready}},
		"deadline looks once more":           {overdue, bare(), does(lc.Creating, lc.FindByName, "")},
		"deadline ends it":                   {overdue, seen(), ends(lc.CreateFailed)},
		"deadline ends it blindly":           {overdue, blind, ends(lc.CreateFailed)},
		"deadline ends it over an open call": {both(opened(lc.Create, 100), overdue), seen(), ends(lc.CreateFailed)},
		"deadline ends it over a lease":      {both(lease(time.Second), overdue), seen(), ends(lc.CreateFailed)},
		"deadline finds it made":             {overdue, seen(mine(lc.Create, lc.LastSucceeded)), ends(lc.Ready)},
		"deadline finds it in progress":      {overdue, seen(mine(lc.Create, lc.LastInProgress)), ends(lc.CreateFailed)},
		"lease of another waits":             {lease(time.Second), seen(), waits(lc.Creating)},
		"lease that is over does not":        {lease(0), seen(), does(lc.Creating, lc.SendCreate, "")},
		"lease of the dead does not":         {lease(time.Second), dead, does(lc.Creating, lc.SendCreate, "")},
	})
}

func TestLeaseOfAnotherWritesNothing(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	r.Operation.Due = noon()
	r.Operation.Lease = lc.Lease{Holder: "other", Until: noon().Add(time.Second)}
	d, err := lc.Next(r, bare())
	if err != nil || d.Write {
		t.Errorf("wrote %t, %v: the holder would lose its note of the answer", d.Write, err)
	}
}

func TestDeadlineKeepsOpenCalls(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	r.Operation.Deadline = noon()
	r.OpenCalls = []lc.OpenCall{{Number: 1, Seq: 100, Verb: lc.Create, Until: noon()}, {Number: 2, Seq: 100, Verb: lc.Create, Until: noon().Add(1)}}
	d, err := lc.Next(r, seen())
	if diff := cmp.Diff(r.OpenCalls[1:], d.Record.OpenCalls); err != nil || diff != "" {
		t.Errorf("open calls (-want +got), %v:\n%s", err, diff)
	}
}

// TestAnOlderLookEndsNothing: one list may serve many operations, but "not there"
// ends one only when the list began after the record was read (protocol.md 3.9).
func TestAnOlderLookEndsNothing(t *testing.T) {
	t.Parallel()
	refused := lc.Operation{ID: "mine", Seq: 100, Verb: lc.Create, FinalRefusal: "no", Calls: 1, Answered: 1}
	for name, r := range map[string]lc.Record{
		"a delete":           {Kind: lc.Instance, State: lc.Deleting, Seq: 100, Operation: lc.Operation{ID: "mine", Seq: 100, Verb: lc.Delete}},
		"an unbind":          {Kind: lc.Binding, State: lc.Deleting, Seq: 100, InstanceGUID: "i", Operation: lc.Operation{ID: "mine", Seq: 100, Verb: lc.Delete}},
		"a refused create":   {Kind: lc.Instance, State: lc.Creating, Seq: 100, Operation: refused},
		"a vanished one too": {Kind: lc.Instance, State: lc.Creating, Seq: 100, Operation: lc.Operation{ID: "mine", Seq: 100, Verb: lc.Create, CreatedWithoutJob: true, Calls: 1, Answered: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.Operation.Deadline = noon().Add(time.Hour)
			for began, want := range map[time.Duration]lc.Outcome{0: lc.Ended, time.Second: lc.Ended, -time.Second: lc.Ongoing} {
				tick := seen()
				tick.Look.Began = tick.ReadAt.Add(began)
				d, err := lc.Next(r, tick)
				if err != nil || d.Outcome != want {
					t.Errorf("the look-up began %v after the read: %q, %v; want %q", began, d.Outcome, err, want)
				}
			}
		})
	}
}
