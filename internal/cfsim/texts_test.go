package cfsim

import (
	"strings"
	"testing"
)

const unprocessableText = "422 10008 CF-UnprocessableEntity: "

// TestCreateInstanceTexts has the quoted texts of section 2.3 for POST.
func TestCreateInstanceTexts(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	good := c.instanceBody("it", "postgres/small", "")
	sp, small := c.space("work"), c.planGUID("postgres/small")
	with := func(more string) string { return c.instanceBody("it", "postgres/small", ","+more) }
	tests := map[string]struct{ body, want string }{
		"no JSON":            {`{"name"`, "400 1001 CF-MessageParseError: Request invalid due to parse error: invalid request body"},
		"no object":          {`[]`, "400 1001 CF-MessageParseError: Request invalid due to parse error: invalid request body"},
		"an unknown field":   {with(`"colour":1`), unprocessableText + "Unknown field(s): 'colour'"},
		"no such space":      {strings.Replace(good, sp, "nowhere", 1), unprocessableText + "Invalid space. Ensure that the space exists and you have access to it."},
		"no such plan":       {strings.Replace(good, small, "none", 1), unprocessableText + "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it."},
		"parameters a list":  {with(`"parameters":[]`), unprocessableText + "Parameters must be an object"},
		"a blank name":       {strings.Replace(good, `"it"`, `" "`, 1), unprocessableText + "Name can't be blank"},
		"a long name":        {strings.Replace(good, `"it"`, `"`+strings.Repeat("x", 256)+`"`, 1), unprocessableText + "name max_length"},
		"tags no list":       {with(`"tags":"a"`), unprocessableText + "Tags must be a list of strings"},
		"too many tags":      {with(`"tags":["` + strings.Repeat("x", 2049) + `"]`), unprocessableText + "tags too_long"},
		"no relationships":   {`{"type":"managed","name":"it"}`, unprocessableText + "Relationships Space can't be blank, Relationships Service plan can't be blank"},
		"another type":       {strings.Replace(good, "managed", "x", 1), unprocessableText + "Type must be one of 'managed', 'user-provided'"},
		"metadata of a kind": {with(`"metadata":{"x":{}}`), unprocessableText + "Metadata has unexpected field(s): 'x'"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkAnswer(t, c.do("POST", "/v3/service_instances", test.body), test.want)
		})
	}
	if n := len(c.state().Instances); n != 0 {
		t.Errorf("refusals left %d rows", n)
	}
	checkAnswer(t, c.do("POST", "/v3/service_instances", with(`"parameters":null,"tags":["a"]`)), "202")
	checkAnswer(t, c.do("POST", "/v3/service_instances", strings.Replace(good, `"it"`, `"  it "`, 1)), textTaken)
}

// TestCreateKeyTexts has the quoted texts of section 2.4 that no state is
// needed for.
func TestCreateKeyTexts(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	small, unbindable := c.ready("it", "postgres/small"), c.ready("other", "postgres/no-bindings")
	tests := map[string]struct{ body, want string }{
		"an unknown instance":   {keyBody("k", "nowhere", ""), unprocessableText + "The service instance could not be found: 'nowhere'"},
		"a plan without":        {keyBody("k", unbindable, ""), unprocessableText + "Service plan does not allow bindings."},
		"an offering without":   {keyBody("k", c.ready("queue", "queue/standard"), ""), unprocessableText + "Service plan does not allow bindings."},
		"parameters not object": {keyBody("k", small, `,"parameters":1`), unprocessableText + "Parameters must be an object"},
		"no name":               {strings.Replace(keyBody("k", small, ""), `"k"`, `""`, 1), unprocessableText + "Name can't be blank"},
		"no instance":           {`{"type":"key","name":"k"}`, unprocessableText + "Relationships Service instance can't be blank"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", test.body), test.want)
		})
	}
}

