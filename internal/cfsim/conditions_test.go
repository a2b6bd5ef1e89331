package cfsim

import (
	"net/url"
	"strings"
	"testing"
)

func TestConditionsOfCreate(t *testing.T) {
	t.Parallel()
	each(t, idle(), map[string]struct{ change, market, want string }{
		"the organization is full":   {`{"quota":{"ferry":{"instances":1}}}`, ``, unprocessableText + "You have exceeded your organization's services limit."},
		"the space is full":          {`{"quota":{"ferry/work":{"instances":1},"ferry":{"instances":1}}}`, ``, unprocessableText + "You have exceeded your space's services limit."},
		"there is room":              {`{"quota":{"ferry/work":{"instances":2}}}`, ``, "202"},
		"no paid plans in the org":   {`{"quota":{"ferry":{"paid":false}}}`, `{"paid":["postgres/small"]}`, unprocessableText + "The service instance cannot be created because paid service plans are not allowed."},
		"no paid plans in the space": {`{"quota":{"ferry/work":{"paid":false}}}`, `{"paid":["postgres/small"]}`, unprocessableText + "The service instance cannot be created because paid service plans are not allowed for your space."},
		"a free plan all the same":   {`{"quota":{"ferry":{"paid":false}}}`, `{"paid":["postgres/small"],"free":["postgres/small"]}`, "202"},
		"the feature is off":         {`{"features_off":{"service_instance_creation":""}}`, ``, "403 330002 CF-FeatureDisabled: Feature Disabled: service_instance_creation"},
		"the feature is off, with a message": {`{"features_off":{"service_instance_creation":"closed in May"}}`, ``,
			"403 330002 CF-FeatureDisabled: Feature Disabled: closed in May"},
		"the feature is off, for an administrator": {`{"features_off":{"service_instance_creation":""},"permissions":{"ferry":"admin"}}`, ``, "202"},
		"the organization is suspended":            {`{"suspended":{"ferry":true}}`, ``, "403 10017 CF-OrgSuspended: The organization is suspended"},
		"the space is suspended":                   {`{"suspended":{"ferry/work":true}}`, ``, "403 10019 CF-SpaceSuspended: The space is suspended"},
		"suspended, for an administrator":          {`{"suspended":{"ferry":true},"permissions":{"ferry":"admin"}}`, ``, "202"},
		"the organization is being deleted":        {`{"deleting":{"ferry":true}}`, ``, "422 10020 CF-ResourceBeingDeleted: The organization is being deleted"},
		"the space is being deleted":               {`{"deleting":{"ferry/work":true}}`, ``, "422 10020 CF-ResourceBeingDeleted: The space is being deleted"},
		"the catalog is being read":                {`{"broker_busy":true}`, ``, unprocessableText + "The service instance cannot be created because there is an operation in progress for the service broker."},
		"a reader":                                 {`{"permissions":{"ferry":"space_auditor"}}`, ``, textForbidden},
		"a developer":                              {`{"permissions":{"ferry":"space_developer"}}`, ``, "202"},
		"an organization manager":                  {`{"permissions":{"ferry":"org_manager"}}`, ``, textForbidden},
		"somebody without roles":                   {`{"permissions":{"ferry":"none"}}`, ``, unprocessableText + "Invalid space. Ensure that the space exists and you have access to it."},
	}, func(c *cloud, _ string, test struct{ change, market, want string }) {
		c.plant("")
		body := c.instanceBody("other", "postgres/small", "")
		if test.market != "" {
			c.market(test.market)
		}
		c.conditions(test.change)
		c.answers("POST", instances, body, test.want)
		c.must(200, "DELETE", "/__sim/conditions", "")
		if test.want != "202" {
			c.answers("POST", instances, body, "202")
		}
	})
}

