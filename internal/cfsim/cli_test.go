package cfsim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// cliStep is one call of the command line client of Cloud Foundry (its version 8 and later): the request as it sends
// it, what it reads of the answer, and what it takes along. Paths are dotted, "*" is any value but an empty one, {name}
// is something taken along earlier.
type cliStep struct {
	request string // METHOD PATH?QUERY
	body    string
	status  int
	reads   map[string]string
	takes   map[string]string
}

// cliCommand is what somebody types, and the calls that it makes.
type cliCommand struct {
	typed string
	steps []cliStep
}

// cli plays commands against a simulator.
type cli struct {
	*cloud
	taken map[string]string
}

// play makes the calls of a command. A Location is a job, which is waited for.
func (c *cli) play(command cliCommand) {
	c.t.Helper()
	for _, step := range command.steps {
		method, target, _ := strings.Cut(c.fill(step.request), " ")
		path, query, _ := strings.Cut(target, "?")
		if query != "" {
			path += "?" + encoded(query)
		}
		request := c.request(method, path, c.fill(step.body))
		request.Header.Set("Accept", "application/json")
		r := c.send(request)
		if r.status != step.status {
			c.t.Fatalf("cf %s: %s %s: %d %s, want %d", command.typed, method, target, r.status, r.body, step.status)
		}
		for field, want := range step.reads {
			if got := r.text(field); got != c.fill(want) && (want != "*" || got == "") {
				c.t.Errorf("cf %s: %s %s: %s is %q, want %q in %s", command.typed, method, target, field, got, c.fill(want), r.body)
			}
		}
		for name, field := range step.takes {
			c.taken[name] = r.text(field)
		}
		if location := r.header.Get("Location"); r.status == 202 {
			c.job(location, jobComplete)
		}
	}
}

func (c *cli) fill(text string) string {
	for name, value := range c.taken {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// encoded writes a query as the client does.
func encoded(query string) string {
	values := url.Values{}
	for _, pair := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		values.Add(name, value)
	}
	return values.Encode()
}

// TestCommandLineClient walks a day of the cf command line client, as a user and as a client: every call that its
// commands make, and what it reads of each answer.
func TestCommandLineClient(t *testing.T) {
	t.Parallel()
	logins := map[string][]cliCommand{"as a user": cliUser(), "as a client": cliClient()}
	for name, login := range logins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cli{cloud: start(t, quick()), taken: map[string]string{}}
			c.taken["url"], c.token = c.url, ""
			c.play(cliCommand{"api", []cliStep{
				{request: "GET /", status: 200, reads: map[string]string{
					"links.cloud_controller_v3.href": "{url}/v3", "links.cloud_controller_v3.meta.version": "*", "links.uaa.href": "{url}/uaa",
					"links.login.href": "{url}/uaa", "links.network_policy_v1.href": "*",
				}},
				{request: "GET /v3/info", status: 200, reads: map[string]string{"name": "*", "osbapi_version": "*"}},
			}})
			for _, command := range login {
				if command.typed == "auth" {
					c.auth(command.steps[0].body)
					continue
				}
				c.play(command)
			}
			for _, command := range cliDay() {
				c.play(command)
			}
		})
	}
}

// auth sends a form to the UAA and uses the tokens that come back. The client reads the user, and how long it lasts,
// out of the access token.
func (c *cli) auth(form string) {
	c.t.Helper()
	request := c.request("POST", "/uaa/oauth/token", c.fill(form))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Del("Authorization")
	if !strings.Contains(form, "client_id=") {
		request.SetBasicAuth("cf", "")
	}
	r := c.send(request)
	if r.status != 200 {
		c.t.Fatalf("cf auth: %d %s", r.status, r.body)
	}
	c.token, c.taken["refresh"] = r.str("access_token"), r.str("refresh_token")
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(c.token, ".")[1])
	if err != nil {
		c.t.Fatal(err)
	}
	var who struct {
		Name    string  `json:"user_name"`
		ID      string  `json:"user_id"`
		Origin  string  `json:"origin"`
		Client  string  `json:"client_id"`
		Expires float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &who); err != nil || who.Expires == 0 {
		c.t.Errorf("claims %s: %v", payload, err)
	}
	asUser := who.Name == "admin" && who.ID == userLogin("admin").subject && who.Origin == "uaa" && c.taken["refresh"] != ""
	asClient := who.Name == "" && who.ID == "" && who.Client == "ferry" && c.taken["refresh"] == ""
	if strings.Contains(form, "client_id=") != asClient || asClient == asUser {
		c.t.Errorf("the token speaks for %s", payload)
	}
}

