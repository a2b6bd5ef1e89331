package cfsim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// conditions are what operators of a Cloud Foundry decide and what its parts
// are busy with. They change what requests are answered, and nothing that is
// there already. A place is "ORG" or "ORG/SPACE". Guarded by the simulator's
// mutex.
type conditions struct {
	// Quota limits a place.
	Quota map[string]*quota `json:"quota"`
	// Suspended and Deleting name places that refuse changes, or new things.
	Suspended map[string]bool `json:"suspended"`
	Deleting  map[string]bool `json:"deleting"`
	// FeaturesOff has the flags that are off, each with the operator's own
	// message, "" for the usual one.
	FeaturesOff map[string]*string `json:"features_off"`
	// FeaturesOn has those that are on although they are off by default.
	FeaturesOn map[string]bool `json:"features_on"`
	// Permissions say what a login may do; see permission.
	Permissions map[string]permission `json:"permissions"`
	// BrokerBusy tells that the Cloud Controller is reading the backing
	// broker's catalog, or removing the broker.
	BrokerBusy bool `json:"broker_busy"`
	// Rivals is how many creates over a failed one lose a race (R2).
	Rivals int `json:"rivals"`
}

// quota limits an organization or a space; nil means no limit.
type quota struct {
	Instances *int  `json:"instances"`
	Keys      *int  `json:"keys"`
	Paid      *bool `json:"paid"`
}

func noConditions() conditions {
	return conditions{
		Quota: map[string]*quota{}, Suspended: map[string]bool{}, Deleting: map[string]bool{},
		FeaturesOff: map[string]*string{}, FeaturesOn: map[string]bool{}, Permissions: map[string]permission{},
	}
}

// of returns the limits of a place, all nil where there are none.
func (c *conditions) of(place string) quota {
	if q := c.Quota[place]; q != nil {
		return *q
	}
	return quota{}
}

// place is how the control names a space.
func (sp *space) place() string { return sp.organization.name + "/" + sp.name }

// growing refuses new things in a place that is being deleted.
func (s *Simulator) growing(sp *space) error {
	const code, title = 10020, "CF-ResourceBeingDeleted"
	switch {
	case s.conditions.Deleting[sp.organization.name]:
		return failure(422, code, title, "The organization is being deleted")
	case s.conditions.Deleting[sp.place()]:
		return failure(422, code, title, "The space is being deleted")
	}
	return nil
}

// checkQuota refuses an instance that a limit has no room for. Those of the
// space are looked at first.
func (s *Simulator) checkQuota(sp *space, p *plan) error {
	inSpace, inOrg := 0, 0
	for _, i := range s.world.instances.ordered {
		if i.space.organization == sp.organization {
			inOrg++
		}
		if i.space == sp {
			inSpace++
		}
	}
	switch {
	case full(s.conditions.of(sp.place()).Instances, inSpace):
		return unprocessable("You have exceeded your space's services limit.")
	case full(s.conditions.of(sp.organization.name).Instances, inOrg):
		return unprocessable("You have exceeded your organization's services limit.")
	}
	return s.checkPaid(sp, p)
}

func full(limit *int, used int) bool { return limit != nil && used >= *limit }

// checkPaid refuses plans that cost something where they are not allowed.
func (s *Simulator) checkPaid(sp *space, p *plan) error {
	const text = "The service instance cannot be created because paid service plans are not allowed"
	forbidden := func(place string) bool {
		paid := s.conditions.of(place).Paid
		return paid != nil && !*paid
	}
	switch {
	case !p.paid:
		return nil
	case forbidden(sp.place()):
		return unprocessable(text + " for your space.")
	case forbidden(sp.organization.name):
		return unprocessable(text + ".")
	}
	return nil
}

// checkKeyQuota refuses a key that a limit has no room for.
func (s *Simulator) checkKeyQuota(sp *space) error {
	inSpace, inOrg := 0, 0
	for _, k := range s.world.keys {
		if k.instance.space.organization == sp.organization {
			inOrg++
		}
		if k.instance.space == sp {
			inSpace++
		}
	}
	const text = " limit for service binding of type key."
	switch {
	case full(s.conditions.of(sp.place()).Keys, inSpace):
		return unprocessable("You have exceeded your space's" + text)
	case full(s.conditions.of(sp.organization.name).Keys, inOrg):
		return unprocessable("You have exceeded your organization's" + text)
	}
	return nil
}

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
