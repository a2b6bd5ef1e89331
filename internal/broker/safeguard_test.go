package broker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// safeguard is a line of docs/protocol.md section 11.
type safeguard struct {
	// test is the shortest schedule found to the harm that the safeguard keeps off.
	test    func(*run)
	options brokertest.ScheduleOptions
	// off lists the ways to switch the safeguard off. The switches of one way are turned together.
	off [][]off
}

// off switches a safeguard off in a run that is being made, by wrapping what the Broker calls.
type off func(*run, *brokertest.ScheduleOptions)

// each are ways of one switch.
func each(switches ...off) [][]off {
	var ways [][]off
	for _, s := range switches {
		ways = append(ways, []off{s})
	}
	return ways
}

func safeguards() map[string]safeguard {
	hasty := brokertest.ScheduleOptions{Deadline: 10 * time.Minute}
	return map[string]safeguard{
		"conditional claim": {test: conditionalClaim, off: each(unconditional)},
		"no claim after a lost write with another seq or life": {test: givenUp, off: each(forgetful)},
		"410 moves life":    {test: goneMovesLife, off: each(onDecision(unmoved))},
		"410 conditionally": {test: gone410Conditional, off: each(unconditional)},
		"conditional write before POST with the open call in it": {test: callBeforePost, off: each(unwritten(lifecycle.SendCreate))},
		"open call before PATCH":                                 {test: callBeforePatch, off: each(unwritten(lifecycle.SendUpdate))},
		"open calls survive the cancel and delete waits for open POSTs": {test: callsSurviveCancel, off: each(
			onDecision(func(_ lifecycle.Record, e lifecycle.Event, d *lifecycle.Decision) {
				if _, ok := e.(lifecycle.Request); ok && d.Write {
					d.Record.OpenCalls = nil
				}
			}),
			unheeded(lifecycle.Instance, lifecycle.Delete, anyCall),
			unheeded(lifecycle.Binding, lifecycle.Delete, anyCall),
		)},
		"wait is H": {test: waitIsSettleAfter, off: each(onDecision(func(_ lifecycle.Record, e lifecycle.Event, d *lifecycle.Decision) {
			if t, ok := e.(lifecycle.Tick); ok && d.Effect.Do == lifecycle.SendCreate {
				d.Record.OpenCalls[len(d.Record.OpenCalls)-1].Until = t.Now.Add(time.Minute)
			}
		}))},
		"senders bounded": {test: sendersAreBounded, off: each(stoppedClocks)},
		"entries judged before the look-up": {test: judgedBeforeLook, off: each(
			unheeded(lifecycle.Instance, lifecycle.Delete, func(_ lifecycle.Record, t lifecycle.Tick, c lifecycle.OpenCall) bool {
				return !c.Until.After(t.Now)
			}))},
		"failed create waits for open calls": {test: failedWaits, off: each(unheeded(lifecycle.Instance, lifecycle.Create, anyCall))},
		"failed update waits for open calls": {test: callBeforePatch, off: each(unheeded(lifecycle.Instance, lifecycle.Update, anyCall))},
		"next update waits for foreign open calls": {test: nextUpdateWaits, off: each(
			unheeded(lifecycle.Instance, lifecycle.Update, func(r lifecycle.Record, _ lifecycle.Tick, c lifecycle.OpenCall) bool {
				return c.Seq != r.Operation.Seq
			}))},
		"adoption by operation mark": {test: adoptionByMark, options: hasty, off: each(
			onRows(lifecycle.Create, func(r lifecycle.Record, row *lifecycle.Row) {
				if row.Marked && row.Seq <= r.Operation.Seq {
					row.Operation = r.Operation.ID
				}
			}))},
		"conditional write before DELETE and known operations": {test: resumedDelete, off: [][]off{{
			unwritten(lifecycle.SendDelete), onRows(lifecycle.Delete, func(r lifecycle.Record, row *lifecycle.Row) {
				if row.Marked {
					row.Operation = r.Operation.ID
				}
			}),
		}}},
		"DELETE by the guid of the look-up": {test: deleteByGUID, off: each(onBackend(func(b broker.Backend) broker.Backend { return byName{b} }))},
		"conditional report":                {test: conditionalReport, off: each(unconditional)},
		"failed only when the job says so": {test: failedByJob, off: each(
			onTick(lifecycle.Create, func(_ *lifecycle.Record, t *lifecycle.Tick) { t.Job = &lifecycle.JobStatus{State: lifecycle.JobFailed} }))},
		"delete failed only by the own job": {test: deleteFailedByOwnJob, off: each(
			onTick(lifecycle.Delete, believeTheRow),
			onTick(lifecycle.Delete, func(_ *lifecycle.Record, t *lifecycle.Tick) {
				if t.Job != nil {
					t.Job = &lifecycle.JobStatus{State: t.Job.State, Description: t.Job.Description, FromBackingBroker: true}
				}
			}))},
		"binding tied to incarnation and guid": {test: bindOfFormerLife, off: each(onTick(lifecycle.Create, func(r *lifecycle.Record, t *lifecycle.Tick) {
			if t.Instance != nil {
				r.InstanceCreateOp, r.InstanceGUID = t.Instance.CreateOp, ""
			}
		}))},
		"instance read again after the claim": {test: instanceReadAgain, off: each(onTick(lifecycle.Create, func(r *lifecycle.Record, t *lifecycle.Tick) {
			if t.Instance != nil {
				t.Instance = &lifecycle.InstanceView{State: lifecycle.Ready, CreateOp: r.InstanceCreateOp, CFGUID: r.InstanceGUID}
			}
		}))},
		"bindings first then the instance": {test: bindingsFirst, off: each(onTick(lifecycle.Delete, func(_ *lifecycle.Record, t *lifecycle.Tick) {
			t.Bindings, t.BindingsKnown = nil, true
		}))},
		"failed unbinds without open POST": {test: failedUnbindWithPost, options: hasty, off: each(
			onTick(lifecycle.Delete, func(_ *lifecycle.Record, t *lifecycle.Tick) {
				t.Bindings = slices.Clone(t.Bindings)
				for i := range t.Bindings {
					t.Bindings[i].HasOpenCreate = false
				}
			}))},
		"unmarked rows are not ours": {test: strangersStay, off: each(onRows(lifecycle.Delete, func(r lifecycle.Record, row *lifecycle.Row) {
			if !row.Marked {
				row.Marked, row.Operation = true, r.Operation.ID
			}
		}))},
		"refused waits for open calls": {test: refusedWaits, off: each(
			unheeded(lifecycle.Instance, lifecycle.Create, func(r lifecycle.Record, _ lifecycle.Tick, _ lifecycle.OpenCall) bool {
				return r.Operation.FinalRefusal != ""
			}))},
		"record read before a list":                   {test: recordBeforeList, off: each(readAfterTheLook)},
		"look-up by name even when the guid is known": {test: foundByName, off: each(onBackend(func(b broker.Backend) broker.Backend { return byGUID{b} }))},
		"tombstone outlives requests":                 {test: tombstoneOutlives, off: each(onDecision(shortTombstone))},
		"predecessor's incarnation compared":          {test: rotationOverLives, off: each(onStore(func(_ *run, s broker.Store) broker.Store { return ageless{s} }))},
		// Not lines of their own, but of the same kind: the first read of a request that was held, and a tick that goes
		// on after its delete has ended.
		"no claim after a hold with another life": {test: heldBindGivenUp, off: each(forgetful)},
		"no unbinding after the delete ended":     {test: staleTickOfEndedDelete, off: each(readingOnce)},
		"no unbinding after the delete failed":    {test: staleTickOfFailedDelete, off: each(readingOnce)},
		"janitor and restart number persisted":    {test: restartNumbers, off: each(onStore(func(_ *run, s broker.Store) broker.Store { return uncounted{s} }))},
	}
}

