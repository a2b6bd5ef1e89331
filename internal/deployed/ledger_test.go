package deployed

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
)

// marks stand in what platforms send; each names where it must not be found later.
const (
	// parameterMark stands in the parameters of creates, updates and binds.
	parameterMark = "marked-parameter-52c1"
	// identityMark is the name of the user whom every request names. Records keep it, logs do not.
	identityMark = "marked-originator-77e0"
)

// ledger keeps what platforms were told, for the searches at the end.
type ledger struct {
	mu         sync.Mutex
	operations map[string]bool
	secrets    map[string]bool
}

func newLedger() *ledger {
	return &ledger{operations: map[string]bool{}, secrets: map[string]bool{}}
}

// hear notes the operation and the secrets of an answer.
func (l *ledger) hear(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if op := a.operation(); op != "" {
		l.operations[op] = true
	}
	var c struct{ URI, Password string } // the user's name is the key's GUID, which is no secret
	if json.Unmarshal(a.fields["credentials"], &c) == nil && c.Password != "" {
		l.secrets[c.URI], l.secrets[c.Password] = true, true
	}
}

// secretWords are all secrets that were handed out.
func (l *ledger) secretWords() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.secrets))
}

// allOperations are those that platforms were told.
func (l *ledger) allOperations() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.operations))
}
