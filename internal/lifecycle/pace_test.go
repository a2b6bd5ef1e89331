package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// driven is an operation with a driver that keeps its pace, as the broker does.
type driven struct {
	t             *testing.T
	r             lc.Record
	now           time.Time
	turns, writes int
	sent          map[lc.Action]int
	// sees fills a tick with what it learns; answers is what a call is answered.
	sees    func(*lc.Tick)
	answers lc.Answer
}

func drive(t *testing.T, r lc.Record, sees func(*lc.Tick)) *driven {
	return &driven{
		t: t, r: r, now: noon(), sees: sees, sent: map[lc.Action]int{},
		answers: lc.Answer{Reply: lc.ReplyAccepted, Job: "job"},
	}
}

// step does one tick with the call that it leads to, and lets its wait pass.
func (d *driven) step() lc.Decision {
	d.t.Helper()
	p := defaultPace()
	tick := bare()
	tick.ReadAt, tick.Now, tick.LeaseUntil, tick.Pace = d.now, d.now, d.now.Add(callTime), p
	tick.Wait = p.WaitOf(d.r, d.now)
	d.sees(&tick)
	decision, err := lc.Next(d.r, tick)
	if err != nil {
		d.t.Fatal(err)
	}
	d.keep(decision)
	wait := tick.Wait
	if decision.Wait > 0 {
		wait = decision.Wait
	}
	switch do := decision.Effect.Do; do {
	case lc.SendCreate, lc.SendUpdate, lc.SendDelete, lc.SendDeleteLeftover:
		d.sent[do]++
		noted, err := lc.Next(d.r, lc.Replied{
			Operation: tick.Operation, Do: do, CallNumber: decision.Effect.CallNumber, GUID: decision.Effect.GUID, SameRevision: true,
			Answer: d.answers, Driver: tick.Driver, Now: d.now, Wait: wait, Pace: p,
		})
		if err != nil {
			d.t.Fatal(err)
		}
		if d.keep(noted); noted.Wait > 0 {
			wait = noted.Wait
		}
	default: // nothing is sent
	}
	d.turns++
	d.now = d.now.Add(wait)
	return decision
}

func (d *driven) keep(decision lc.Decision) {
	if decision.Write {
		d.r = decision.Record
		d.writes++
	}
}

// until steps until the operation has ended or the time is over.
func (d *driven) until(end time.Time) *driven {
	d.t.Helper()
	for d.now.Before(end) && d.r.State.Busy() {
		d.step()
	}
	return d
}

// says fails unless a poll says the text.
func (d *driven) says(text string) {
	d.t.Helper()
	if got := lc.Waiting(d.r, instance(lc.Ready), d.now, defaultPace()); !strings.Contains(got, text) {
		d.t.Errorf("a poll says %q, want %q", got, text)
	}
}

// result is the end of the operation, which must have come.
func (d *driven) result() lc.Finished {
	d.t.Helper()
	f, ok := d.r.Result("mine")
	if !ok {
		d.t.Fatalf("it still runs: %+v", d.r.Operation)
	}
	return f
}

// afterJob sees a row and the job of its DELETE, bindings too.
func afterJob(row lc.Row, job lc.JobStatus, bindings ...lc.BindingView) func(*lc.Tick) {
	return func(t *lc.Tick) {
		v := instance(lc.Ready)
		t.Instance, t.BindingsKnown, t.Bindings = &v, true, bindings
		t.Look, t.Job = &lc.Look{Began: t.ReadAt, Rows: []lc.Row{row}}, &job
	}
}

