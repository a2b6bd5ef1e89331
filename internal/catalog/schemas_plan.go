package catalog

import (
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/schema"
)

// planSchema is one parameter schema of one plan. It is compiled when it is first
// needed, once, whoever comes at the same time: most schemas of a marketplace are
// never asked about. Snapshots share it as long as its text stays the same.
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

// check is CheckParameters for this schema. That it cannot be used is the backing
// broker's mistake and must not hurt the user: it is logged once, for an operator,
// and the parameters pass.
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

// planSchemas returns the schemas that a plan has, by what they are for.
func planSchemas(o broker.MarketOffering, p broker.MarketPlan) []*planSchema {
	var all []*planSchema
	for _, s := range []struct {
		use  schemaUse
		text json.RawMessage
	}{{createUse, p.CreateSchema}, {updateUse, p.UpdateSchema}, {bindUse, p.BindSchema}} {
		if len(s.text) > 0 {
			all = append(all, &planSchema{offering: o.Name, plan: p.Name, use: s.use, text: s.text})
		}
	}
	return all
}
