package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/canon"
)

// encode writes a marketplace as the text that is stored and that the catalog is
// built of. What Cloud Foundry sent as raw JSON is kept letter for letter but for
// white space, or left out when it is of no use to a platform.
func encode(m broker.Marketplace) ([]byte, error) {
	offerings := make([]broker.MarketOffering, len(m.Offerings))
	for i, o := range m.Offerings {
		o.Metadata = object(o.Metadata)
		plans := make([]broker.MarketPlan, len(o.Plans))
		for j, p := range o.Plans {
			plans[j] = tidy(p)
		}
		o.Plans = plans
		offerings[i] = o
	}
	text, err := marshal(broker.Marketplace{Offerings: offerings})
	if err != nil {
		return nil, fmt.Errorf("encode the marketplace: %w", err)
	}
	return text, nil
}

func tidy(p broker.MarketPlan) broker.MarketPlan {
	p.Metadata = object(p.Metadata)
	p.CreateSchema = withDraft(p.CreateSchema)
	p.UpdateSchema = withDraft(p.UpdateSchema)
	p.BindSchema = withDraft(p.BindSchema)
	p.Costs = valid(p.Costs, '[')
	return p
}

// object returns raw when it is a JSON object with a member, else nil: an empty
// object says nothing, and some platforms refuse a catalog with an empty schema.
func object(raw json.RawMessage) json.RawMessage {
	if raw = valid(raw, '{'); len(raw) == len("{}") {
		return nil
	}
	return raw
}

// withDraft is object with a $schema, which OSB demands ("Input Parameters Schema
// Object") and a Cloud Foundry need not: one without is taken for draft-04, the
// version that every platform knows.
func withDraft(raw json.RawMessage) json.RawMessage {
	raw = object(raw)
	var head struct {
		Schema json.RawMessage `json:"$schema"`
	}
	if raw == nil || json.Unmarshal(raw, &head) == nil && head.Schema != nil {
		return raw
	}
	return slices.Concat([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#",`), raw[1:])
}

// valid returns raw without white space when every reader understands it alike and
// it begins as wanted, else nil.
func valid(raw json.RawMessage, begin byte) json.RawMessage {
	if len(raw) == 0 || canon.Check(raw) != nil {
		return nil
	}
	var text bytes.Buffer
	if json.Compact(&text, raw) != nil || text.Bytes()[0] != begin {
		return nil
	}
	return text.Bytes()
}

// marshal is json.Marshal without escapes for HTML, so that raw JSON is the same
// text after it was stored and read.
func marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
