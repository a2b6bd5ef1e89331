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

type lastOperationView struct {
	Type        string  `json:"type"`
	State       string  `json:"state"`
	Description *string `json:"description"`
	UpdatedAt   string  `json:"updated_at"`
	CreatedAt   string  `json:"created_at"`
}

func (l lastOperation) view() lastOperationView {
	at := timestamp(l.written)
	v := lastOperationView{Type: l.kind, State: l.state, CreatedAt: at, UpdatedAt: at}
	if l.description != "" {
		v.Description = &l.description
	}
	return v
}
