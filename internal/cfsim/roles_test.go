package cfsim

import (
	"strings"
	"testing"
)

// TestRoles gives roles, to users by name and by GUID, and has what a Cloud Controller says when it cannot find them.
func TestRoles(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	work, org := c.space("work"), c.org("ferry")
	const admin, me = `{"username":"Admin","origin":"uaa"}`, `{"guid":"me"}`
	const stranger = unprocessableText + "Users cannot be assigned roles in a space if they do not have a role in that space's organization."
	inOrg := func(user string) string { return rolePost(roleOrgUser, "organization", org, user) }
	inWork := func(kind, user string) string { return rolePost(kind, "space", work, user) }
	for _, test := range []struct{ body, want string }{
		{inOrg(admin), "201"},
		{inOrg(`{"username":"admin"}`), unprocessableText + "User 'admin' already has 'organization_user' role in organization 'ferry'."},
		{inWork("space_manager", admin), "201"},
		{inOrg(`{"username":"x"}`), unprocessableText + "No user exists with the username 'x'."},
		{inOrg(`{"username":"admin","origin":"ldap"}`), unprocessableText + "No user exists with the username 'admin' and origin 'ldap'."},
		{inWork(roleDeveloper, `{"username":"x"}`), stranger},
		{inWork(roleDeveloper, me), stranger},
		{inOrg(me), "201"},
		{inWork(roleDeveloper, me), "201"},
		{inWork(roleDeveloper, me), unprocessableText + "User 'me' already has 'space_developer' role in space 'work'."},
		{inOrg(`{"guid":"x","username":"x"}`), unprocessableText + "Username cannot be specified when identifying user by guid"},
		{inOrg(`{"guid":"x","origin":"uaa"}`), unprocessableText + "User origin cannot be specified when identifying user by guid"},
		{inOrg(`{"origin":"uaa"}`), unprocessableText + "User origin cannot be specified without specifying the username"},
		{inOrg(`{}`), unprocessableText + "User must have a username or guid specified"},
		{rolePost(roleOrgUser, "organization", "x", me), unprocessableText + "Invalid organization. Ensure that the organization exists and you have access to it."},
		{rolePost(roleDeveloper, "space", "x", me), unprocessableText + "Invalid space. Ensure that the space exists and you have access to it."},
		{inWork("king", admin), unprocessableText + `Type must be one of the allowed types ["` + strings.Join(roleKinds, `", "`) + `"]`},
	} {
		c.answers("POST", "/v3/roles", test.body, test.want)
	}
	c.must(200, "PATCH", "/v3/feature_flags/set_roles_by_username", `{"enabled":false}`)
	c.answers("POST", "/v3/roles", inWork(roleAuditor, admin), "403 330002 CF-FeatureDisabled: Feature Disabled: set_roles_by_username")
}

// TestRolesAreListedAndTaken filters roles, and takes them away in the order that a Cloud Controller wants.
func TestRolesAreListedAndTaken(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	work, org := c.space("work"), c.org("ferry")
	member := c.must(201, "POST", "/v3/roles", rolePost(roleOrgUser, "organization", org, `{"guid":"me"}`)).str("guid")
	developer := c.must(201, "POST", "/v3/roles", rolePost(roleDeveloper, "space", work, `{"guid":"me"}`)).str("guid")
	for query, wants := range map[string][]string{
		"user_guids=me": {roleOrgUser, roleDeveloper}, "space_guids=" + work: {roleDeveloper}, "organization_guids=" + org: {roleOrgUser},
		"types=space_developer": {roleDeveloper}, "guids=" + member: {roleOrgUser}, "user_guids=you": {"", ""}, "space_guids=" + org: {"", ""},
	} {
		r := c.reads("/v3/roles?include=user,space,organization&"+query, "resources.0.type="+wants[0])
		if len(wants) == 2 {
			r.reads(t, "resources.1.type="+wants[1])
		}
		if wants[0] != "" {
			r.reads(t, "included.users.0.presentation_name=me")
		}
	}
	c.answers("DELETE", "/v3/roles/"+member, "", unprocessableText+"Cannot delete organization_user role while user has roles in spaces in that organization.")
	c.job(c.accepted("DELETE", "/v3/roles/"+developer, ""), jobComplete)
	c.job(c.accepted("DELETE", "/v3/roles/"+member, ""), jobComplete)
	for _, method := range []string{"GET", "DELETE"} {
		c.answers(method, "/v3/roles/"+member, "", "404 10010 CF-ResourceNotFound: Role not found")
	}
}

// TestUsers lists them for operators; everybody else gets those with roles in what they may see.
func TestUsers(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	for query, want := range map[string]string{"": "2", "?usernames=ADMIN": "1", "?usernames=admin&origins=ldap": "0", "?guids=ferry": "1", "?usernames=ferry": "0"} {
		c.reads("/v3/users"+query, "resources.#="+want)
	}
	c.reads("/v3/users/ferry", "username=", "origin=", "presentation_name=ferry")
	c.answers("GET", "/v3/users?origins=uaa", "", "400 10005 CF-BadQueryParameter: The query parameter is invalid: Origins filter cannot be provided without usernames or partial_usernames filter.")
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	c.answers("GET", "/v3/users/"+userLogin("admin").subject, "", "404 10010 CF-ResourceNotFound: User not found")
	c.must(200, "GET", "/v3/users/ferry", "")
}

// TestSurroundings are what a client looks at around instances; service brokers are for operators only.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.must(200, "GET", "/v3/service_brokers/"+brokerGUID(), "")
	for path, want := range map[string]string{
		"organizations/x/domains": "Organization", "organization_quotas/x": "Organization quota", "organizations/x/relationships/default_isolation_segment": "Organization",
	} {
		c.answers("GET", "/v3/"+path, "", "404 10010 CF-ResourceNotFound: "+want+" not found")
	}
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	c.answers("GET", "/v3/service_brokers/"+brokerGUID(), "", "404 10010 CF-ResourceNotFound: Service broker not found")
	c.lists("/v3/service_brokers", "")
	c.token = ""
	c.must(401, "GET", strings.ReplaceAll(clientRoute, ":guid", "ferry"), "").reads(t, "error=unauthorized")
	c.must(200, "GET", loginRoute, "")
	c.must(200, "GET", infoRoute, "")
	browser := c.request("GET", loginRoute, "")
	browser.Header.Set("Accept", "text/html,application/xhtml+xml")
	if got := c.send(browser).header.Get("Content-Type"); got != "text/html;charset=UTF-8" {
		t.Errorf("a browser gets %q", got)
	}
}