// TestSafeguard plays one schedule for each line of docs/protocol.md section 11. TestSafeguardsMatter shows that each
// fails once its safeguard is switched off.
//
// Two have no test here, since nothing of this package carries them yet: Korifi's line, and the daily audit's share of
// the tombstone line. That look-ups go through the whole org is the adapter's part.
func TestSafeguard(t *testing.T) {
	t.Parallel()
	for name, s := range safeguards() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.test(newRun(t, s.options))
		})
	}
}

// TestSafeguardsMatter switches each safeguard off, and wants its schedule to notice. What a schedule does not notice
// it does not test.
func TestSafeguardsMatter(t *testing.T) {
	t.Parallel()
	for name, s := range safeguards() {
		for n, way := range s.off {
			t.Run(fmt.Sprintf("%s %d", name, n+1), func(t *testing.T) {
				t.Parallel()
				without := &trial{TB: t}
				without.run(func() { s.test(newRun(without, s.options, way...)) })
				if len(without.faults) == 0 {
					t.Error("nothing failed without the safeguard")
					return
				}
				t.Log(without.faults[0])
			})
		}
	}
}

// trial is a test that is expected to fail: it keeps the faults that it is told of.
type trial struct {
	testing.TB
	faults []string
}

// run calls f until it returns, or gives up as after a Fatal. A panic of a schedule that goes on after a fault is one
// more.
func (t *trial) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil && len(t.faults) == 0 {
				t.TB.Errorf("panic: %v", p)
			}
		}()
		f()
	}()
	<-done
}

