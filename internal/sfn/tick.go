package sfn

import (
	"fmt"
	"net/url"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Tick is what an execution carries from state to state: the input of the state machine, the poller's input, and its
// answer. It holds ids and numbers only; what a platform sent besides stays in the store.
//
// Executions live for days and outlast a deployment, so a field may be added, but none may be renamed or become
// mandatory.
type Tick struct {
	Client string `json:"client"`
	// The ids are percent-encoded: platforms choose them, JSON keeps only UTF-8.
	InstanceID string `json:"instance_id"`
	BindingID  string `json:"binding_id,omitempty"`
	Operation  string `json:"operation"`
	// WaitSeconds is how long the state machine waits before it calls the poller.
	WaitSeconds int64 `json:"wait_seconds"`
	// Turn counts the poller's calls; the state machine ends before its history is full, and leaves the operation to
	// rounds.
	Turn int `json:"turn"`
	// Done ends the execution.
	Done bool `json:"done"`
	// Swept says that rounds take up what is due, so that the execution may end before the operation. The executions of
	// earlier versions do not have it, and go on until the operation has ended.
	Swept bool `json:"swept,omitempty"`
	// HandedOver ends the execution, and leaves the operation to rounds.
	HandedOver bool `json:"handed_over"`
}

// NewTick returns what the execution of a start begins with. Rounds take the operation up after its beginning.
func NewTick(s broker.Start) Tick {
	return Tick{
		Client: s.Key.Client, InstanceID: url.PathEscape(s.Key.InstanceID), BindingID: url.PathEscape(s.Key.BindingID),
		Operation: s.Operation, WaitSeconds: seconds(s.Delay), Swept: true,
	}
}

// After returns what the poller answers once it made the step.
func (t Tick) After(s broker.Step) Tick {
	t.Turn++
	t.Done = s.Done
	if t.WaitSeconds = seconds(s.Wait); !s.Done {
		t.WaitSeconds = max(1, t.WaitSeconds)
	}
	return t
}

// HandOver returns the tick that ends its execution, and leaves the operation to rounds.
func (t Tick) HandOver() Tick {
	t.HandedOver = true
	return t
}

// Key returns the record that the tick belongs to. The error says which part of the input nobody could have written.
func (t Tick) Key() (broker.Key, error) {
	instance, err := url.PathUnescape(t.InstanceID)
	if err != nil {
		return broker.Key{}, fmt.Errorf("instance_id: %w", err)
	}
	binding, err := url.PathUnescape(t.BindingID)
	if err != nil {
		return broker.Key{}, fmt.Errorf("binding_id: %w", err)
	}
	switch {
	case t.Client == "":
		return broker.Key{}, fmt.Errorf("client is missing")
	case instance == "":
		return broker.Key{}, fmt.Errorf("instance_id is missing")
	case t.Operation == "":
		return broker.Key{}, fmt.Errorf("operation is missing")
	}
	return broker.Key{Client: t.Client, InstanceID: instance, BindingID: binding}, nil
}

// seconds rounds up: a Wait state takes whole seconds, and a tick that comes early finds nothing to do.
func seconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}
