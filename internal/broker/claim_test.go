package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestClaimFirst: a create or bind of an id that is probably new begins with the claim itself, on condition that no
// record exists; refused, the record returned is the first read (docs/protocol.md 2.1).
func TestClaimFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*run, *tally){
		"a new instance costs one write and one start":              newInstance,
		"a duplicate costs one refused write":                       refusedDuplicate,
		"a different create costs one refused write":                refusedDifferent,
		"a tombstone is met by the claim and claimed with a second": overTombstone,
		"what the refused claim saw counts as read first":           refusedSawFirst,
		"a claim whose answer was lost is won":                      lostFirstClaim,
		"what the catalog lost is answered from the record":         leftTheCatalog,
		"a request that cannot begin anything reads":                cannotBegin,
		"parameters that are too large leave nothing":               tooLargeToClaim,
		"a catalog that is not at hand is not asked for":            unknownCatalog,
		"a rotation reads, and a duplicate of it asks nobody":       rotationReads,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, calls := newTalliedRun(t, true)
			test(r, calls)
		})
	}
}

// tally is what a test's requests asked of the store, in order.
type tally struct {
	calls []string
	limit int
}

func newTalliedRun(t *testing.T, claimFirst bool) (*run, *tally) {
	t.Helper()
	calls := &tally{}
	return newRun(t, brokertest.ScheduleOptions{ClaimFirst: claimFirst, Store: func(_ *brokertest.Scheduler, s broker.Store) broker.Store {
		return talliedStore{Store: s, tally: calls}
	}}), calls
}

func (c *tally) take() string {
	calls := strings.Join(c.calls, " ")
	c.calls = nil
	return calls
}

type talliedStore struct {
	broker.Store
	*tally
}

func (s talliedStore) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	s.calls = append(s.calls, "get:"+string(key.Kind()))
	return s.Store.Get(ctx, key)
}

func (s talliedStore) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	s.calls = append(s.calls, "getall")
	return s.Store.GetAll(ctx, keys)
}

func (s talliedStore) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	if s.limit > 0 && len(r.Parameters) > s.limit {
		return broker.Record{}, &broker.LimitError{Bytes: s.limit}
	}
	s.calls = append(s.calls, "put:"+string(r.Key.Kind()))
	return s.Store.Put(ctx, r, revision)
}

func (r *run) asked(c *tally, want string) {
	r.t.Helper()
	if diff := cmp.Diff(want, c.take()); diff != "" {
		r.t.Errorf("calls of the store (-want +got):\n%s", diff)
	}
}

func newInstance(r *run, c *tally) {
	op := r.accepted(r.put())
	r.asked(c, "put:instance")
	if len(r.Started) != 1 || r.Started[0].Operation != op {
		r.t.Errorf("started %+v, want %s once", r.Started, op)
	}
}

func refusedDuplicate(r *run, c *tally) {
	op := r.accepted(r.put())
	before := r.dump()
	c.take()
	result, err := r.answer(r.put())
	if err != nil || result.Outcome != broker.OutcomeRunning || result.Operation != op {
		r.t.Errorf("duplicate = %+v, %v; want %s running", result, err, op)
	}
	r.asked(c, "put:instance")
	r.unchanged(before)
	r.drive(op)
	c.take()
	if result, err = r.answer(r.put()); err != nil || result.Outcome != broker.OutcomeExists {
		r.t.Errorf("duplicate of what is done = %+v, %v", result, err)
	}
	r.asked(c, "put:instance")
}

func refusedDifferent(r *run, c *tally) {
	r.ready()
	before := r.dump()
	c.take()
	q := putOf(func(q *broker.ProvisionRequest) { q.Body.Parameters = json.RawMessage(`{"size": 2}`) })
	r.refused(r.begin("other PUT", q), broker.CodeConflict)
	r.asked(c, "put:instance")
	r.unchanged(before)
}

func overTombstone(r *run, c *tally) {
	r.ready()
	r.drive(r.accepted(r.remove()))
	c.take()
	r.accepted(r.put())
	r.asked(c, "put:instance put:instance")
}

// refusedSawFirst: the PUT's first claim meets a tombstone. Before its second, its platform gives up and is told "gone"
// once more, so it must not claim any more.
func refusedSawFirst(r *run, _ *tally) {
	r.ready()
	r.drive(r.accepted(r.remove()))
	late := r.put()
	r.Choose(late, brokertest.Proceed) // refused by the tombstone
	if late.Done() || late.At != "Put" {
		r.t.Fatalf("the PUT waits before %q, want its second Put", late.At)
	}
	r.refused(r.remove(), broker.CodeGone)
	before := r.dump()
	r.refused(late, broker.CodeConcurrency)
	r.unchanged(before)
}

func lostFirstClaim(r *run, _ *tally) {
	a := r.put()
	r.Choose(a, brokertest.Lose)
	op := r.accepted(a)
	if len(r.Started) != 1 || r.Started[0].Operation != op {
		r.t.Errorf("started %+v, want %s once", r.Started, op)
	}
}

