package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/canon"
	"github.com/ferry-broker/ferry/internal/osb"
	"github.com/ferry-broker/ferry/internal/schema"
)

// offeringOf translates an offering without its plans.
func offeringOf(o broker.MarketOffering, id string) osb.ServiceOffering {
	return osb.ServiceOffering{
		ID:                   id,
		Name:                 o.Name,
		Description:          described(o.Description, o.Name),
		Tags:                 o.Tags,
		Requires:             permissions(o.Requires),
		Bindable:             o.Bindable,
		InstancesRetrievable: o.InstancesRetrievable,
		BindingsRetrievable:  o.BindingsRetrievable,
		AllowContextUpdates:  o.AllowContextUpdates,
		PlanUpdateable:       o.PlanUpdateable,
		Metadata:             o.Metadata,
	}
}

// semanticVersion is the grammar of semver.org, version 2.0.0.
var semanticVersion = regexp.MustCompile(`^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}` +
	`(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?` +
	`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// unpublishable says why a schema may not be in a catalog, or "".
func unpublishable(text json.RawMessage) string {
	switch {
	case len(text) > schema.MaxBytes:
		return fmt.Sprintf("it is longer than %d bytes", schema.MaxBytes)
	case schema.RefersOutside(text):
		return "it refers to something outside itself"
	}
	return ""
}

func planOf(p broker.MarketPlan, id string, rotatable bool) osb.ServicePlan {
	return osb.ServicePlan{
		ID:                     id,
		Name:                   p.Name,
		Description:            described(p.Description, p.Name),
		Metadata:               withCosts(p.Metadata, p.Costs),
		Free:                   p.Free,
		Bindable:               p.Bindable,
		PlanUpdateable:         p.PlanUpdateable,
		BindingRotatable:       rotatable,
		Schemas:                schemas(p),
		MaximumPollingDuration: seconds(p.MaximumPollingDuration),
		MaintenanceInfo:        maintenance(p),
	}
}

// described is the description, which OSB wants non-empty and Cloud Foundry does not.
func described(description, name string) string {
	if description == "" {
		return name
	}
	return description
}

// permissions keeps the words that OSB defines: another one spoils the catalog.
func permissions(requires []string) []string {
	var known []string
	for _, word := range requires {
		switch word {
		case "syslog_drain", "route_forwarding", "volume_mount":
			if !slices.Contains(known, word) {
				known = append(known, word)
			}
		}
	}
	return known
}

// seconds rounds up, so that a platform never gives up before we do.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Second - 1) / time.Second)
}

func maintenance(p broker.MarketPlan) *osb.MaintenanceInfo {
	if p.MaintenanceVersion == "" {
		return nil
	}
	return &osb.MaintenanceInfo{Version: p.MaintenanceVersion, Description: p.MaintenanceDescription}
}

// schemas leaves out every level that would be empty.
func schemas(p broker.MarketPlan) *osb.Schemas {
	var all osb.Schemas
	create, update := input(p.CreateSchema), input(p.UpdateSchema)
	if create != nil || update != nil {
		all.ServiceInstance = &osb.InstanceSchemas{Create: create, Update: update}
	}
	if bind := input(p.BindSchema); bind != nil {
		all.ServiceBinding = &osb.BindingSchemas{Create: bind}
	}
	if all == (osb.Schemas{}) {
		return nil
	}
	return &all
}

func input(text json.RawMessage) *osb.InputParameters {
	if len(text) == 0 {
		return nil
	}
	return &osb.InputParameters{Parameters: text}
}

// price is one element of a Cloud Foundry plan's costs.
type price struct {
	Currency string      `json:"currency"`
	Amount   json.Number `json:"amount"`
	Unit     string      `json:"unit"`
}

// cost is OSB's cost object (profile "Cost Object").
type cost struct {
	Amount map[string]json.Number `json:"amount"`
	Unit   string                 `json:"unit"`
}

// withCosts returns metadata, an object or nothing, with the member costs made of Cloud Foundry's prices, unless it has
// one, which then is the backing broker's own. The other members stay as they are, byte for byte.
func withCosts(metadata, prices json.RawMessage) json.RawMessage {
	costs := costsOf(prices)
	if costs == nil {
		return metadata
	}
	if len(metadata) == 0 {
		return slices.Concat([]byte(`{"costs":`), costs, []byte(`}`))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(metadata, &members) != nil || members["costs"] != nil {
		return metadata
	}
	open := metadata[:len(metadata)-1]
	return slices.Concat(open, []byte(`,"costs":`), costs, []byte(`}`))
}

// costsOf translates prices, nil when there is none. A price that lacks a part is left out, because OSB wants amount
// and unit both.
func costsOf(prices json.RawMessage) json.RawMessage {
	var all []price
	if json.Unmarshal(prices, &all) != nil {
		return nil
	}
	var costs []cost
	for _, p := range all {
		if p.Currency != "" && p.Amount != "" && p.Unit != "" {
			costs = append(costs, cost{Amount: map[string]json.Number{p.Currency: p.Amount}, Unit: p.Unit})
		}
	}
	if len(costs) == 0 {
		return nil
	}
	text, err := marshal(costs)
	if err != nil {
		return nil
	}
	return text
}

// encode writes a marketplace as the text that is stored and that the catalog is built of. What Cloud Foundry sent as
// raw JSON is kept letter for letter but for white space, or left out when it is of no use to a platform.
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

// object returns raw when it is a JSON object with a member, else nil: an empty object says nothing, and some platforms
// refuse a catalog with an empty schema.
func object(raw json.RawMessage) json.RawMessage {
	if raw = valid(raw, '{'); len(raw) == len("{}") {
		return nil
	}
	return raw
}

// withDraft is object with a $schema, which OSB demands ("Input Parameters Schema Object") and a Cloud Foundry need
// not: one without is taken for draft-04, the version that every platform knows.
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

// valid returns raw without white space when every reader understands it alike and it begins as wanted, else nil.
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

// marshal is json.Marshal without escapes for HTML, so that raw JSON is the same text after it was stored and read.
func marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
