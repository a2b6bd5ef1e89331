package lifecycle

import (
	"strings"
	"time"
)

// Pace is how often an operation is looked at.
type Pace struct {
	// First is the first wait, taken twice; Max the longest in the first hour.
	First, Max time.Duration
}

const (
	growth      = 1.6
	slowAfter   = time.Hour
	slowFactor  = 5
	longestHint = 300
	// LongestWait is how long a driver stays away at most, whoever asks for more.
	LongestWait = time.Hour
)

// Wait returns how long to wait when an operation has run for elapsed: First twice, then
// 1.6 times as long each time up to Max, and five times Max after an hour, but never more
// than LongestWait. It depends on the time alone, so that a poll can name the same number
// as the driver without a write in between.
func (p Pace) Wait(elapsed time.Duration) time.Duration { return p.waitSince(elapsed, elapsed) }

// WaitOf returns how long the driver of the record's operation waits now. Where the pace
// began anew it grows from First as at the beginning, up to what is the longest at the
// age of the operation.
func (p Pace) WaitOf(r Record, now time.Time) time.Duration {
	return p.waitSince(max(0, now.Sub(r.paceBegan())), max(0, now.Sub(r.Operation.Started)))
}

// waitSince walks through the waits of a pace that began since ago, up to the one that
// runs now. The operation has run for elapsed.
func (p Pace) waitSince(since, elapsed time.Duration) time.Duration {
	longest, slow := min(p.Max, LongestWait), min(slowFactor*p.Max, LongestWait)
	wait, passed := min(max(p.First, time.Millisecond), longest), time.Duration(0)
	if since >= slowAfter || longest <= 0 {
		return max(0, slow)
	}
	for n := 1; ; n++ {
		young := slowAfter - (elapsed - since) - passed // for so long no wait is longer than Max
		step := min(wait, slow)
		if young > 0 {
			step = min(wait, longest)
		}
		switch {
		case young <= 0 && step == slow:
			return slow
		case young >= longest && step == longest: // all the waits of this length at once
			if step = young / longest * longest; since < passed+step {
				return longest
			}
			wait = slow
		case since < passed+step:
			return step
		}
		passed += step
		if n > 1 {
			wait = min(time.Duration(float64(wait)*growth), slow)
		}
	}
}

// pause is how long the n-th refusal in a row of one call keeps it from being sent
// again: not at all at first, so that a passing trouble costs no time, then First, and
// twice as long each time up to most.
func (p Pace) pause(n int, most time.Duration) time.Duration {
	if n < 2 {
		return 0
	}
	d := min(max(p.First, time.Millisecond), most)
	for ; n > 2 && d < most; n-- {
		d = min(2*d, most)
	}
	return d
}

// Seconds rounds a wait to what Retry-After can say: a whole number from 1 to 300.
func Seconds(wait time.Duration) int {
	s := int((wait + time.Second/2) / time.Second)
	return max(1, min(s, longestHint))
}

// Sentences for what keeps an operation from going on when nobody said more.
const (
	noAnswer  = "Cloud Foundry does not answer at the moment. The broker goes on asking."
	notNow    = "Cloud Foundry cannot do it at the moment. The broker goes on asking."
	notDone   = "Cloud Foundry could not delete it, and gave no reason."
	refusedIt = "Cloud Foundry refused the request and gave no reason."
)

// Elsewhere is what users are told of something that is in another Cloud Foundry or org
// than the one that the broker's configuration names now.
const Elsewhere = "The broker's configuration names another Cloud Foundry or org than the one where this is. Its operator has to look at it."

// refusals is how often the backing broker may refuse one delete by its own word. Then
// the delete has failed, so that whoever asked for it can act.
const refusals = 4

// refusedEnough reports whether the backing broker's word counts by now. A delete that
// follows one that failed is itself another try.
func refusedEnough(r Record) bool {
	again := r.Operation.Verb == Delete && failedDeletes(r) > 0
	return r.Operation.FailedDeletesByBroker >= refusals || again && r.Operation.FailedDeletesByBroker > 0
}

// heard reports whether Cloud Foundry has answered in this tick.
func (t Tick) heard() bool { return t.Look != nil || t.Job != nil && t.Job.State != JobUnclear }

// unheard reports whether Cloud Foundry did not answer what the tick asked first.
func (t Tick) unheard() bool {
	return t.LookupFailed || t.Look == nil && t.Job != nil && t.Job.State == JobUnclear
}

// unheard waits and says so. The record is written when that is news only.
func unheard(r Record, t Tick) Decision {
	why := firstOf(t.NoAnswerReason, noAnswer)
	news := r.Operation.NoAnswer != why
	r.Operation.NoAnswer = why
	d := wait(r, t)
	d.Write = d.Write || news
	return d
}

