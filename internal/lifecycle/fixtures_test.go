package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// noon is when the unit tests play.
func noon() time.Time { return time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC) }

// each runs the check for every test of a table, beside each other.
func each[T any](t *testing.T, tests map[string]T, check func(*testing.T, T)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, test)
		})
	}
}

// decide is Next for an event that is well formed.
func decide(t *testing.T, r lc.Record, e lc.Event) lc.Decision {
	t.Helper()
	d, err := lc.Next(r, e)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ask decides a request at noon, which may begin an operation called "new".
func ask(t *testing.T, r lc.Record, q lc.Request) lc.Decision {
	t.Helper()
	q.Now, q.TombstoneTTL = noon(), keep
	q.NewOperation = lc.NewOperation{ID: "new", Deadline: noon().Add(week), Due: noon().Add(time.Minute)}
	return decide(t, r, q)
}

// states are all of them, in the order of a life.
func states(kind lc.Kind) []lc.State {
	if kind == lc.Binding {
		return []lc.State{lc.Absent, lc.Ghost, lc.Creating, lc.Ready, lc.Deleting, lc.CreateFailed, lc.DeleteFailed, lc.Gone}
	}
	return []lc.State{lc.Absent, lc.Ghost, lc.Creating, lc.Ready, lc.Updating, lc.Deleting, lc.CreateFailed, lc.UpdateFailed, lc.DeleteFailed, lc.Gone}
}

// stored returns a record in the state, as a life that led there leaves it.
func stored(kind lc.Kind, state lc.State) lc.Record {
	r := lc.Record{Kind: kind, State: state}
	if state == lc.Absent {
		return r
	}
	r.Life, r.Seq = 1, 100
	if state == lc.Ghost {
		return r
	}
	verbs := map[lc.State]lc.Verb{
		lc.Creating: lc.Create, lc.Ready: lc.Create, lc.CreateFailed: lc.Create, lc.Updating: lc.Update,
		lc.UpdateFailed: lc.Update, lc.Deleting: lc.Delete, lc.DeleteFailed: lc.Delete, lc.Gone: lc.Delete,
	}
	r.Operation = lc.Operation{ID: "mine", Seq: 100, Verb: verbs[state], Started: noon(), Deadline: noon().Add(week), Due: noon().Add(time.Hour)}
	r.CreateOp = lc.Reference{ID: "made", Seq: 100}
	if verbs[state] == lc.Create {
		r.CreateOp.ID = "mine"
	}
	if state != lc.Creating && state != lc.CreateFailed {
		r.CFGUID = "guid"
	}
	r.Finished = []lc.Finished{{ID: "theirs", Verb: lc.Create, EndedAt: noon().Add(-time.Hour)}}
	if !state.Busy() {
		r.Finished = append(r.Finished, lc.Finished{ID: "mine", Verb: verbs[state], Succeeded: state == lc.Ready || state == lc.Gone, EndedAt: noon()})
	}
	if kind == lc.Binding {
		r.InstanceCreateOp, r.InstanceGUID = "incarnation", "parent"
	}
	return r
}

// instance is what a binding sees of an instance in the state.
func instance(state lc.State) lc.InstanceView {
	v := lc.InstanceView{State: state}
	if state.Living() || state == lc.Gone {
		v.CreateOp = "incarnation"
	}
	if state != lc.Creating && state != lc.CreateFailed && state.Living() {
		v.CFGUID = "parent"
	}
	return v
}

// another is a ready instance of another incarnation.
func another() lc.InstanceView {
	v := instance(lc.Ready)
	v.CreateOp = "another"
	return v
}

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

// stranger is a row that somebody else made.
func stranger() lc.Row { return lc.Row{GUID: "theirs"} }

// bare is a tick at noon that has learned nothing.
func bare() lc.Tick {
	return lc.Tick{
		Operation: "mine", ReadAt: noon(), Now: noon(), SettleAfter: settleAfter, TombstoneTTL: keep,
		Wait: time.Minute, Driver: "driver", LeaseUntil: noon().Add(callTime),
	}
}

// blind is a tick whose look-up failed.
func blind() lc.Tick {
	t := bare()
	t.LookupFailed = true
	return t
}

// seen is a tick that has learned everything but a job, and saw these rows.
func seen(rows ...lc.Row) lc.Tick {
	t := bare()
	v := instance(lc.Ready)
	t.Instance, t.BindingsKnown, t.Look = &v, true, &lc.Look{Began: noon(), Rows: rows}
	return t
}

// under is the tick with the instance in another state, and with a known place.
func under(t lc.Tick, v lc.InstanceView) lc.Tick {
	t.Instance = &v
	t.Place = &lc.Place{}
	return t
}

func withJob(t lc.Tick, j *lc.JobStatus) lc.Tick {
	t.Job = j
	return t
}

func inState(state lc.JobState) *lc.JobStatus { return &lc.JobStatus{State: state} }

// byBroker is a job that failed by the backing broker's own word.
func byBroker(text string) *lc.JobStatus {
	return &lc.JobStatus{State: lc.JobFailed, FromBackingBroker: true, Description: text}
}

// open is a call that may still take effect for a minute.
func open(verb lc.Verb, seq int64) lc.OpenCall {
	return lc.OpenCall{Number: 7, Seq: seq, Verb: verb, Until: noon().Add(time.Minute)}
}

// Changes of a record.

func as(*lc.Record) {}

func both(changes ...func(*lc.Record)) func(*lc.Record) {
	return func(r *lc.Record) {
		for _, c := range changes {
			c(r)
		}
	}
}

func accepted(r *lc.Record) {
	r.Operation.Job, r.Operation.JobGUID, r.Operation.Calls = "job", "guid", 1
}

func refused(r *lc.Record)   { r.Operation.FinalRefusal = "quota" }
func held(r *lc.Record)      { r.Operation.Held = true }
func idWasFree(r *lc.Record) { r.Operation.IDWasFree = true }
func overdue(r *lc.Record)   { r.Operation.Deadline = noon() }

func opened(verb lc.Verb, seq int64) func(*lc.Record) {
	return func(r *lc.Record) { r.OpenCalls = append(r.OpenCalls, open(verb, seq)) }
}

// owning is a record that knows the GUID of a row of its own.
func owning(guid string) func(*lc.Record) {
	return func(r *lc.Record) { r.GUIDs = append(r.GUIDs, guid) }
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

// runTicks decides each row, and checks what all decisions have in common.
func runTicks(t *testing.T, r lc.Record, tests map[string]tickTest) {
	t.Helper()
	each(t, tests, func(t *testing.T, test tickTest) {
		r := r.Clone()
		test.change(&r)
		before := r.Clone()
		d := decide(t, r, test.tick)
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

// checkEffect: nothing leaves unrecorded, and only ends have results.
func checkEffect(t *testing.T, before lc.Record, d lc.Decision) {
	t.Helper()
	switch {
	case d.Effect.Do == lc.SendCreate, d.Effect.Do == lc.SendUpdate:
		if !d.Write || !holds(d.Record, d.Effect.CallNumber) || holds(before, d.Effect.CallNumber) {
			t.Errorf("%s without an open call of its own: %+v", d.Effect.Do, d.Record.OpenCalls)
		}
	case d.Effect.Do == lc.SendDelete, d.Effect.Do == lc.SendDeleteLeftover:
		if !d.Write {
			t.Errorf("%s without a write", d.Effect.Do)
		}
	case d.Effect.Do.Asks():
		if d.Write {
			t.Errorf("%s writes", d.Effect.Do)
		}
	}
	if ended := d.Outcome == lc.Ended; ended != (d.Result != nil) || ended != d.ForgetParameters {
		t.Errorf("outcome %s with result %v, parameters forgotten: %t", d.Outcome, d.Result, d.ForgetParameters)
	}
	if d.Result == nil {
		return
	}
	if f, ok := d.Record.Result("mine"); !ok || f != *d.Result || !d.Write || (!f.Succeeded && f.Description == "") {
		t.Errorf("result %+v, remembered as %+v", *d.Result, f)
	}
}
