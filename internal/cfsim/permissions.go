package cfsim

import (
	"net/http"
	"slices"
	"strings"
)

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

// The feature flags that mean something here.
const (
	featureInstances = "service_instance_creation" // lets people create instances
	featureSharing   = "service_instance_sharing"  // lets them share instances
	featureUsernames = "set_roles_by_username"     // lets them name users instead of giving GUIDs
)

// featureDefaults are all flags of a Cloud Controller, and what they are
// unless somebody has changed them.
func featureDefaults() map[string]bool {
	return map[string]bool{
		"app_bits_upload": true, "app_scaling": true, "diego_cnb": false, "diego_docker": false, "env_var_visibility": true,
		"hide_marketplace_from_unauthenticated_users": false, "private_domain_creation": true, "resource_matching": true,
		"route_creation": true, "route_sharing": false, featureInstances: true, featureSharing: false, featureUsernames: true,
		"space_developer_env_var_visibility": true, "space_scoped_private_broker_creation": true, "task_creation": true,
		"unset_roles_by_username": true, "user_org_creation": false,
	}
}

// featureOn refuses what a feature flag forbids. Administrators are exempt from
// all but sharing.
func (s *Simulator) featureOn(c *call, feature string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.featureAllows(c, feature)
}

// featureAllows is featureOn for a caller that holds s.mu.
func (s *Simulator) featureAllows(c *call, feature string) error {
	exempt := feature != featureSharing && s.permission(c) == permitAdmin
	if exempt || s.conditions.enabled(feature) {
		return nil
	}
	detail := "Feature Disabled: " + feature
	if message := s.conditions.FeaturesOff[feature]; message != nil && *message != "" {
		detail = "Feature Disabled: " + *message
	}
	return failure(http.StatusForbidden, 330002, "CF-FeatureDisabled", detail)
}

// enabled tells what a flag is, operators' changes included.
func (c *conditions) enabled(feature string) bool {
	if _, off := c.FeaturesOff[feature]; off {
		return false
	}
	return c.FeaturesOn[feature] || featureDefaults()[feature]
}

type featureView struct {
	Name        string          `json:"name"`
	Enabled     bool            `json:"enabled"`
	UpdatedAt   *string         `json:"updated_at"`
	CustomError *string         `json:"custom_error_message"`
	Links       map[string]link `json:"links"`
}

func (s *Simulator) featureView(c *call) func(string) featureView {
	return func(name string) featureView {
		v := featureView{Name: name, Enabled: s.conditions.enabled(name), Links: map[string]link{"self": {Href: c.base + "/v3/feature_flags/" + name}}}
		if message := s.conditions.FeaturesOff[name]; message != nil && *message != "" {
			v.CustomError = message
		}
		return v
	}
}

func (s *Simulator) listFeatures(c *call) (*answer, error) {
	if err := c.allow("page", "per_page", "order_by", "updated_ats"); err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[featureView], error) {
		var names []string
		for name := range featureDefaults() {
			names = append(names, name)
		}
		slices.Sort(names)
		return takePage(c, names, func(name string) sortKeys { return sortKeys{name: name} }, s.featureView(c), nil)
	})
}

func (s *Simulator) getFeature(c *call) (*answer, error) {
	if _, known := featureDefaults()[c.guid]; !known {
		return nil, notFound("Feature flag")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return jsonAnswer(http.StatusOK, s.featureView(c)(c.guid))
}

// updateFeature turns a flag on or off; only operators may.
func (s *Simulator) updateFeature(c *call) (*answer, error) {
	if _, known := featureDefaults()[c.guid]; !known {
		return nil, notFound("Feature flag")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.administrator(c) {
		return nil, notAuthorized()
	}
	m, err := c.message("enabled", "custom_error_message")
	if err != nil {
		return nil, err
	}
	enabled := m.truth("enabled")
	if err := m.problem(); err != nil {
		return nil, err
	}
	var message string
	if m.has("custom_error_message") && !none(m.fields["custom_error_message"]) {
		message = m.text("custom_error_message")
	}
	if err := m.problem(); err != nil {
		return nil, err
	}
	delete(s.conditions.FeaturesOff, c.guid)
	s.conditions.FeaturesOn[c.guid] = *enabled
	if !*enabled {
		s.conditions.FeaturesOff[c.guid] = &message
	}
	return jsonAnswer(http.StatusOK, s.featureView(c)(c.guid))
}

// meaningfulFeatures are those that the control may turn on and off.
func meaningfulFeatures() []string {
	return []string{featureInstances, featureSharing, featureUsernames}
}

func checkFeature(name string) error {
	if slices.Contains(meaningfulFeatures(), name) {
		return nil
	}
	return refusedControl(http.StatusBadRequest, "The feature %q means nothing here; %s do.", name, strings.Join(meaningfulFeatures(), ", "))
}