// cutOff reports whether what was asked last got no answer: a look-up (Unheard), or a
// call, whose lease is given back with the note of its answer.
func cutOff(op Operation) bool { return op.NoAnswer != "" || op.Lease.Holder != "" }

// heardAgain goes on after Cloud Foundry was away: the operation is looked at as often as
// at its beginning, and no longer says that it waits for an answer.
func heardAgain(r Record, t Tick) Decision {
	op := &r.Operation
	op.NoAnswer, op.Lease = "", Lease{}
	resumed := resume(op, t.Pace, t.Now, t.Wait)
	if resumed {
		t.Wait = t.Pace.Wait(0)
	}
	d := judge(r, t)
	if d.Effect.Do == Wait || d.Effect.Do == Unbind {
		d.Write = true
	}
	if resumed && d.Wait == 0 {
		d.Wait = t.Wait
	}
	return d
}

// resume lets the pace begin anew after a failure, and reports whether it did. The n-th
// time it has to be twice as long ago as the time before, so that a Cloud Foundry that
// comes and goes for days is not asked as if each time were the first.
func resume(op *Operation, p Pace, now time.Time, wait time.Duration) bool {
	if wait <= p.Wait(0) || op.PaceResets > 0 && now.Sub(op.PaceResetAt) < resumeAfter<<min(op.PaceResets-1, 16) {
		return false
	}
	op.PaceResetAt = now
	op.PaceResets++
	return true
}

const resumeAfter = time.Minute

// paceBegan returns when the pace of the record's operation began, or began anew.
func (r Record) paceBegan() time.Time {
	if r.Operation.PaceResets > 0 {
		return r.Operation.PaceResetAt
	}
	return r.Operation.Started
}

// waitBecause waits for something that only others can end, and says what it is: nothing
// is written when that is not news.
func waitBecause(r Record, t Tick, trouble string) Decision {
	news := r.Operation.TemporaryRefusal != trouble
	r.Operation.TemporaryRefusal = trouble
	d := wait(r, t)
	d.Write = d.Write || news
	return d
}

// turnedDown counts a DELETE that reached the backing broker and removed nothing. The
// next one waits longer each time: a refusal that is repeated helps nobody.
func (op *Operation) turnedDown(text string, byBroker bool, now time.Time, p Pace) {
	op.TemporaryRefusal = text
	op.FailedDeletes++
	if byBroker {
		op.FailedDeletesByBroker++
	}
	op.NotBefore = now.Add(p.pause(op.FailedDeletes, LongestWait))
}

// removeNext sends the DELETE of a row, at once, later, or not any more.
func removeNext(r Record, t Tick, guid string) Decision {
	op := r.Operation
	if refusedEnough(r) {
		return deleteFailed(r, t, op.TemporaryRefusal, "")
	}
	if d, early := tooEarly(r, t); early {
		return d
	}
	return deletion(r, t, guid)
}

// tooEarly waits for the time of the next DELETE.
func tooEarly(r Record, t Tick) (Decision, bool) {
	left := nextRemoval(r, t.Pace).Sub(t.Now)
	if left <= 0 {
		return Decision{}, false
	}
	d := wait(r, t)
	d.Wait = min(t.Wait, left)
	return d, true
}

// nextRemoval returns when the next DELETE may be sent. The first one of an operation
// waits for deletes that failed before it: some platforms send a new one at once.
func nextRemoval(r Record, p Pace) time.Time {
	op := r.Operation
	n := failedDeletes(r)
	if op.Verb != Delete || op.JobGUID != "" || n == 0 {
		return op.NotBefore
	}
	return op.Started.Add(p.pause(n+1, min(p.Max, LongestWait)))
}

// failedDeletes counts the deletes that have failed since anything else ended.
func failedDeletes(r Record) int {
	n := 0
	for n < len(r.Finished) {
		f := r.Finished[len(r.Finished)-1-n]
		if f.Verb != Delete || f.Succeeded {
			break
		}
		n++
	}
	return n
}

// whatStood is why a job that was to delete a row failed, and whether the backing broker
// said so itself. What it said of a binding it says again when Cloud Foundry unbinds that
// on the way to its instance.
func whatStood(r Record, t Tick, row Row) (string, bool) {
	last := ""
	if row.Last.Verb == Delete && row.Last.State == LastFailed {
		last = row.Last.Description
	}
	text := firstOf(t.Job.Description, last, notDone)
	for _, b := range t.Bindings {
		same := b.InstanceCreateOp == r.CreateOp.ID && b.State == DeleteFailed && b.Problem != ""
		if same && strings.Contains(text, strings.TrimSuffix(b.Problem, ".")) {
			return bindingTrouble(b), true
		}
	}
	return text, t.Job.FromBackingBroker
}

func bindingTrouble(b BindingView) string {
	if b.State == Deleting {
		return "The service binding " + b.ID + " is not deleted yet: " + b.Problem
	}
	return "The service binding " + b.ID + " could not be deleted: " + b.Problem
}