// leftTheCatalog: law 4 of refusals does not hold against what exists already.
func leftTheCatalog(r *run, _ *tally) {
	r.ready()
	r.Catalog.Catalog = &brokertest.FakeCatalog{}
	if result, err := r.answer(r.put()); err != nil || result.Outcome != broker.OutcomeExists {
		r.t.Errorf("duplicate of a plan that left the catalog = %+v, %v; want it to exist", result, err)
	}
	r.drive(r.accepted(r.remove()))
	before := r.dump()
	r.refused(r.put(), broker.CodeBadRequest)
	r.unchanged(before)
}

func cannotBegin(r *run, c *tally) {
	q := putOf(func(q *broker.ProvisionRequest) { q.AcceptsIncomplete = false })
	before := r.dump()
	r.refused(r.begin("PUT without the flag", q), broker.CodeAsyncRequired)
	r.asked(c, "get:instance")
	r.unchanged(before)
	r.ready()
	if result, err := r.answer(r.begin("PUT without the flag", q)); err != nil || result.Outcome != broker.OutcomeExists {
		r.t.Errorf("duplicate without the flag = %+v, %v; want it to exist", result, err)
	}
}

func tooLargeToClaim(r *run, c *tally) {
	r.ready()
	c.limit = 3
	if result, err := r.answer(r.put()); err != nil || result.Outcome != broker.OutcomeExists {
		r.t.Errorf("duplicate = %+v, %v; want it to exist, whatever a new one may weigh", result, err)
	}
	c.limit = 0
	r.drive(r.accepted(r.remove()))
	c.limit = 3
	before := r.dump()
	r.refused(r.put(), broker.CodeBadRequest)
	r.unchanged(before)
}

// away is a catalog that was never fetched; asking for it takes the request's time.
type away struct {
	broker.Catalog
	t testing.TB
}

func (away) Ready(string) bool { return false }

func (c away) Plan(context.Context, string, string, string) (broker.Plan, error) {
	c.t.Error("the catalog is asked for")
	return broker.Plan{}, broker.ErrNoCatalog
}

// unknownCatalog: law 10. A duplicate is answered from the store.
func unknownCatalog(r *run, c *tally) {
	op := r.accepted(r.put())
	c.take()
	r.Catalog.Catalog = away{t: r.t}
	result, err := r.answer(r.put())
	if err != nil || result.Outcome != broker.OutcomeRunning || result.Operation != op {
		r.t.Errorf("duplicate = %+v, %v; want %s running", result, err, op)
	}
	r.asked(c, "get:instance")
}

func (c away) PlanOf(context.Context, string, string) (broker.Plan, error) {
	c.t.Error("the catalog is asked for")
	return broker.Plan{}, broker.ErrNoCatalog
}

// rotationReads: a successor takes its predecessor's parameters from Cloud Foundry, which a duplicate does not need.
func rotationReads(r *run, c *tally) {
	r.ready()
	r.drive(r.accepted(r.bind()))
	rotate := func() *brokertest.Actor { return r.begin("rotation", successor("next", "b", "")) }
	op := r.accepted(rotate())
	c.take()
	a := rotate()
	for ; !a.Done(); r.Choose(a, brokertest.Proceed) {
		if !strings.HasPrefix(a.At, "Get ") {
			r.t.Errorf("a duplicate calls %s", a.At)
		}
	}
	if result, err := r.answer(a); err != nil || result.Operation != op {
		r.t.Errorf("duplicate = %+v, %v; want %s", result, err, op)
	}
}

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
	late := r.Reach(r.begin("bind", bindWith(func(q *broker.BindRequest) { q.Body.AppGUID = "another" })), "Put")
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
			r, calls := newTalliedRun(t, test.first)
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
	r, calls := newTalliedRun(t, false)
	r.ready()
	r.failed(r.accepted(r.bind()))
	late := r.Reach(r.bind(), "Put")
	r.progress(bindingKey())
	calls.take()
	r.accepted(late)
	r.asked(calls, "put:binding get:instance put:binding")
}

// overtakenStore loses the answer of its first write, and lets another actor write over it before anybody looks.
type overtakenStore struct {
	broker.Store
	lost bool
}

func (s *overtakenStore) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	stored, err := s.Store.Put(ctx, r, revision)
	if err != nil || s.lost {
		return stored, err
	}
	s.lost = true
	next := stored
	next.Token, next.Lifecycle.Operation.Restarts = "another actor's", 1
	if _, err := s.Store.Put(ctx, next, stored.Revision); err != nil {
		return broker.Record{}, err
	}
	return broker.Record{}, errors.New("the answer was lost")
}

// TestAClaimWhoseAnswerWasLostIsWon, also when somebody has written over it since (docs/protocol.md 2.3).
func TestAClaimWhoseAnswerWasLostIsWon(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{Store: func(_ *brokertest.Scheduler, s broker.Store) broker.Store {
		return &overtakenStore{Store: s}
	}})
	result, err := r.answer(r.put())
	if err != nil || result.Outcome != broker.OutcomeAccepted {
		t.Fatalf("PUT: %+v, %v; want it accepted", result, err)
	}
	if op := r.record(instanceKey()).Lifecycle.Operation.ID; op != result.Operation {
		t.Errorf("the answer names %q, the record %q", result.Operation, op)
	}
}
