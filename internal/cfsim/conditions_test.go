package cfsim

import (
	"net/url"
	"strings"
	"testing"
)

func TestConditionsOfCreate(t *testing.T) {
	t.Parallel()
	const forbidden = "403 10003 CF-NotAuthorized: You are not authorized to perform the requested action"
	tests := map[string]struct{ change, market, want string }{
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
		"a reader":                                 {`{"permissions":{"ferry":"space_auditor"}}`, ``, forbidden},
		"a developer":                              {`{"permissions":{"ferry":"space_developer"}}`, ``, "202"},
		"an organization manager":                  {`{"permissions":{"ferry":"org_manager"}}`, ``, forbidden},
		"somebody without roles":                   {`{"permissions":{"ferry":"none"}}`, ``, unprocessableText + "Invalid space. Ensure that the space exists and you have access to it."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, idle())
			c.plant("")
			body := c.instanceBody("other", "postgres/small", "")
			if test.market != "" {
				c.must(200, "POST", "/__sim/marketplace", test.market)
			}
			c.conditions(test.change)
			checkAnswer(t, c.do("POST", "/v3/service_instances", body), test.want)
			c.must(200, "DELETE", "/__sim/conditions", "")
			if test.want != "202" {
				checkAnswer(t, c.do("POST", "/v3/service_instances", body), "202")
			}
		})
	}
}

func TestQuotaOfKeys(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	guid := c.plant(`,"keys":[{"name":"a"}]`)
	c.conditions(`{"quota":{"ferry":{"keys":1}}}`)
	checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", keyBody("b", guid, "")), unprocessableText+"You have exceeded your organization's limit for service binding of type key.")
	c.conditions(`{"quota":{"ferry":null,"ferry/work":{"keys":1}}}`)
	checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", keyBody("b", guid, "")), unprocessableText+"You have exceeded your space's limit for service binding of type key.")
	c.conditions(`{"quota":{"ferry/work":null}}`)
	checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", keyBody("b", guid, "")), "202")
}

// TestPaidPlanOfUpdate has the quota in the way of a change of plans.
func TestPaidPlanOfUpdate(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	guid := c.plant("")
	c.must(200, "POST", "/__sim/marketplace", `{"paid":["postgres/large"]}`)
	c.conditions(`{"quota":{"ferry":{"paid":false}}}`)
	patch := `{"relationships":{"service_plan":{"data":{"guid":"` + c.planGUID("postgres/large") + `"}}}}`
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, patch), unprocessableText+"The service instance cannot be created because paid service plans are not allowed.")
	plan := c.do("GET", "/v3/service_plans?names=large", "")
	if plan.at("resources", 0, "free") != false || plan.str("resources", 0, "costs", 0, "unit") != "MONTHLY" {
		t.Errorf("plan %s", plan.body)
	}
}

