package lifecycle

import (
	"fmt"
	"strings"
	"time"
)

// Sentences that users are told while an operation cannot go on and nobody said more.
const (
	noAnswer   = "Cloud Foundry does not answer at the moment. The broker goes on asking."
	notNow     = "Cloud Foundry cannot do it at the moment. The broker goes on asking."
	notDeleted = "Cloud Foundry could not delete it, and gave no reason."
	// Elsewhere is said of something that is in another Cloud Foundry or org than the one that is configured now.
	Elsewhere = "The broker's configuration names another Cloud Foundry or org than the one where this is. Its operator has to look at it."
)

// Sentences that users are told when an operation has failed.
const (
	noReason         = "Cloud Foundry reported a failure and gave no reason."
	refusedNoReason  = "Cloud Foundry refused the request and gave no reason."
	instanceGone     = "The service instance is being deleted or does not exist any more. Create the binding again once there is an instance."
	instanceMissing  = "The service instance does not exist in Cloud Foundry, or its create failed there. Delete it and create it again."
	instanceVanished = "The service instance does not exist any more in Cloud Foundry. Delete it and create it again."
	updateUnanswered = "Cloud Foundry did not answer when it was asked to update the service instance. Try again later."
	vanished         = "It vanished from Cloud Foundry while it was being created. Delete it and try again."
	leftoverStays    = "What is left of an earlier attempt could not be removed: "
	nameInUse        = "The name is in use in Cloud Foundry by something that this broker did not make. Ask the operator to rename or remove it."
	nameTakenUnseen  = "The name is taken in Cloud Foundry by something that the broker cannot see, such as an instance that is shared " +
		"into the space, or one whose name differs only in its case. Ask the operator to rename or remove it."
)

// unknownRow is what a create or delete says that meets something which bears our marks and which the record does not
// know.
func unknownRow(r Record) string {
	return "Cloud Foundry has a " + thing(r) + " of this id that was made by an operation which the broker's store does not " +
		"know, perhaps because the store was restored from an older copy. Nothing was removed. " +
		"Ask the operator of the broker to adopt it or to remove it."
}

// reasonOfDeadline is why an operation ends at its deadline, and what its user can do then.
func reasonOfDeadline(r Record) string {
	op := r.Operation
	within := op.Deadline.Sub(op.Started).Round(time.Second)
	text := ""
	switch op.Verb {
	case Update:
		text = fmt.Sprintf("The update did not end within %s, the time that it was given. The %s is still there, as it was "+
			"before or as the update wanted it. Send the update again", within, thing(r))
	case Delete:
		text = fmt.Sprintf("The %s was not deleted within %s, the time that it was given. Delete it again", thing(r), within)
	default:
		text = fmt.Sprintf("The %s was not created within %s, the time that it was given. Delete it and create it again", thing(r), within)
	}
	text += "; if that fails as well, ask the operator of the broker."
	if why := firstOf(op.FinalRefusal, op.TemporaryRefusal, op.NoAnswer); why != "" {
		text += " What stood in the way at last: " + why
	}
	return text
}

// reasonOfFailedDelete is why a job that was to delete a row failed, and whether the backing broker said so itself.
// What it said of a binding it says again when Cloud Foundry unbinds that on the way to its instance.
func reasonOfFailedDelete(r Record, t Tick, row Row) (text string, byBroker bool) {
	last := ""
	if row.Last.failed(Delete) {
		last = row.Last.Description
	}
	text = firstOf(t.Job.Description, last, notDeleted)
	for _, b := range t.Bindings {
		failed := b.of(r) && b.State == DeleteFailed && b.Problem != ""
		if failed && strings.Contains(text, strings.TrimSuffix(b.Problem, ".")) {
			return problemOfBinding(b), true
		}
	}
	return text, t.Job.FromBackingBroker
}

func problemOfBinding(b BindingView) string {
	if b.State == Deleting {
		return "The service binding " + b.ID + " is not deleted yet: " + b.Problem
	}
	return "The service binding " + b.ID + " could not be deleted: " + b.Problem
}