func TestNotFoundTexts(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	tests := map[string]string{
		"GET /v3/service_instances/x":                      textNotFound,
		"DELETE /v3/service_instances/x":                   textNotFound,
		"PATCH /v3/service_instances/x":                    textNotFound,
		"GET /v3/service_credential_bindings/x":            "404 10010 CF-ResourceNotFound: Service credential binding not found",
		"DELETE /v3/service_credential_bindings/x":         "404 10010 CF-ResourceNotFound: Service credential binding not found",
		"GET /v3/service_credential_bindings/x/details":    "404 10010 CF-ResourceNotFound: Service credential binding not found",
		"GET /v3/service_credential_bindings/x/parameters": "404 10010 CF-ResourceNotFound: Service credential binding not found",
		"GET /v3/jobs/x":                                   "404 10010 CF-ResourceNotFound: Job not found",
		"GET /v3/spaces/x":                                 "404 10010 CF-ResourceNotFound: Space not found",
		"GET /v3/organizations/x":                          "404 10010 CF-ResourceNotFound: Organization not found",
		"GET /v3/service_plans/x":                          "404 10010 CF-ResourceNotFound: Service plan not found",
		"GET /v3/service_offerings/x":                      "404 10010 CF-ResourceNotFound: Service offering not found",
		"GET /v3/service_plans/x/visibility":               "404 10010 CF-ResourceNotFound: Service plan not found",
		"GET /v3/packages":                                 "404 10000 CF-NotFound: Unknown request",
		"PUT /v3/service_instances":                        "404 10000 CF-NotFound: Unknown request",
		"GET /elsewhere":                                   "404 10000 CF-NotFound: Unknown request",
	}
	for line, want := range tests {
		t.Run(line, func(t *testing.T) {
			method, path, _ := strings.Cut(line, " ")
			checkAnswer(t, c.do(method, path, "{}"), want)
		})
	}
}

func TestSpacesAndRoles(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	create := func(name, org string) result {
		return c.do("POST", "/v3/spaces", `{"name":"`+name+`","relationships":{"organization":{"data":{"guid":"`+org+`"}}}}`)
	}
	sp := create("s", c.org("ferry"))
	if sp.status != 201 || sp.str("relationships", "organization", "data", "guid") != c.org("ferry") {
		t.Fatalf("space: %d %s", sp.status, sp.body)
	}
	checkAnswer(t, create("s", c.org("ferry")), unprocessableText+"Name must be unique per organization")
	checkAnswer(t, create("s", "nowhere"), unprocessableText+"Invalid organization. Ensure the organization exists and you have access to it.")
	checkAnswer(t, create(strings.Repeat("x", 256), c.org("ferry")), unprocessableText+"Name is too long (maximum is 255 characters)")
	if r := create("s", c.org("demo")); r.status != 201 {
		t.Errorf("the name in another organization: %d", r.status)
	}
	role := `{"type":"space_developer","relationships":{"user":{"data":{"guid":"me"}},"space":{"data":{"guid":"` + sp.str("guid") + `"}}}}`
	checkAnswer(t, c.do("POST", "/v3/roles", role), unprocessableText+"Users cannot be assigned roles in a space if they do not have a role in that space's organization.")
	c.must(201, "POST", "/v3/roles", `{"type":"organization_user","relationships":{"user":{"data":{"guid":"me"}},"organization":{"data":{"guid":"`+c.org("ferry")+`"}}}}`)
	if r := c.do("POST", "/v3/roles", role); r.status != 201 || r.str("type") != "space_developer" {
		t.Errorf("role: %d %s", r.status, r.body)
	}
	checkAnswer(t, c.do("POST", "/v3/roles", role), unprocessableText+"User 'me' already has 'space_developer' role in space 's'.")
	checkAnswer(t, c.do("POST", "/v3/organizations", `{"name":"ferry"}`), unprocessableText+"Organization 'ferry' already exists.")
	if r := c.do("POST", "/v3/organizations", `{"name":"new"}`); r.status != 201 {
		t.Errorf("organization: %d %s", r.status, r.body)
	}
	orgs := c.do("GET", "/v3/organizations?names=ferry,ferry-b,demo", "")
	if got := strings.Join(orgs.names(), " "); got != "ferry ferry-b demo" {
		t.Errorf("organizations %q", got)
	}
	spaces := c.do("GET", "/v3/spaces?include=organization&guids="+sp.str("guid"), "")
	if spaces.str("included", "organizations", 0, "name") != "ferry" {
		t.Errorf("included %v", spaces.at("included"))
	}
}

func TestEveryAnswerHasARequestID(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	request := c.request("GET", "/v3/info", "")
	request.Header.Set("X-Vcap-Request-Id", "mine-1")
	if got := c.send(request).header.Get("X-Vcap-Request-Id"); !strings.HasPrefix(got, "mine-1::") || len(got) != len("mine-1::")+36 {
		t.Errorf("id %q", got)
	}
	r := c.do("GET", "/nowhere", "")
	if len(r.header.Get("X-Vcap-Request-Id")) != 36 || r.header.Get("Date") == "" {
		t.Errorf("headers %v", r.header)
	}
}

func TestBodyHasALimit(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	r := c.do("POST", "/v3/service_instances", `{"name":"`+strings.Repeat("x", maxBody)+`"}`)
	if r.status != 413 || !strings.Contains(string(r.body), "<html>") {
		t.Errorf("got %d %s", r.status, r.body)
	}
}
