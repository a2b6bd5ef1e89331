package cfsim

import (
	"net/http"
	"time"
)

type organization struct {
	guid, name string
	created    time.Time
	updated    time.Time
	metadata   metadata
}

type organizationView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Name          string           `json:"name"`
	Suspended     bool             `json:"suspended"`
	Relationships map[string]toOne `json:"relationships"`
	Metadata      metadata         `json:"metadata"`
	Links         map[string]link  `json:"links"`
}

// toOne is a relationship to one resource; without one, data is null.
type toOne struct {
	Data *guidRef `json:"data"`
}

type guidRef struct {
	GUID string `json:"guid"`
}

func related(guid string) toOne { return toOne{&guidRef{guid}} }

func (o *organization) sortKeys() sortKeys { return sortKeys{o.name, o.updated} }

func (w *world) addOrganization(name string, now time.Time) *organization {
	guid := unusedGUID("organization", name, 0, func(guid string) bool { return w.organization(guid) != nil })
	o := &organization{guid: guid, name: name, created: now, updated: now}
	w.organizations = append(w.organizations, o)
	return o
}

func (w *world) organizationNamed(name string) *organization {
	for _, o := range w.organizations {
		if w.names.places.same(o.name, name) {
			return o
		}
	}
	return nil
}

func (w *world) organization(guid string) *organization {
	for _, o := range w.organizations {
		if o.guid == guid {
			return o
		}
	}
	return nil
}

func (s *Simulator) organizationView(c *call) func(*organization) organizationView {
	return func(o *organization) organizationView {
		v := c.organizationView(o)
		v.Suspended = s.conditions.Suspended[o.name]
		return v
	}
}

func (c *call) organizationView(o *organization) organizationView {
	self := c.base + "/v3/organizations/" + o.guid
	return organizationView{
		GUID: o.guid, Name: o.name, CreatedAt: timestamp(o.created), UpdatedAt: timestamp(o.updated),
		Metadata:      o.metadata,
		Relationships: map[string]toOne{"quota": related(quotaGUID())},
		Links: map[string]link{
			"self": {Href: self}, "domains": {Href: self + "/domains"}, "default_domain": {Href: self + "/domains/default"},
			"quota": {Href: c.base + "/v3/organization_quotas/" + quotaGUID()},
		},
	}
}

func (s *Simulator) listOrganizations(c *call) (*answer, error) {
	if err := c.allow("names", "guids", "page", "per_page", "order_by", "label_selector"); err != nil {
		return nil, err
	}
	names, guids := c.wanted("names"), c.wanted("guids")
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[organizationView], error) {
		found := passing(s.world.organizations, func(o *organization) bool {
			return s.readable(c) && c.names.places.passes(names, o.name) && passes(guids, o.guid) && labels.matches(o.metadata.Labels)
		})
		return takePage(c, found, (*organization).sortKeys, s.organizationView(c), nil)
	})
}

func (s *Simulator) getOrganization(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.world.organization(c.guid)
	if o == nil || !s.readable(c) {
		return nil, notFound("Organization")
	}
	return jsonAnswer(http.StatusOK, s.organizationView(c)(o))
}

func (s *Simulator) createOrganization(c *call) (*answer, error) {
	m, err := c.message("name", "suspended", "metadata")
	if err != nil {
		return nil, err
	}
	name := m.name(false)
	if err := m.problem(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.administrator(c) {
		return nil, notAuthorized()
	}
	if s.world.organizationNamed(name) != nil {
		return nil, unprocessable("Organization '" + name + "' already exists.")
	}
	o := s.world.addOrganization(name, s.options.Now())
	return jsonAnswer(http.StatusCreated, c.organizationView(o))
}