// TestADeleteThatIsRefusedEndsOrIsDamped: the backing broker's own word ends a delete
// after a few tries; what may pass is tried until the deadline, ever less often, and
// its text is what polls say meanwhile and at the end.
func TestADeleteThatIsRefusedEndsOrIsDamped(t *testing.T) {
	t.Parallel()
	living := mine(lc.Create, lc.LastSucceeded)
	failed := func(text string, word bool) lc.JobStatus {
		return lc.JobStatus{State: lc.JobFailed, Description: text, FromBackingBroker: word}
	}
	unbound := lc.BindingView{ID: "b", State: lc.DeleteFailed, InstanceCreateOp: "made", Problem: "It is in use."}
	for name, test := range map[string]struct {
		kind       lc.Kind
		sees       func(*lc.Tick)
		answers    lc.Answer
		least, max int
		says       string
		ends       bool // before its deadline
	}{
		"an unbind, by a job that only the broker's word failed": {
			kind: lc.Binding, sees: afterJob(living, failed("It is in use.", true)), least: 4, max: 4, says: "It is in use.", ends: true},
		"a delete, by its answer": {
			kind: lc.Instance, sees: afterJob(living, lc.JobStatus{State: lc.JobLost}), least: 4, max: 4, says: "It is in use.", ends: true,
			answers: lc.Answer{Reply: lc.ReplyRefused, Description: "It is in use.", FromBackingBroker: true}},
		"a delete, by the broker's word on a binding": {
			kind: lc.Instance, least: 4, max: 4, says: "The service binding b could not be deleted: It is in use.", ends: true,
			sees: afterJob(living, failed("Service broker failed to delete service binding for instance i: It is in use.", false), unbound)},
		"a delete, by something else on the way to a binding": {
			kind: lc.Instance, least: 20, max: 250, says: "in progress",
			sees: afterJob(living, failed("An operation for a service binding is in progress.", false), unbound)},
		"an unbind, by no word of the broker": {
			kind: lc.Binding, sees: afterJob(living, failed("The broker timed out.", false)), least: 20, max: 250, says: "The broker timed out."},
		"a delete without a role": {
			kind: lc.Instance, sees: afterJob(living, lc.JobStatus{State: lc.JobLost}), least: 2000, max: 2200, says: "not authorized",
			answers: lc.Answer{Reply: lc.ReplyBusy, Description: "You are not authorized."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, stored(test.kind, lc.Deleting), test.sees)
			if test.answers.Reply != "" {
				d.answers = test.answers
			}
			d.step()
			d.step()
			d.says(test.says)
			d.until(noon().Add(week + time.Hour))
			f := d.result()
			if d.r.State != lc.DeleteFailed || !strings.Contains(f.Description, test.says) {
				t.Errorf("it is %q: %q, want the text %q", d.r.State, f.Description, test.says)
			}
			if early := f.EndedAt.Before(noon().Add(time.Hour)); early != test.ends {
				t.Errorf("it ended after %s", f.EndedAt.Sub(noon()))
			}
			if n := d.sent[lc.SendDelete]; n < test.least || n > test.max {
				t.Errorf("%d DELETEs in all, want %d to %d", n, test.least, test.max)
			}
			if d.r.Operation.TemporaryRefusal+d.r.Operation.NoAnswer != "" {
				t.Errorf("the words outlive the operation: %+v", d.r.Operation)
			}
		})
	}
}

// TestADeleteAfterAFailedOneAsksOnce: it is another try itself, and some platforms send
// one after the other.
func TestADeleteAfterAFailedOneAsksOnce(t *testing.T) {
	t.Parallel()
	r := stored(lc.Binding, lc.Deleting)
	r.Finished = append(r.Finished, lc.Finished{ID: "before", Verb: lc.Delete})
	d := drive(t, r, afterJob(mine(lc.Create, lc.LastSucceeded), lc.JobStatus{State: lc.JobFailed, FromBackingBroker: true, Description: "It is in use."}))
	if f := d.until(noon().Add(time.Hour)).result(); f.Description != "It is in use." || d.sent[lc.SendDelete] != 1 {
		t.Errorf("%+v after %d DELETEs", f, d.sent[lc.SendDelete])
	}
}

// TestALeftoverThatStaysEndsTheCreate: the backing broker does not give it up.
func TestALeftoverThatStaysEndsTheCreate(t *testing.T) {
	t.Parallel()
	d := drive(t, stored(lc.Instance, lc.Creating), afterJob(foreign(90), lc.JobStatus{State: lc.JobFailed, FromBackingBroker: true, Description: "It is in use."}))
	d.step()
	d.says("What is left of an earlier attempt is being removed first.")
	d.step()
	d.says("It is in use.")
	if f := d.until(noon().Add(time.Hour)).result(); f.Succeeded || !strings.Contains(f.Description, "It is in use.") || d.sent[lc.SendDeleteLeftover] != 4 {
		t.Errorf("%+v after %d DELETEs", f, d.sent[lc.SendDeleteLeftover])
	}
}

