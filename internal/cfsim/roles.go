package cfsim

import (
	"net/http"
	"strings"
)

// roleName is what a role may exist once for.
type roleName struct {
	kind, user, place string
}

type roleView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Type          string           `json:"type"`
	Relationships map[string]toOne `json:"relationships"`
	Links         map[string]link  `json:"links"`
}

// createRole remembers a role. That of a space developer counts for a login that
// the control has made an organization manager.
func (s *Simulator) createRole(c *call) (*answer, error) {
	m, err := c.message("type", "relationships")
	if err != nil {
		return nil, err
	}
	kind, user := m.text("type"), m.relationship("user", "User", true)
	isSpace := strings.HasPrefix(kind, "space_")
	placeKind := "organization"
	if isSpace {
		placeKind = "space"
	} else if !strings.HasPrefix(kind, "organization_") {
		m.refuse("Type must be one of the allowed types")
	}
	place := m.relationship(placeKind, strings.ToUpper(placeKind[:1])+placeKind[1:], true)
	if err := m.problem(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.manager(c) {
		return nil, notAuthorized()
	}
	where, err := s.rolePlace(isSpace, place)
	if err != nil {
		return nil, err
	}
	id := roleName{kind, user, place}
	if _, exists := s.world.roles[id]; exists {
		return nil, unprocessable("User '" + user + "' already has '" + kind + "' role in " + where + ".")
	}
	role := s.random.guid()
	s.world.roles[id] = role
	now := timestamp(s.options.Now())
	return jsonAnswer(http.StatusCreated, roleView{
		GUID: role, CreatedAt: now, UpdatedAt: now, Type: kind,
		Relationships: map[string]toOne{"user": related(user), placeKind: related(place)},
		Links:         map[string]link{"self": {Href: c.base + "/v3/roles/" + role}},
	})
}

func (s *Simulator) rolePlace(isSpace bool, guid string) (string, error) {
	if isSpace {
		if sp := s.world.spaceByGUID[guid]; sp != nil {
			return "space '" + sp.name + "'", nil
		}
		return "", unprocessable("Invalid space. Ensure that the space exists and you have access to it.")
	}
	if o := s.world.organization(guid); o != nil {
		return "organization '" + o.name + "'", nil
	}
	return "", unprocessable("Invalid organization. Ensure the organization exists and you have access to it.")
}
