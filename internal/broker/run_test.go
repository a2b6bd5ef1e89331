package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// run is a scheduler with the requests that tests make of one instance and one binding. Nothing of it runs but what the
// test chooses.
type run struct {
	*brokertest.Scheduler
	t testing.TB
	// next is what the Broker has in the place of lifecycle.Next; nil: that itself.
	next next
}

// next decides as lifecycle.Next does.
type next func(lifecycle.Record, lifecycle.Event) (lifecycle.Decision, error)

// newRun returns a run in which the switches are turned.
func newRun(t testing.TB, o brokertest.ScheduleOptions, switches ...off) *run {
	t.Helper()
	r := &run{t: t}
	for _, turn := range switches {
		turn(r, &o)
	}
	r.Scheduler = brokertest.NewScheduler(o)
	if r.next != nil {
		broker.SetNext(r.Broker, r.next)
	}
	t.Cleanup(func() {
		r.Close()
		if t.Failed() {
			t.Logf("the schedule:\n%s", strings.Join(r.Trace, "\n"))
		}
	})
	return r
}

// newReady returns a run with an instance.
func newReady(t testing.TB, o brokertest.ScheduleOptions) *run {
	t.Helper()
	r := newRun(t, o)
	r.ready()
	return r
}

func instanceKey() broker.Key {
	return broker.Key{Client: brokertest.Client, InstanceID: "i"}
}

func bindingKey() broker.Key {
	return broker.Key{Client: brokertest.Client, InstanceID: "i", BindingID: "b"}
}

// keyOf is the record whose operation it is.
func keyOf(operation string) broker.Key {
	if strings.HasPrefix(operation, "bind-") || strings.HasPrefix(operation, "unbind-") {
		return bindingKey()
	}
	return instanceKey()
}

func async() broker.Call {
	return broker.Call{Client: brokertest.Client, AcceptsIncomplete: true}
}

// begin begins a request, which then waits before its first call.
func (r *run) begin(name string, q request) *brokertest.Actor {
	return r.Go(name, func(ctx context.Context) (any, error) { return q(ctx, r.Broker) })
}

// put, patch, remove, bind and unbind begin an asynchronous request, which then waits before its first call.
func (r *run) put() *brokertest.Actor { return r.begin("PUT", putOf(same)) }

func (r *run) patch(plan string) *brokertest.Actor {
	return r.begin("PATCH", patchOf(func(q *broker.UpdateRequest) { q.Body.PlanID = brokertest.PlanID(plan) }))
}

func (r *run) remove() *brokertest.Actor { return r.begin("DELETE", deleteWith("", same)) }

func (r *run) bind() *brokertest.Actor { return r.begin("bind", bindWith(same)) }

func (r *run) unbind() *brokertest.Actor { return r.begin("unbind", deleteWith("b", same)) }

// heldBind begins a bind that its platform wants finished in the answer.
func (r *run) heldBind() *brokertest.Actor { return r.begin("held bind", bindWith(sync)) }

// tick begins one step of the operation.
func (r *run) tick(operation string) *brokertest.Actor {
	return r.Go("tick of "+operation[:strings.Index(operation, "-")+4], func(ctx context.Context) (any, error) {
		return r.Broker.Advance(ctx, keyOf(operation), operation)
	})
}

// step does one whole step.
func (r *run) step(operation string) broker.Step {
	r.t.Helper()
	a := r.Finish(r.tick(operation))
	if a.Err != nil {
		r.t.Fatalf("tick: %v", a.Err)
	}
	return a.Value.(broker.Step)
}

// answer lets a request end and returns what it was told.
func (r *run) answer(a *brokertest.Actor) (broker.Result, error) {
	r.t.Helper()
	r.Finish(a)
	if a.Killed {
		r.t.Fatalf("%s was killed", a.Name)
	}
	result, _ := a.Value.(broker.Result)
	return result, a.Err
}

// accepted lets a request end that must begin a new operation, and returns that.
func (r *run) accepted(a *brokertest.Actor) string {
	r.t.Helper()
	result, err := r.answer(a)
	if err != nil || result.Outcome != broker.OutcomeAccepted || result.Operation == "" {
		r.t.Fatalf("%s = %+v, %v; want it accepted", a.Name, result, err)
	}
	return result.Operation
}

// refused lets a request end that must be refused with the code.
func (r *run) refused(a *brokertest.Actor, code broker.Code) {
	r.t.Helper()
	result, err := r.answer(a)
	if err == nil || broker.CodeOf(err) != code {
		r.t.Errorf("%s = %+v, %v; want the refusal %s", a.Name, result, err, code)
	}
}

