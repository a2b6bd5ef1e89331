package cfsim

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// conditions are what operators of a Cloud Foundry decide and what its parts are busy with. They change what requests
// are answered, and nothing that is there already. A place is "ORG" or "ORG/SPACE".
type conditions struct {
	// Quota limits a place.
	Quota map[string]*quota `json:"quota"`
	// Suspended and Deleting name places that refuse changes, or new things.
	Suspended map[string]bool `json:"suspended"`
	Deleting  map[string]bool `json:"deleting"`
	// FeaturesOff has the flags that are off, each with the operator's own message, "" for the usual one.
	FeaturesOff map[string]*string `json:"features_off"`
	// FeaturesOn has those that are on although they are off by default.
	FeaturesOn map[string]bool `json:"features_on"`
	// Permissions say what a login may do; see permission.
	Permissions map[string]permission `json:"permissions"`
	// BrokerBusy tells that the Cloud Controller is reading the backing broker's catalog, or removing the broker.
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

// place is how the control names a space.
func (sp *space) place() string { return sp.organization.name + "/" + sp.name }

// limits returns those of a place, all nil where there are none.
func (c *conditions) limits(place string) quota {
	if q := c.Quota[place]; q != nil {
		return *q
	}
	return quota{}
}

// allowNew refuses new things in a place that is being deleted.
func (c *conditions) allowNew(sp *space) error {
	switch {
	case c.Deleting[sp.organization.name]:
		return beingDeleted("organization")
	case c.Deleting[sp.place()]:
		return beingDeleted("space")
	}
	return nil
}

// allowPaid refuses plans that cost something where they are not allowed.
func (c *conditions) allowPaid(sp *space, p *plan) error {
	const text = "The service instance cannot be created because paid service plans are not allowed"
	forbidden := func(place string) bool {
		paid := c.limits(place).Paid
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

// checkQuota refuses an instance that a limit has no room for.
func (cc *controller) checkQuota(sp *space, p *plan) error {
	limit := func(q quota) *int { return q.Instances }
	in := func(i *instance) *space { return i.space }
	if full := exceeded(&cc.conditions, sp, limit, slices.Values(cc.database.instances.ordered), in); full != "" {
		return unprocessable("You have exceeded your " + full + "'s services limit.")
	}
	return cc.conditions.allowPaid(sp, p)
}

// checkKeyQuota refuses a key that a limit has no room for.
func (cc *controller) checkKeyQuota(sp *space) error {
	limit := func(q quota) *int { return q.Keys }
	in := func(k *key) *space { return k.instance.space }
	if full := exceeded(&cc.conditions, sp, limit, maps.Values(cc.database.keys), in); full != "" {
		return unprocessable("You have exceeded your " + full + "'s limit for service binding of type key.")
	}
	return nil
}

// exceeded returns whose limit has no room for another row in a space: "space", "organization", or "" for neither. The
// space's own limit is looked at first.
func exceeded[R any](c *conditions, sp *space, limit func(quota) *int, rows iter.Seq[R], in func(R) *space) string {
	inSpace, inOrg := 0, 0
	for row := range rows {
		if in(row).organization == sp.organization {
			inOrg++
		}
		if in(row) == sp {
			inSpace++
		}
	}
	full := func(place string, used int) bool {
		most := limit(c.limits(place))
		return most != nil && used >= *most
	}
	switch {
	case full(sp.place(), inSpace):
		return "space"
	case full(sp.organization.name, inOrg):
		return "organization"
	}
	return ""
}

// move makes all that holds for a place hold under its new name.
func (c *conditions) move(before, after string) {
	moveKeys(c.Quota, before, after)
	moveKeys(c.Suspended, before, after)
	moveKeys(c.Deleting, before, after)
}

func moveKeys[V any](of map[string]V, before, after string) {
	for place, value := range maps.Clone(of) {
		if rest, inside := strings.CutPrefix(place, before); inside && (rest == "" || rest[0] == '/') {
			delete(of, place)
			of[after+rest] = value
		}
	}
}

// conditionChange is what the control takes: maps are merged into what holds, null takes an entry away.
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

// changeConditions is POST /__sim/conditions. What is refused changes nothing.
func changeConditions(c *controlCall) (any, error) {
	var change conditionChange
	if err := c.read(&change); err != nil {
		return nil, err
	}
	if err := change.check(c.database); err != nil {
		return nil, err
	}
	c.conditions.change(change)
	return nil, nil
}

func (change conditionChange) check(db *database) error {
	places := slices.Concat(slices.Collect(maps.Keys(change.Quota)), slices.Collect(maps.Keys(change.Suspended)), slices.Collect(maps.Keys(change.Deleting)))
	for _, place := range places {
		if org, _, _ := strings.Cut(place, "/"); db.organizationNamed(org) == nil {
			return badInput("There is no organization %q; places are ORG or ORG/SPACE.", org)
		}
	}
	for _, feature := range slices.Concat(slices.Collect(maps.Keys(change.FeaturesOff)), slices.Collect(maps.Keys(change.FeaturesOn))) {
		if !slices.Contains(meaningfulFeatures, feature) {
			return badInput("The feature %q means nothing here; %s do.", feature, strings.Join(meaningfulFeatures, ", "))
		}
	}
	known := []permission{permitAdmin, permitOrgManager, permitDeveloper, permitAuditor, permitNothing}
	for login, held := range change.Permissions {
		if login != "ferry" && login != "admin" {
			return badInput("There is no login %q; there are ferry and admin.", login)
		}
		if held != nil && !slices.Contains(known, *held) {
			return badInput("The permission %q is none of %q.", *held, known)
		}
	}
	if change.Rivals != nil && *change.Rivals < 0 {
		return badInput("There cannot be fewer than 0 rivals.")
	}
	return nil
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

func getConditions(c *controlCall) (any, error) {
	copied := c.conditions // its maps, too, because it is encoded without the lock
	copied.Quota, copied.Suspended, copied.Deleting = maps.Clone(copied.Quota), maps.Clone(copied.Suspended), maps.Clone(copied.Deleting)
	copied.FeaturesOff, copied.FeaturesOn, copied.Permissions = maps.Clone(copied.FeaturesOff), maps.Clone(copied.FeaturesOn), maps.Clone(copied.Permissions)
	return copied, nil
}

func clearConditions(c *controlCall) (any, error) {
	c.conditions = noConditions()
	return nil, nil
}
