package cfsim

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// handler answers one call. It does not write; errors become answers in one place.
type handler func(*call) (*answer, error)

// route is one line of the API. A segment ":guid" of the pattern matches any one segment of a path.
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

// routesOf returns the routes of a Cloud Controller, or of a Korifi.
func routesOf(o Options) []route {
	routes := slices.Concat(surroundingRoutes, serviceRoutes)
	if o.Korifi {
		routes = korifiRoutes(routes)
	}
	for i := range routes {
		routes[i].segments = segments(routes[i].pattern)
	}
	return routes
}

// surroundingRoutes are those of the UAA, of places and of people.
var surroundingRoutes = []route{
	{method: "GET", pattern: "/", access: open, handle: getRoot},
	{method: "GET", pattern: healthRoute, access: open, handle: getHealth},
	{method: "GET", pattern: "/v3", access: open, handle: getV3},
	{method: "GET", pattern: "/v3/info", access: open, handle: getInfo},
	{method: "POST", pattern: tokenRoute, access: open, handle: postToken},
	{method: "GET", pattern: tokenRoute, access: open, handle: getToken},
	{method: "GET", pattern: loginRoute, access: open, handle: getLogin},
	{method: "GET", pattern: infoRoute, access: open, handle: getLogin},
	{method: "GET", pattern: clientRoute, access: open, handle: getClient},
	{method: "GET", pattern: "/v3/organizations", handle: listOrganizations},
	{method: "POST", pattern: "/v3/organizations", handle: createOrganization},
	{method: "GET", pattern: "/v3/organizations/:guid", handle: getOrganization},
	{method: "PATCH", pattern: "/v3/organizations/:guid", handle: updateOrganization},
	{method: "GET", pattern: "/v3/spaces", handle: listSpaces},
	{method: "POST", pattern: "/v3/spaces", handle: createSpace},
	{method: "GET", pattern: "/v3/spaces/:guid", handle: getSpace},
	{method: "PATCH", pattern: "/v3/spaces/:guid", handle: updateSpace},
	{method: "DELETE", pattern: "/v3/spaces/:guid", handle: deleteSpace},
	{method: "GET", pattern: "/v3/organizations/:guid/domains", handle: listDomains},
	{method: "GET", pattern: "/v3/organizations/:guid/relationships/default_isolation_segment", handle: getIsolationSegment},
	{method: "GET", pattern: "/v3/organization_quotas/:guid", handle: getQuota},
	{method: "GET", pattern: "/v3/apps", handle: listApps},
	{method: "GET", pattern: "/v3/users", handle: listUsers},
	{method: "GET", pattern: "/v3/users/:guid", handle: getUser},
	{method: "GET", pattern: "/v3/roles", handle: listRoles},
	{method: "POST", pattern: "/v3/roles", handle: createRole},
	{method: "GET", pattern: "/v3/roles/:guid", handle: getRole},
	{method: "DELETE", pattern: "/v3/roles/:guid", handle: deleteRole},
	{method: "GET", pattern: "/v3/service_brokers", handle: listBrokers},
	{method: "GET", pattern: "/v3/service_brokers/:guid", handle: getBroker},
	{method: "GET", pattern: "/v3/feature_flags", handle: listFeatures},
	{method: "GET", pattern: "/v3/feature_flags/:guid", handle: getFeature},
	{method: "PATCH", pattern: "/v3/feature_flags/:guid", handle: updateFeature},
}

// serviceRoutes are those of the marketplace, of instances, keys and jobs.
var serviceRoutes = []route{
	{method: "GET", pattern: "/v3/service_offerings", access: optional, handle: listOfferings},
	{method: "GET", pattern: "/v3/service_offerings/:guid", access: optional, handle: getOffering},
	{method: "GET", pattern: "/v3/service_plans", access: optional, handle: listPlans},
	{method: "GET", pattern: "/v3/service_plans/:guid", access: optional, handle: getPlan},
	{method: "GET", pattern: "/v3/service_plans/:guid/visibility", handle: getPlanVisibility},

	{method: "GET", pattern: "/v3/service_instances", handle: listInstances},
	{method: "POST", pattern: "/v3/service_instances", handle: createInstance},
	{method: "GET", pattern: "/v3/service_instances/:guid", handle: getInstance},
	{method: "PATCH", pattern: "/v3/service_instances/:guid", handle: updateInstance},
	{method: "DELETE", pattern: "/v3/service_instances/:guid", handle: deleteInstance},
	{method: "GET", pattern: "/v3/service_instances/:guid/parameters", handle: getInstanceParameters},
	{method: "GET", pattern: "/v3/service_instances/:guid/permissions", handle: getPermissions},
	{method: "GET", pattern: "/v3/service_instances/:guid/relationships/shared_spaces", handle: getSharedSpaces},
	{method: "POST", pattern: "/v3/service_instances/:guid/relationships/shared_spaces", handle: shareInstance},
	{method: "DELETE", pattern: "/v3/service_instances/:guid/relationships/shared_spaces/:guid", handle: unshareInstance},
	{method: "GET", pattern: "/v3/service_instances/:guid/relationships/shared_spaces/usage_summary", handle: getUsageSummary},

	{method: "GET", pattern: "/v3/service_credential_bindings", handle: listKeys},
	{method: "POST", pattern: "/v3/service_credential_bindings", handle: createKey},
	{method: "GET", pattern: "/v3/service_credential_bindings/:guid", handle: getKey},
	{method: "PATCH", pattern: "/v3/service_credential_bindings/:guid", handle: updateKey},
	{method: "DELETE", pattern: "/v3/service_credential_bindings/:guid", handle: deleteKey},
	{method: "GET", pattern: "/v3/service_credential_bindings/:guid/details", handle: getKeyDetails},
	{method: "GET", pattern: "/v3/service_credential_bindings/:guid/parameters", handle: getKeyParameters},

	{method: "GET", pattern: "/v3/jobs/:guid", handle: getJob},
}

func segments(path string) []string {
	return strings.Split(strings.Trim(path, "/"), "/")
}

// find returns the route of a request and what is in its path for :guid. Without a route, the pattern that the request
// is counted under is still filled in.
func find(routes []route, r *http.Request) (route, []string) {
	parts := segments(r.URL.Path)
	for _, candidate := range routes {
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