func TestQuotaOfKeys(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	body := keyBody("b", c.plant(`,"keys":[{"name":"a"}]`), "")
	for _, test := range []struct{ change, want string }{
		{`{"quota":{"ferry":{"keys":1}}}`, unprocessableText + "You have exceeded your organization's limit for service binding of type key."},
		{`{"quota":{"ferry":null,"ferry/work":{"keys":1}}}`, unprocessableText + "You have exceeded your space's limit for service binding of type key."},
		{`{"quota":{"ferry/work":null}}`, "202"},
	} {
		c.conditions(test.change)
		c.answers("POST", keys, body, test.want)
	}
}

// TestPaidPlanOfUpdate has the quota in the way of a change of plans.
func TestPaidPlanOfUpdate(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	guid := c.plant("")
	c.market(`{"paid":["postgres/large"]}`)
	c.conditions(`{"quota":{"ferry":{"paid":false}}}`)
	c.answers("PATCH", instances+guid, c.planPatch("PLAN(postgres/large)"),
		unprocessableText+"The service instance cannot be created because paid service plans are not allowed.")
	c.reads("/v3/service_plans?names=large", "resources.0.free=false", "resources.0.costs.0.unit=MONTHLY")
}

// TestPermissions walks what each kind of login gets from each kind of call.
func TestPermissions(t *testing.T) {
	t.Parallel()
	const noKey = "404 10010 CF-ResourceNotFound: Service credential binding not found"
	requests := []string{
		"GET " + instances + "GUID", "PATCH " + instances + `GUID {"metadata":{}}`, "DELETE " + instances + "GUID", "GET " + keys + "KEY/details",
		"POST " + keys + " " + keyBody("b", "GUID", ""), "DELETE " + keys + "KEY", "PATCH " + keys + `KEY {"metadata":{}}`,
		"POST /v3/spaces " + spaceBody("s", fixedGUID("organization", "ferry")), `POST /v3/organizations {"name":"new"}`, "DELETE " + instances + "GUID?purge=true",
	}
	for role, wants := range map[string][]string{
		"space_auditor":   {"200", textForbidden, textForbidden, noKey, textForbidden, textForbidden, textForbidden, textForbidden, textForbidden, textForbidden},
		"org_manager":     {"200", textForbidden, textForbidden, noKey, textForbidden, textForbidden, textForbidden, "201", textForbidden, textForbidden},
		"space_developer": {"200", "200", "202", "200", "202", "202", "200", textForbidden, textForbidden, textForbidden},
		"none": {textNotFound, textNotFound, textNotFound, noKey, unprocessableText + "The service instance could not be found: 'GUID'", noKey, noKey,
			unprocessableText + "Invalid organization. Ensure the organization exists and you have access to it.", textForbidden, textNotFound},
		"admin": {"200", "200", "202", "200", "202", "202", "200", "201", "201", "204"},
	} {
		for at, request := range requests {
			t.Run(role+"/"+request, func(t *testing.T) {
				t.Parallel()
				c := start(t, idle())
				guid := c.plant(`,"keys":[{"name":"a"}]`)
				rows := strings.NewReplacer("GUID", guid, "KEY", c.do("GET", keys, "").str("resources", 0, "guid"))
				c.conditions(`{"permissions":{"ferry":"` + role + `"}}`)
				method, rest, _ := strings.Cut(rows.Replace(request), " ")
				path, body, _ := strings.Cut(rest, " ")
				c.answers(method, path, body, rows.Replace(wants[at]))
			})
		}
	}
}

// TestManagerBecomesDeveloper is docs/cf-contract.md 1.5: a manager who made a space has to give itself a role before
// it can make anything in it.
func TestManagerBecomesDeveloper(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	c.conditions(`{"permissions":{"ferry":"org_manager"}}`)
	body := c.instanceBody("it", "postgres/small", "")
	c.answers("POST", instances, body, textForbidden)
	c.must(201, "POST", "/v3/roles", rolePost(roleDeveloper, "space", c.space("work"), `{"guid":"ferry"}`))
	c.answers("POST", instances, body, "202")
	c.reads(instances+c.do("GET", instances, "").str("resources", 0, "guid")+"/permissions", "manage=true", "read=true")
}