func authStep(form string) cliCommand {
	return cliCommand{"auth", []cliStep{{body: form}}}
}

// cliUser is `cf login -u admin -p admin -o ferry`, a refreshed token, and `cf create-space`.
func cliUser() []cliCommand {
	role := func(kind, place, guid string) cliStep {
		return cliStep{
			request: "POST /v3/roles", status: 201, reads: map[string]string{"type": kind, "relationships.user.data.guid": "*"},
			body: `{"type":"` + kind + `","relationships":{"` + place + `":{"data":{"guid":"` + guid + `"}},"user":{"data":{"username":"admin","origin":"uaa"}}}}`,
		}
	}
	return []cliCommand{
		{"login", []cliStep{{request: "GET /uaa/login", status: 200, reads: map[string]string{
			"prompts.username.0": "text", "prompts.username.1": "*", "prompts.password.0": "password", "links.uaa": "{url}/uaa", "links.login": "{url}/uaa", "app.version": "*",
		}}}},
		authStep("grant_type=password&username=admin&password=admin"),
		authStep("grant_type=refresh_token&refresh_token={refresh}"),
		{"login -o ferry", []cliStep{
			{request: "GET /v3/organizations?order_by=name&per_page=5000", status: 200, reads: map[string]string{"resources.#": "3", "resources.1.name": "ferry"}},
			{request: "GET /v3/organizations?names=ferry", status: 200, reads: map[string]string{"resources.0.name": "ferry"}, takes: map[string]string{"org": "resources.0.guid"}},
			{request: "GET /v3/spaces?order_by=name&organization_guids={org}&per_page=5000", status: 200, reads: map[string]string{"resources.#": "0"}},
		}},
		{"create-space work", []cliStep{
			createSpaceStep(), role(roleOrgUser, "organization", "{org}"), role("space_manager", "space", "{space}"), role(roleDeveloper, "space", "{space}"),
		}},
	}
}

// cliClient is `cf auth ferry ferry --client-credentials` and `cf create-space`.
func cliClient() []cliCommand {
	role := func(kind, place, guid string) cliStep {
		return cliStep{
			request: "POST /v3/roles", status: 201, reads: map[string]string{"relationships.user.data.guid": "ferry"},
			body: `{"type":"` + kind + `","relationships":{"` + place + `":{"data":{"guid":"` + guid + `"}},"user":{"data":{"guid":"ferry"}}}}`,
		}
	}
	return []cliCommand{
		authStep("grant_type=client_credentials&client_id=ferry&client_secret=ferry"),
		{"target -o ferry", []cliStep{
			{request: "GET /v3/organizations?names=ferry", status: 200, reads: map[string]string{"resources.0.name": "ferry"}, takes: map[string]string{"org": "resources.0.guid"}},
			{request: "GET /v3/spaces?order_by=name&organization_guids={org}", status: 200, reads: map[string]string{"resources.#": "0"}},
		}},
		{"create-space work", []cliStep{
			createSpaceStep(), {request: "GET /uaa/oauth/clients/ferry", status: 200, reads: map[string]string{"client_id": "ferry"}},
			role(roleOrgUser, "organization", "{org}"), role("space_manager", "space", "{space}"), role(roleDeveloper, "space", "{space}"),
		}},
	}
}

func createSpaceStep() cliStep {
	return cliStep{
		request: "POST /v3/spaces", status: 201, reads: map[string]string{"name": "work"}, takes: map[string]string{"space": "guid"},
		body: `{"name":"work","relationships":{"organization":{"data":{"guid":"{org}"}}}}`,
	}
}