// TestPermissions walks what each kind of login gets from each kind of call.
func TestPermissions(t *testing.T) {
	t.Parallel()
	const forbidden = "403 10003 CF-NotAuthorized: You are not authorized to perform the requested action"
	const noKey = "404 10010 CF-ResourceNotFound: Service credential binding not found"
	calls := []string{"GET instance", "PATCH instance", "DELETE instance", "GET details", "POST key", "DELETE key", "PATCH key", "POST space", "POST organization", "purge"}
	table := map[string][]string{
		"space_auditor":   {"200", forbidden, forbidden, noKey, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden},
		"org_manager":     {"200", forbidden, forbidden, noKey, forbidden, forbidden, forbidden, "201", forbidden, forbidden},
		"space_developer": {"200", "200", "202", "200", "202", "202", "200", forbidden, forbidden, forbidden},
		"none": {textNotFound, textNotFound, textNotFound, noKey, unprocessableText + "The service instance could not be found: 'GUID'", noKey, noKey,
			unprocessableText + "Invalid organization. Ensure the organization exists and you have access to it.", forbidden, textNotFound},
		"admin": {"200", "200", "202", "200", "202", "202", "200", "201", "201", "204"},
	}
	for role, wants := range table {
		for at, call := range calls {
			t.Run(role+"/"+call, func(t *testing.T) {
				t.Parallel()
				c := start(t, idle())
				guid := c.plant(`,"keys":[{"name":"a"}]`)
				key := c.do("GET", "/v3/service_credential_bindings", "").str("resources", 0, "guid")
				c.conditions(`{"permissions":{"ferry":"` + role + `"}}`)
				instance, binding := "/v3/service_instances/"+guid, "/v3/service_credential_bindings/"+key
				lines := map[string][3]string{
					"GET instance": {"GET", instance}, "PATCH instance": {"PATCH", instance, `{"metadata":{}}`}, "DELETE instance": {"DELETE", instance},
					"GET details": {"GET", binding + "/details"}, "POST key": {"POST", "/v3/service_credential_bindings", keyBody("b", guid, "")},
					"DELETE key": {"DELETE", binding}, "PATCH key": {"PATCH", binding, `{"metadata":{}}`},
					"POST space":        {"POST", "/v3/spaces", `{"name":"s","relationships":{"organization":{"data":{"guid":"` + c.org("ferry") + `"}}}}`},
					"POST organization": {"POST", "/v3/organizations", `{"name":"new"}`}, "purge": {"DELETE", instance + "?purge=true"},
				}
				line := lines[call]
				checkAnswer(t, c.do(line[0], line[1], line[2]), strings.Replace(wants[at], "GUID", guid, 1))
			})
		}
	}
}

// TestManagerBecomesDeveloper is the trap of section 1.5: a manager who made a
// space has to give itself a role before it can make anything in it.
func TestManagerBecomesDeveloper(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	c.conditions(`{"permissions":{"ferry":"org_manager"}}`)
	body := c.instanceBody("it", "postgres/small", "")
	if r := c.do("POST", "/v3/service_instances", body); r.status != 403 {
		t.Errorf("without the role: %d %s", r.status, r.body)
	}
	c.must(201, "POST", "/v3/roles", `{"type":"space_developer","relationships":{"user":{"data":{"guid":"ferry"}},"space":{"data":{"guid":"`+c.space("work")+`"}}}}`)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "202")
	guid := c.do("GET", "/v3/service_instances", "").str("resources", 0, "guid")
	if r := c.must(200, "GET", "/v3/service_instances/"+guid+"/permissions", ""); string(r.body) != `{"manage":true,"read":true}` {
		t.Errorf("permissions %s", r.body)
	}
}

