package cfsim

import (
	"strings"
	"testing"
)

// instanceStates brings an instance "it" into each state of table 3.1 of the
// contract, by what really leads there.
func instanceStates() map[string]struct {
	options Options
	plan    string
	after   func(c *cloud, guid string)
} {
	patch := func(c *cloud, guid string) {
		c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"parameters":{"a":1}}`)
	}
	remove := func(c *cloud, guid string) { c.must(202, "DELETE", "/v3/service_instances/"+guid, "") }
	nothing := func(*cloud, string) {}
	type setup = struct {
		options Options
		plan    string
		after   func(c *cloud, guid string)
	}
	return map[string]setup{
		"create initial":     {idle(), "postgres/small", nothing},
		"create in progress": {quick(), "faults/create-stalls", nothing},
		"create succeeded":   {quick(), "postgres/small", nothing},
		"create failed":      {quick(), "faults/create-rejected", nothing},
		"update in progress": {quick(), "faults/update-stalls", patch},
		"update succeeded":   {quick(), "postgres/small", patch},
		"update failed":      {quick(), "faults/update-rejected", patch},
		"delete in progress": {quick(), "faults/delete-stalls", remove},
		"delete failed":      {quick(), "faults/delete-rejected", remove},
	}
}

func startInState(t *testing.T, state string) (guid string, started *cloud) {
	t.Helper()
	setup := instanceStates()[state]
	started = start(t, setup.options)
	guid, _ = started.create("it", setup.plan)
	if !strings.HasPrefix(state, "create") {
		started.lastOperation("/v3/service_instances/"+guid, "create succeeded")
	}
	setup.after(started, guid)
	started.lastOperation("/v3/service_instances/"+guid, state)
	return guid, started
}

// TestInstanceStateTable walks table 3.1 cell by cell: the wanted answers are
// in the order post, patch, patch of metadata, delete, post key, parameters.
func TestInstanceStateTable(t *testing.T) {
	t.Parallel()
	table := map[string][6]string{
		"create initial":     {textTaken, textBusy, "200", textDelete, textKey, textBusy},
		"create in progress": {textTaken, textBusy, "200", "202", textKey, textBusy},
		"create succeeded":   {textTaken, "202", "200", "202", "202", "200"},
		"create failed":      {"202", textMissing, textMissing, "202", textNoKey, textNotFound},
		"update in progress": {textTaken, textBusy, "200", textDelete, textKey, textBusy},
		"update succeeded":   {textTaken, "202", "200", "202", "202", "200"},
		"update failed":      {textTaken, "202", "200", "202", "202", "200"},
		"delete in progress": {textTaken, textBusy, textBusy, textDelete, textKey, textBusy},
		"delete failed":      {textTaken, "202", "200", "202", "202", "200"},
	}
	columns := []struct {
		name string
		send func(c *cloud, guid string) result
	}{
		{"POST same name", func(c *cloud, _ string) result {
			return c.do("POST", "/v3/service_instances", c.instanceBody("it", "postgres/small", ""))
		}},
		{"PATCH", func(c *cloud, guid string) result {
			return c.do("PATCH", "/v3/service_instances/"+guid, `{"parameters":{}}`)
		}},
		{"PATCH metadata only", func(c *cloud, guid string) result {
			return c.do("PATCH", "/v3/service_instances/"+guid, `{"metadata":{"labels":{"a":"b"}}}`)
		}},
		{"DELETE", func(c *cloud, guid string) result { return c.do("DELETE", "/v3/service_instances/"+guid, "") }},
		{"POST key", func(c *cloud, guid string) result {
			return c.do("POST", "/v3/service_credential_bindings", keyBody("key", guid, ""))
		}},
		{"parameters", func(c *cloud, guid string) result {
			return c.do("GET", "/v3/service_instances/"+guid+"/parameters", "")
		}},
	}
	for state, wants := range table {
		for i, column := range columns {
			t.Run(state+"/"+column.name, func(t *testing.T) {
				t.Parallel()
				guid, c := startInState(t, state)
				checkAnswer(t, column.send(c, guid), wants[i])
			})
		}
	}
}

// TestKeyDeleteByInstanceState is the column "DELETE key" of table 3.1.
func TestKeyDeleteByInstanceState(t *testing.T) {
	t.Parallel()
	table := map[string]string{
		"create initial": textDelete, "create in progress": textDelete, "create succeeded": "202", "create failed": "202",
		"update in progress": textDelete, "update succeeded": "202", "update failed": "202",
		"delete in progress": textDelete, "delete failed": "202",
	}
	for state, want := range table {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			c := start(t, idle())
			kind, phase, _ := strings.Cut(state, " ")
			guid := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"postgres","plan":"small",
				"last_operation":{"type":"`+kind+`","state":"`+phase+`"},"keys":[{"name":"key"}]}`).str("guid")
			key := c.do("GET", "/v3/service_credential_bindings?service_instance_guids="+guid, "").str("resources", 0, "guid")
			checkAnswer(t, c.do("DELETE", "/v3/service_credential_bindings/"+key, ""), want)
		})
	}
}