// drive steps the operation, and every other one that runs, until it has ended.
func (r *run) drive(operation string) {
	r.t.Helper()
	for range 60 {
		if r.step(operation).Done {
			return
		}
		for _, u := range r.unfinished() {
			if u.Operation != operation {
				r.step(u.Operation)
			}
		}
		r.Cloud.FinishAll()
		r.Advance(time.Second)
	}
	r.t.Fatalf("%s did not end", operation)
}

// ready makes an instance and returns the operation that did.
func (r *run) ready() string {
	r.t.Helper()
	op := r.accepted(r.put())
	r.drive(op)
	r.wants(op, osb.Succeeded)
	return op
}

// lost does a step whose call is delayed: it reaches Cloud Foundry later, or never.
func (r *run) lost(operation, call string) {
	r.t.Helper()
	a := r.Reach(r.tick(operation), call)
	if a.Done() {
		r.t.Fatalf("the tick of %s made no %s", operation, call)
	}
	r.Choose(a, brokertest.Delay)
	r.Finish(a)
}

// polled is what a platform is told of the operation.
func (r *run) polled(operation string) (broker.Poll, error) {
	key := keyOf(operation)
	return r.Broker.LastOperation(r.t.Context(), broker.PollRequest{
		Client: key.Client, InstanceID: key.InstanceID, BindingID: key.BindingID, Operation: operation,
	})
}

// wants fails unless the operation is in this state.
func (r *run) wants(operation string, want osb.OperationState) {
	r.t.Helper()
	p, err := r.polled(operation)
	if err != nil || p.State != want {
		r.t.Errorf("%s is %q (%s), %v; want %q. The cloud: %s", operation, p.State, p.Description, err, want, r.Cloud.Describe())
	}
}

// left fails unless the cloud holds as many rows.
func (r *run) left(want int) []brokertest.Left {
	r.t.Helper()
	left := r.Cloud.Left()
	if len(left) != want {
		r.t.Errorf("the cloud holds %d rows, want %d: %s", len(left), want, r.Cloud.Describe())
	}
	return left
}

// record returns what is stored, or an empty record.
func (r *run) record(key broker.Key) broker.Record {
	r.t.Helper()
	rec, err := r.Store.Get(r.t.Context(), key)
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		r.t.Fatal(err)
	}
	return rec
}

// store puts a record there over whatever there is.
func (r *run) store(rec broker.Record) {
	r.t.Helper()
	if _, err := r.Store.Put(r.t.Context(), rec, r.record(rec.Key).Revision); err != nil {
		r.t.Fatal(err)
	}
}

// called reports whether any actor made this call.
func (r *run) called(call string) bool {
	return strings.Contains(strings.Join(r.Trace, "\n"), ": "+call+": ")
}

// unfinished are the operations that run.
func (r *run) unfinished() []broker.Unfinished {
	r.t.Helper()
	running, err := r.Store.Unfinished(r.t.Context(), r.Now().Add(1<<62), "", 100)
	if err != nil {
		r.t.Fatal(err)
	}
	return running.Operations
}

// dump is everything that a refused or absorbed request must leave alone.
type dump struct {
	Records []broker.Record
	Cloud   []brokertest.Left
	Starts  int
}

func (r *run) dump() dump {
	return dump{Records: r.Store.All(), Cloud: r.Cloud.Left(), Starts: len(r.Started)}
}

// unchanged fails if anything is other than before.
func (r *run) unchanged(before dump) {
	r.t.Helper()
	if diff := cmp.Diff(before, r.dump()); diff != "" {
		r.t.Errorf("the request left a trace (-before +after):\n%s", diff)
	}
}

// request is any verb with its body.
type request func(context.Context, *broker.Broker) (broker.Result, error)

func (q request) send(r *run) (broker.Result, error) { return q(r.t.Context(), r.Broker) }

func putOf(change func(*broker.ProvisionRequest)) request {
	return func(ctx context.Context, b *broker.Broker) (broker.Result, error) {
		q := broker.ProvisionRequest{Call: async(), InstanceID: "i", Body: osb.ProvisionRequest{
			ServiceID: brokertest.ServiceDB, PlanID: brokertest.PlanID(brokertest.PlanSmall),
			OrganizationGUID: "org", SpaceGUID: "space", Parameters: json.RawMessage(`{"size": 1}`),
		}}
		change(&q)
		return b.Provision(ctx, q)
	}
}

