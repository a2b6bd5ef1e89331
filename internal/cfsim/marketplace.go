package cfsim

import (
	"slices"
	"strconv"
)

// offering is a row of the marketplace.
type offering struct {
	spec      *offeringSpec
	guid      string
	catalogID string
	plans     []*plan
	shareable bool // instances can be shared
}

// plan is a row of the marketplace.
type plan struct {
	spec      planSpec // a copy: the version changes
	offering  *offering
	guid      string
	catalogID string
	hidden    bool
	paid      bool
	orgs      []string // that see it; nil is everybody, empty nobody but operators
	instances int      // how many have this plan
}

func (o *offering) sortKeys() sortKeys { return sortKeys{name: o.spec.name} }

func (p *plan) sortKeys() sortKeys { return sortKeys{name: p.spec.name} }

// active tells whether the backing broker's catalog has the plan.
func (p *plan) active() bool { return !p.hidden }

// listed tells whether the Cloud Controller still has the row: one that has
// left the catalog stays while instances use it.
func (p *plan) listed() bool { return p.active() || p.instances > 0 }

func (p *plan) bindable() bool { return p.offering.spec.bindable && !p.spec.notBindable }

func (o *offering) active() bool { return slices.ContainsFunc(o.plans, (*plan).active) }

func (o *offering) listed() bool { return slices.ContainsFunc(o.plans, (*plan).listed) }

// marketplace are the rows made from the backing broker's catalog.
type marketplace struct {
	registrations int
	offerings     []*offering
	plans         map[string]*plan // by GUID
}

func newMarketplace() *marketplace {
	m := &marketplace{}
	for _, spec := range catalog() {
		o := &offering{spec: &spec, catalogID: fixedGUID("catalog service", spec.name)}
		for _, planSpec := range spec.plans {
			id := fixedGUID("catalog plan", spec.name+"/"+planSpec.name)
			o.plans = append(o.plans, &plan{spec: planSpec, offering: o, catalogID: id})
		}
		m.offerings = append(m.offerings, o)
	}
	m.register()
	return m
}

// register gives all rows GUIDs, which depend on names and on how many
// registrations there were before. Instances keep their plans.
func (m *marketplace) register() {
	suffix := ""
	if m.registrations > 0 {
		suffix = "#" + strconv.Itoa(m.registrations)
	}
	m.registrations++
	m.plans = map[string]*plan{}
	for _, o := range m.offerings {
		o.guid = fixedGUID("offering", o.spec.name+suffix)
		for _, p := range o.plans {
			p.guid = fixedGUID("plan", o.spec.name+"/"+p.spec.name+suffix)
			m.plans[p.guid] = p
		}
	}
}

// offering returns one by name, nil when there is none.
func (m *marketplace) offering(name string) *offering {
	for _, o := range m.offerings {
		if o.spec.name == name {
			return o
		}
	}
	return nil
}

// plan returns a plan by "offering/plan", nil when there is none.
func (m *marketplace) plan(name string) *plan {
	for _, p := range m.plans {
		if p.offering.spec.name+"/"+p.spec.name == name {
			return p
		}
	}
	return nil
}

// forgetInstances makes rows vanish that were only kept for instances.
func (m *marketplace) forgetInstances() {
	for _, p := range m.plans {
		p.instances = 0
	}
}
