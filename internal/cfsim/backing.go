package cfsim

import (
	"encoding/json"
	"time"
)

// brokerCall is what broker_calls are counted by.
type brokerCall struct {
	org, instance, binding, operation string
}

// outcome is the kind of answer that the backing broker gives.
type outcome int

const (
	replyDone     outcome = iota // 200, 201
	replyAccepted                // 202
	replyRefused                 // an error with a message
	replySilent                  // none
	replyLater                   // not asked yet: ask again after the poll interval
	replyNever                   // not asked, and never will be
)

type reply struct {
	outcome outcome
	// message is the Cloud Controller's rendering of the error.
	message string
	// whole tells that the message is not to be extended any more.
	whole bool
	// kind names a refusal that some operations treat in their own way.
	kind string
	// orphan tells that the refused request may have left something behind.
	orphan bool
	// own are errors of the job that take the place of the usual one.
	own []cfError
	// dashboard is what an instance gets, "" for nothing; details is all that a
	// bind has brought, nil for the usual.
	dashboard string
	details   json.RawMessage
}

// pollState is what the backing broker says of an asynchronous operation.
type pollState int

const (
	pollRunning pollState = iota
	pollSucceeded
	pollFailed
	pollUnfetched // done, but what it made cannot be read
)

// backingBroker is the service broker behind the Cloud Controller. What it
// does depends on the plan, unless the control has instructed it otherwise. It
// is guarded by the simulator's mutex.
type backingBroker struct {
	delay   time.Duration
	random  *randomness
	calls   map[brokerCall]int
	pending map[string]pendingOperation // by GUID of instance or binding
	failed  map[string]bool             // instances whose first delete has failed

	instructions    []*instruction
	lastInstruction int
	repeated        map[brokerCall]int // requests sent again while one runs (Korifi)
}

type pendingOperation struct {
	fate        fate
	word        string
	ready       time.Time
	retry       time.Duration // how long the broker wants to be left alone
	description string        // of a failure, "" for the usual one
}

func newBackingBroker(delay time.Duration, random *randomness) *backingBroker {
	b := &backingBroker{delay: delay, random: random}
	b.forget()
	return b
}

func (b *backingBroker) forget() {
	b.calls = map[brokerCall]int{}
	b.pending = map[string]pendingOperation{}
	b.failed = map[string]bool{}
	b.repeated = map[brokerCall]int{}
	b.instructions = nil
}

// ask has the broker do what c says to the instance or binding with that GUID.
func (b *backingBroker) ask(c brokerCall, fates map[string]fate, guid string) reply {
	b.calls[c]++
	if i := b.instructed(c); i != nil {
		return b.obey(i, c, guid)
	}
	switch f := b.fateOf(fates[c.operation], guid); f {
	case rejected:
		return reply{outcome: replyRefused, message: "Service broker error: " + brokerWords(c.operation) + " is refused by this plan"}
	case needsApp:
		return reply{outcome: replyRefused, message: appRequired}
	case timesOut:
		return reply{outcome: replySilent}
	case delayed, fails, stalls:
		b.pending[guid] = pendingOperation{fate: f, word: c.operation, ready: time.Now().Add(b.delay)}
		return reply{outcome: replyAccepted}
	default:
		delete(b.pending, guid)
		return reply{outcome: replyDone}
	}
}

// fateOf resolves fates that depend on what happened before.
func (b *backingBroker) fateOf(f fate, guid string) fate {
	if f != failsOnce {
		return f
	}
	if b.failed[guid] {
		delete(b.failed, guid)
		return atOnce
	}
	b.failed[guid] = true
	return fails
}

// poll returns the state of the operation that runs on a GUID, and a
// description when it failed.
func (b *backingBroker) poll(guid string) (pollState, string) {
	p, known := b.pending[guid]
	switch {
	case known && (p.fate == stalls || time.Now().Before(p.ready)):
		return pollRunning, ""
	case known && p.fate == fails:
		delete(b.pending, guid)
		if p.description != "" {
			return pollFailed, p.description
		}
		return pollFailed, brokerWords(p.word) + " fails with this plan"
	case known && p.fate == unfetchable:
		delete(b.pending, guid)
		if p.description != "" {
			return pollUnfetched, "Service broker error: " + p.description
		}
		return pollUnfetched, badResponse
	}
	delete(b.pending, guid)
	return pollSucceeded, ""
}

// patience is how long the broker wants to be left alone before the next poll.
func (b *backingBroker) patience(guid string) time.Duration { return b.pending[guid].retry }

// forgetOperation drops what is known of an instance or binding that is gone.
func (b *backingBroker) forgetOperation(guid string) {
	delete(b.pending, guid)
	delete(b.failed, guid)
}

func brokerWords(operation string) string {
	return map[string]string{
		provision: "The create", update: "The update", deprovision: "The delete", bind: "The bind", unbind: "The unbind",
	}[operation]
}
