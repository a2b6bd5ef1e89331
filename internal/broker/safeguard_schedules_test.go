package broker_test

import (
	"context"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

func conditionalClaim(r *run) {
	one, two := r.Reach(r.put(), "Put"), r.Reach(r.put(), "Put")
	op := r.accepted(one)
	result, err := r.answer(two)
	if err != nil || result.Outcome != broker.OutcomeRunning || result.Operation != op {
		r.t.Errorf("the loser of the race = %+v, %v; want the winner's operation %s", result, err, op)
	}
	r.drive(op)
	r.left(1)
}

// givenUp: the platform gave the first PUT up, made the instance again and deleted it.
func givenUp(r *run) {
	old := r.Reach(r.put(), "Put")
	r.ready()
	r.drive(r.accepted(r.remove()))
	r.refused(old, broker.CodeConcurrency)
	r.left(0)
}

func goneMovesLife(r *run) {
	old := r.Reach(r.put(), "Put")
	r.refused(r.remove(), broker.CodeGone)
	r.refused(old, broker.CodeConcurrency)
	if s := r.record(instanceKey()).Lifecycle.State; s.Living() {
		r.t.Errorf("the instance that was reported gone is %q", s)
	}
}

// gone410Conditional: a 410 decided on a record that has moved is no 410.
func gone410Conditional(r *run) {
	late := r.Reach(r.remove(), "Put")
	r.ready()
	op := r.accepted(late)
	r.drive(op)
	r.left(0)
}

// callBeforePost: the delete learns from the open call that a POST is on its way.
func callBeforePost(r *run) {
	r.lost(r.accepted(r.put()), "CreateInstance")
	gone := r.accepted(r.remove())
	r.step(gone)
	r.wants(gone, osb.InProgress)
	r.landAndSettle(gone)
	r.left(0)
}

// landAndSettle lets the delayed call land, its job and its open call end, and the operation with them.
func (r *run) landAndSettle(operation string) {
	r.t.Helper()
	if len(r.Late) == 0 {
		r.t.Fatal("no call is on its way")
	}
	r.Land(0)
	r.Cloud.FinishAll()
	r.step(operation)
	r.Advance(brokertest.SettleAfter)
	r.drive(operation)
	r.wants(operation, osb.Succeeded)
}

// callBeforePatch: the update is not reported failed while a PATCH is on its way.
func callBeforePatch(r *run) {
	r.ready()
	op := r.accepted(r.patch(brokertest.PlanLarge))
	r.lost(op, "UpdateInstance")
	r.step(op) // sent again
	r.failJob(brokertest.Rejected("no"))
	r.step(op)
	r.wants(op, osb.InProgress)
	r.landAndSettle(op)
	if left := r.left(1); left[0].Plan != brokertest.PlanLarge {
		r.t.Errorf("the plan is %s", left[0].Plan)
	}
}

// failJob lets the only running job end.
func (r *run) failJob(e brokertest.End) {
	r.t.Helper()
	running := r.Cloud.Running()
	if len(running) != 1 {
		r.t.Fatalf("%d jobs run, want 1", len(running))
	}
	r.Cloud.Finish(running[0], e)
}

func callsSurviveCancel(r *run) {
	callBeforePost(r)
	r.ready()
	r.lost(r.accepted(r.bind()), "CreateKey")
	unbound := r.accepted(r.unbind())
	r.step(unbound)
	r.wants(unbound, osb.InProgress)
	r.landAndSettle(unbound)
	r.left(1)
}

func waitIsSettleAfter(r *run) {
	r.lost(r.accepted(r.put()), "CreateInstance")
	gone := r.accepted(r.remove())
	r.Advance(2 * time.Minute)
	r.step(gone)
	r.wants(gone, osb.InProgress)
	r.landAndSettle(gone)
	r.left(0)
}

// sendersAreBounded: an actor that slept after its intent does not send any more.
func sendersAreBounded(r *run) {
	sleeper := r.Reach(r.tick(r.accepted(r.put())), "Put")
	r.Choose(sleeper, brokertest.Pause)
	gone := r.accepted(r.remove())
	r.Advance(brokertest.SettleAfter + time.Minute)
	r.drive(gone)
	r.wants(gone, osb.Succeeded)
	r.Finish(sleeper)
	r.left(0)
}

func judgedBeforeLook(r *run) {
	r.lost(r.accepted(r.put()), "CreateInstance")
	gone := r.accepted(r.remove())
	r.Advance(brokertest.SettleAfter - 30*time.Second)
	looker := r.Reach(r.tick(gone), "FindInstances")
	r.Choose(looker, brokertest.Pause)
	r.Land(0)
	r.Advance(40 * time.Second)
	r.Finish(looker)
	r.wants(gone, osb.InProgress)
	r.Cloud.FinishAll()
	r.drive(gone)
	r.left(0)
}

// failedWaits: a late POST replaces a row whose create failed.
func failedWaits(r *run) {
	op := r.accepted(r.put())
	r.lost(op, "CreateInstance")
	r.step(op)
	r.failJob(brokertest.Rejected("no"))
	r.step(op)
	r.wants(op, osb.InProgress)
	r.landAndSettle(op)
	r.left(1)
}

func nextUpdateWaits(r *run) {
	r.ready()
	first := r.accepted(r.patch(brokertest.PlanLarge))
	r.lost(first, "UpdateInstance")
	r.drive(first)
	r.wants(first, osb.Succeeded)
	second := r.accepted(r.patch(brokertest.PlanSmall))
	r.step(second)
	r.Cloud.FinishAll()
	r.step(second)
	r.wants(second, osb.InProgress)
	r.landAndSettle(second)
	if left := r.left(1); left[0].Plan != brokertest.PlanSmall {
		r.t.Errorf("the plan is %s, want that of the last update", left[0].Plan)
	}
}

// adoptionByMark: the instance asked for again is not the leftover of the first try.
func adoptionByMark(r *run) {
	first := r.accepted(r.put())
	r.step(first)
	r.Advance(11 * time.Minute)
	r.step(first)
	r.wants(first, osb.Failed)
	r.Cloud.FinishAll()
	second := r.accepted(r.put())
	r.drive(second)
	r.wants(second, osb.Succeeded)
	if left := r.left(1); left[0].Operation != second {
		r.t.Errorf("the instance carries the mark of %s, want %s", left[0].Operation, second)
	}
}

// resumedDelete: a tick of a delete sleeps over the end of its delete and the re-creation of the instance.
func resumedDelete(r *run) {
	r.ready()
	gone := r.accepted(r.remove())
	sleeper := r.Reach(r.tick(gone), "FindInstances")
	r.drive(gone)
	r.ready()
	r.Finish(sleeper)
	r.Cloud.FinishAll()
	r.left(1)
}

// deleteByGUID: the same, but the tick sleeps after its intent was stored.
func deleteByGUID(r *run) {
	r.ready()
	gone := r.accepted(r.remove())
	sleeper := r.Reach(r.tick(gone), "Put")
	r.Choose(sleeper, brokertest.Pause)
	r.drive(gone)
	r.ready()
	r.Finish(sleeper)
	r.Cloud.FinishAll()
	r.left(1)
}

func conditionalReport(r *run) {
	op := r.accepted(r.put())
	r.step(op)
	r.Cloud.FinishAll()
	sleeper := r.Reach(r.tick(op), "Put")
	gone := r.accepted(r.remove())
	r.drive(gone)
	r.Finish(sleeper)
	if s := r.record(instanceKey()).Lifecycle.State; s != lifecycle.Gone {
		r.t.Errorf("after a late report the instance is %q, want gone", s)
	}
	r.wants(op, osb.Failed)
}

func failedByJob(r *run) {
	op := r.accepted(r.put())
	r.step(op)
	r.Cloud.MarkFailed("i")
	r.step(op)
	r.wants(op, osb.InProgress)
	r.drive(op)
	r.wants(op, osb.Succeeded)
}

func deleteFailedByOwnJob(r *run) {
	r.ready()
	first := r.accepted(r.remove())
	r.step(first)
	r.failJob(brokertest.Rejected("not today"))
	r.step(first)
	r.wants(first, osb.Failed)
	second := r.accepted(r.remove())
	r.Advance(2 * time.Second) // a delete that follows a failed one waits
	r.step(second)
	r.wants(second, osb.InProgress)
	r.failJob(brokertest.End{Fail: true, Description: "an operation is in progress"})
	r.step(second)
	r.wants(second, osb.InProgress)
	r.drive(second)
	r.left(0)
}

// bindOfFormerLife: the bind read the instance before it was deleted and made again.
func bindOfFormerLife(r *run) {
	r.ready()
	old := r.Reach(r.bind(), "Put")
	r.drive(r.accepted(r.remove()))
	r.ready()
	op := r.accepted(old)
	r.drive(op)
	r.wants(op, osb.Failed)
	r.left(1)
}

func instanceReadAgain(r *run) {
	r.ready()
	late := r.Reach(r.bind(), "Put")
	r.step(r.accepted(r.remove()))
	op := r.accepted(late)
	r.step(op)
	r.wants(op, osb.Failed)
	if r.called("CreateKey") {
		r.t.Error("a key was asked for although the instance was being deleted")
	}
}

func bindingsFirst(r *run) {
	r.ready()
	r.drive(r.accepted(r.bind()))
	gone := r.accepted(r.remove())
	r.step(gone)
	if n := r.Cloud.EffectsOf("i").Deletes; n != 0 {
		r.t.Errorf("the instance was deleted %d times before its binding", n)
	}
	if s := r.record(bindingKey()).Lifecycle.State; s != lifecycle.Deleting {
		r.t.Errorf("the binding is %q, want deleting", s)
	}
	r.drive(gone)
	r.left(0)
}

// failedUnbindWithPost: an unbind that ran into its deadline left a POST behind.
func failedUnbindWithPost(r *run) {
	r.ready()
	r.lost(r.accepted(r.bind()), "CreateKey")
	unbound := r.accepted(r.unbind())
	r.Advance(11 * time.Minute)
	r.step(unbound)
	r.wants(unbound, osb.Failed)
	gone := r.accepted(r.remove())
	r.step(gone)
	if n := r.Cloud.EffectsOf("i").Deletes; n != 0 {
		r.t.Error("the instance was deleted while a key was on its way")
	}
	r.landAndSettle(gone)
	r.left(0)
}

func strangersStay(r *run) {
	guid := r.Cloud.Plant("i", brokertest.OfferingDB)
	op := r.accepted(r.put())
	r.drive(op)
	r.wants(op, osb.Failed)
	gone := r.accepted(r.remove())
	r.drive(gone)
	r.wants(gone, osb.Succeeded)
	if left := r.left(1); len(left) == 1 && left[0].GUID != guid {
		r.t.Errorf("what is left is %s, want the stranger's %s", left[0].GUID, guid)
	}
}

func refusedWaits(r *run) {
	op := r.accepted(r.put())
	r.lost(op, "CreateInstance")
	r.intercepted().Call = answeredOnce("CreateInstance", broker.Answer{Reply: lifecycle.ReplyRefused, Description: "quota exceeded"})
	r.step(op)
	r.step(op)
	r.wants(op, osb.InProgress)
	r.landAndSettle(op)
	r.left(1)
}

// recordBeforeList: what a look-up did not see may have been sent, answered and struck off the record since.
func recordBeforeList(r *run) {
	sender := r.Reach(r.tick(r.accepted(r.put())), "CreateInstance")
	gone := r.accepted(r.remove())
	looker := r.Reach(r.tick(gone), "FindInstances")
	r.Choose(looker, brokertest.Pause)
	r.Finish(sender)
	r.Cloud.FinishAll()
	r.Finish(looker)
	r.wants(gone, osb.InProgress)
	r.drive(gone)
	r.left(0)
}

// foundByName: a late POST makes a row of another GUID than the recorded one.
func foundByName(r *run) {
	op := r.accepted(r.put())
	r.lost(op, "CreateInstance")
	r.drive(op)
	r.wants(op, osb.Succeeded)
	gone := r.accepted(r.remove())
	r.step(gone)
	r.Cloud.FinishAll()
	r.step(gone)
	r.wants(gone, osb.InProgress)
	r.landAndSettle(gone)
	r.left(0)
}

func tombstoneOutlives(r *run) {
	old := r.Reach(r.put(), "Put")
	r.ready()
	r.drive(r.accepted(r.remove()))
	r.Advance(time.Hour)
	r.refused(old, broker.CodeConcurrency)
	r.left(0)
}

// restartNumbers: the janitor died after it had started the workflow again, and that workflow died as well.
func restartNumbers(r *run) {
	op := r.accepted(r.put())
	for range 2 {
		r.Advance(6 * time.Minute)
		janitor := r.Go("janitor", func(ctx context.Context) (any, error) { return r.Broker.Restart(ctx, 1) })
		r.Choose(r.Reach(janitor, "Start"), brokertest.KillAfter)
	}
	if len(r.Started) != 3 {
		r.t.Fatalf("%d starts, want 3: %+v", len(r.Started), r.Started)
	}
	for n, s := range r.Started {
		if s.Operation != op || s.Restart != n {
			r.t.Errorf("start %d is %+v, want restart %d of %s", n, s, n, op)
		}
	}
}

// heldBindGivenUp: the platform gave the held bind up and was told that there is no such binding. The bind, which still
// waits for its instance, must not make one afterwards (docs/protocol.md 2.3 and 2.4).
func heldBindGivenUp(r *run) {
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

// staleTickOfEndedDelete: a tick of a delete that has listed the bindings sleeps until instance and binding were
// deleted and made again.
func staleTickOfEndedDelete(r *run) {
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

// staleTickOfFailedDelete: the same, but the delete failed and the binding was made again on the instance that is still
// there.
func staleTickOfFailedDelete(r *run) {
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

// rotationOverLives: the predecessor belongs to an instance that vanished and was made again since, with nobody to
// unbind it, as in stores of before.
func rotationOverLives(r *run) {
	r.ready()
	r.drive(r.accepted(r.bind()))
	old := r.record(bindingKey())
	r.Cloud.Vanish("i")
	r.drive(r.accepted(r.remove()))
	r.ready()
	r.store(old)
	r.refused(r.begin("rotate", successor("next", "b", "")), broker.CodeBadRequest)
	r.left(1)
}
