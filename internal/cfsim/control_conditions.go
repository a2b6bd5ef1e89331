package cfsim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// conditionChange is what the control takes: maps are merged into what holds,
// null takes an entry away.
type conditionChange struct {
	Quota       map[string]*quota      `json:"quota"`
	Suspended   map[string]bool        `json:"suspended"`
	Deleting    map[string]bool        `json:"deleting"`
	FeaturesOff map[string]*string     `json:"features_off"`
	FeaturesOn  map[string]bool        `json:"features_on"`
	Permissions map[string]*permission `json:"permissions"`
	BrokerBusy  *bool                  `json:"broker_busy"`
	Rivals      *int                   `json:"rivals"`
}

func (s *Simulator) getConditions(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conditions
	// Copies, because the answer is encoded without the lock.
	c.Quota, c.Suspended, c.Deleting = maps.Clone(c.Quota), maps.Clone(c.Suspended), maps.Clone(c.Deleting)
	c.FeaturesOff, c.FeaturesOn, c.Permissions = maps.Clone(c.FeaturesOff), maps.Clone(c.FeaturesOn), maps.Clone(c.Permissions)
	return c, nil
}

func (s *Simulator) clearConditions(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conditions = noConditions()
	return struct{}{}, nil
}

func (s *Simulator) changeConditions(r *http.Request) (any, error) {
	var change conditionChange
	if err := readControl(r, &change); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkConditions(change); err != nil {
		return nil, err
	}
	s.conditions.change(change)
	return struct{}{}, nil
}

func (c *conditions) change(change conditionChange) {
	merge(c.Quota, change.Quota, func(q *quota) (*quota, bool) { return q, q != nil })
	merge(c.Suspended, change.Suspended, func(on bool) (bool, bool) { return on, on })
	merge(c.Deleting, change.Deleting, func(on bool) (bool, bool) { return on, on })
	merge(c.FeaturesOff, change.FeaturesOff, func(message *string) (*string, bool) { return message, message != nil })
	merge(c.FeaturesOn, change.FeaturesOn, func(on bool) (bool, bool) { return on, on })
	merge(c.Permissions, change.Permissions, func(p *permission) (permission, bool) {
		if p == nil {
			return "", false
		}
		return *p, true
	})
	if change.BrokerBusy != nil {
		c.BrokerBusy = *change.BrokerBusy
	}
	if change.Rivals != nil {
		c.Rivals = *change.Rivals
	}
}

// merge puts changes into held; read gives the value, and whether it stays.
func merge[C, H any](held map[string]H, changes map[string]C, read func(C) (H, bool)) {
	for name, change := range changes {
		if value, stays := read(change); stays {
			held[name] = value
		} else {
			delete(held, name)
		}
	}
}

func (s *Simulator) checkConditions(change conditionChange) error {
	bad := func(format string, args ...any) error { return refusedControl(http.StatusBadRequest, format, args...) }
	places := slices.Concat(slices.Collect(maps.Keys(change.Quota)), slices.Collect(maps.Keys(change.Suspended)), slices.Collect(maps.Keys(change.Deleting)))
	for _, place := range places {
		if org, _, _ := strings.Cut(place, "/"); s.world.organizationNamed(org) == nil {
			return bad("There is no organization %q; places are ORG or ORG/SPACE.", org)
		}
	}
	for _, feature := range slices.Concat(slices.Collect(maps.Keys(change.FeaturesOff)), slices.Collect(maps.Keys(change.FeaturesOn))) {
		if err := checkFeature(feature); err != nil {
			return err
		}
	}
	known := []permission{permitAdmin, permitOrgManager, permitDeveloper, permitAuditor, permitNothing}
	for login, held := range change.Permissions {
		if login != "ferry" && login != "admin" {
			return bad("There is no login %q; there are ferry and admin.", login)
		}
		if held != nil && !slices.Contains(known, *held) {
			return bad("The permission %q is none of %q.", *held, known)
		}
	}
	if change.Rivals != nil && *change.Rivals < 0 {
		return bad("There cannot be fewer than 0 rivals.")
	}
	return nil
}