// cliDay are the commands that a user and a client have in common.
func cliDay() []cliCommand {
	const (
		place  = "&names=db&page=1&per_page=1&space_guids={space}"
		find   = "GET /v3/service_instances?names=db&page=1&per_page=1&space_guids={space}"
		around = "fields[service_plan.service_offering]=name,guid,description,tags,documentation_url&fields[service_plan.service_offering.service_broker]=name,guid" +
			"&fields[service_plan]=name,guid&fields[space.organization]=name,guid&fields[space]=name,guid"
		key   = "GET /v3/service_credential_bindings?names=k&page=1&per_page=1&service_instance_guids={instance}&type=key"
		plans = "GET /v3/service_plans?names=%s&service_offering_names=postgres&service_broker_names=backing-broker"
		keys  = "/v3/service_credential_bindings"
	)
	found := cliStep{request: find, status: 200, reads: map[string]string{"resources.#": "1", "resources.0.type": "managed"}, takes: map[string]string{"instance": "resources.0.guid"}}
	foundKey := cliStep{request: key, status: 200, reads: map[string]string{"resources.0.name": "k", "resources.0.type": "key", "resources.0.last_operation.state": "succeeded"}, takes: map[string]string{"key": "resources.0.guid"}}
	return []cliCommand{
		{"target -o ferry -s work", []cliStep{
			{request: "GET /v3/organizations?names=ferry", status: 200, reads: map[string]string{"resources.0.guid": "{org}"}},
			{request: "GET /v3/spaces?names=work&organization_guids={org}", status: 200, reads: map[string]string{"resources.0.guid": "{space}", "resources.0.name": "work"}},
		}},
		{"marketplace", []cliStep{{
			request: "GET /v3/service_plans?available=true&fields[service_offering.service_broker]=name,guid&include=service_offering&per_page=5000&space_guids={space}", status: 200,
			reads: map[string]string{
				"resources.0.name": "small", "resources.0.available": "true", "resources.0.free": "true", "resources.0.description": "*", "resources.0.relationships.service_offering.data.guid": "*",
				"included.service_offerings.0.name": "postgres", "included.service_offerings.0.description": "*", "included.service_brokers.0.name": brokerName,
				"included.service_offerings.0.relationships.service_broker.data.guid": brokerGUID(),
			},
		}}},
		{"create-service postgres small db -c {} -t a", []cliStep{
			{request: fmt.Sprintf(plans, "small"), status: 200, reads: map[string]string{"resources.#": "1"}, takes: map[string]string{"plan": "resources.0.guid"}},
			{request: "POST /v3/service_instances", status: 202, body: `{"type":"managed","name":"db","tags":["a"],"parameters":{"size":1},` +
				`"relationships":{"service_plan":{"data":{"guid":"{plan}"}},"space":{"data":{"guid":"{space}"}}}}`},
		}},
		{"service db", []cliStep{
			{request: "GET /v3/service_instances?" + around + place, status: 200, takes: map[string]string{"instance": "resources.0.guid", "offering": "included.service_offerings.0.guid"},
				reads: map[string]string{
					"resources.0.tags.0": "a", "resources.0.last_operation.type": "create", "resources.0.last_operation.state": "succeeded", "resources.0.last_operation.updated_at": "*",
					"resources.0.upgrade_available": "false", "included.service_plans.0.name": "small", "included.service_offerings.0.name": "postgres", "included.service_brokers.0.name": brokerName,
					"included.spaces.0.name": "work", "included.organizations.0.name": "ferry",
				}},
			{request: "GET /v3/feature_flags/service_instance_sharing", status: 200, reads: map[string]string{"name": "service_instance_sharing", "enabled": "false"}},
			{request: "GET /v3/service_offerings/{offering}", status: 200, reads: map[string]string{"shareable": "false"}},
			{request: "GET /v3/service_instances/{instance}/relationships/shared_spaces?fields[space.organization]=guid,name&fields[space]=guid,name,relationships.organization",
				status: 200, reads: map[string]string{"data.#": "0"}},
			{request: "GET " + keys + "?include=app&per_page=5000&service_instance_guids={instance}&type=app", status: 200, reads: map[string]string{"resources.#": "0", "included.apps.#": "0"}},
		}},
		{"service db --params", []cliStep{found, {request: "GET /v3/service_instances/{instance}/parameters", status: 200, reads: map[string]string{"size": "1"}}}},
		{"create-service-key db k", []cliStep{found, {request: "POST " + keys, status: 202, body: `{"type":"key","name":"k","relationships":{"service_instance":{"data":{"guid":"{instance}"}}}}`}}},
		{"service-keys db", []cliStep{found, {request: "GET " + keys + "?per_page=5000&service_instance_guids={instance}&type=key", status: 200, reads: map[string]string{"resources.0.name": "k"}}}},
		{"service-key db k", []cliStep{found, foundKey, {request: "GET " + keys + "/{key}/details", status: 200, reads: map[string]string{"credentials.uri": "*"}}}},
		{"services", []cliStep{
			{request: "GET /v3/service_instances?fields[service_plan.service_offering.service_broker]=guid,name&fields[service_plan.service_offering]=guid,name,relationships.service_broker" +
				"&fields[service_plan]=guid,name,relationships.service_offering&order_by=name&per_page=5000&space_guids={space}", status: 200,
				reads: map[string]string{
					"resources.0.name": "db", "included.service_plans.0.relationships.service_offering.data.guid": "{offering}",
					"included.service_offerings.0.relationships.service_broker.data.guid": brokerGUID(),
				}},
			{request: "GET " + keys + "?include=app&service_instance_guids={instance}", status: 200, reads: map[string]string{"resources.0.type": "key"}},
		}},
		{"update-service db -p large", []cliStep{
			{request: "GET /v3/service_instances?fields[service_plan.service_offering.service_broker]=name,guid&fields[service_plan.service_offering]=name,guid&fields[service_plan]=name,guid" + place, status: 200,
				reads: map[string]string{"included.service_offerings.0.name": "postgres", "included.service_brokers.0.name": brokerName}},
			{request: fmt.Sprintf(plans, "large"), status: 200, takes: map[string]string{"plan": "resources.0.guid"}},
			{request: "PATCH /v3/service_instances/{instance}", status: 202, body: `{"relationships":{"service_plan":{"data":{"guid":"{plan}"}}}}`},
		}},
		{"update-service db -t b", []cliStep{found, {request: "PATCH /v3/service_instances/{instance}", status: 200, body: `{"tags":["b"]}`, reads: map[string]string{"tags.0": "b"}}}},
		{"rename-service db db2", []cliStep{found, {request: "PATCH /v3/service_instances/{instance}", status: 202, body: `{"name":"db2"}`}}},
		{"rename-service db2 db", []cliStep{{request: "PATCH /v3/service_instances/{instance}", status: 202, body: `{"name":"db"}`}}},
		{"org ferry", []cliStep{
			{request: "GET /v3/organizations?names=ferry", status: 200, takes: map[string]string{"quota": "resources.0.relationships.quota.data.guid"}},
			{request: "GET /v3/organizations/{org}/domains?per_page=5000", status: 200, reads: map[string]string{"resources.0.name": "*"}},
			{request: "GET /v3/organization_quotas/{quota}", status: 200, reads: map[string]string{"name": "default"}},
			{request: "GET /v3/spaces?order_by=name&organization_guids={org}", status: 200, reads: map[string]string{"resources.0.name": "work"}},
			{request: "GET /v3/organizations/{org}/relationships/default_isolation_segment", status: 200, reads: map[string]string{"data": ""}},
		}},
		{"org-users ferry", []cliStep{{request: "GET /v3/roles?include=user&organization_guids={org}&per_page=5000", status: 200, reads: map[string]string{
			"resources.0.type": roleOrgUser, "resources.0.relationships.user.data.guid": "*", "included.users.0.presentation_name": "*", "included.users.0.guid": "*",
		}}}},
		{"space-users ferry work", []cliStep{{request: "GET /v3/roles?include=user&per_page=5000&space_guids={space}", status: 200, reads: map[string]string{"resources.#": "2", "included.users.#": "1"}}}},
		{"unset-space-role admin ferry work SpaceManager", []cliStep{
			{request: "GET /v3/users?origins=uaa&usernames=admin", status: 200, reads: map[string]string{"resources.0.username": "admin", "resources.0.origin": "uaa"}, takes: map[string]string{"user": "resources.0.guid"}},
			{request: "GET /v3/roles?space_guids={space}&types=space_manager&user_guids={user}", status: 200},
		}},
		{"apps", []cliStep{{request: "GET /v3/apps?order_by=name&per_page=5000&space_guids={space}", status: 200, reads: map[string]string{"resources.#": "0"}}}},
		{"service-brokers", []cliStep{{request: "GET /v3/service_brokers?per_page=5000", status: 200, reads: map[string]string{"resources.0.name": brokerName, "resources.0.url": "*"}}}},
		{"delete-service-key db k", []cliStep{found, foundKey, {request: "DELETE " + keys + "/{key}", status: 202}}},
		{"delete-service db", []cliStep{found, {request: "DELETE /v3/service_instances/{instance}", status: 202}, {request: find, status: 200, reads: map[string]string{"resources.#": "0"}}}},
		{"delete-space work", []cliStep{
			{request: "GET /v3/spaces?names=work&organization_guids={org}", status: 200, reads: map[string]string{"resources.0.guid": "{space}"}},
			{request: "DELETE /v3/spaces/{space}", status: 202},
			{request: "GET /v3/spaces?names=work&organization_guids={org}", status: 200, reads: map[string]string{"resources.#": "0"}},
		}},
	}
}
