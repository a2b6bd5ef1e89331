package broker_test

import (
	"context"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestClaimsOfUnknownFate [2.1, 2.3, 2.5]: a request whose claim got no answer claims nothing more than that, and a
// bind among them is never answered with a 4xx.
func TestClaimsOfUnknownFate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first bool
		test  func(*run)
	}{
		"a held bind whose claim is stored has no time left":  {false, heldClaimWithoutAnswer},
		"a bind that then waits for its instance: 500":        {false, lostAndHeld},
		"a bind that meets another claim: 500":                {false, bindOverAnotherClaim},
		"claim first, refused without an answer: a PUT":       {true, lostRefusalOfAPut},
		"claim first, refused without an answer: a bind":      {true, lostRefusalOfABind},
		"claim first, refused without an answer: a duplicate": {true, lostRefusalOfADuplicate},
		"claim first, without an answer and nothing stored":   {true, lostAndNothingStored},
		"a bind that claimed nothing, its binding unbound":    {false, unboundBeforeTheClaim},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.test(newRun(t, brokertest.ScheduleOptions{ClaimFirst: test.first}))
		})
	}
}

// heldClaimWithoutAnswer: the platform has to clean up, so it must not be told that nothing has begun.
func heldClaimWithoutAnswer(r *run) {
	created := r.accepted(r.put())
	held := r.Reach(r.heldBind(), "Sleep")
	r.drive(created)
	r.Reach(held, "Put")
	r.Choose(held, brokertest.Lose)
	r.Expire(held)
	r.refused(held, broker.CodeUnavailable)
	if s := r.record(bindingKey()).Lifecycle.State; s != lifecycle.Creating {
		r.t.Fatalf("the binding is %q, want the claim stored", s)
	}
	r.drive(r.accepted(r.unbind())) // what the platform does then
	r.left(1)
}

// lostAndHeld: the claim meets progress of no weight, and is decided anew while the instance is being updated.
func lostAndHeld(r *run) {
	r.ready()
	r.failed(r.accepted(r.bind()))
	held := r.Reach(r.heldBind(), "Put")
	r.progress(bindingKey())
	r.accepted(r.patch(brokertest.PlanLarge))
	r.Choose(held, brokertest.Drop)
	r.Choose(r.Reach(held, "Sleep"), brokertest.Drop)
	r.refused(held, broker.CodeOutOfTime)
}

// progress moves the record's revision, as the note of a late answer does.
func (r *run) progress(key broker.Key) {
	r.t.Helper()
	rec := r.record(key)
	rec.Lifecycle.Operation.Restarts++
	r.store(rec)
}

func bindOverAnotherClaim(r *run) {
	r.ready()
	late := r.Reach(r.bind(), "Put")
	r.Choose(late, brokertest.Drop)
	r.refused(r.unbind(), broker.CodeGone)
	r.refused(late, broker.CodeOutOfTime)
	r.left(1)
}

// lostRefusalOfAPut: what refused the claim was moved before the PUT looked.
func lostRefusalOfAPut(r *run) {
	r.ready()
	r.drive(r.accepted(r.remove()))
	late := r.put()
	r.Choose(late, brokertest.Lose)
	r.refused(r.remove(), broker.CodeGone)
	before := r.dump()
	r.refused(late, broker.CodeConcurrency)
	r.unchanged(before)
}

func lostRefusalOfABind(r *run) {
	r.ready()
	r.drive(r.accepted(r.bind()))
	late := r.Reach(r.Go("bind", func(ctx context.Context) (any, error) {
		return bindWith(func(q *broker.BindRequest) { q.Body.AppGUID = "another" })(ctx, r.Broker)
	}), "Put")
	r.Choose(late, brokertest.Lose)
	r.drive(r.accepted(r.unbind()))
	before := r.dump()
	r.refused(late, broker.CodeOutOfTime)
	r.unchanged(before)
}

// lostRefusalOfADuplicate: what needs no claim is answered from the record.
func lostRefusalOfADuplicate(r *run) {
	op := r.accepted(r.put())
	again := r.put()
	r.Choose(again, brokertest.Lose)
	result, err := r.answer(again)
	if err != nil || result.Outcome != broker.OutcomeRunning || result.Operation != op {
		r.t.Errorf("duplicate = %+v, %v; want %s running", result, err, op)
	}
}

func lostAndNothingStored(r *run) {
	before := r.dump()
	late := r.put()
	r.Choose(late, brokertest.Drop)
	r.refused(late, broker.CodeUnavailable)
	r.unchanged(before)
}

// unboundBeforeTheClaim: nothing was begun, and a 500 would make the platform send one more DELETE, which meets
// whatever was made since.
func unboundBeforeTheClaim(r *run) {
	r.ready()
	late := r.Reach(r.bind(), "Put")
	r.refused(r.unbind(), broker.CodeGone)
	before := r.dump()
	r.refused(late, broker.CodeConcurrency)
	r.unchanged(before)
}

// TestOrderOfReadsOfABind [7]: its own record, then the instance's, then the claim. The other way round, a bind that
// was decided on an old instance is claimed on a new record.
func TestOrderOfReadsOfABind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first bool
		given func(*run)
		want  string
	}{
		"a new id": {false, func(*run) {}, "get:binding get:instance put:binding"},
		"claim first: the condition stands for the read": {true, func(*run) {}, "get:instance put:binding"},
		"claim first, refused: the instance once more": {true, func(r *run) { r.refused(r.unbind(), broker.CodeGone) },
			"get:instance put:binding get:instance put:binding"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := &tally{}
			r := newRun(t, brokertest.ScheduleOptions{ClaimFirst: test.first, Store: func(_ *brokertest.Scheduler, s broker.Store) broker.Store {
				return talliedStore{Store: s, tally: calls}
			}})
			r.ready()
			test.given(r)
			calls.take()
			r.accepted(r.bind())
			r.asked(calls, test.want)
		})
	}
}

// TestAClaimLostToProgressReadsTheInstanceAgain [7]: a late answer is noted on a failed binding while a new bind of it
// is on its way.
func TestAClaimLostToProgressReadsTheInstanceAgain(t *testing.T) {
	t.Parallel()
	calls := &tally{}
	r := newRun(t, brokertest.ScheduleOptions{Store: func(_ *brokertest.Scheduler, s broker.Store) broker.Store {
		return talliedStore{Store: s, tally: calls}
	}})
	r.ready()
	r.failed(r.accepted(r.bind()))
	late := r.Reach(r.bind(), "Put")
	r.progress(bindingKey())
	calls.take()
	r.accepted(late)
	r.asked(calls, "put:binding get:instance put:binding")
}
