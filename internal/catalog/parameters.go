package catalog

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// parallelChecks is how many checks run at once; the others wait. A check is all
// computing, so more at once would end no sooner, and this many times the memory
// of one check is all that checks ever hold. A check is short (see maxWork).
const parallelChecks = 4

// schemaUse is what a plan may have a parameter schema for. The texts stand in logs.
type schemaUse string

const (
	createUse schemaUse = "create"
	updateUse schemaUse = "update"
	bindUse   schemaUse = "bind"
)

// schemaKey finds a schema within a snapshot.
type schemaKey struct {
	serviceID, planID string
	use               schemaUse
}

// CheckParameters checks the parameters of q against the schema that the plan
// publishes for them. It answers from the catalog in memory, never waits for Cloud
// Foundry or the store, and takes some tens of milliseconds at most, however the
// schema and the parameters are made.
//
// nil means that they satisfy it, or that there is nothing to hold against them: no
// catalog is in memory, it has no such plan, the plan has no schema for this use,
// or one that cannot be used or would take too long with these parameters. The
// latter two are logged; the backing broker decides then, as it does in the end
// anyway.
//
// The error's text is for the platform's user. It names up to five violated rules,
// each with the JSON pointer of its place. It holds no value of the parameters,
// only names of their members, shortened.
func (s *Service) CheckParameters(_ context.Context, q broker.ParametersQuery) error {
	sh := s.shelves[q.Client]
	use, ok := useOf(q)
	if sh == nil || !ok {
		return nil
	}
	known := sh.current.Load()
	if known == nil {
		return nil
	}
	schema := known.schemas[schemaKey{q.ServiceID, q.PlanID, use}]
	if schema == nil {
		return nil
	}
	s.checks <- struct{}{}
	defer func() { <-s.checks }()
	return schema.check(sh.log, parametersOrEmpty(q.Parameters))
}

func useOf(q broker.ParametersQuery) (schemaUse, bool) {
	switch {
	case q.Kind == lifecycle.Instance && q.Verb == lifecycle.Create:
		return createUse, true
	case q.Kind == lifecycle.Instance && q.Verb == lifecycle.Update:
		return updateUse, true
	case q.Kind == lifecycle.Binding && q.Verb == lifecycle.Create:
		return bindUse, true
	}
	return "", false
}

// parametersOrEmpty is {} for what means the same: absent and null.
func parametersOrEmpty(raw json.RawMessage) json.RawMessage {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}
