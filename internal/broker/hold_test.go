package broker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// sync and syncDelete ask for an answer without accepts_incomplete.
func sync(q *broker.BindRequest) { q.AcceptsIncomplete = false }

func syncDelete(q *broker.DeleteRequest) { q.AcceptsIncomplete = false }

// quick is a cloud whose jobs end at once.
func quick() brokertest.ScheduleOptions {
	return brokertest.ScheduleOptions{Cloud: &brokertest.CloudOptions{}}
}

// settled lets a held request go on, and jobs end, until it has its answer.
func (r *run) settled(a *brokertest.Actor) (broker.Result, error) {
	r.t.Helper()
	for n := 0; !a.Done() && n < 300; n++ {
		if a.At == "Sleep" {
			r.Cloud.FinishAll()
		}
		r.Choose(a, brokertest.Proceed)
	}
	return r.answer(a)
}

func TestAHeldBindAnswersWithCredentials(t *testing.T) {
	t.Parallel()
	r := newReady(t, quick())
	made, err := bindWith(sync).send(r)
	if err != nil || made.Outcome != broker.OutcomeCreated || made.Operation != "" || made.Binding == nil {
		t.Fatalf("BIND-13: %+v, %v; want it created", made, err)
	}
	var c struct {
		Password string
		Big      json.Number
	}
	key := r.record(bindingKey()).Lifecycle.CFGUID
	if err := json.Unmarshal(made.Binding.Credentials, &c); err != nil || c.Password != brokertest.SecretOf(key) || c.Big != brokertest.BigNumber {
		t.Errorf("credentials %s, %v; want those of %s, exact", made.Binding.Credentials, err, key)
	}
	before := r.dump()
	for _, flag := range []bool{false, true} {
		again, err := bindWith(func(q *broker.BindRequest) { q.AcceptsIncomplete = flag }).send(r)
		if err != nil || again.Outcome != broker.OutcomeExists {
			t.Fatalf("BIND-14: %+v, %v; want it to exist", again, err)
		}
		if diff := cmp.Diff(made.Binding, again.Binding); diff != "" {
			t.Errorf("a duplicate has other credentials (-first +again):\n%s", diff)
		}
	}
	r.unchanged(before)
	if n := r.Cloud.EffectsOf("b").Posts; n != 1 {
		t.Errorf("%d keys were made", n)
	}
	stored, err := json.Marshal(r.Store.All())
	if err != nil || strings.Contains(string(stored), brokertest.SecretOf("")) {
		t.Errorf("law 9: credentials are in the store: %s, %v", stored, err)
	}
}

