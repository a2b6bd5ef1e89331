// Package lifecycle is Ferry's state machine: one pure function, Next, from a record and an event to a decision.
//
// It does no I/O and keeps no state. Time is a value in the event, and the same arguments always give the same
// decision, so that the laws of the design can be tested by search. Everything may be called concurrently.
//
// A caller reads a record, calls Next, makes the one conditional write that the decision asks for, and carries out the
// decision's effect only when that write was made: save before you send. What it learns from the effect (a look-up, the
// state of a job, the answer to a call) comes back as the next event. docs/lifecycle.md shows the table that Next
// implements, docs/protocol.md the order of writes and calls.
//
// The package knows OSB and Cloud Foundry only by what they mean. A call is one to Cloud Foundry that creates, updates
// or deletes something; a request is one of a platform; a claim is the write with which a request begins an operation.
package lifecycle

import (
	"errors"
	"fmt"
	"time"
)

// Event is something that happens to a record: a Request, a Tick, or the answer to a call (Replied).
type Event interface{ event() }

func (Request) event() {}
func (Tick) event()    {}
func (Replied) event() {}

// ErrEvent is returned for an event that Next does not know.
var ErrEvent = errors.New("unknown event")

// Next decides what follows from the event for the record. It changes neither. An error means that the event itself is
// malformed.
func Next(r Record, event Event) (Decision, error) {
	switch e := event.(type) {
	case Request:
		return decideRequest(r, e)
	case Tick:
		return decideTick(r, e), nil
	case Replied:
		return decideReply(r, e), nil
	default:
		return Decision{}, fmt.Errorf("lifecycle: %T: %w", event, ErrEvent)
	}
}

// Decision is what Next decided. When Write is true the caller makes one write of Record, on condition of the revision
// that it read, and carries Effect out only when that write was made.
type Decision struct {
	Record Record
	Write  bool
	// Outcome answers a request. For a tick it is Ongoing, Ended or Stopped.
	Outcome Outcome
	Effect  Effect
	// NeedsClaim is true for a request that only a new operation can carry out; Outcome says whether that has begun.
	NeedsClaim bool
	// Result is the result of the operation that this decision ends, nil when it ends none.
	Result *Finished
	// Wait is how long the driver waits before its next tick; 0 means as long as the tick said.
	Wait time.Duration
	// ForgetParameters is true once the parameters of the operation are needed no more: Cloud Foundry has taken them,
	// or the operation has ended.
	ForgetParameters bool
}

// Outcome is the answer to a request, or where a tick has brought its operation.
type Outcome string

// The outcomes of requests.
const (
	// Accepted: a new operation has begun.
	Accepted Outcome = "accepted"
	// Running: the operation that was asked for runs already.
	Running Outcome = "running"
	// Exists: what was asked for is there already.
	Exists Outcome = "exists"
	// Conflict: the id is taken, with other attributes or by something that could not be deleted.
	Conflict Outcome = "conflict"
	// Busy: another operation runs.
	Busy Outcome = "busy"
	// NotUpdatable: the last operation failed in a way that only a delete gets rid of.
	NotUpdatable Outcome = "not updatable"
	// AsyncRequired: the request needs an operation, and its platform does not accept one that is not complete.
	AsyncRequired Outcome = "async required"
	// Missing: there is nothing to update, or no instance to bind to.
	Missing Outcome = "missing"
	// AlreadyGone: there is nothing to delete.
	AlreadyGone Outcome = "already gone"
	// Hold: a synchronous bind waits for its instance and claims nothing yet.
	Hold Outcome = "held"
	// Superseded: another request came first, so that this one may claim nothing any more (docs/protocol.md 2.3).
	Superseded Outcome = "superseded"
)

// The outcomes of ticks.
const (
	Ongoing Outcome = "ongoing"
	Ended   Outcome = "ended"
	// Stopped: the operation is not the current one, or has ended.
	Stopped Outcome = "stopped"
)

// Effect is what the caller does next. Do says what; the other fields belong to it.
type Effect struct {
	Do Action
	// GUID is the row to find, to update or to delete. For FindByName of keys it is their instance's.
	GUID string
	// GUIDs are rows to find whatever they are called.
	GUIDs []string
	// Job is the one to ask for.
	Job string
	// CallNumber is the number of the open call that SendCreate and SendUpdate carry out.
	CallNumber int
	// Bindings are the ids of those to unbind.
	Bindings []string
}

// Action is the kind of an effect.
type Action string

// Actions that bring knowledge: the caller puts it into the same tick and calls Next again.
const (
	ReadInstance Action = "read instance"
	ListBindings Action = "list bindings"
	FindByName   Action = "find by name"
	FindByGUID   Action = "find by guid"
	AskJob       Action = "ask job"
	FindOrg      Action = "find the org"
)

// Asks reports whether the action brings knowledge into the same tick.
func (a Action) Asks() bool {
	switch a {
	case ReadInstance, ListBindings, FindByName, FindByGUID, AskJob, FindOrg:
		return true
	default:
		return false
	}
}

// Actions that end a tick. The answer to what is sent comes back as Replied.
const (
	DoNothing          Action = ""
	SendCreate         Action = "send create"
	SendUpdate         Action = "send update"
	SendDelete         Action = "send delete"
	SendDeleteLeftover Action = "send delete of leftover"
	Unbind             Action = "unbind"
	Wait               Action = "wait"
)