func TestPostOverFailedCreate(t *testing.T) {
	t.Parallel()
	old, c := startInState(t, "create failed")
	guid, job := c.create("it", "postgres/small")
	c.job(job, jobComplete)
	if guid == old {
		t.Errorf("the new row has the old GUID")
	}
	if got := c.do("GET", "/v3/service_instances/"+old, "").status; got != 404 {
		t.Errorf("old row: %d, want 404", got)
	}
	eventually(t, "orphan deprovision", func() bool { return c.calls("it", deprovision) == 1 })
	if n := len(c.state().Instances); n != 1 {
		t.Errorf("%d rows of one name, want 1", n)
	}
}

// TestUpdateIsSynchronousOrNot is section 1.10: what needs the backing broker,
// and what becomes of the last operation.
func TestUpdateIsSynchronousOrNot(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		plan, body, want, last string
	}{
		"metadata alone":            {"postgres/small", `{"metadata":{"labels":{"a":"b"}}}`, "200", "create succeeded"},
		"tags":                      {"postgres/small", `{"tags":["a"]}`, "200", "update succeeded"},
		"tags and metadata":         {"postgres/small", `{"tags":null,"metadata":{}}`, "200", "update succeeded"},
		"nothing at all":            {"postgres/small", `{}`, "200", "update succeeded"},
		"empty parameters":          {"postgres/small", `{"parameters":{}}`, "202", "update succeeded"},
		"a name with context":       {"postgres/small", `{"name":"new"}`, "202", "update succeeded"},
		"a name without context":    {"queue/standard", `{"name":"new"}`, "200", "update succeeded"},
		"another plan":              {"postgres/small", `PLAN(postgres/large)`, "202", "update succeeded"},
		"the same plan":             {"postgres/small", `PLAN(postgres/small)`, "200", "update succeeded"},
		"the same version":          {"postgres/maintained", `{"maintenance_info":{"version":"2.1.0"}}`, "200", "update succeeded"},
		"a plan of another kind":    {"postgres/small", `PLAN(queue/standard)`, "400 1002 CF-InvalidRelation: service plan relates to a different service offering", "create succeeded"},
		"a plan that may not":       {"queue/standard", `PLAN(queue/priority)`, unprocessableText + "The service does not support changing plans.", "create succeeded"},
		"a version that is not":     {"postgres/maintained", `{"maintenance_info":{"version":"3.0.0"}}`, unprocessableText + "maintenance_info.version requested is invalid. Please ensure the catalog is up to date and you are providing a version supported by this service plan.", "create succeeded"},
		"a version without any":     {"postgres/small", `{"maintenance_info":{"version":"3.0.0"}}`, unprocessableText + "The service broker does not support upgrades for service instances created from this plan.", "create succeeded"},
		"a version that is none":    {"postgres/small", `{"maintenance_info":{"version":"three"}}`, unprocessableText + "Maintenance info Version must be a Semantic Version string", "create succeeded"},
		"an unknown plan":           {"postgres/small", `{"relationships":{"service_plan":{"data":{"guid":"x"}}}}`, unprocessableText + "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.", "create succeeded"},
		"a name that is too long":   {"postgres/small", `{"name":"` + strings.Repeat("x", 256) + `"}`, "500 10001 UnknownError: An unknown error occurred.", "create succeeded"},
		"a name that is taken":      {"postgres/small", `{"name":"other"}`, unprocessableText + "The service instance name is taken: other", "create succeeded"},
		"its own name":              {"postgres/small", `{"name":"it"}`, "202", "update succeeded"},
		"parameters that are wrong": {"postgres/small", `{"parameters":1}`, unprocessableText + "Parameters must be an object", "create succeeded"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.ready("other", "postgres/small")
			guid := c.ready("it", test.plan)
			checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, c.planPatch(test.body)), test.want)
			c.lastOperation("/v3/service_instances/"+guid, test.last)
		})
	}
}