// TestNobodySeesNothing has the lists of a login that lost its roles: empty,
// without an error.
func TestNobodySeesNothing(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	c.plant(`,"keys":[{"name":"a"}]`)
	c.conditions(`{"permissions":{"ferry":"none"}}`)
	for _, path := range []string{"organizations", "spaces", "service_instances", "service_credential_bindings"} {
		if r := c.must(200, "GET", "/v3/"+path, ""); len(r.names()) != 0 {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	checkAnswer(t, c.do("POST", "/v3/roles", `{"type":"space_developer","relationships":{"user":{"data":{"guid":"ferry"}},"space":{"data":{"guid":"x"}}}}`),
		"403 10003 CF-NotAuthorized: You are not authorized to perform the requested action")
}

// TestSuspendedIsShown has the flag in lists and single resources.
func TestSuspendedIsShown(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	sp := c.space("work")
	c.conditions(`{"suspended":{"ferry":true,"ferry/work":true}}`)
	for _, path := range []string{"/v3/spaces/" + sp, "/v3/organizations/" + c.org("ferry")} {
		if r := c.must(200, "GET", path, ""); r.at("suspended") != true {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	if r := c.must(200, "GET", "/v3/spaces?guids="+sp, ""); r.at("resources", 0, "suspended") != true {
		t.Errorf("list: %s", r.body)
	}
	checkAnswer(t, c.do("POST", "/v3/spaces", `{"name":"s","relationships":{"organization":{"data":{"guid":"`+c.org("ferry")+`"}}}}`), "403 10017 CF-OrgSuspended: The organization is suspended")
	got := c.must(200, "GET", "/__sim/conditions", "")
	if got.at("suspended", "ferry") != true {
		t.Errorf("conditions %s", got.body)
	}
	c.conditions(`{"suspended":{"ferry":false,"ferry/work":false},"deleting":{"ferry":true}}`)
	checkAnswer(t, c.do("POST", "/v3/spaces", `{"name":"s","relationships":{"organization":{"data":{"guid":"`+c.org("ferry")+`"}}}}`), "422 10020 CF-ResourceBeingDeleted: The organization is being deleted")
}

// TestBadConditions also shows that a change that is refused changes nothing.
func TestBadConditions(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	for change, part := range map[string]string{
		`{"quota":{"nowhere":{}}}`:              "nowhere",
		`{"suspended":{"nowhere/x":true}}`:      "nowhere",
		`{"deleting":{"nowhere":true}}`:         "nowhere",
		`{"features_off":{"diego":""}}`:         "diego",
		`{"permissions":{"me":"admin"}}`:        "me",
		`{"permissions":{"ferry":"king"}}`:      "king",
		`{"rivals":-1,"broker_busy":true}`:      "rivals",
		`{"quotas":{}}`:                         "quotas",
		`{"quota":{"ferry":{"machines":true}}}`: "machines",
	} {
		if r := c.must(400, "POST", "/__sim/conditions", change); !strings.Contains(r.str("error"), part) {
			t.Errorf("%s: %s", change, r.body)
		}
	}
	if r := c.must(200, "GET", "/__sim/conditions", ""); r.at("broker_busy") != false {
		t.Errorf("conditions %s", r.body)
	}
}

// TestFeatureFlags lists what a Cloud Controller has, and keeps all but
// operators from changing it.
func TestFeatureFlags(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	if names := c.must(200, "GET", "/v3/feature_flags", "").names(); len(names) != 18 || names[0] != "app_bits_upload" {
		t.Errorf("flags %v", names)
	}
	const flag = "/v3/feature_flags/service_instance_creation"
	r := c.must(200, "PATCH", flag, `{"enabled":false,"custom_error_message":"closed"}`)
	if r.at("enabled") != false || r.str("custom_error_message") != "closed" {
		t.Errorf("flag %s", r.body)
	}
	body := c.instanceBody("it", "postgres/small", "")
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "403 330002 CF-FeatureDisabled: Feature Disabled: closed")
	c.must(200, "PATCH", flag, `{"enabled":true,"custom_error_message":null}`)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "202")
	checkAnswer(t, c.do("PATCH", flag, `{"enabled":"yes"}`), unprocessableText+"Enabled must be a boolean")
	checkAnswer(t, c.do("GET", "/v3/feature_flags/x", ""), "404 10010 CF-ResourceNotFound: Feature flag not found")
	c.must(200, "POST", "/__sim/conditions", `{"permissions":{"ferry":"org_manager"}}`)
	checkAnswer(t, c.do("PATCH", flag, `{"enabled":false}`), "403 10003 CF-NotAuthorized: You are not authorized to perform the requested action")
}

// TestPermissionsAreRoles shows what the control lets a login do as roles, and
// as tokens that are not an administrator's.
func TestPermissionsAreRoles(t *testing.T) {
	t.Parallel()
	for held, want := range map[string]string{"org_manager": roleOrgManager, "space_developer": roleDeveloper, "space_auditor": roleAuditor, "admin": "", "none": ""} {
		t.Run(held, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.space("work")
			c.conditions(`{"permissions":{"ferry":"` + held + `"}}`)
			observer := &cloud{t: t, sim: c.sim, url: c.url, http: c.http}
			observer.token = c.login(url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {"admin"}}, "cf", "").str("access_token")
			roles := observer.must(200, "GET", "/v3/roles?user_guids=ferry&types=organization_manager,space_developer,space_auditor", "")
			if got := roles.str("resources", 0, "type"); got != want {
				t.Errorf("roles %s, want %q", roles.body, want)
			}
			scope := c.login(url.Values{"grant_type": {"client_credentials"}}, "ferry", "ferry").str("scope")
			if got := strings.Contains(scope, adminScope); got != (held == "admin") {
				t.Errorf("scope %q", scope)
			}
		})
	}
}
