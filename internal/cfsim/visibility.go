package cfsim

import "slices"

// cost is what a plan is said to cost.
type cost struct {
	Currency string  `json:"currency"`
	Amount   float64 `json:"amount"`
	Unit     string  `json:"unit"`
}

func (p *plan) costs() []cost {
	if !p.paid {
		return []cost{}
	}
	return []cost{{Currency: "USD", Amount: 9.5, Unit: "MONTHLY"}}
}

// visibility is the visibility_type of a plan.
func (p *plan) visibility() string {
	switch {
	case p.orgs == nil:
		return "public"
	case p.secret():
		return "admin"
	}
	return "organization"
}

// secret tells that no organization sees the plan.
func (p *plan) secret() bool { return p.orgs != nil && len(p.orgs) == 0 }

func (p *plan) visibleIn(o *organization) bool {
	return p.orgs == nil || slices.Contains(p.orgs, o.name)
}

// shown tells whether the caller sees a plan: everybody those that are public,
// administrators all. Somebody with a role in an organization that has it sees
// it as well; Korifi hides nothing.
func (s *Simulator) shown(c *call, p *plan) bool {
	switch {
	case p.orgs == nil || s.options.Korifi:
		return true
	case c.caller == "":
		return false
	}
	return s.administrator(c) || !p.secret() && s.readable(c)
}

// visibleWhere applies the filters by space and organization. Korifi takes the
// one and does nothing with it.
func (s *Simulator) visibleWhere(c *call, p *plan) bool {
	if c.korifi {
		return true
	}
	spaces, orgs := c.wanted("space_guids"), c.wanted("organization_guids")
	inSpace := func(guid string) bool {
		sp := s.world.spaceByGUID[guid]
		return sp != nil && p.visibleIn(sp.organization)
	}
	inOrg := func(guid string) bool {
		o := s.world.organization(guid)
		return o != nil && p.visibleIn(o)
	}
	return (spaces == nil || slices.ContainsFunc(spaces, inSpace)) && (orgs == nil || slices.ContainsFunc(orgs, inOrg))
}
