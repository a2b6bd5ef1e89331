package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

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

func TestWait(t *testing.T) {
	t.Parallel()
	type test struct {
		pace lc.Pace
		want []float64 // seconds
	}
	each(t, map[string]test{
		"the defaults":       {defaultPace(), []float64{2, 2, 3.2, 5.12, 8.192, 13.1072, 20.97152, 33.554432, 53.6870912, 60, 60}},
		"first equals max":   {lc.Pace{First: time.Second, Max: time.Second}, []float64{1, 1, 1, 1}},
		"first beyond max":   {lc.Pace{First: time.Hour, Max: time.Second}, []float64{1, 1, 1, 1}},
		"max after one step": {lc.Pace{First: 2 * time.Second, Max: 3 * time.Second}, []float64{2, 2, 3, 3}},
		"never none":         {lc.Pace{First: 0, Max: 2 * time.Millisecond}, []float64{.001, .001, .0016, .002, .002}},
		"no pace at all":     {lc.Pace{}, nil},
	}, func(t *testing.T, test test) {
		var got []time.Duration
		for elapsed := time.Duration(0); len(got) < len(test.want); elapsed += got[len(got)-1] {
			got = append(got, test.pace.Wait(elapsed))
		}
		for i, seconds := range test.want {
			if (got[i] - time.Duration(seconds*float64(time.Second))).Abs() > time.Microsecond {
				t.Fatalf("waits %v, want %v", got, test.want)
			}
		}
	})
	for elapsed, want := range map[time.Duration]time.Duration{
		time.Hour - 1: time.Minute, time.Hour: 5 * time.Minute, week: 5 * time.Minute,
	} {
		if got := defaultPace().Wait(elapsed); got != want {
			t.Errorf("after %v: %v, want %v", elapsed, got, want)
		}
	}
}

// TestWaitOfAPaceThatBeganAnew grows from First as at the beginning, but up to five times Max once the operation is
// old.
func TestWaitOfAPaceThatBeganAnew(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	reset := noon().Add(50 * time.Minute)
	r.Operation.PaceResets, r.Operation.PaceResetAt = 1, reset
	for since, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, 9 * time.Minute: time.Minute, 12 * time.Minute: 5 * time.Minute, 2 * time.Hour: 5 * time.Minute,
	} {
		if got := defaultPace().WaitOf(r, reset.Add(since)); got != want {
			t.Errorf("%s after it began anew: %s, want %s", since, got, want)
		}
	}
	r.Operation.PaceResetAt = noon().Add(2 * time.Hour)
	if got := defaultPace().WaitOf(r, r.Operation.PaceResetAt.Add(4*time.Minute)); got <= time.Minute || got >= 5*time.Minute {
		t.Errorf("on the way to the longest wait of an old operation: %s", got)
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

// A turn of the state machine is nine history events at most, and an execution may have 25,000; the design allows
// itself 20,000.
const eventsPerTurn, eventsAllowed = 9, 20_000

func TestAWeekOfPolling(t *testing.T) {
	t.Parallel()
	turns := len(waitsOf(defaultPace(), week))
	t.Logf("%d turns, %d events", turns, turns*eventsPerTurn)
	if turns*eventsPerTurn >= eventsAllowed {
		t.Errorf("%d turns make %d events", turns, turns*eventsPerTurn)
	}
	if turns < 2000 {
		t.Errorf("only %d turns: a platform would wait too long", turns)
	}
}

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
	decision := decide(d.t, d.r, tick)
	wait := d.keep(decision, tick.Wait)
	switch do := decision.Effect.Do; do {
	case lc.SendCreate, lc.SendUpdate, lc.SendDelete, lc.SendDeleteLeftover:
		d.sent[do]++
		wait = d.keep(decide(d.t, d.r, lc.Replied{
			Operation: tick.Operation, Do: do, CallNumber: decision.Effect.CallNumber, GUID: decision.Effect.GUID, SameRevision: true,
			Answer: d.answers, Driver: tick.Driver, Now: d.now, Wait: wait, Pace: p,
		}), wait)
	default: // nothing is sent
	}
	d.turns++
	d.now = d.now.Add(wait)
	return decision
}