// TestFailedDeletesAreDamped: the n-th delete in a row that fails makes the next one wait.
func TestFailedDeletesAreDamped(t *testing.T) {
	t.Parallel()
	failed := lc.Finished{ID: "d", Verb: lc.Delete}
	for name, test := range map[string]struct {
		finished []lc.Finished
		want     time.Duration
	}{
		"none":                            {nil, 0},
		"one":                             {[]lc.Finished{failed}, 2 * time.Second},
		"two":                             {[]lc.Finished{failed, failed}, 4 * time.Second},
		"five":                            {[]lc.Finished{failed, failed, failed, failed, failed}, 32 * time.Second},
		"twenty":                          {make([]lc.Finished, 20), time.Minute},
		"one, then something else":        {[]lc.Finished{failed, {ID: "u", Verb: lc.Update, Succeeded: true}}, 0},
		"one, and one that succeeded":     {[]lc.Finished{failed, {ID: "e", Verb: lc.Delete, Succeeded: true}}, 0},
		"something that failed, then one": {[]lc.Finished{{ID: "c", Verb: lc.Create}, failed}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stored(lc.Instance, lc.Deleting)
			for _, f := range test.finished {
				if f.Verb == "" {
					f = failed
				}
				r.Finished = append(r.Finished, f)
			}
			d := drive(t, r, afterJob(mine(lc.Create, lc.LastSucceeded), lc.JobStatus{State: lc.JobProcessing}))
			if test.want > 0 {
				d.says(", so the next try waits until " + noon().Add(test.want).Format("15:04:05"))
			}
			at := d.now
			for d.step().Effect.Do != lc.SendDelete && d.turns < 100 {
				at = d.now
			}
			if waited := at.Sub(noon()); waited != test.want || d.writes != 2 {
				t.Errorf("DELETE after %s with %d writes, want %s and 2", waited, d.writes, test.want)
			}
		})
	}
}

// TestOvertime: each kind of operation has a text of its own, with what stood in the way.
func TestOvertime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind  lc.Kind
		state lc.State
		wants []string
	}{
		{lc.Instance, lc.Creating, []string{"service instance was not created", "create it again"}},
		{lc.Instance, lc.Updating, []string{"update did not end", "still there", "Send the update again"}},
		{lc.Instance, lc.Deleting, []string{"service instance was not deleted", "Delete it again"}},
		{lc.Binding, lc.Creating, []string{"service binding was not created", "create it again"}},
		{lc.Binding, lc.Deleting, []string{"service binding was not deleted", "Delete it again"}},
	} {
		r := stored(test.kind, test.state)
		r.Operation.TemporaryRefusal = "The organization is suspended."
		tick := bare()
		tick.Now, tick.LookupFailed = r.Operation.Deadline, true
		d, err := lc.Next(r, tick)
		if err != nil || d.Result == nil {
			t.Fatalf("%s %s: %+v, %v", test.kind, test.state, d, err)
		}
		for _, want := range append(test.wants, "168h", "The organization is suspended.") {
			if !strings.Contains(d.Result.Description, want) {
				t.Errorf("%s, %s: %q lacks %q", test.kind, test.state, d.Result.Description, want)
			}
		}
		if test.state == lc.Updating && strings.Contains(d.Result.Description, "elete it") {
			t.Errorf("the user of a working instance is told: %q", d.Result.Description)
		}
	}
}