func TestTheAppMayStandInEitherPlace(t *testing.T) {
	t.Parallel()
	r := newReady(t, quick())
	places := map[string]func(*broker.BindRequest){
		"BIND-05 on top":       func(q *broker.BindRequest) { q.Body.AppGUID = "app" },
		"BIND-06 in the place": func(q *broker.BindRequest) { q.Body.BindResource = &osb.BindResource{AppGUID: "app"} },
		"in both": func(q *broker.BindRequest) {
			q.Body.AppGUID, q.Body.BindResource = "app", &osb.BindResource{AppGUID: "app"}
		},
		"BIND-44 empty in the other": func(q *broker.BindRequest) {
			q.Body.AppGUID, q.Body.BindResource = "", &osb.BindResource{AppGUID: "app"}
		},
	}
	for name, place := range places {
		result, err := bindWith(func(q *broker.BindRequest) { sync(q); place(q) }).send(r)
		if err != nil || result.Binding == nil {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	if n := r.Cloud.EffectsOf("b").Posts; n != 1 {
		t.Errorf("%d keys were made for one request in several forms", n)
	}
	none := bindWith(func(q *broker.BindRequest) { sync(q); q.Body.BindResource = &osb.BindResource{} })
	if got := r.outcome(none); got != string(broker.CodeConflict) {
		t.Errorf("without any app: %s, want a conflict", got)
	}
}

func TestADuplicateOfAHeldBindWaitsAndGetsTheSame(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	first := r.Reach(r.heldBind(), "Sleep")
	second := r.Reach(r.heldBind(), "Sleep")
	one, err := r.settled(first)
	if err != nil || one.Outcome != broker.OutcomeCreated {
		t.Fatalf("first = %+v, %v", one, err)
	}
	two, err := r.settled(second)
	if err != nil || two.Outcome != broker.OutcomeExists || cmp.Diff(one.Binding, two.Binding) != "" {
		t.Errorf("second = %+v, %v; want the same with 200", two, err)
	}
	if second.Writes+second.Starts != 0 {
		t.Errorf("law 3: the duplicate wrote %d records", second.Writes)
	}
}

func TestAHeldBindOutOfTime(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	held := r.Reach(r.heldBind(), "Sleep")
	r.Choose(held, brokertest.Drop)
	r.refused(held, broker.CodeOutOfTime)
	if s := r.record(bindingKey()).Lifecycle.State; s != lifecycle.Creating {
		t.Errorf("the bind is %q; it goes on without its request", s)
	}
	r.drive(r.accepted(r.unbind())) // what the platform does then
	r.left(1)
}

// TestATimeSpentOnReadingIsNoOutage: the time may also end while the record is read.
func TestATimeSpentOnReadingIsNoOutage(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	held := r.Reach(r.heldBind(), "Sleep")
	r.Choose(held, brokertest.Proceed)
	if held.At != "Get binding" {
		t.Fatalf("the held bind is at %q", held.At)
	}
	r.Expire(held)
	r.refused(held, broker.CodeOutOfTime)
}

func TestAnUnbindCancelsAHeldBind(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	held := r.Reach(r.heldBind(), "Sleep")
	gone := r.accepted(r.unbind())
	r.refused(held, broker.CodeConcurrency)
	r.drive(gone)
	r.wants(gone, osb.Succeeded)
	r.left(1)
}

func TestAHeldBindThatTheBackendRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  brokertest.End
		want broker.Code
	}{
		"BIND-19 for want of an app": {brokertest.End{Fail: true, FromBackingBroker: true, Code: osb.RequiresApp}, broker.CodeRequiresApp},
		"with a sentence":            {brokertest.Rejected("out of users"), broker.CodeBackend},
		"without one":                {brokertest.End{Fail: true}, broker.CodeBackend},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{})
			held := r.Reach(r.heldBind(), "Sleep")
			r.failJob(test.end)
			_, err := r.settled(held)
			if broker.CodeOf(err) != test.want || !strings.Contains(err.Error(), test.end.Description) {
				t.Errorf("error %v, want %s with the backend's words", err, test.want)
			}
			r.left(1) // the failed key is removed: this platform will not ask for it
			if s := r.record(bindingKey()).Lifecycle.State; s != lifecycle.CreateFailed {
				t.Errorf("the binding is %q", s)
			}
			again, err := r.settled(r.heldBind())
			if err != nil || again.Outcome != broker.OutcomeCreated {
				t.Errorf("another try = %+v, %v; want it created", again, err)
			}
		})
	}
}

// TestALeftoverThatCannotBeRemovedIsNoSuccess: the key failed, and so does its removal.
func TestALeftoverThatCannotBeRemovedIsNoSuccess(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	held := r.Reach(r.heldBind(), "Sleep")
	for range 3 {
		r.failJob(brokertest.Rejected("no"))
		for len(r.Cloud.Running()) == 0 {
			r.Choose(held, brokertest.Proceed)
		}
	}
	_, err := r.settled(held)
	if broker.CodeOf(err) != broker.CodeBackend {
		t.Errorf("error %v, want the backend's refusal", err)
	}
	r.left(1)
}

func TestAHeldBindWaitsForItsInstance(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]func(*run) string{
		"while it is created": func(r *run) string { return r.accepted(r.put()) },
		"while it is updated": func(r *run) string { r.ready(); return r.accepted(r.patch(brokertest.PlanLarge)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			op := busy(r)
			before := r.dump()
			late, held := r.Reach(r.heldBind(), "Sleep"), r.Reach(r.heldBind(), "Sleep")
			r.Choose(late, brokertest.Drop)
			r.refused(late, broker.CodeConcurrency)
			r.unchanged(before)
			r.drive(op)
			result, err := r.settled(held)
			if err != nil || result.Outcome != broker.OutcomeCreated {
				t.Errorf("once it is ready: %+v, %v; want it created", result, err)
			}
		})
		t.Run(name+", asynchronously", func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			op := busy(r)
			bound := r.accepted(r.bind())
			r.step(bound)
			r.wants(bound, osb.InProgress)
			r.drive(op)
			r.drive(bound)
			r.wants(bound, osb.Succeeded)
			r.left(2)
		})
	}
}

// TestABindThatCannotBeFetchedIsHeld, whatever the platform accepts: its result could not be fetched later.
func TestABindThatCannotBeFetchedIsHeld(t *testing.T) {
	t.Parallel()
	r := newRun(t, quick())
	plain := func(q *broker.ProvisionRequest) {
		q.Body.ServiceID, q.Body.PlanID = brokertest.ServicePlain, brokertest.PlanID(brokertest.PlanPlain)
	}
	created, err := putOf(plain).send(r)
	if err != nil {
		t.Fatal(err)
	}
	r.drive(created.Operation)
	result, err := bindWith(func(q *broker.BindRequest) {
		q.Body.ServiceID, q.Body.PlanID = brokertest.ServicePlain, brokertest.PlanID(brokertest.PlanPlain)
	}).send(r)
	if err != nil || result.Outcome != broker.OutcomeCreated || result.Binding == nil {
		t.Errorf("bind = %+v, %v; want it created in the answer", result, err)
	}
}

