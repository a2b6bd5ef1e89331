package cfsim

import (
	"strings"
	"testing"
)

// conditions changes what holds in a cloud.
func (c *cloud) conditions(change string) {
	c.t.Helper()
	c.must(200, "POST", "/__sim/conditions", change)
}

// plant writes an instance "it" of postgres/small into ferry/work.
func (c *cloud) plant(more string) string {
	c.t.Helper()
	return c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"postgres","plan":"small"`+more+`}`).str("guid")
}

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

// TestVisibility has plans that only some organizations see.
func TestVisibility(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	sp, guid := c.space("work"), c.planGUID("postgres/large")
	body := c.instanceBody("it", "postgres/large", "")
	const unknown = unprocessableText + "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it."
	elsewhere := unprocessableText + "Invalid service plan. This could be due to a space-scoped broker which is offering the service plan 'large' with guid '" + guid +
		"' in another space or that the plan is not enabled in this organization. Ensure that the service plan is visible in your current space 'work' with guid '" + sp + "'."
	tests := []struct{ orgs, kind, want, listed, inSpace string }{
		{`["demo"]`, "organization", elsewhere, "large", ""},
		{`["demo","ferry"]`, "organization", "202", "large", "large"},
		{`[]`, "admin", unknown, "large", ""},
		{`null`, "public", textTaken, "large", "large"},
	}
	for _, test := range tests {
		c.must(200, "POST", "/__sim/marketplace", `{"visible_in":{"postgres/large":`+test.orgs+`}}`)
		checkAnswer(t, c.do("POST", "/v3/service_instances", body), test.want)
		if got := c.must(200, "GET", "/v3/service_plans/"+guid+"/visibility", "").str("type"); got != test.kind {
			t.Errorf("%s: visibility %q, want %q", test.orgs, got, test.kind)
		}
		for query, want := range map[string]string{"": test.listed, "&space_guids=" + sp: test.inSpace, "&organization_guids=" + c.org("ferry"): test.inSpace} {
			if got := strings.Join(c.do("GET", "/v3/service_plans?names=large"+query, "").names(), " "); got != want {
				t.Errorf("%s, %q: listed %q, want %q", test.orgs, query, got, want)
			}
		}
		anonymous := &cloud{t: t, sim: c.sim, url: c.url, http: c.http}
		if got := len(anonymous.do("GET", "/v3/service_plans?names=large", "").names()); (got == 1) != (test.kind == "public") {
			t.Errorf("%s: %d plans without a token", test.orgs, got)
		}
	}
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