// TestNothingToSee has the lists of a login that lost its roles: empty, without an error.
func TestNothingToSee(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	c.plant(`,"keys":[{"name":"a"}]`)
	c.conditions(`{"permissions":{"ferry":"none"}}`)
	for _, path := range []string{"organizations", "spaces", "service_instances", "service_credential_bindings"} {
		c.lists("/v3/"+path, "")
	}
	c.answers("POST", "/v3/roles", rolePost(roleDeveloper, "space", "x", `{"guid":"ferry"}`), textForbidden)
}

// TestSuspendedIsShown has the flag in lists and single resources.
func TestSuspendedIsShown(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	sp, ferry := c.space("work"), c.org("ferry")
	c.conditions(`{"suspended":{"ferry":true,"ferry/work":true}}`)
	c.reads("/v3/spaces/"+sp, "suspended=true")
	c.reads("/v3/organizations/"+ferry, "suspended=true")
	c.reads("/v3/spaces?include=org&guids="+sp, "resources.0.suspended=true", "included.organizations.0.suspended=true")
	c.reads("/__sim/conditions", "suspended.ferry=true")
	c.answers("POST", "/v3/spaces", spaceBody("s", ferry), "403 10017 CF-OrgSuspended: The organization is suspended")
	c.conditions(`{"suspended":{"ferry":false,"ferry/work":false},"deleting":{"ferry":true}}`)
	c.answers("POST", "/v3/spaces", spaceBody("s", ferry), "422 10020 CF-ResourceBeingDeleted: The organization is being deleted")
}

// TestFeatureFlags lists what a Cloud Controller has, and keeps all but operators from changing it.
func TestFeatureFlags(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	const flag = "/v3/feature_flags/service_instance_creation"
	c.reads("/v3/feature_flags", "pagination.total_results=18", "resources.0.name=app_bits_upload")
	c.must(200, "PATCH", flag, `{"enabled":false,"custom_error_message":"closed"}`).reads(t, "enabled=false", "custom_error_message=closed")
	body := c.instanceBody("it", "postgres/small", "")
	c.answers("POST", instances, body, "403 330002 CF-FeatureDisabled: Feature Disabled: closed")
	c.must(200, "PATCH", flag, `{"enabled":true,"custom_error_message":null}`)
	c.answers("POST", instances, body, "202")
	c.answers("PATCH", flag, `{"enabled":"yes"}`, unprocessableText+"Enabled must be a boolean")
	c.answers("GET", "/v3/feature_flags/x", "", "404 10010 CF-ResourceNotFound: Feature flag not found")
	c.conditions(`{"permissions":{"ferry":"org_manager"}}`)
	c.answers("PATCH", flag, `{"enabled":false}`, textForbidden)
}

// TestPermissionsAreRoles shows what the control lets a login do as roles, and as tokens that are not an
// administrator's.
func TestPermissionsAreRoles(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]string{
		"org_manager": roleOrgManager, "space_developer": roleDeveloper, "space_auditor": roleAuditor, "admin": "", "none": "",
	}, func(c *cloud, held, want string) {
		c.space("work")
		c.conditions(`{"permissions":{"ferry":"` + held + `"}}`)
		scope := c.login(url.Values{"grant_type": {"client_credentials"}}, "ferry", "ferry").str("scope")
		if got := strings.Contains(scope, adminScope); got != (held == "admin") {
			c.t.Errorf("scope %q", scope)
		}
		c.token = c.login(url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {"admin"}}, "cf", "").str("access_token")
		c.reads("/v3/roles?user_guids=ferry&types=organization_manager,space_developer,space_auditor", "resources.0.type="+want)
	})
}