// TestAnOutageIsSaidAndForgotten: one write when Cloud Foundry stops answering, one when
// it answers again; then the operation is looked at as often as at its beginning.
func TestAnOutageIsSaidAndForgotten(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Deleting)
	r.Operation.Job, r.Operation.JobGUID, r.Operation.Due = "job", "guid", noon().Add(week)
	for name, away := range map[string]func(*lc.Tick){
		"no look-up":     func(k *lc.Tick) { k.LookupFailed = true },
		"no word of job": func(k *lc.Tick) { k.Job = inState(lc.JobUnclear) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			works := func(k *lc.Tick) { k.Job = inState(lc.JobProcessing) }
			d := drive(t, r.Clone(), works)
			d.until(noon().Add(time.Minute))
			d.says("Cloud Foundry is deleting the service instance.")
			d.sees = func(k *lc.Tick) { away(k); k.NoAnswerReason = "The role is missing." }
			d.until(noon().Add(5 * time.Minute))
			d.says("The role is missing.")
			if d.writes != 1 {
				t.Errorf("%d writes while Cloud Foundry was away, want one", d.writes)
			}
			d.sees = works
			began := d.now
			var waits []time.Duration
			for range 4 {
				before := d.now
				d.step()
				waits = append(waits, d.now.Sub(before))
			}
			if diff := cmp.Diff([]time.Duration{2 * time.Second, 2 * time.Second, 3200 * time.Millisecond, 5120 * time.Millisecond}, waits); diff != "" {
				t.Errorf("waits after it was back (-want +got):\n%s", diff)
			}
			if d.writes != 2 || !d.r.Operation.PaceResetAt.Equal(began) {
				t.Errorf("%d writes, pace since %s", d.writes, d.r.Operation.PaceResetAt)
			}
			d.says("Cloud Foundry is deleting the service instance.")
		})
	}
}

// TestAnAnswerAfterALostOneResumes: a call whose answer was lost, and one that was taken
// only after refusals, are failures that end.
func TestAnAnswerAfterALostOneResumes(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]lc.Answer{
		"lost":    {Reply: lc.ReplyUnknown},
		"refused": {Reply: lc.ReplyBusy, Description: "There is no Cloud Controller."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stored(lc.Instance, lc.Deleting)
			r.Operation.Started = noon().Add(-10 * time.Minute)
			d := drive(t, r, afterJob(mine(lc.Create, lc.LastSucceeded), lc.JobStatus{State: lc.JobProcessing}))
			d.answers = answer
			d.step()
			d.answers = lc.Answer{Reply: lc.ReplyAccepted, Job: "job"}
			before := d.now
			if d.step(); d.sent[lc.SendDelete] != 2 || d.now.Sub(before) != 2*time.Second {
				t.Errorf("%d DELETEs; the next look comes after %s", d.sent[lc.SendDelete], d.now.Sub(before))
			}
		})
	}
}

// TestAWeekOfOutages: a Cloud Foundry that comes and goes all the time makes no hot loop,
// and its operations still fit into one history of the state machine.
func TestAWeekOfOutages(t *testing.T) {
	t.Parallel()
	const eventsPerTurn = 9
	away := false
	d := drive(t, stored(lc.Instance, lc.Creating), func(k *lc.Tick) {
		if away = !away; away {
			k.LookupFailed = true
			return
		}
		k.Look = &lc.Look{Began: k.ReadAt, Rows: []lc.Row{mine(lc.Create, lc.LastInProgress)}}
	})
	d.r.Operation.Calls = 1
	d.until(noon().Add(week))
	t.Logf("%d turns, %d resumes, %d writes", d.turns, d.r.Operation.PaceResets, d.writes)
	if d.turns*eventsPerTurn >= 20000 || d.r.Operation.PaceResets < 5 {
		t.Errorf("%d turns make %d events; the pace began anew %d times", d.turns, d.turns*eventsPerTurn, d.r.Operation.PaceResets)
	}
}

// TestWordsEndWithTheirOperation: a backing broker's words may quote what was sent.
func TestWordsEndWithTheirOperation(t *testing.T) {
	t.Parallel()
	said := func(k lc.Kind, s lc.State) lc.Record {
		r := stored(k, s)
		r.Operation.TemporaryRefusal, r.Operation.NoAnswer = "hunter2", "hunter2"
		return r
	}
	gone, err := lc.Next(said(lc.Instance, lc.Deleting), seen())
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]lc.Record{
		"gone":         gone.Record,
		"cancelled":    ask(t, said(lc.Instance, lc.Creating), lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}).Record,
		"of an orphan": ask(t, said(lc.Binding, lc.Deleting), lc.Request{Verb: lc.Delete, Instance: instance(lc.Gone)}).Record,
	} {
		if op := r.Operation; op.TemporaryRefusal+op.NoAnswer != "" {
			t.Errorf("%s: %+v", name, op)
		}
	}
}

