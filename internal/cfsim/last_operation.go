package cfsim

import "time"

// Kinds and states of last operations.
const (
	kindCreate = "create"
	kindUpdate = "update"
	kindDelete = "delete"

	stateInitial    = "initial"
	stateInProgress = "in progress"
	stateSucceeded  = "succeeded"
	stateFailed     = "failed"
)

// lastOperation of an instance or key. It is written anew at every step, so
// that created says when it was last written, as in the Cloud Controller.
type lastOperation struct {
	kind, state, description string
	written                  time.Time
}

func (l lastOperation) is(kind, state string) bool { return l.kind == kind && l.state == state }

// running tells whether an operation is under way.
func (l lastOperation) running() bool { return l.state == stateInitial || l.state == stateInProgress }

// blank tells that there was no operation yet, or none that is known.
func (l lastOperation) blank() bool { return l.kind == "" }

type lastOperationView struct {
	Type        string  `json:"type"`
	State       string  `json:"state"`
	Description *string `json:"description"`
	UpdatedAt   string  `json:"updated_at"`
	CreatedAt   string  `json:"created_at"`
}

// lastOperation is what the API shows of one. A Cloud Controller has nothing
// to show where there was none; Korifi shows empty words.
func (c *call) lastOperation(l lastOperation) any {
	if l.blank() && !c.korifi {
		return struct{}{}
	}
	return l.view()
}

func (l lastOperation) view() lastOperationView {
	at := timestamp(l.written)
	v := lastOperationView{Type: l.kind, State: l.state, CreatedAt: at, UpdatedAt: at}
	if l.description != "" {
		v.Description = &l.description
	}
	return v
}
