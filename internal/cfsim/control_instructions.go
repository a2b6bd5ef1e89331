package cfsim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// instructBroker adds an instruction; everything but its answer may be left
// out.
func (s *Simulator) instructBroker(r *http.Request) (any, error) {
	i := instruction{Times: 1, Polls: pollsSucceeded}
	if err := readControl(r, &i); err != nil {
		return nil, err
	}
	if err := i.check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]string{"id": s.backing.instruct(i)}, nil
}

func (i *instruction) check() error {
	operations := []string{"", provision, update, deprovision, bind, unbind, fetchInstance, fetchBinding}
	answers := append([]string{answerDone, answerAccepted, answerSilent, answerGone}, slices.Sorted(maps.Keys(refusals()))...)
	polls := []string{pollsSucceeded, pollsFailed, pollsInProgress, pollsError, pollsRejected, pollsGone, pollsUnfetched}
	bad := func(format string, args ...any) error { return refusedControl(http.StatusBadRequest, format, args...) }
	switch {
	case !slices.Contains(operations, i.Operation):
		return bad("The operation of an instruction is provision, update, deprovision, bind, unbind, fetch_instance, fetch_binding or empty, not %q.", i.Operation)
	case !slices.Contains(answers, i.Answer):
		return bad("The answer of an instruction is one of %s, not %q.", strings.Join(answers, ", "), i.Answer)
	case !slices.Contains(polls, i.Polls):
		return bad("The polls of an instruction are one of %s, not %q.", strings.Join(polls, ", "), i.Polls)
	case i.Polls == pollsUnfetched && i.Operation != bind:
		return bad("Only what a bind made can be unfetchable.")
	case i.Details != nil && i.Operation != bind:
		return bad("Only a bind brings details.")
	case brokerCall{operation: i.Operation}.fetches() && i.Answer == answerAccepted:
		return bad("A fetch is answered at once; it cannot be accepted.")
	case i.Times < 0 || i.RetryAfter < 0:
		return bad("The times and retry_after of an instruction cannot be negative.")
	}
	return checkDetails(i.Details)
}

func (s *Simulator) listInstructions(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]instruction, 0, len(s.backing.instructions))
	for _, i := range s.backing.instructions {
		list = append(list, *i)
	}
	return list, nil
}

func (s *Simulator) clearInstructions(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backing.instructions = nil
	return struct{}{}, nil
}
