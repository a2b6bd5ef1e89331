package cfsim

import (
	"maps"
	"net/http"
	"slices"
)

type marketplaceChange struct {
	Hide        []string          `json:"hide"`
	Show        []string          `json:"show"`
	Reregister  bool              `json:"reregister"`
	Maintenance map[string]string `json:"maintenance"`
	// Paid and Free say whether plans cost something.
	Paid []string `json:"paid"`
	Free []string `json:"free"`
	// Shareable says of offerings whether their instances can be shared.
	Shareable map[string]bool `json:"shareable"`
	// VisibleIn names the organizations that see a plan; none for an empty
	// list, all for null.
	VisibleIn map[string][]string `json:"visible_in"`
}

// changeMarketplace does all that is asked for or nothing. Plans are named
// "offering/plan".
func (s *Simulator) changeMarketplace(r *http.Request) (any, error) {
	var change marketplaceChange
	if err := readControl(r, &change); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.world.market.check(change); err != nil {
		return nil, err
	}
	market := s.world.market
	if change.Reregister {
		market.register()
	}
	for _, name := range change.Hide {
		market.plan(name).hidden = true
	}
	for _, name := range change.Show {
		market.plan(name).hidden = false
	}
	for name, version := range change.Maintenance {
		market.plan(name).spec.version = version
	}
	for _, name := range change.Paid {
		market.plan(name).paid = true
	}
	for _, name := range change.Free {
		market.plan(name).paid = false
	}
	for name, orgs := range change.VisibleIn {
		market.plan(name).orgs = orgs
	}
	for name, on := range change.Shareable {
		market.offering(name).shareable = on
	}
	return struct{}{}, nil
}

func (m *marketplace) check(change marketplaceChange) error {
	names := slices.Concat(change.Hide, change.Show, change.Paid, change.Free, slices.Collect(maps.Keys(change.VisibleIn)))
	for name, version := range change.Maintenance {
		names = append(names, name)
		if !semanticVersion.MatchString(version) {
			return refusedControl(http.StatusBadRequest, "The version %q of %s is not a semantic version.", version, name)
		}
	}
	for name := range change.Shareable {
		if m.offering(name) == nil {
			return refusedControl(http.StatusBadRequest, "There is no offering %q.", name)
		}
	}
	for _, name := range names {
		if m.plan(name) == nil {
			return refusedControl(http.StatusBadRequest, "There is no plan %q; plans are named offering/plan.", name)
		}
	}
	return nil
}