func defaultPace() lc.Pace { return lc.Pace{First: 2 * time.Second, Max: time.Minute} }

// waitsOf walks a pace: each wait begins when the one before has passed.
func waitsOf(p lc.Pace, until time.Duration) []time.Duration {
	var waits []time.Duration
	for elapsed := time.Duration(0); elapsed < until; {
		w := p.Wait(elapsed)
		waits = append(waits, w)
		elapsed += w
	}
	return waits
}

func TestWaitGrows(t *testing.T) {
	t.Parallel()
	seconds := func(s ...float64) []time.Duration {
		var d []time.Duration
		for _, v := range s {
			d = append(d, time.Duration(v*float64(time.Second)))
		}
		return d
	}
	for name, test := range map[string]struct {
		pace lc.Pace
		want []time.Duration
	}{
		"the defaults":       {defaultPace(), seconds(2, 2, 3.2, 5.12, 8.192, 13.1072, 20.97152, 33.554432, 53.6870912, 60, 60)},
		"first equals max":   {lc.Pace{First: time.Second, Max: time.Second}, seconds(1, 1, 1, 1)},
		"first beyond max":   {lc.Pace{First: time.Hour, Max: time.Second}, seconds(1, 1, 1, 1)},
		"max after one step": {lc.Pace{First: 2 * time.Second, Max: 3 * time.Second}, seconds(2, 2, 3, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var total time.Duration
			for _, w := range test.want {
				total += w
			}
			near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Microsecond })
			got := waitsOf(test.pace, time.Hour)[:len(test.want)]
			if diff := cmp.Diff(test.want, got, near); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitAfterAnHour(t *testing.T) {
	t.Parallel()
	p := defaultPace()
	for elapsed, want := range map[time.Duration]time.Duration{
		time.Hour - 1: time.Minute, time.Hour: 5 * time.Minute, week: 5 * time.Minute,
	} {
		if got := p.Wait(elapsed); got != want {
			t.Errorf("after %v: %v, want %v", elapsed, got, want)
		}
	}
}

func TestWaitNeverStandsStill(t *testing.T) {
	t.Parallel()
	p := lc.Pace{First: 0, Max: time.Second}
	if n := len(waitsOf(p, time.Minute)); n > 100 {
		t.Errorf("%d waits in a minute", n)
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	var got []int
	for _, w := range waitsOf(defaultPace(), 5*time.Minute)[:10] {
		got = append(got, lc.Seconds(w))
	}
	if diff := cmp.Diff([]int{2, 2, 3, 5, 8, 13, 21, 34, 54, 60}, got); diff != "" {
		t.Errorf("Retry-After (-want +got):\n%s", diff)
	}
	for wait, want := range map[time.Duration]int{
		-time.Second: 1, 0: 1, time.Millisecond: 1, 1499 * time.Millisecond: 1, 1500 * time.Millisecond: 2,
		5 * time.Minute: 300, 301 * time.Second: 300, 24 * time.Hour: 300,
	} {
		if got := lc.Seconds(wait); got != want {
			t.Errorf("%v: %d, want %d", wait, got, want)
		}
	}
}

// TestAWeekOfPolling: a turn of the state machine is nine history events at most, and
// an execution may have 25,000; the design allows itself 20,000.
func TestAWeekOfPolling(t *testing.T) {
	t.Parallel()
	const eventsPerTurn = 9
	turns := len(waitsOf(defaultPace(), week))
	t.Logf("%d turns, %d events", turns, turns*eventsPerTurn)
	if turns*eventsPerTurn >= 20000 {
		t.Errorf("%d turns make %d events", turns, turns*eventsPerTurn)
	}
	if turns < 2000 {
		t.Errorf("only %d turns: a platform would wait too long", turns)
	}
}
