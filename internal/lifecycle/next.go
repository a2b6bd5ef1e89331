package lifecycle

import (
	"errors"
	"fmt"
	"time"
)

// Event is something that happens to a record: a Request, a Tick or a Reply to a
// call (Replied).
type Event interface{ event() }

func (Request) event() {}
func (Tick) event()    {}
func (Replied) event() {}

// Decision is what Next decided. When Write is true the caller makes one write of
// Record on condition of the revision that it read, and carries Effect out only
// when that write was made.
type Decision struct {
	Record Record
	Write  bool
	// Outcome answers a request; for a tick it is Ongoing, Ended or Stopped.
	Outcome Outcome
	Effect  Effect
	// NeedsClaim is true when the request began a new operation, or would have.
	NeedsClaim bool
	// Result is the result that this decision wrote for an operation, nil for none.
	Result *Finished
	// Wait is how long the driver stays away now; 0: as long as the tick said.
	Wait time.Duration
	// ForgetParameters is true when Cloud Foundry took the call, so that its parameters are
	// needed no more.
	ForgetParameters bool
}

// Outcome is the answer to a request, in words that are neither HTTP's nor OSB's.
type Outcome string

// The outcomes.
const (
	Accepted      Outcome = "accepted"
	Running       Outcome = "running"
	Exists        Outcome = "exists"
	Conflict      Outcome = "conflict"
	Busy          Outcome = "busy"
	NotUpdatable  Outcome = "not updatable"
	AsyncRequired Outcome = "async required"
	Missing       Outcome = "missing"
	AlreadyGone   Outcome = "already gone"
	// Hold: a synchronous bind waits for its instance and claims nothing yet.
	Hold Outcome = "held"
	// Superseded: the claim was lost and may not be made any more (protocol.md 2.3).
	Superseded Outcome = "superseded"

	Ongoing Outcome = "ongoing"
	Ended   Outcome = "ended"
	Stopped Outcome = "stopped"
)

// Effect is what the caller does next. Do says what; the other fields belong to it.
type Effect struct {
	Do Action
	// GUID of the row to look at or to delete; for Find of keys, their instance's.
	GUID string
	// GUIDs of rows to find whatever they are called.
	GUIDs []string
	// Job to ask for.
	Job string
	// CallNumber is the number of the open call that a POST or PATCH carries.
	CallNumber int
	// Bindings to turn to deleting.
	Bindings []string
}

// Action is the kind of an effect.
type Action string

// The effects. Those up to FindOrg bring knowledge that goes into the same tick.
const (
	DoNothing          Action = ""
	ReadInstance       Action = "read instance"
	ListBindings       Action = "list bindings"
	FindByName         Action = "find by name"
	FindByGUID         Action = "find by guid"
	AskJob             Action = "ask job"
	FindOrg            Action = "find the org"
	SendCreate         Action = "send create"
	SendUpdate         Action = "send update"
	SendDelete         Action = "send delete"
	SendDeleteLeftover Action = "send delete of leftover"
	Unbind             Action = "unbind"
	Wait               Action = "wait"
)

// ErrEvent is returned for an event that Next does not know.
var ErrEvent = errors.New("unknown event")

// Next decides what follows from event for the record. It changes nothing and
// needs nothing but its arguments; the same arguments give the same decision. An
// error means that the event itself is malformed.
func Next(r Record, event Event) (Decision, error) {
	switch e := event.(type) {
	case Request:
		return request(r, e)
	case Tick:
		return tick(r, e), nil
	case Replied:
		return replied(r, e), nil
	default:
		return Decision{}, fmt.Errorf("lifecycle: %T: %w", event, ErrEvent)
	}
}
