package lifecycle

import "time"

// Pace is how often an operation is looked at.
type Pace struct {
	// First is the first wait, taken twice, and Max the longest in the first hour.
	First, Max time.Duration
}

const (
	growth     = 1.6
	slowAfter  = time.Hour
	slowFactor = 5
	// LongestWait is how long a driver stays away at most, whoever asks for more.
	LongestWait = time.Hour
)

// Wait returns how long to wait when an operation has run for elapsed: First twice, then 1.6 times as long each time up
// to Max, and five times Max after an hour, but never more than LongestWait. It depends on the time alone, so that a
// poll can name the same number as the driver without a write in between.
func (p Pace) Wait(elapsed time.Duration) time.Duration { return p.waitSince(elapsed, elapsed) }

// WaitOf returns how long the driver of the record's operation waits now. Where the pace began anew it grows from First
// as at the beginning, up to what is the longest wait at the age of the operation.
func (p Pace) WaitOf(r Record, now time.Time) time.Duration {
	op := r.Operation
	began := op.Started
	if op.PaceResets > 0 {
		began = op.PaceResetAt
	}
	return p.waitSince(max(0, now.Sub(began)), max(0, now.Sub(op.Started)))
}

// waitSince walks through the waits of a pace that began since ago, up to the one that runs now. The operation has run
// for elapsed.
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

// longestSeconds is the most that platforms are told to wait.
const longestSeconds = 300

// Seconds rounds a wait to a whole number of seconds, from 1 to 300, as platforms are told it.
func Seconds(wait time.Duration) int {
	s := int((wait + time.Second/2) / time.Second)
	return max(1, min(s, longestSeconds))
}

// waitForAnswer waits while Cloud Foundry does not answer, and says so. The record is written only when that is news.
func waitForAnswer(r Record, t Tick) Decision {
	why := firstOf(t.NoAnswerReason, noAnswer)
	news := r.Operation.NoAnswer != why
	r.Operation.NoAnswer = why
	d := wait(r, t)
	d.Write = d.Write || news
	return d
}

// gotNoAnswerBefore reports whether what was asked last got no answer: a look-up, or a call, whose lease is given back
// with the note of its answer.
func gotNoAnswerBefore(op Operation) bool { return op.NoAnswer != "" || op.Lease.Holder != "" }

// resumeAfterOutage goes on when Cloud Foundry answers again. The operation is looked at as often as at its beginning,
// and no longer says that it waits for an answer.
func resumeAfterOutage(r Record, t Tick) Decision {
	op := &r.Operation
	op.NoAnswer, op.Lease = "", Lease{}
	reset := resetPace(op, t.Pace, t.Now, t.Wait)
	if reset {
		t.Wait = t.Pace.Wait(0)
	}
	d := decideByVerb(r, t)
	if d.Effect.Do == Wait || d.Effect.Do == Unbind {
		d.Write = true
	}
	if reset && d.Wait == 0 {
		d.Wait = t.Wait
	}
	return d
}

// resetPace lets the pace begin anew after a failure, and reports whether it did. The n-th time it has to be twice as
// long ago as the time before, so that a Cloud Foundry that comes and goes for days is not asked as if each time were
// the first.
func resetPace(op *Operation, p Pace, now time.Time, wait time.Duration) bool {
	if wait <= p.Wait(0) || op.PaceResets > 0 && now.Sub(op.PaceResetAt) < firstReset<<min(op.PaceResets-1, 16) {
		return false
	}
	op.PaceResetAt = now
	op.PaceResets++
	return true
}

// firstReset is how long after the first reset the pace may begin anew once more.
const firstReset = time.Minute

// brokerRefusals is how often the backing broker itself may refuse one delete. Then the delete has failed, so that
// whoever asked for it can act.
const brokerRefusals = 4

// refusedOften reports whether the delete has failed by what the backing broker answers. One that follows on a delete
// that failed is itself another try.
func refusedOften(r Record) bool {
	refused := r.Operation.FailedDeletesByBroker
	again := r.Operation.Verb == Delete && deletesFailedBefore(r) > 0
	return refused >= brokerRefusals || again && refused > 0
}

// countFailedDelete counts a delete that reached the backing broker and removed nothing. The next one waits longer each
// time: a refusal that is repeated helps nobody.
func (op *Operation) countFailedDelete(text string, byBroker bool, now time.Time, p Pace) {
	op.TemporaryRefusal = text
	op.FailedDeletes++
	if byBroker {
		op.FailedDeletesByBroker++
	}
	op.NotBefore = now.Add(p.pause(op.FailedDeletes, LongestWait))
}

// pause is how long the n-th failure in a row keeps a delete from being sent again: not at all at first, so that
// passing trouble costs no time, then First, and twice as long each time up to longest.
func (p Pace) pause(n int, longest time.Duration) time.Duration {
	if n < 2 {
		return 0
	}
	d := min(max(p.First, time.Millisecond), longest)
	for ; n > 2 && d < longest; n-- {
		d = min(2*d, longest)
	}
	return d
}

// waitForNextDelete waits until the next delete may be sent, and reports whether that is in the future.
func waitForNextDelete(r Record, t Tick) (Decision, bool) {
	left := nextDelete(r, t.Pace).Sub(t.Now)
	if left <= 0 {
		return Decision{}, false
	}
	d := wait(r, t)
	d.Wait = min(t.Wait, left)
	return d, true
}

// nextDelete returns when the next delete may be sent. The first one of an operation waits because of operations that
// failed before it: some platforms send a new request at once.
func nextDelete(r Record, p Pace) time.Time {
	op := r.Operation
	n := deletesFailedBefore(r)
	if op.Verb != Delete || op.JobGUID != "" || n == 0 {
		return op.NotBefore
	}
	return op.Started.Add(p.pause(n+1, min(p.Max, LongestWait)))
}

// deletesFailedBefore counts the operations that were to delete and failed since anything else has ended.
func deletesFailedBefore(r Record) int {
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