// keep makes the write, and returns how long the driver waits now.
func (d *driven) keep(decision lc.Decision, wait time.Duration) time.Duration {
	if decision.Write {
		d.r = decision.Record
		d.writes++
	}
	if decision.Wait > 0 {
		return decision.Wait
	}
	return wait
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
func afterJob(row lc.Row, job *lc.JobStatus, bindings ...lc.BindingView) func(*lc.Tick) {
	return func(t *lc.Tick) {
		v := instance(lc.Ready)
		t.Instance, t.BindingsKnown, t.Bindings = &v, true, bindings
		t.Look, t.Job = &lc.Look{Began: t.ReadAt, Rows: []lc.Row{row}}, job
	}
}

// living is a row that a create has made.
func living() lc.Row { return mine(lc.Create, lc.LastSucceeded) }

// TestADeleteThatIsRefusedEndsOrIsDamped: the backing broker's own word ends a delete after a few tries; what may pass
// is tried until the deadline, ever less often, and its text is what polls say meanwhile and at the end.
func TestADeleteThatIsRefusedEndsOrIsDamped(t *testing.T) {
	t.Parallel()
	const inUse = "It is in use."
	left := mine(lc.Delete, lc.LastFailed)
	left.Last.Description = "It has users."
	failed := func(text string) *lc.JobStatus { return &lc.JobStatus{State: lc.JobFailed, Description: text} }
	unbound := lc.BindingView{ID: "b", State: lc.DeleteFailed, InstanceCreateOp: "made", Problem: inUse}
	type test struct {
		kind       lc.Kind
		sees       func(*lc.Tick)
		answer     lc.Answer
		least, max int
		says       string
		ends       bool // before its deadline
	}
	taken := lc.Answer{Reply: lc.ReplyAccepted, Job: "job"}
	each(t, map[string]test{
		"an unbind, by a job that only the broker's word failed": {lc.Binding, afterJob(living(), byBroker(inUse)), taken, 4, 4, inUse, true},
		"a delete, by its answer": {lc.Instance, afterJob(living(), inState(lc.JobLost)),
			lc.Answer{Reply: lc.ReplyRefused, Description: inUse, FromBackingBroker: true}, 4, 4, inUse, true},
		"a delete, by the broker's word on a binding": {lc.Instance,
			afterJob(living(), failed("Service broker failed to delete service binding for instance i: It is in use."), unbound),
			taken, 4, 4, "The service binding b could not be deleted: It is in use.", true},
		"a delete, by something else on the way to a binding": {lc.Instance,
			afterJob(living(), failed("An operation for a service binding is in progress."), unbound), taken, 20, 250, "in progress", false},
		"an unbind, by no word of the broker": {lc.Binding, afterJob(living(), failed("The broker timed out.")), taken, 20, 250, "The broker timed out.", false},
		"an unbind, by a job without a word":  {lc.Binding, afterJob(left, failed("")), taken, 20, 250, "It has users.", false},
		"a delete without a role": {lc.Instance, afterJob(living(), inState(lc.JobLost)),
			lc.Answer{Reply: lc.ReplyBusy, Description: "You are not authorized."}, 2000, 2200, "not authorized", false},
	}, func(t *testing.T, test test) {
		d := drive(t, stored(test.kind, lc.Deleting), test.sees)
		d.answers = test.answer
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

// TestADeleteAfterAFailedOneAsksOnce: it is another try itself, and some platforms send one after the other.
func TestADeleteAfterAFailedOneAsksOnce(t *testing.T) {
	t.Parallel()
	r := stored(lc.Binding, lc.Deleting)
	r.Finished = append(r.Finished, lc.Finished{ID: "before", Verb: lc.Delete})
	d := drive(t, r, afterJob(living(), byBroker("It is in use.")))
	if f := d.until(noon().Add(time.Hour)).result(); f.Description != "It is in use." || d.sent[lc.SendDelete] != 1 {
		t.Errorf("%+v after %d DELETEs", f, d.sent[lc.SendDelete])
	}
}

// TestALeftoverThatStaysEndsTheCreate: the backing broker does not give it up.
func TestALeftoverThatStaysEndsTheCreate(t *testing.T) {
	t.Parallel()
	d := drive(t, stored(lc.Instance, lc.Creating), afterJob(foreign(90), byBroker("It is in use.")))
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
	failures := func(n int) (f []lc.Finished) {
		for range n {
			f = append(f, failed)
		}
		return f
	}
	type test struct {
		finished []lc.Finished
		want     time.Duration
	}
	each(t, map[string]test{
		"none":                            {nil, 0},
		"one":                             {failures(1), 2 * time.Second},
		"two":                             {failures(2), 4 * time.Second},
		"five":                            {failures(5), 32 * time.Second},
		"twenty":                          {failures(20), time.Minute},
		"one, then something else":        {[]lc.Finished{failed, {ID: "u", Verb: lc.Update, Succeeded: true}}, 0},
		"one, and one that succeeded":     {[]lc.Finished{failed, {ID: "e", Verb: lc.Delete, Succeeded: true}}, 0},
		"something that failed, then one": {[]lc.Finished{{ID: "c", Verb: lc.Create}, failed}, 2 * time.Second},
	}, func(t *testing.T, test test) {
		r := stored(lc.Instance, lc.Deleting)
		r.Finished = append(r.Finished, test.finished...)
		d := drive(t, r, afterJob(living(), inState(lc.JobProcessing)))
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

// TestAnOutageIsSaidAndForgotten: one write when Cloud Foundry stops answering, one when it answers again; then the
// operation is looked at as often as at its beginning.
func TestAnOutageIsSaidAndForgotten(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(*lc.Tick){
		"no look-up":     func(k *lc.Tick) { k.LookupFailed = true },
		"no word of job": func(k *lc.Tick) { k.Job = inState(lc.JobUnclear) },
	}, func(t *testing.T, away func(*lc.Tick)) {
		r := stored(lc.Instance, lc.Deleting)
		r.Operation.Job, r.Operation.JobGUID, r.Operation.Due = "job", "guid", noon().Add(week)
		works := func(k *lc.Tick) { k.Job = inState(lc.JobProcessing) }
		d := drive(t, r, works)
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
		if diff := cmp.Diff(waitsOf(defaultPace(), 10*time.Second), waits); diff != "" {
			t.Errorf("waits after it was back (-want +got):\n%s", diff)
		}
		if d.writes != 2 || !d.r.Operation.PaceResetAt.Equal(began) {
			t.Errorf("%d writes, pace since %s", d.writes, d.r.Operation.PaceResetAt)
		}
		d.says("Cloud Foundry is deleting the service instance.")
	})
}

// TestAnAnswerAfterALostOneResumes: a call whose answer was lost, and one that was taken only after refusals, are
// failures that end.
func TestAnAnswerAfterALostOneResumes(t *testing.T) {
	t.Parallel()
	each(t, map[string]lc.Answer{
		"lost":    {Reply: lc.ReplyUnknown},
		"refused": {Reply: lc.ReplyBusy, Description: "There is no Cloud Controller."},
	}, func(t *testing.T, answer lc.Answer) {
		r := stored(lc.Instance, lc.Deleting)
		r.Operation.Started = noon().Add(-10 * time.Minute)
		d := drive(t, r, afterJob(living(), inState(lc.JobProcessing)))
		taken := d.answers
		d.answers = answer
		d.step()
		d.answers = taken
		before := d.now
		if d.step(); d.sent[lc.SendDelete] != 2 || d.now.Sub(before) != 2*time.Second {
			t.Errorf("%d DELETEs; the next look comes after %s", d.sent[lc.SendDelete], d.now.Sub(before))
		}
	})
}

// TestAWeekOfOutages: a Cloud Foundry that comes and goes all the time makes no hot loop, and its operations still fit
// into one history of the state machine.
func TestAWeekOfOutages(t *testing.T) {
	t.Parallel()
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
	if d.turns*eventsPerTurn >= eventsAllowed || d.r.Operation.PaceResets < 5 {
		t.Errorf("%d turns make %d events; the pace began anew %d times", d.turns, d.turns*eventsPerTurn, d.r.Operation.PaceResets)
	}
}
