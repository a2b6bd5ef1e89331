package cfsim

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// handler answers one call. It does not write; errors become answers in one
// place.
type handler func(*call) (*answer, error)

// route is one line of the API. A segment ":guid" of the pattern matches any
// one segment of a path.
type route struct {
	method   string
	pattern  string
	segments []string
	access   access
	handle   handler
}

// access is what a route asks of the caller's token.
type access int

const (
	authenticated access = iota // a valid token
	optional                    // no token, or a valid one
	open                        // tokens are not looked at
)

func (s *Simulator) routeTable() []route {
	routes := slices.Concat(s.surroundingRoutes(), s.serviceRoutes())
	if s.options.Korifi {
		routes = s.korifiRoutes(routes)
	}
	for i := range routes {
		routes[i].segments = segments(routes[i].pattern)
	}
	return routes
}

// surroundingRoutes are those of the UAA, of places and of people.
func (s *Simulator) surroundingRoutes() []route {
	return []route{
		{method: "GET", pattern: "/", access: open, handle: s.getRoot},
		{method: "GET", pattern: healthRoute, access: open, handle: s.getHealth},
		{method: "GET", pattern: "/v3", access: open, handle: s.getV3},
		{method: "GET", pattern: "/v3/info", access: open, handle: s.getInfo},
		{method: "POST", pattern: tokenRoute, access: open, handle: s.postToken},
		{method: "GET", pattern: tokenRoute, access: open, handle: s.getToken},
		{method: "GET", pattern: loginRoute, access: open, handle: s.getLogin},
		{method: "GET", pattern: infoRoute, access: open, handle: s.getLogin},
		{method: "GET", pattern: clientRoute, access: open, handle: s.getClient},
		{method: "GET", pattern: "/v3/organizations", handle: s.listOrganizations},
		{method: "POST", pattern: "/v3/organizations", handle: s.createOrganization},
		{method: "GET", pattern: "/v3/organizations/:guid", handle: s.getOrganization},
		{method: "PATCH", pattern: "/v3/organizations/:guid", handle: s.updateOrganization},
		{method: "GET", pattern: "/v3/spaces", handle: s.listSpaces},
		{method: "POST", pattern: "/v3/spaces", handle: s.createSpace},
		{method: "GET", pattern: "/v3/spaces/:guid", handle: s.getSpace},
		{method: "PATCH", pattern: "/v3/spaces/:guid", handle: s.updateSpace},
		{method: "DELETE", pattern: "/v3/spaces/:guid", handle: s.deleteSpace},
		{method: "GET", pattern: "/v3/organizations/:guid/domains", handle: s.listDomains},
		{method: "GET", pattern: "/v3/organizations/:guid/relationships/default_isolation_segment", handle: s.getIsolationSegment},
		{method: "GET", pattern: "/v3/organization_quotas/:guid", handle: s.getQuota},
		{method: "GET", pattern: "/v3/apps", handle: s.listApps},
		{method: "GET", pattern: "/v3/users", handle: s.listUsers},
		{method: "GET", pattern: "/v3/users/:guid", handle: s.getUser},
		{method: "GET", pattern: "/v3/roles", handle: s.listRoles},
		{method: "POST", pattern: "/v3/roles", handle: s.createRole},
		{method: "GET", pattern: "/v3/roles/:guid", handle: s.getRole},
		{method: "DELETE", pattern: "/v3/roles/:guid", handle: s.deleteRole},
		{method: "GET", pattern: "/v3/service_brokers", handle: s.listBrokers},
		{method: "GET", pattern: "/v3/service_brokers/:guid", handle: s.getBroker},
		{method: "GET", pattern: "/v3/feature_flags", handle: s.listFeatures},
		{method: "GET", pattern: "/v3/feature_flags/:guid", handle: s.getFeature},
		{method: "PATCH", pattern: "/v3/feature_flags/:guid", handle: s.updateFeature},
	}
}

// serviceRoutes are those of the marketplace, of instances, keys and jobs.
func (s *Simulator) serviceRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v3/service_offerings", access: optional, handle: s.listOfferings},
		{method: "GET", pattern: "/v3/service_offerings/:guid", access: optional, handle: s.getOffering},
		{method: "GET", pattern: "/v3/service_plans", access: optional, handle: s.listPlans},
		{method: "GET", pattern: "/v3/service_plans/:guid", access: optional, handle: s.getPlan},
		{method: "GET", pattern: "/v3/service_plans/:guid/visibility", handle: s.getPlanVisibility},

		{method: "GET", pattern: "/v3/service_instances", handle: s.listInstances},
		{method: "POST", pattern: "/v3/service_instances", handle: s.createInstance},
		{method: "GET", pattern: "/v3/service_instances/:guid", handle: s.getInstance},
		{method: "PATCH", pattern: "/v3/service_instances/:guid", handle: s.updateInstance},
		{method: "DELETE", pattern: "/v3/service_instances/:guid", handle: s.deleteInstance},
		{method: "GET", pattern: "/v3/service_instances/:guid/parameters", handle: s.getInstanceParameters},
		{method: "GET", pattern: "/v3/service_instances/:guid/permissions", handle: s.getPermissions},
		{method: "GET", pattern: "/v3/service_instances/:guid/relationships/shared_spaces", handle: s.getSharedSpaces},
		{method: "POST", pattern: "/v3/service_instances/:guid/relationships/shared_spaces", handle: s.shareInstance},
		{method: "DELETE", pattern: "/v3/service_instances/:guid/relationships/shared_spaces/:guid", handle: s.unshareInstance},
		{method: "GET", pattern: "/v3/service_instances/:guid/relationships/shared_spaces/usage_summary", handle: s.getUsageSummary},

		{method: "GET", pattern: "/v3/service_credential_bindings", handle: s.listKeys},
		{method: "POST", pattern: "/v3/service_credential_bindings", handle: s.createKey},
		{method: "GET", pattern: "/v3/service_credential_bindings/:guid", handle: s.getKey},
		{method: "PATCH", pattern: "/v3/service_credential_bindings/:guid", handle: s.updateKey},
		{method: "DELETE", pattern: "/v3/service_credential_bindings/:guid", handle: s.deleteKey},
		{method: "GET", pattern: "/v3/service_credential_bindings/:guid/details", handle: s.getKeyDetails},
		{method: "GET", pattern: "/v3/service_credential_bindings/:guid/parameters", handle: s.getKeyParameters},

		{method: "GET", pattern: "/v3/jobs/:guid", handle: s.getJob},
	}
}

func segments(path string) []string {
	return strings.Split(strings.Trim(path, "/"), "/")
}

// find returns the route of a request and what is in its path for :guid. Without a
// route, the pattern that the request is counted under is still filled in.
func (s *Simulator) find(r *http.Request) (route, []string) {
	parts := segments(r.URL.Path)
	for _, candidate := range s.routes {
		if values, ok := match(candidate.segments, parts); ok && candidate.method == r.Method {
			return candidate, values
		}
	}
	return route{method: r.Method, pattern: guidPattern.ReplaceAllString(r.URL.Path, "/:guid")}, nil
}

// guidPattern finds what is a GUID in the path of an unknown route.
var guidPattern = regexp.MustCompile(`/[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)

func match(pattern, parts []string) (values []string, ok bool) {
	if len(pattern) != len(parts) {
		return nil, false
	}
	for i, segment := range pattern {
		switch {
		case segment == ":guid" && parts[i] != "":
			values = append(values, parts[i])
		case segment != parts[i]:
			return nil, false
		}
	}
	return values, true
}