func patchOf(change func(*broker.UpdateRequest)) request {
	return func(ctx context.Context, b *broker.Broker) (broker.Result, error) {
		q := broker.UpdateRequest{Call: async(), InstanceID: "i", Body: osb.UpdateRequest{
			ServiceID: brokertest.ServiceDB, PlanID: brokertest.PlanID(brokertest.PlanSmall),
		}}
		change(&q)
		return b.Update(ctx, q)
	}
}

func bindWith(change func(*broker.BindRequest)) request {
	return func(ctx context.Context, b *broker.Broker) (broker.Result, error) {
		q := broker.BindRequest{Call: async(), InstanceID: "i", BindingID: "b", Body: osb.BindRequest{
			ServiceID: brokertest.ServiceDB, PlanID: brokertest.PlanID(brokertest.PlanSmall),
		}}
		change(&q)
		return b.Bind(ctx, q)
	}
}

func deleteWith(binding string, change func(*broker.DeleteRequest)) request {
	return func(ctx context.Context, b *broker.Broker) (broker.Result, error) {
		q := broker.DeleteRequest{
			Call: async(), InstanceID: "i", BindingID: binding,
			ServiceID: brokertest.ServiceDB, PlanID: brokertest.PlanID(brokertest.PlanSmall),
		}
		change(&q)
		if binding == "" {
			return b.Deprovision(ctx, q)
		}
		return b.Unbind(ctx, q)
	}
}

func same[T any](*T) {}

func toLarge(q *broker.UpdateRequest) { q.Body.PlanID = brokertest.PlanID(brokertest.PlanLarge) }

func large(q *broker.ProvisionRequest) { q.Body.PlanID = brokertest.PlanID(brokertest.PlanLarge) }

// states brings the instance into each state of the lifecycle table.
func states() map[string]func(*run) {
	return map[string]func(*run){
		"absent":        func(*run) {},
		"creating":      func(r *run) { r.accepted(r.put()) },
		"ready":         func(r *run) { r.ready() },
		"updating":      func(r *run) { r.ready(); r.accepted(r.patch(brokertest.PlanLarge)) },
		"deleting":      func(r *run) { r.ready(); r.accepted(r.remove()) },
		"create failed": func(r *run) { r.failed(r.accepted(r.put())) },
		"update failed": func(r *run) { r.ready(); r.failed(r.accepted(r.patch(brokertest.PlanLarge))) },
		"delete failed": func(r *run) { r.ready(); r.failed(r.accepted(r.remove())) },
		"gone":          func(r *run) { r.ready(); r.drive(r.accepted(r.remove())) },
	}
}

// failed lets the job of an operation fail on the backing broker's word.
func (r *run) failed(operation string) {
	r.t.Helper()
	r.step(operation)
	r.failJob(brokertest.Rejected("no such luck"))
	r.drive(operation)
	r.wants(operation, osb.Failed)
}

// outcome is the word for an answer: the outcome, or the code of the refusal.
func (r *run) outcome(q request) string {
	r.t.Helper()
	result, err := q.send(r)
	if err != nil {
		return string(broker.CodeOf(err))
	}
	needs := result.Outcome == broker.OutcomeAccepted || result.Outcome == broker.OutcomeRunning
	if needs != (result.Operation != "") || needs != (result.RetryAfter >= 1 && result.RetryAfter <= 300) {
		r.t.Errorf("%+v: an operation and Retry-After belong to a 202, and only there", result)
	}
	return string(result.Outcome)
}

// intercepted lets what the Broker asks of Cloud Foundry go through the hands of the test, before the scheduler's
// gates.
func (r *run) intercepted() *brokertest.Intercepted {
	i := &brokertest.Intercepted{Backend: r.Backend.Backend}
	r.Backend.Backend = i
	return i
}

// unanswered lets each look-up fail.
func (r *run) unanswered(err error) {
	r.intercepted().Look = func(context.Context, string, broker.Lookup, brokertest.Look) (broker.Look, error) {
		return broker.Look{}, err
	}
}

// answeredOnce answers the first call of this method, and leaves all others to Cloud Foundry.
func answeredOnce(method string, a broker.Answer) func(context.Context, string, broker.InstanceCall, brokertest.Call) (broker.Answer, error) {
	answered := false
	return func(ctx context.Context, m string, _ broker.InstanceCall, call brokertest.Call) (broker.Answer, error) {
		if answered || m != method {
			return call(ctx)
		}
		answered = true
		return a, errors.New("422")
	}
}