// Waiting says in a sentence or two what the operation that runs waits for. It needs the record alone, and for a
// binding its instance, so that a poll costs nothing more and nothing has to be written for a driver that merely waits.
// The pace is the driver's.
func Waiting(r Record, instance InstanceView, now time.Time, p Pace) string {
	op := r.Operation
	switch {
	case !now.Before(op.Deadline):
		return "The time that it was given is over; it is about to end."
	case op.NoAnswer != "":
		return op.NoAnswer
	case op.TemporaryRefusal != "":
		return withNextTry(op.TemporaryRefusal, nextDelete(r, p), now)
	case op.FinalRefusal != "":
		return op.FinalRefusal
	case op.Verb == Delete:
		return deleteWaits(r, now, p)
	case op.Verb == Update:
		return updateWaits(r, now)
	default:
		return createWaits(r, instance, now)
	}
}

// withNextTry adds when the next try begins, where that is known.
func withNextTry(text string, next, now time.Time) string {
	if !next.After(now) {
		return text
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text + " The next try begins at " + clock(next) + "."
}

func createWaits(r Record, instance InstanceView, now time.Time) string {
	op := r.Operation
	switch {
	case r.Kind == Binding && r.InstanceGUID == "" && instance.State == Creating:
		return "It waits until its service instance has been created."
	case r.Kind == Binding && instance.State == Deleting:
		return "Its service instance is being deleted, so it ends once nothing can create it any more."
	case op.Cleanup.GUID != "":
		return "What is left of an earlier attempt is being removed first."
	case op.NameTaken > 0 && op.Job == "" && !op.CreatedWithoutJob:
		return "Cloud Foundry says that the name is taken, by something that the broker does not see. It asks again."
	case callUnanswered(op, now):
		return "Cloud Foundry has not said whether it creates the " + thing(r) + ". The broker looks for it."
	case op.Calls > 0:
		return "Cloud Foundry is creating the " + thing(r) + "."
	default:
		return "Cloud Foundry is about to be asked for the " + thing(r) + "."
	}
}

func updateWaits(r Record, now time.Time) string {
	op := r.Operation
	until := openUntil(r, now, func(c OpenCall) bool { return c.Seq != op.Seq })
	switch {
	case callUnanswered(op, now):
		return "Cloud Foundry has not said whether it updates the " + thing(r) + ". The broker looks for that."
	case op.Calls > 0:
		return "Cloud Foundry is updating the " + thing(r) + "."
	case !until.IsZero():
		return "An earlier call to Cloud Foundry may still take effect. The update waits for that until " + clock(until) + " at the latest."
	default:
		return "Cloud Foundry is about to be asked for the update, once nothing else changes the " + thing(r) + "."
	}
}

func deleteWaits(r Record, now time.Time, p Pace) string {
	op := r.Operation
	until := openUntil(r, now, func(c OpenCall) bool { return c.Verb == Create })
	next := nextDelete(r, p)
	switch {
	case op.Job != "":
		return "Cloud Foundry is deleting the " + thing(r) + "."
	case !until.IsZero():
		return "A call that creates the " + thing(r) + " may still take effect. The delete waits for that until " + clock(until) + " at the latest."
	case next.After(now):
		return "Deleting it has failed " + times(deletesFailedBefore(r)) + ", so the next try waits until " + clock(next) + "."
	case callUnanswered(op, now):
		return "Cloud Foundry has not said whether it deletes the " + thing(r) + ". The broker looks for that."
	case op.JobGUID != "":
		return "Cloud Foundry is deleting the " + thing(r) + "."
	case r.Kind == Instance:
		return "The service instance is deleted once it has no service bindings any more."
	default:
		return "Cloud Foundry is about to be asked to delete the service binding."
	}
}

// callUnanswered reports whether the last call has had its time, and its answer did not come.
func callUnanswered(op Operation, now time.Time) bool {
	return op.Lease.Holder != "" && !op.Lease.Until.After(now)
}

// openUntil is when the last of the open calls of a kind can take effect no more; zero when there is none.
func openUntil(r Record, now time.Time, of func(OpenCall) bool) time.Time {
	var until time.Time
	for _, c := range r.OpenCalls {
		if of(c) && c.Until.After(now) && c.Until.After(until) {
			until = c.Until
		}
	}
	return until
}

// thing is what users call it.
func thing(r Record) string { return "service " + string(r.Kind) }

// clock is a moment as users are told it: nobody waits for a day.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