func (t *trial) Errorf(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}
func (t *trial) Error(args ...any) { t.faults = append(t.faults, fmt.Sprint(args...)) }

func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *trial) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

// onNext wraps lifecycle.Next, and what wraps it already.
func onNext(wrap func(next) next) off {
	return func(r *run, _ *brokertest.ScheduleOptions) {
		inner := r.next
		if inner == nil {
			inner = lifecycle.Next
		}
		r.next = wrap(inner)
	}
}

// onTick changes what a tick of the verb goes by. What it changes in the record is in what is decided, too.
func onTick(verb lifecycle.Verb, change func(*lifecycle.Record, *lifecycle.Tick)) off {
	return onNext(func(inner next) next {
		return func(r lifecycle.Record, e lifecycle.Event) (lifecycle.Decision, error) {
			if t, ok := e.(lifecycle.Tick); ok && verb == r.Operation.Verb {
				change(&r, &t)
				e = t
			}
			return inner(r, e)
		}
	})
}

// onRows changes what a look-up of the verb seems to see.
func onRows(verb lifecycle.Verb, change func(lifecycle.Record, *lifecycle.Row)) off {
	return onTick(verb, func(r *lifecycle.Record, t *lifecycle.Tick) {
		if t.Look == nil {
			return
		}
		look := *t.Look
		look.Rows = slices.Clone(look.Rows)
		for i := range look.Rows {
			change(*r, &look.Rows[i])
		}
		t.Look = &look
	})
}

// onDecision changes what was decided.
func onDecision(change func(lifecycle.Record, lifecycle.Event, *lifecycle.Decision)) off {
	return onNext(func(inner next) next {
		return func(r lifecycle.Record, e lifecycle.Event) (lifecycle.Decision, error) {
			d, err := inner(r, e)
			change(r, e, &d)
			return d, err
		}
	})
}

// unwritten carries a call out without the write that comes before it.
func unwritten(do lifecycle.Action) off {
	return onDecision(func(_ lifecycle.Record, _ lifecycle.Event, d *lifecycle.Decision) {
		if d.Effect.Do == do {
			d.Write = false
		}
	})
}

