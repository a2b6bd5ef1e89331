package broker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

// TestClaimFirst: a create or bind of an id that is probably new begins with the claim itself, on condition that no
// record exists; refused, the record returned is the first read (docs/protocol.md 2.1).
func TestClaimFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*run, *tally){
		"a new instance costs one write and one start":              newInstance,
		"a duplicate costs one refused write":                       refusedDuplicate,
		"a different create costs one refused write":                refusedDifferent,
		"a new binding reads its instance only":                     newBinding,
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
			calls := &tally{}
			r := newRun(t, brokertest.ScheduleOptions{ClaimFirst: true, Store: func(_ *brokertest.Scheduler, s broker.Store) broker.Store {
				return talliedStore{Store: s, tally: calls}
			}})
			test(r, calls)
		})
	}
}

// tally is what a test's requests asked of the store, in order.
type tally struct {
	calls []string
	limit int
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

func what(k broker.Key) string {
	if k.BindingID != "" {
		return "binding"
	}
	return "instance"
}

func (s talliedStore) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	s.calls = append(s.calls, "get:"+what(key))
	return s.Store.Get(ctx, key)
}

func (s talliedStore) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	if s.limit > 0 && len(r.Parameters) > s.limit {
		return broker.Record{}, &broker.LimitError{Bytes: s.limit}
	}
	s.calls = append(s.calls, "put:"+what(r.Key))
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
	r.refused(r.Go("other PUT", func(ctx context.Context) (any, error) { return q(ctx, r.Broker) }), broker.CodeConflict)
	r.asked(c, "put:instance")
	r.unchanged(before)
}

func newBinding(r *run, c *tally) {
	r.ready()
	c.take()
	r.accepted(r.bind())
	r.asked(c, "get:instance put:binding")
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
	sync := func(ctx context.Context) (any, error) { return q(ctx, r.Broker) }
	before := r.dump()
	r.refused(r.Go("PUT without the flag", sync), broker.CodeAsyncRequired)
	r.asked(c, "get:instance")
	r.unchanged(before)
	r.ready()
	if result, err := r.answer(r.Go("PUT without the flag", sync)); err != nil || result.Outcome != broker.OutcomeExists {
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
	rotate := func() *brokertest.Actor {
		return r.Go("rotation", func(ctx context.Context) (any, error) {
			q := bindOf(brokertest.PlanSmall)
			q.BindingID, q.Body.PredecessorBindingID, q.Body.Parameters = "next", "b", nil
			return r.Broker.Bind(ctx, q)
		})
	}
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
