package cfsim

import (
	"maps"
	"net/http"
	"slices"
)

// permission is what a login may do. Without one it may do everything, but is bound by feature flags and suspensions
// like everybody else.
type permission string

const (
	permitAdmin      permission = "admin"           // everything, always
	permitOrgManager permission = "org_manager"     // makes spaces; changes what is in those where it is a developer
	permitDeveloper  permission = "space_developer" // changes what is in spaces; makes none
	permitAuditor    permission = "space_auditor"   // reads, credentials aside
	permitNothing    permission = "none"            // sees no organization and no space
)

// permission is the caller's.
func (c *call) permission() permission {
	name := c.caller
	if name == userLogin("admin").subject {
		name = "admin"
	}
	return c.conditions.Permissions[name]
}

// readable tells whether the caller sees what is in spaces.
func (c *call) readable() bool { return c.permission() != permitNothing }

// developer tells whether the caller may change what is in a space, and see credentials.
func (c *call) developer(sp *space) bool {
	switch c.permission() {
	case permitNothing, permitAuditor:
		return false
	case permitOrgManager:
		_, granted := c.database.roles[roleName{"space_developer", c.caller, sp.guid}]
		return granted
	default:
		return true
	}
}

// manager tells whether the caller may make spaces and give roles.
func (c *call) manager() bool {
	switch c.permission() {
	case permitNothing, permitAuditor, permitDeveloper:
		return false
	default:
		return true
	}
}

// administrator tells whether the caller may do what only operators may.
func (c *call) administrator() bool {
	held := c.permission()
	return held == "" || held == permitAdmin
}

// writable refuses changes in a space by those who may not, and by everybody but administrators while it is suspended.
func (c *call) writable(sp *space) error {
	switch {
	case !c.developer(sp):
		return notAuthorized()
	case c.permission() == permitAdmin:
		return nil
	case c.conditions.Suspended[sp.organization.name]:
		return orgSuspended()
	case c.conditions.Suspended[sp.place()]:
		return spaceSuspended()
	}
	return nil
}

// getPermissions tells what the caller may do with an instance.
func getPermissions(c *call) (*answer, error) {
	i, err := c.instance()
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, map[string]bool{"manage": c.developer(i.space), "read": true}), nil
}

// The feature flags that mean something here.
const (
	featureInstances = "service_instance_creation" // lets people create instances
	featureSharing   = "service_instance_sharing"  // lets them share instances
	featureUsernames = "set_roles_by_username"     // lets them name users instead of giving GUIDs
)

// meaningfulFeatures are those that the control may turn on and off.
var meaningfulFeatures = []string{featureInstances, featureSharing, featureUsernames}

// featureDefaults are all flags of a Cloud Controller, and what they are unless somebody has changed them.
var featureDefaults = map[string]bool{
	"app_bits_upload": true, "app_scaling": true, "diego_cnb": false, "diego_docker": false, "env_var_visibility": true,
	"hide_marketplace_from_unauthenticated_users": false, "private_domain_creation": true, "resource_matching": true,
	"route_creation": true, "route_sharing": false, featureInstances: true, featureSharing: false, featureUsernames: true,
	"space_developer_env_var_visibility": true, "space_scoped_private_broker_creation": true, "task_creation": true,
	"unset_roles_by_username": true, "user_org_creation": false,
}

// featureAllows refuses what a feature flag forbids. Administrators are exempt from all but sharing.
func (c *call) featureAllows(feature string) error {
	exempt := feature != featureSharing && c.permission() == permitAdmin
	if exempt || c.conditions.enabled(feature) {
		return nil
	}
	detail := "Feature Disabled: " + feature
	if message := c.conditions.FeaturesOff[feature]; message != nil && *message != "" {
		detail = "Feature Disabled: " + *message
	}
	return failure(http.StatusForbidden, 330002, "CF-FeatureDisabled", detail)
}

// enabled tells what a flag is, operators' changes included.
func (c *conditions) enabled(feature string) bool {
	if _, off := c.FeaturesOff[feature]; off {
		return false
	}
	return c.FeaturesOn[feature] || featureDefaults[feature]
}

// featureFlag is a row of the list of flags: a name.
type featureFlag string

func (f featureFlag) sortKeys() sortKeys { return sortKeys{name: string(f)} }

type featureView struct {
	Name        string          `json:"name"`
	Enabled     bool            `json:"enabled"`
	UpdatedAt   *string         `json:"updated_at"`
	CustomError *string         `json:"custom_error_message"`
	Links       map[string]link `json:"links"`
}

func (f featureFlag) view(c *call) featureView {
	name := string(f)
	v := featureView{Name: name, Enabled: c.conditions.enabled(name), Links: map[string]link{"self": {Href: c.base + "/v3/feature_flags/" + name}}}
	if message := c.conditions.FeaturesOff[name]; message != nil && *message != "" {
		v.CustomError = message
	}
	return v
}

func listFeatures(c *call) (*answer, error) {
	c.query.allow("page", "per_page", "order_by", "updated_ats")
	var flags []featureFlag
	for _, name := range slices.Sorted(maps.Keys(featureDefaults)) {
		flags = append(flags, featureFlag(name))
	}
	return listed(c, flags, featureFlag.view, nil)
}

func getFeature(c *call) (*answer, error) {
	if _, known := featureDefaults[c.guid]; !known {
		return nil, notFound("Feature flag")
	}
	return jsonAnswer(http.StatusOK, featureFlag(c.guid).view(c)), nil
}

// updateFeature turns a flag on or off; only operators may.
func updateFeature(c *call) (*answer, error) {
	if _, known := featureDefaults[c.guid]; !known {
		return nil, notFound("Feature flag")
	}
	if !c.administrator() {
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
	delete(c.conditions.FeaturesOff, c.guid)
	c.conditions.FeaturesOn[c.guid] = *enabled
	if !*enabled {
		c.conditions.FeaturesOff[c.guid] = &message
	}
	return jsonAnswer(http.StatusOK, featureFlag(c.guid).view(c)), nil
}
