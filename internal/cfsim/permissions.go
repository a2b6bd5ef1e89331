package cfsim

import "net/http"

// permission is what a login may do. Without one it may do everything, but is
// bound by feature flags and suspensions like everybody else.
type permission string

const (
	permitAdmin      permission = "admin"           // everything, always
	permitOrgManager permission = "org_manager"     // makes spaces; changes what is in those where it is a developer
	permitDeveloper  permission = "space_developer" // changes what is in spaces; makes none
	permitAuditor    permission = "space_auditor"   // reads, credentials aside
	permitNothing    permission = "none"            // sees no organization and no space
)

// permission of the caller; the caller of the function holds s.mu.
func (s *Simulator) permission(c *call) permission {
	name := c.caller
	if name == userLogin("admin").subject {
		name = "admin"
	}
	return s.conditions.Permissions[name]
}

// readable tells whether the caller sees what is in spaces.
func (s *Simulator) readable(c *call) bool { return s.permission(c) != permitNothing }

// developer tells whether the caller may change what is in a space, and see
// credentials.
func (s *Simulator) developer(c *call, sp *space) bool {
	switch s.permission(c) {
	case permitNothing, permitAuditor:
		return false
	case permitOrgManager:
		_, granted := s.world.roles[roleName{"space_developer", c.caller, sp.guid}]
		return granted
	default:
		return true
	}
}

// manager tells whether the caller may make spaces and give roles.
func (s *Simulator) manager(c *call) bool {
	switch s.permission(c) {
	case permitNothing, permitAuditor, permitDeveloper:
		return false
	default:
		return true
	}
}

// administrator tells whether the caller may do what only operators may.
func (s *Simulator) administrator(c *call) bool {
	held := s.permission(c)
	return held == "" || held == permitAdmin
}

func notAuthorized() *apiError {
	return failure(http.StatusForbidden, 10003, "CF-NotAuthorized", "You are not authorized to perform the requested action")
}

// writable refuses changes in a space by those who may not, and by everybody
// but administrators while it is suspended.
func (s *Simulator) writable(c *call, sp *space) error {
	switch {
	case !s.developer(c, sp):
		return notAuthorized()
	case s.permission(c) == permitAdmin:
		return nil
	case s.conditions.Suspended[sp.organization.name]:
		return failure(http.StatusForbidden, 10017, "CF-OrgSuspended", "The organization is suspended")
	case s.conditions.Suspended[sp.place()]:
		return failure(http.StatusForbidden, 10019, "CF-SpaceSuspended", "The space is suspended")
	}
	return nil
}

// instance returns the row of a call that its caller may read.
func (s *Simulator) instance(c *call) (*instance, error) {
	i := s.world.instances.get(c.guid)
	if i == nil || !s.readable(c) {
		return nil, notFound("Service instance")
	}
	return i, nil
}

// instanceToChange returns the row of a call that its caller may change.
func (s *Simulator) instanceToChange(c *call) (*instance, error) {
	i, err := s.instance(c)
	if err != nil {
		return nil, err
	}
	return i, s.writable(c, i.space)
}

// keyToChange returns the row of a call that its caller may change.
func (s *Simulator) keyToChange(c *call) (*key, error) {
	k, err := s.key(c)
	if err != nil {
		return nil, err
	}
	return k, s.writable(c, k.instance.space)
}

// getPermissions tells what the caller may do with an instance.
func (s *Simulator) getPermissions(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.instance(c)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, map[string]bool{"manage": s.developer(c, i.space), "read": true})
}
