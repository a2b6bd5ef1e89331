package broker_test

import (
	"context"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// heldBindGivenUp: the platform gave the held bind up and was
// told that there is no such binding. The bind, which still waits for its instance,
// must not make one afterwards (protocol.md 2.3 and 2.4).
func heldBindGivenUp(r *rig) {
	created := r.accepted(r.put())
	held := r.Reach(r.heldBind(), "Sleep")
	r.refused(r.unbind(), broker.CodeGone)
	r.drive(created)
	r.refused(held, broker.CodeConcurrency)
	if s := r.record(bindingKey()).Lifecycle.State; s.Living() {
		r.t.Errorf("the binding that was reported gone is %q", s)
	}
	r.left(1)
}

// staleTickOfEndedDelete: a tick of a delete that has listed the bindings
// sleeps until instance and binding were deleted and made again.
func staleTickOfEndedDelete(r *rig) {
	r.ready()
	r.drive(r.accepted(r.bind()))
	gone := r.accepted(r.remove())
	sleeper := r.Reach(r.tick(gone), "Get binding")
	r.drive(gone)
	r.ready()
	bound := r.accepted(r.bind())
	r.drive(bound)
	r.wants(bound, osb.Succeeded)
	r.Finish(sleeper)
	if s := r.record(bindingKey()).Lifecycle.State; s != lifecycle.Ready {
		r.t.Errorf("the binding that nobody asked to delete is %q", s)
	}
}

// staleTickOfFailedDelete: the same, but the delete failed and
// the binding was made again on the instance that is still there.
func staleTickOfFailedDelete(r *rig) {
	r.ready()
	r.drive(r.accepted(r.bind()))
	gone := r.accepted(r.remove())
	sleeper := r.Reach(r.tick(gone), "Get binding")
	for r.Cloud.EffectsOf("i").Deletes == 0 {
		for _, u := range r.unfinished() {
			r.step(u.Operation)
		}
		if r.Cloud.EffectsOf("i").Deletes == 0 {
			r.Cloud.FinishAll()
		}
	}
	r.failJob(brokertest.Rejected("not today"))
	r.step(gone)
	r.wants(gone, osb.Failed)
	bound := r.accepted(r.bind())
	r.drive(bound)
	r.Finish(sleeper)
	if s := r.record(bindingKey()).Lifecycle.State; s != lifecycle.Ready {
		r.t.Errorf("the binding that nobody asked to delete is %q", s)
	}
}

// rotationOverLives: the predecessor belongs to an instance that vanished and was
// made again since, with nobody to unbind it, as in stores of before.
func rotationOverLives(r *rig) {
	r.ready()
	r.drive(r.accepted(r.bind()))
	old := r.record(bindingKey())
	r.Cloud.Vanish("i")
	r.drive(r.accepted(r.remove()))
	r.ready()
	r.store(old)
	successor := r.Go("rotate", func(ctx context.Context) (any, error) {
		q := bindOf(brokertest.PlanSmall)
		q.BindingID, q.Body.PredecessorBindingID = "successor", "b"
		return r.Broker.Bind(ctx, q)
	})
	r.refused(successor, broker.CodeBadRequest)
	r.left(1)
}