// TestUpdateIsWrittenOnSuccessOnly holds for the plan, the name and the marks.
func TestUpdateIsWrittenOnSuccessOnly(t *testing.T) {
	t.Parallel()
	for plan, written := range map[string]bool{"postgres/large": true, "faults/update-fails": false, "faults/update-rejected": false} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			first := "postgres/small"
			if !written {
				first = "faults/create-fails"
			}
			offeringName, planName, _ := strings.Cut(first, "/")
			guid := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"`+offeringName+`","plan":"`+planName+`","annotations":{"old":"1"}}`).str("guid")
			body := strings.TrimSuffix(c.planPatch("PLAN("+plan+")"), "}") + `,"name":"new","parameters":{"a":1},"tags":["t"],"metadata":{"annotations":{"mark":"x","old":null}}}`
			job := c.must(202, "PATCH", "/v3/service_instances/"+guid, body).header.Get("Location")
			end := map[bool]string{true: jobComplete, false: jobFailed}[written]
			c.job(job, end)
			row := c.must(200, "GET", "/v3/service_instances/"+guid, "")
			if got := row.str("name") == "new"; got != written {
				t.Errorf("name %q", row.str("name"))
			}
			if got := row.str("metadata", "annotations", "mark") == "x" && row.at("metadata", "annotations", "old") == nil && row.str("tags", 0) == "t"; got != written {
				t.Errorf("row %s", row.body)
			}
			if got := row.str("relationships", "service_plan", "data", "guid") == c.planGUID(plan); got != written {
				t.Errorf("plan written: %v", got)
			}
			if got := string(c.state().Instances[0].Parameters); got != `{"a":1}` {
				t.Errorf("received parameters %s", got)
			}
			if got := string(c.must(200, "GET", "/v3/service_instances/"+guid+"/parameters", "").body) == `{"a":1}`; got != written {
				t.Errorf("parameters in force: %v", got)
			}
		})
	}
}

func TestUpdateToNonBindablePlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	c.readyKey("k", guid)
	want := unprocessableText + "The service plan is invalid: cannot switch to non-bindable plan when service bindings exist"
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, c.planPatch("PLAN(postgres/no-bindings)")), want)
}

// TestUpgrade raises the version of a plan and then that of an instance.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/maintained")
	c.must(200, "POST", "/__sim/marketplace", `{"maintenance":{"postgres/maintained":"2.2.0"}}`)
	if r := c.must(200, "GET", "/v3/service_instances/"+guid, ""); r.at("upgrade_available") != true || r.str("maintenance_info", "version") != "2.1.0" {
		t.Errorf("before: %s", r.body)
	}
	c.job(c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"maintenance_info":{"version":"2.2.0"}}`).header.Get("Location"), jobComplete)
	if r := c.must(200, "GET", "/v3/service_instances/"+guid, ""); r.at("upgrade_available") != false || r.str("maintenance_info", "version") != "2.2.0" {
		t.Errorf("after: %s", r.body)
	}
	moved := strings.TrimSuffix(c.planPatch("PLAN(postgres/small)"), "}") + `,"maintenance_info":{"version":"2.2.0"}}`
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, moved), unprocessableText+"maintenance_info should not be changed when switching to different plan.")
}

func TestUpdateOfAnInaccessiblePlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "postgres/small")
	large := c.planPatch("PLAN(postgres/large)")
	c.must(200, "POST", "/__sim/marketplace", `{"hide":["postgres/small"]}`)
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, `{"parameters":{}}`), unprocessableText+"Cannot update parameters of a service instance that belongs to inaccessible plan")
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, `{"name":"x"}`), unprocessableText+"Cannot update name of a service instance that belongs to inaccessible plan")
	checkAnswer(t, c.do("PATCH", "/v3/service_instances/"+guid, large), "202")
}

