package catalog

import (
	"encoding/json"
	"slices"
)

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

// withCosts returns metadata, an object or nothing, with the member costs made of
// Cloud Foundry's prices, unless it has one, which then is the backing broker's own.
// The other members stay as they are, byte for byte.
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

// costsOf translates prices, nil when there is none. A price that lacks a part is
// left out, because OSB wants amount and unit both.
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
