package cfsim

import "net/http"

type marketplaceChange struct {
	Hide        []string          `json:"hide"`
	Show        []string          `json:"show"`
	Reregister  bool              `json:"reregister"`
	Maintenance map[string]string `json:"maintenance"`
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
	return struct{}{}, nil
}

func (m *marketplace) check(change marketplaceChange) error {
	names := append(append([]string{}, change.Hide...), change.Show...)
	for name, version := range change.Maintenance {
		names = append(names, name)
		if !semanticVersion.MatchString(version) {
			return refusedControl(http.StatusBadRequest, "The version %q of %s is not a semantic version.", version, name)
		}
	}
	for _, name := range names {
		if m.plan(name) == nil {
			return refusedControl(http.StatusBadRequest, "There is no plan %q; plans are named offering/plan.", name)
		}
	}
	return nil
}
