package cfsim

import (
	"strings"
	"testing"
)

// TestRolesByName names users, and what a Cloud Controller says when it cannot
// find them.
func TestRolesByName(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	work, org := c.space("work"), c.org("ferry")
	const admin = `{"username":"Admin","origin":"uaa"}`
	stranger := unprocessableText + "Users cannot be assigned roles in a space if they do not have a role in that space's organization."
	tests := []struct{ name, body, want string }{
		{"a name", rolePost(roleOrgUser, "organization", org, admin), "201"},
		{"twice", rolePost(roleOrgUser, "organization", org, `{"username":"admin"}`), unprocessableText + "User 'admin' already has 'organization_user' role in organization 'ferry'."},
		{"in a space", rolePost("space_manager", "space", work, admin), "201"},
		{"nobody", rolePost(roleOrgUser, "organization", org, `{"username":"x"}`), unprocessableText + "No user exists with the username 'x'."},
		{"nobody there", rolePost(roleOrgUser, "organization", org, `{"username":"admin","origin":"ldap"}`), unprocessableText + "No user exists with the username 'admin' and origin 'ldap'."},
		{"nobody in a space", rolePost(roleDeveloper, "space", work, `{"username":"x"}`), stranger},
		{"an unknown GUID in a space", rolePost(roleDeveloper, "space", work, `{"guid":"x"}`), stranger},
		{"both", rolePost(roleOrgUser, "organization", org, `{"guid":"x","username":"x"}`), unprocessableText + "Username cannot be specified when identifying user by guid"},
		{"an origin with a GUID", rolePost(roleOrgUser, "organization", org, `{"guid":"x","origin":"uaa"}`), unprocessableText + "User origin cannot be specified when identifying user by guid"},
		{"an origin alone", rolePost(roleOrgUser, "organization", org, `{"origin":"uaa"}`), unprocessableText + "User origin cannot be specified without specifying the username"},
		{"neither", rolePost(roleOrgUser, "organization", org, `{}`), unprocessableText + "User must have a username or guid specified"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { checkAnswer(t, c.do("POST", "/v3/roles", test.body), test.want) })
	}
	if r := c.do("POST", "/v3/roles", rolePost("king", "space", work, admin)); !strings.Contains(r.cfErr(), "Type must be one of the allowed types") {
		t.Errorf("an unknown type: %s", r.body)
	}
	c.must(200, "PATCH", "/v3/feature_flags/set_roles_by_username", `{"enabled":false}`)
	checkAnswer(t, c.do("POST", "/v3/roles", rolePost("space_auditor", "space", work, admin)), "403 330002 CF-FeatureDisabled: Feature Disabled: set_roles_by_username")
}

// TestRolesAreListedAndTaken filters roles, and takes them away in the order
// that a Cloud Controller wants.
func TestRolesAreListedAndTaken(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	work, org := c.space("work"), c.org("ferry")
	member := c.must(201, "POST", "/v3/roles", rolePost(roleOrgUser, "organization", org, `{"guid":"me"}`)).str("guid")
	developer := c.must(201, "POST", "/v3/roles", rolePost(roleDeveloper, "space", work, `{"guid":"me"}`)).str("guid")
	for query, want := range map[string]string{
		"user_guids=me": roleOrgUser + " " + roleDeveloper, "space_guids=" + work: roleDeveloper, "organization_guids=" + org: roleOrgUser,
		"types=space_developer": roleDeveloper, "guids=" + member: roleOrgUser, "user_guids=you": "", "space_guids=" + org: "",
	} {
		r := c.must(200, "GET", "/v3/roles?include=user,space,organization&"+query, "")
		var kinds []string
		for i := 0; r.at("resources", i) != nil; i++ {
			kinds = append(kinds, r.str("resources", i, "type"))
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
		if want != "" && r.str("included", "users", 0, "presentation_name") != "me" {
			t.Errorf("%s: %s", query, r.body)
		}
	}
	checkAnswer(t, c.do("DELETE", "/v3/roles/"+member, ""), unprocessableText+"Cannot delete organization_user role while user has roles in spaces in that organization.")
	c.job(c.must(202, "DELETE", "/v3/roles/"+developer, "").header.Get("Location"), jobComplete)
	c.job(c.must(202, "DELETE", "/v3/roles/"+member, "").header.Get("Location"), jobComplete)
	checkAnswer(t, c.do("GET", "/v3/roles/"+member, ""), "404 10010 CF-ResourceNotFound: Role not found")
	checkAnswer(t, c.do("DELETE", "/v3/roles/"+member, ""), "404 10010 CF-ResourceNotFound: Role not found")
}

// TestUsers lists them for operators; everybody else sees those with roles in
// what they see.
func TestUsers(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	admin := userLogin("admin").subject
	for query, want := range map[string]string{"": "2", "?usernames=ADMIN": "1", "?usernames=admin&origins=ldap": "0", "?guids=ferry": "1", "?usernames=ferry": "0"} {
		if r := c.must(200, "GET", "/v3/users"+query, ""); (&cli{cloud: c}).dotted(r, "resources.#") != want {
			t.Errorf("users%s: %s, want %s", query, r.body, want)
		}
	}
	if r := c.must(200, "GET", "/v3/users/ferry", ""); r.at("username") != nil || r.at("origin") != nil || r.str("presentation_name") != "ferry" {
		t.Errorf("the client %s", r.body)
	}
	checkAnswer(t, c.do("GET", "/v3/users?origins=uaa", ""), "400 10005 CF-BadQueryParameter: The query parameter is invalid: Origins filter cannot be provided without usernames or partial_usernames filter.")
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	checkAnswer(t, c.do("GET", "/v3/users/"+admin, ""), "404 10010 CF-ResourceNotFound: User not found")
	c.must(200, "GET", "/v3/users/ferry", "")
}

// TestSurroundings are what a client looks at around instances; service brokers
// are for operators only.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.must(200, "GET", "/v3/service_brokers/"+brokerGUID(), "")
	for path, want := range map[string]string{
		"/v3/organizations/x/domains": "404 10010 CF-ResourceNotFound: Organization not found", "/v3/organization_quotas/x": "404 10010 CF-ResourceNotFound: Organization quota not found",
		"/v3/organizations/x/relationships/default_isolation_segment": "404 10010 CF-ResourceNotFound: Organization not found",
	} {
		checkAnswer(t, c.do("GET", path, ""), want)
	}
	c.conditions(`{"permissions":{"ferry":"space_developer"}}`)
	checkAnswer(t, c.do("GET", "/v3/service_brokers/"+brokerGUID(), ""), "404 10010 CF-ResourceNotFound: Service broker not found")
	if r := c.must(200, "GET", "/v3/service_brokers", ""); len(r.names()) != 0 {
		t.Errorf("brokers %s", r.body)
	}
	c.token = ""
	for path, want := range map[string]string{clientRoute: "unauthorized", loginRoute: "", infoRoute: ""} {
		r := c.do("GET", strings.ReplaceAll(path, ":guid", "ferry"), "")
		if r.str("error") != want || (r.status == 200) != (want == "") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	browser := c.request("GET", loginRoute, "")
	browser.Header.Set("Accept", "text/html,application/xhtml+xml")
	if got := c.send(browser).header.Get("Content-Type"); got != "text/html;charset=UTF-8" {
		t.Errorf("a browser gets %q", got)
	}
}