// unheeded hides open calls from the ticks of a verb.
func unheeded(kind lifecycle.Kind, verb lifecycle.Verb, hide func(lifecycle.Record, lifecycle.Tick, lifecycle.OpenCall) bool) off {
	return onNext(func(inner next) next {
		return func(r lifecycle.Record, e lifecycle.Event) (lifecycle.Decision, error) {
			t, ok := e.(lifecycle.Tick)
			if !ok || r.Kind != kind || r.Operation.Verb != verb {
				return inner(r, e)
			}
			var hidden, seen []lifecycle.OpenCall
			for _, c := range r.OpenCalls {
				if hide(r, t, c) {
					hidden = append(hidden, c)
				} else {
					seen = append(seen, c)
				}
			}
			r.OpenCalls = seen
			d, err := inner(r, t)
			d.Record.OpenCalls = append(hidden, d.Record.OpenCalls...)
			return d, err
		}
	})
}

func anyCall(lifecycle.Record, lifecycle.Tick, lifecycle.OpenCall) bool { return true }

// forgetful lets a request forget what it read first.
func forgetful(r *run, o *brokertest.ScheduleOptions) {
	onNext(func(inner next) next {
		return func(r lifecycle.Record, e lifecycle.Event) (lifecycle.Decision, error) {
			if q, ok := e.(lifecycle.Request); ok {
				q.FirstRead, q.MayNotClaim = nil, false
				e = q
			}
			return inner(r, e)
		}
	})(r, o)
}

func unmoved(r lifecycle.Record, _ lifecycle.Event, d *lifecycle.Decision) {
	if d.Outcome == lifecycle.AlreadyGone {
		d.Record, d.Write = r, false
	}
}

func shortTombstone(_ lifecycle.Record, e lifecycle.Event, d *lifecycle.Decision) {
	if t, ok := e.(lifecycle.Tick); ok && d.Record.State == lifecycle.Gone {
		d.Record.ExpiresAt = t.Now.Add(time.Second)
	}
}

// believeTheRow takes a row whose delete failed for the word of this operation's own job.
func believeTheRow(r *lifecycle.Record, t *lifecycle.Tick) {
	if t.Look == nil || len(t.Look.Rows) == 0 {
		return
	}
	if row := t.Look.Rows[0]; row.Last.Verb == lifecycle.Delete && row.Last.State == lifecycle.LastFailed {
		r.Operation.Job, r.Operation.JobGUID = "believed", row.GUID
		t.Job = &lifecycle.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: true}
	}
}

// stoppedClocks lets the clock of each actor stand still while it is at work.
func stoppedClocks(r *run, o *brokertest.ScheduleOptions) {
	o.Configure = func(o *broker.Options) {
		now, began := o.Now, map[*brokertest.Actor]time.Time{}
		o.Now = func() time.Time {
			a := r.Running()
			if a == nil {
				return now()
			}
			if _, ok := began[a]; !ok {
				began[a] = now()
			}
			return began[a]
		}
	}
}

// onBackend wraps the Cloud Foundry beneath the scheduler's gates.
func onBackend(wrap func(broker.Backend) broker.Backend) off {
	return func(_ *run, o *brokertest.ScheduleOptions) {
		o.Backend = func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend { return wrap(b) }
	}
}

// byName deletes whatever has the name of the instance now.
type byName struct{ broker.Backend }

func (b byName) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	look, err := b.FindInstances(ctx, broker.Lookup{Name: instanceKey().InstanceID})
	if err != nil || len(look.Rows) == 0 {
		return b.Backend.DeleteInstance(ctx, guid)
	}
	return b.Backend.DeleteInstance(ctx, look.Rows[0].GUID)
}

// byGUID looks for the GUIDs alone where some are known.
type byGUID struct{ broker.Backend }

func (b byGUID) FindInstances(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	if len(q.GUIDs) > 0 {
		q.Name = "nobody's"
	}
	return b.Backend.FindInstances(ctx, q)
}