func TestAHeldUnbind(t *testing.T) {
	t.Parallel()
	r := newReady(t, quick())
	r.drive(r.accepted(r.bind()))
	held := deleteWith("b", syncDelete)
	if got := r.outcome(held); got != string(broker.OutcomeDeleted) {
		t.Errorf("UNB-05: %s, want deleted", got)
	}
	if got := r.outcome(held); got != string(broker.CodeGone) {
		t.Errorf("UNB-08: %s, want gone", got)
	}
	r.left(1)
}

func (r *run) bound() {
	r.t.Helper()
	if _, err := bindWith(sync).send(r); err != nil {
		r.t.Fatal(err)
	}
}

// TestAHeldBindOverADeadStore is told at once, as every other request.
func TestAHeldBindOverADeadStore(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	a := r.Reach(r.heldBind(), "Sleep")
	r.Choose(a, brokertest.Proceed)
	for n := 0; n < 20 && !a.Done() && a.At != "Sleep"; n++ {
		r.Choose(a, brokertest.Drop)
	}
	r.refused(a, broker.CodeUnavailable)
}

// TestAHeldBindOfWhatWasDeletedSince [7, CON-53]: it ended well, and is being unbound, or was bound again, before the
// request looked.
func TestAHeldBindOfWhatWasDeletedSince(t *testing.T) {
	t.Parallel()
	for name, since := range map[string]func(*run){
		"it is being unbound": func(r *run) { r.accepted(r.unbind()) },
		"it is gone":          func(r *run) { r.drive(r.accepted(r.unbind())) },
		"it was bound again": func(r *run) {
			r.drive(r.accepted(r.unbind()))
			r.drive(r.accepted(r.bind()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{})
			held := r.Reach(r.heldBind(), "Sleep")
			op := r.record(bindingKey()).Lifecycle.Operation.ID
			r.drive(op)
			r.wants(op, osb.Succeeded)
			since(r)
			r.refused(held, broker.CodeConcurrency)
		})
	}
}

// heldUnbind begins an unbind that its platform wants finished in the answer.
func (r *run) heldUnbind() *brokertest.Actor {
	return r.begin("held unbind", deleteWith("b", syncDelete))
}

// TestEachHeldRequestDrives: once the request that began the operation cannot be alive any more, the next one drives
// it, whatever its workflow waits for; of many of them one.
func TestEachHeldRequestDrives(t *testing.T) {
	t.Parallel()
	r, m := newGrudgingRun(t, quick())
	r.ready()
	r.drive(r.accepted(r.bind()))
	m.look = sayer{text: "Nobody answers."}
	first := r.Reach(r.heldUnbind(), "Sleep")
	second := r.Reach(r.heldUnbind(), "Sleep")
	r.Choose(first, brokertest.Drop)
	r.refused(first, broker.CodeOutOfTime)
	m.look = nil
	looks := func() int { return strings.Count(strings.Join(r.Trace, "\n"), ": FindKeys: ") }
	before := looks()
	r.Reach(r.Reach(second, "Get binding"), "Sleep")
	if n := looks() - before; n != 0 {
		t.Errorf("%d look-ups while the first request may be alive", n)
	}
	r.Advance(26 * time.Second)
	third := r.Reach(r.heldUnbind(), "Sleep")
	for _, a := range []*brokertest.Actor{second, third} {
		if result, err := r.settled(a); err != nil || result.Outcome != broker.OutcomeDeleted {
			t.Errorf("%s = %+v, %v; want it deleted", a.Name, result, err)
		}
	}
	if n := looks() - before; n == 0 || n > 3 || third.Writes > 0 {
		t.Errorf("%d look-ups, %d writes of the third", n, third.Writes)
	}
	r.left(1)
}

// Whoever may wait is asked before the claim and never again turned away after it.
func TestABindThatMayWaitIsHeld(t *testing.T) {
	t.Parallel()
	r := newReady(t, quick())
	asked := 0
	began := func(ctx context.Context) context.Context {
		return broker.WithWaiter(ctx, waiter(func() error {
			if asked++; asked == 1 && r.record(bindingKey()).Revision != 0 {
				t.Error("it is asked after the claim")
			}
			return nil
		}))
	}
	result, err := bindWith(sync)(began(t.Context()), r.Broker)
	if err != nil || result.Binding == nil || asked == 0 {
		t.Errorf("%+v, %v, asked %d times; want the credentials", result, err, asked)
	}
}
