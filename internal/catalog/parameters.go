package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/schema"
)

// parallelChecks is how many checks run at once; the others wait. A check is all computing, so more at once would end
// no sooner, and this many times the memory of one check is all that checks ever hold. A check is short (schema.Check).
const parallelChecks = 4

// CheckParameters checks the parameters of q against the schema that the plan publishes for them. It answers from the
// catalog in memory, never waits for Cloud Foundry or the store, and takes some tens of milliseconds at most, however
// the schema and the parameters are made.
//
// nil means that they satisfy it, or that there is nothing to hold against them: no catalog is in memory, it has no
// such plan, the plan has no schema for this use, or one that cannot be used or would take too long with these
// parameters. The latter two are logged; the backing broker decides then, as it does in the end anyway.
//
// The error's text is for the platform's user. It names up to five violated rules, each with the JSON pointer of its
// place. It holds no value of the parameters, only names of their members, shortened.
func (s *Service) CheckParameters(_ context.Context, q broker.ParametersQuery) error {
	c := s.clients[q.Client]
	use, ok := useOf(q)
	if c == nil || !ok {
		return nil
	}
	known := c.current.Load()
	if known == nil {
		return nil
	}
	schema := known.schemas[schemaKey{q.ServiceID, q.PlanID, use}]
	if schema == nil {
		return nil
	}
	s.checks <- struct{}{}
	defer func() { <-s.checks }()
	return schema.check(c.log, parametersOrEmpty(q.Parameters))
}

// schemaUse is what a plan may have a parameter schema for. The texts stand in logs.
type schemaUse string

const (
	createUse schemaUse = "create"
	updateUse schemaUse = "update"
	bindUse   schemaUse = "bind"
)

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

// schemaKey finds a schema within a snapshot.
type schemaKey struct {
	serviceID, planID string
	use               schemaUse
}

// schemaText is one schema of a plan.
type schemaText struct {
	use  schemaUse
	text *json.RawMessage
}

// schemasOf returns the three schemas of p, empty ones too.
func schemasOf(p *broker.MarketPlan) []schemaText {
	return []schemaText{{createUse, &p.CreateSchema}, {updateUse, &p.UpdateSchema}, {bindUse, &p.BindSchema}}
}

// parametersOrEmpty is {} for what means the same: absent and null.
func parametersOrEmpty(raw json.RawMessage) json.RawMessage {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// planSchema is one parameter schema of one plan. It is compiled when it is first needed, once, whoever comes at the
// same time: most schemas of a marketplace are never asked about. Snapshots share it as long as its text stays the
// same.
type planSchema struct {
	offering, plan string
	use            schemaUse
	text           json.RawMessage

	compiling sync.Once
	compiled  *schema.Schema // nil when the text is of no use
	skipping  sync.Once
}

func (p *planSchema) sameAs(other *planSchema) bool {
	return other != nil && p.offering == other.offering && p.plan == other.plan && string(p.text) == string(other.text)
}

// check is CheckParameters for this schema. That it cannot be used is the backing broker's mistake and must not hurt
// the user: it is logged once, for an operator, and the parameters pass.
func (p *planSchema) check(log *slog.Logger, parameters json.RawMessage) error {
	p.compiling.Do(func() {
		var err error
		if p.compiled, err = schema.Compile(p.text); err != nil {
			p.warn(log, "a parameter schema is of no use, parameters are not checked against it", err)
		}
	})
	if p.compiled == nil {
		return nil
	}
	err := p.compiled.Check(parameters)
	if _, skipped := errors.AsType[*schema.NotChecked](err); skipped {
		p.skipping.Do(func() {
			p.warn(log, "parameters were not checked against their schema; this is said once for a schema", err)
		})
		return nil
	}
	return err
}

func (p *planSchema) warn(log *slog.Logger, what string, why error) {
	log.Warn(what, "offering", p.offering, "plan", p.plan, "schema", string(p.use), "why", why.Error())
}