// onStore wraps the store beneath the scheduler's gates.
func onStore(wrap func(*run, broker.Store) broker.Store) off {
	return func(r *run, o *brokertest.ScheduleOptions) {
		o.Store = func(_ *brokertest.Scheduler, s broker.Store) broker.Store { return wrap(r, s) }
	}
}

// unconditional makes a refused write again, on whatever is stored by now.
func unconditional(r *run, o *brokertest.ScheduleOptions) {
	onStore(func(_ *run, s broker.Store) broker.Store { return overwriting{s} })(r, o)
}

type overwriting struct{ broker.Store }

func (s overwriting) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	stored, err := s.Store.Put(ctx, r, revision)
	if errors.Is(err, broker.ErrConflict) {
		return s.Store.Put(ctx, r, stored.Revision)
	}
	return stored, err
}

// readAfterTheLook lets a tick decide and write on a record that it reads after its look-up.
func readAfterTheLook(r *run, o *brokertest.ScheduleOptions) {
	late := &lateReader{}
	onStore(func(_ *run, s broker.Store) broker.Store { late.Store = s; return late })(r, o)
	onNext(func(inner next) next {
		return func(rec lifecycle.Record, e lifecycle.Event) (lifecycle.Decision, error) {
			late.revision = 0
			if t, ok := e.(lifecycle.Tick); ok && t.Look != nil {
				now := r.record(instanceKey())
				rec, late.revision = now.Lifecycle, now.Revision
			}
			return inner(rec, e)
		}
	})(r, o)
}

// lateReader writes on the revision that was read last, where that is known.
type lateReader struct {
	broker.Store
	revision int64
}

func (s *lateReader) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	return s.Store.Put(ctx, r, max(revision, s.revision))
}

// readingOnce lets an actor see the instance as it read it first.
func readingOnce(r *run, o *brokertest.ScheduleOptions) {
	onStore(func(_ *run, s broker.Store) broker.Store {
		return readOnce{Store: s, seen: map[*brokertest.Actor]broker.Record{}}
	})(r, o)
}

type readOnce struct {
	broker.Store
	seen map[*brokertest.Actor]broker.Record
}

func (s readOnce) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	if seen, ok := s.seen[brokertest.ActorOf(ctx)]; ok && key == instanceKey() {
		return seen, nil
	}
	rec, err := s.Store.Get(ctx, key)
	return s.first(ctx, key, rec, err), err
}

func (s readOnce) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	all, err := s.Store.GetAll(ctx, keys)
	for i, got := range all {
		all[i].Record = s.first(ctx, keys[i], got.Record, got.Err)
	}
	return all, err
}

// first is what the actor is shown of a record that was read.
func (s readOnce) first(ctx context.Context, key broker.Key, rec broker.Record, err error) broker.Record {
	a := brokertest.ActorOf(ctx)
	if a == nil || err != nil || key != instanceKey() {
		return rec
	}
	if _, ok := s.seen[a]; !ok {
		s.seen[a] = rec
	}
	return s.seen[a]
}

// ageless shows every binding as one of the instance that is there now.
type ageless struct{ broker.Store }

func (s ageless) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	rec, err := s.Store.Get(ctx, key)
	if err == nil {
		s.adopt(ctx, &rec)
	}
	return rec, err
}

func (s ageless) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	all, err := s.Store.GetAll(ctx, keys)
	for i := range all {
		if all[i].Err == nil {
			s.adopt(ctx, &all[i].Record)
		}
	}
	return all, err
}

func (s ageless) adopt(ctx context.Context, rec *broker.Record) {
	if rec.Key.BindingID != "" {
		instance, _ := s.Store.Get(ctx, rec.Key.Instance())
		rec.Lifecycle.InstanceCreateOp = instance.Lifecycle.CreateOp.ID
	}
}

// uncounted does not keep the number of a restart.
type uncounted struct{ broker.Store }

func (s uncounted) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	r.Lifecycle.Operation.Restarts = 0
	return s.Store.Put(ctx, r, revision)
}