func TestPurge(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid, _ := c.create("it", "faults/create-stalls")
	c.lastOperation("/v3/service_instances/"+guid, "create in progress")
	c.must(204, "DELETE", "/v3/service_instances/"+guid+"?purge=true", "")
	c.must(404, "GET", "/v3/service_instances/"+guid, "")
	if n := c.calls("it", deprovision); n != 0 {
		t.Errorf("purge asked the backing broker %d times", n)
	}
}

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

// TestRenamedByHand has somebody rename an instance and its key past the API:
// GUIDs, space and marks stay, and the old names are free.
func TestRenamedByHand(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant(`,"labels":{"a":"b"},"keys":[{"name":"k"}]`)
	path, keys := "/v3/service_instances/"+guid, "/v3/service_credential_bindings?names="
	key := c.do("GET", keys+"k", "").str("resources", 0, "guid")
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"name":"moved","dashboard_url":"https://d.example.org"}`)
	c.must(200, "PATCH", "/__sim/keys/"+key, `{"name":"other"}`)
	row := c.must(200, "GET", path, "")
	if row.str("name") != "moved" || row.str("metadata", "labels", "a") != "b" || row.str("dashboard_url") != "https://d.example.org" ||
		row.str("last_operation", "type") != "create" || row.str("relationships", "space", "data", "guid") != c.space("work") {
		t.Errorf("row %s", row.body)
	}
	for query, want := range map[string]string{
		"/v3/service_instances?names=it": "", "/v3/service_instances?names=moved": "moved", keys + "k": "", keys + "other": "other",
		"/v3/service_credential_bindings?service_instance_names=moved": "other",
	} {
		if got := strings.Join(c.do("GET", query, "").names(), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"dashboard_url":""}`)
	if got := c.do("GET", path, "").at("dashboard_url"); got != nil {
		t.Errorf("dashboard %v", got)
	}
	c.plant("")
	c.must(409, "PATCH", "/__sim/instances/"+guid, `{"name":"it"}`)
	c.must(400, "PATCH", "/__sim/instances/"+guid, `{"name":" "}`)
	c.must(400, "PATCH", "/__sim/instances/"+guid, `{"details":{}}`)
	c.must(400, "PATCH", "/__sim/keys/"+key, `{"dashboard_url":"x"}`)
	c.must(400, "PATCH", "/__sim/keys/"+key, `{"name":""}`)
}

// TestNamesOfRows has a database that ignores case in names of instances and
// keys, and one that does not.
func TestNamesOfRows(t *testing.T) {
	t.Parallel()
	ignoring := quick()
	ignoring.NamesIgnoreCase = true
	for name, test := range map[string]struct {
		options     Options
		taken, key  string
		found, keys string
		renamed     int
	}{
		"ignoring case": {ignoring, unprocessableText + "The service instance name is taken: IT.",
			unprocessableText + "The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with name 'K'.", "it", "k", 409},
		"telling case apart": {quick(), "202", "202", "", "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, test.options)
			guid := c.plant(`,"keys":[{"name":"k"}]`)
			for query, want := range map[string]string{
				"/v3/service_instances?names=IT": test.found, "/v3/service_credential_bindings?names=K": test.keys,
				"/v3/service_credential_bindings?service_instance_names=IT": test.keys,
			} {
				if got := strings.Join(c.do("GET", query, "").names(), " "); got != want {
					t.Errorf("%s: %q, want %q", query, got, want)
				}
			}
			second := c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"b","offering":"postgres","plan":"small"}`).str("guid")
			c.must(test.renamed, "PATCH", "/__sim/instances/"+second, `{"name":"It"}`)
			c.must(200, "PATCH", "/__sim/instances/"+second, `{"name":"b"}`)
			checkAnswer(t, c.do("POST", "/v3/service_instances", c.instanceBody("IT", "postgres/small", "")), test.taken)
			checkAnswer(t, c.do("POST", "/v3/service_credential_bindings", keyBody("K", guid, "")), test.key)
		})
	}
}

// TestCaseOfANameChanges has an instance renamed to its own name in another
// case, on a database where the two are one.
func TestCaseOfANameChanges(t *testing.T) {
	t.Parallel()
	o := quick()
	o.NamesIgnoreCase = true
	c := start(t, o)
	guid := c.plant("")
	c.must(202, "PATCH", "/v3/service_instances/"+guid, `{"name":"IT"}`)
	if got := c.lastOperation("/v3/service_instances/"+guid, "update succeeded").str("name"); got != "IT" {
		t.Errorf("name %q", got)
	}
}
