package cfsim

import (
	"net/http"
	"slices"
)

func (s *Simulator) listRoles(c *call) (*answer, error) {
	params := []string{"guids", "types", "user_guids", "space_guids", "organization_guids", "include", "page", "per_page", "order_by"}
	if err := c.allow(slices.Concat(params, timeParams())...); err != nil {
		return nil, err
	}
	inTime, err := c.timeFilter()
	if err != nil {
		return nil, err
	}
	extra, err := s.includedByRoles(c)
	if err != nil {
		return nil, err
	}
	guids, kinds, users := c.wanted("guids"), c.wanted("types"), c.wanted("user_guids")
	spaces, orgs := c.wanted("space_guids"), c.wanted("organization_guids")
	return listed(s, func() (*listPage[roleView], error) {
		found := passing(s.roles(), func(r *role) bool {
			return s.readable(c) && passes(guids, r.guid) && passes(kinds, r.kind) && passes(users, r.user) && inTime(r.created, r.created) &&
				(spaces == nil || inSpace(r.kind) && passes(spaces, r.place)) && (orgs == nil || !inSpace(r.kind) && passes(orgs, r.place))
		})
		return takePage(c, found, (*role).sortKeys, c.roleView, extra)
	})
}

// includedByRoles reads the include parameter of roles.
func (s *Simulator) includedByRoles(c *call) (func([]*role) map[string]included, error) {
	asked := c.wanted("include")
	for _, name := range asked {
		if !slices.Contains([]string{"user", "space", "organization"}, name) {
			return nil, badQuery("Invalid included resource: '" + name + "'. Valid included resources are: 'user', 'organization', 'space'")
		}
	}
	if asked == nil {
		return nil, nil
	}
	return func(roles []*role) map[string]included {
		result := map[string]included{}
		if slices.Contains(asked, "user") {
			result["users"] = distinct(roles, func(r *role) *user { return s.world.user(r.user) }, c.userView)
		}
		in := func(space bool) []*role {
			return passing(roles, func(r *role) bool { return inSpace(r.kind) == space })
		}
		if slices.Contains(asked, "space") {
			result["spaces"] = distinct(in(true), func(r *role) *space { return s.world.spaceByGUID[r.place] }, s.spaceView(c))
		}
		if slices.Contains(asked, "organization") {
			result["organizations"] = distinct(in(false), func(r *role) *organization { return s.world.organization(r.place) }, s.organizationView(c))
		}
		return result
	}, nil
}

func (s *Simulator) getRole(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.roleByGUID(c)
	if r == nil {
		return nil, notFound("Role")
	}
	return jsonAnswer(http.StatusOK, c.roleView(r))
}

func (s *Simulator) roleByGUID(c *call) *role {
	at := slices.IndexFunc(s.roles(), func(r *role) bool { return r.guid == c.guid })
	if at < 0 || !s.readable(c) {
		return nil
	}
	return s.roles()[at]
}

// deleteRole takes a role away, by a job. One that a permission of the control
// stands for stays.
func (s *Simulator) deleteRole(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.roleByGUID(c)
	switch {
	case r == nil:
		return nil, notFound("Role")
	case !s.manager(c):
		return nil, notAuthorized()
	case r.kind == roleOrgUser && s.hasSpaceRole(r.user, r.place):
		return nil, unprocessable("Cannot delete organization_user role while user has roles in spaces in that organization.")
	}
	j := s.newJob(jobDeleteRole, r.guid)
	s.queueStep(j, func() {
		delete(s.world.roles, r.roleName)
		j.set(jobComplete, s.options.Now())
	})
	return jobAnswer(c.base, j), nil
}

func (s *Simulator) hasSpaceRole(userGUID, org string) bool {
	return slices.ContainsFunc(s.roles(), func(r *role) bool {
		sp := s.world.spaceByGUID[r.place]
		return r.user == userGUID && sp != nil && sp.organization.guid == org
	})
}
