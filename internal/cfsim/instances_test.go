package cfsim

import (
	"strings"
	"testing"
)

// instanceStates bring an instance "it" into each state of the table in docs/cf-contract.md 3.1, by what really leads
// there: a plan, and an operation after the create.
var instanceStates = map[string]struct {
	options   Options
	plan      string
	operation string
}{
	"create initial":     {idle(), "postgres/small", ""},
	"create in progress": {quick(), "faults/create-stalls", ""},
	"create succeeded":   {quick(), "postgres/small", ""},
	"create failed":      {quick(), "faults/create-rejected", ""},
	"update in progress": {quick(), "faults/update-stalls", "PATCH"},
	"update succeeded":   {quick(), "postgres/small", "PATCH"},
	"update failed":      {quick(), "faults/update-rejected", "PATCH"},
	"delete in progress": {quick(), "faults/delete-stalls", "DELETE"},
	"delete failed":      {quick(), "faults/delete-rejected", "DELETE"},
}

func startInState(t *testing.T, state string) (guid string, c *cloud) {
	t.Helper()
	setup := instanceStates[state]
	c = start(t, setup.options)
	guid, _ = c.create("it", setup.plan)
	if setup.operation != "" {
		c.lastOperation(instances+guid, "create succeeded")
		c.accepted(setup.operation, instances+guid, `{"parameters":{"a":1}}`)
	}
	c.lastOperation(instances+guid, state)
	return guid, c
}

// TestInstanceStateTable walks the table cell by cell.
func TestInstanceStateTable(t *testing.T) {
	t.Parallel()
	requests := []string{"POST same name", "PATCH", "PATCH metadata", "DELETE", "POST key", "GET parameters"}
	for state, wants := range map[string][6]string{
		"create initial":     {textTaken, textBusy, "200", textDelete, textKey, textBusy},
		"create in progress": {textTaken, textBusy, "200", "202", textKey, textBusy},
		"create succeeded":   {textTaken, "202", "200", "202", "202", "200"},
		"create failed":      {"202", textMissing, textMissing, "202", textNoKey, textNotFound},
		"update in progress": {textTaken, textBusy, "200", textDelete, textKey, textBusy},
		"update succeeded":   {textTaken, "202", "200", "202", "202", "200"},
		"update failed":      {textTaken, "202", "200", "202", "202", "200"},
		"delete in progress": {textTaken, textBusy, textBusy, textDelete, textKey, textBusy},
		"delete failed":      {textTaken, "202", "200", "202", "202", "200"},
	} {
		for i, request := range requests {
			t.Run(state+"/"+request, func(t *testing.T) {
				t.Parallel()
				guid, c := startInState(t, state)
				switch request {
				case "POST same name":
					c.answers("POST", instances, c.instanceBody("it", "postgres/small", ""), wants[i])
				case "PATCH":
					c.answers("PATCH", instances+guid, `{"parameters":{}}`, wants[i])
				case "PATCH metadata":
					c.answers("PATCH", instances+guid, `{"metadata":{"labels":{"a":"b"}}}`, wants[i])
				case "DELETE":
					c.answers("DELETE", instances+guid, "", wants[i])
				case "POST key":
					c.answers("POST", keys, keyBody("key", guid, ""), wants[i])
				case "GET parameters":
					c.answers("GET", instances+guid+"/parameters", "", wants[i])
				}
			})
		}
	}
}

// TestKeyDeleteByInstanceState is the column "DELETE key" of the table.
func TestKeyDeleteByInstanceState(t *testing.T) {
	t.Parallel()
	each(t, idle(), map[string]string{
		"create initial": textDelete, "create in progress": textDelete, "create succeeded": "202", "create failed": "202",
		"update in progress": textDelete, "update succeeded": "202", "update failed": "202",
		"delete in progress": textDelete, "delete failed": "202",
	}, func(c *cloud, last, want string) {
		kind, state, _ := strings.Cut(last, " ")
		c.plant(`,"last_operation":{"type":"` + kind + `","state":"` + state + `"},"keys":[{"name":"key"}]`)
		c.answers("DELETE", keys+c.do("GET", keys, "").str("resources", 0, "guid"), "", want)
	})
}

func TestPostOverFailedCreate(t *testing.T) {
	t.Parallel()
	old, c := startInState(t, "create failed")
	if guid := c.ready("it", "postgres/small"); guid == old {
		t.Errorf("the new row has the old GUID")
	}
	c.answers("GET", instances+old, "", textNotFound)
	c.asked("it", deprovision, 1)
	c.lists(instances, "it")
}

// TestCreateInstanceTexts has the quoted texts of docs/cf-contract.md 2.3 for POST.
func TestCreateInstanceTexts(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	good := c.instanceBody("it", "postgres/small", "")
	sp, small := c.space("work"), c.planGUID("postgres/small")
	with := func(more string) string { return c.instanceBody("it", "postgres/small", ","+more) }
	const unparsed = "400 1001 CF-MessageParseError: Request invalid due to parse error: invalid request body"
	for _, test := range []struct{ body, want string }{
		{`{"name"`, unparsed},
		{`[]`, unparsed},
		{with(`"colour":1`), unprocessableText + "Unknown field(s): 'colour'"},
		{strings.Replace(good, sp, "nowhere", 1), unprocessableText + "Invalid space. Ensure that the space exists and you have access to it."},
		{strings.Replace(good, small, "none", 1), unprocessableText + "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it."},
		{with(`"parameters":[]`), unprocessableText + "Parameters must be an object"},
		{strings.Replace(good, `"it"`, `" "`, 1), unprocessableText + "Name can't be blank"},
		{strings.Replace(good, `"it"`, `"`+strings.Repeat("x", 256)+`"`, 1), unprocessableText + "name max_length"},
		{with(`"tags":"a"`), unprocessableText + "Tags must be a list of strings"},
		{with(`"tags":["` + strings.Repeat("x", 2049) + `"]`), unprocessableText + "tags too_long"},
		{`{"type":"managed","name":"it"}`, unprocessableText + "Relationships Space can't be blank, Relationships Service plan can't be blank"},
		{strings.Replace(good, "managed", "x", 1), unprocessableText + "Type must be one of 'managed', 'user-provided'"},
		{with(`"metadata":{"x":{}}`), unprocessableText + "Metadata has unexpected field(s): 'x'"},
	} {
		c.answers("POST", instances, test.body, test.want)
	}
	c.lists(instances, "") // what is refused leaves no row
	c.answers("POST", instances, with(`"parameters":null,"tags":["a"]`), "202")
	c.answers("POST", instances, strings.Replace(good, `"it"`, `"  it "`, 1), textTaken)
}

// TestUpdateIsSynchronousOrNot is docs/cf-contract.md 1.10: what needs the backing broker, and what becomes of the last
// operation.
func TestUpdateIsSynchronousOrNot(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]struct{ plan, body, want, last string }{
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
	}, func(c *cloud, _ string, test struct{ plan, body, want, last string }) {
		c.plantAt("ferry/work", "other", "postgres/small", "")
		guid := c.ready("it", test.plan)
		c.answers("PATCH", instances+guid, c.planPatch(test.body), test.want)
		c.lastOperation(instances+guid, test.last)
	})
}

// TestUpdateIsWrittenOnSuccessOnly holds for the plan, the name and the marks; the backing broker gets the parameters
// all the same.
func TestUpdateIsWrittenOnSuccessOnly(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]bool{"postgres/large": true, "faults/update-fails": false, "faults/update-rejected": false}, func(c *cloud, plan string, written bool) {
		first := map[bool]string{true: "postgres/small", false: "faults/create-fails"}[written]
		path := instances + c.plantAt("ferry/work", "it", first, `,"annotations":{"old":"1"}`)
		body := strings.TrimSuffix(c.planPatch("PLAN("+plan+")"), "}") + `,"name":"new","parameters":{"a":1},"tags":["t"],"metadata":{"annotations":{"mark":"x","old":null}}}`
		job := c.accepted("PATCH", path, body)
		if written {
			c.job(job, jobComplete)
			c.reads(path, "name=new", "metadata.annotations=map[mark:x]", "tags.0=t", "relationships.service_plan.data.guid="+c.planGUID(plan))
			c.reads(path+"/parameters", "a=1")
		} else {
			c.job(job, jobFailed)
			c.reads(path, "name=it", "metadata.annotations=map[old:1]", "tags.#=0", "relationships.service_plan.data.guid="+c.planGUID(first))
			c.reads(path+"/parameters", "a=")
		}
		c.reads("/__sim/state", "instances.0.parameters.a=1")
	})
}

func TestUpdateToNonBindablePlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant(`,"keys":[{"name":"k"}]`)
	c.answers("PATCH", instances+guid, c.planPatch("PLAN(postgres/no-bindings)"),
		unprocessableText+"The service plan is invalid: cannot switch to non-bindable plan when service bindings exist")
}

// TestUpgrade raises the version of a plan and then that of an instance.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	path := instances + c.ready("it", "postgres/maintained")
	c.market(`{"maintenance":{"postgres/maintained":"2.2.0"}}`)
	c.reads(path, "upgrade_available=true", "maintenance_info.version=2.1.0")
	c.job(c.accepted("PATCH", path, `{"maintenance_info":{"version":"2.2.0"}}`), jobComplete)
	c.reads(path, "upgrade_available=false", "maintenance_info.version=2.2.0")
	moved := strings.TrimSuffix(c.planPatch("PLAN(postgres/small)"), "}") + `,"maintenance_info":{"version":"2.2.0"}}`
	c.answers("PATCH", path, moved, unprocessableText+"maintenance_info should not be changed when switching to different plan.")
}

func TestUpdateOfAnInaccessiblePlan(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	path, small := instances+c.plantAt("ferry/work", "it", "postgres/maintained", `,"maintenance_version":"2.0.0"`), c.planPatch("PLAN(postgres/small)")
	c.market(`{"hide":["postgres/maintained"]}`)
	for field, body := range map[string]string{"parameters": `{"parameters":{}}`, "name": `{"name":"x"}`, "maintenance_info": `{"maintenance_info":{"version":"2.1.0"}}`} {
		c.answers("PATCH", path, body, unprocessableText+"Cannot update "+field+" of a service instance that belongs to inaccessible plan")
	}
	c.answers("PATCH", path, small, "202")
}

func TestPurge(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	path, _ := c.operate(provision, "faults/create-stalls")
	c.lastOperation(path, "create in progress")
	c.must(204, "DELETE", path+"?purge=true", "")
	c.must(404, "GET", path, "")
	c.asked("it", deprovision, 0)
}

// TestRenamedByHand has somebody rename an instance and its key past the API: GUIDs, space and marks stay, and the old
// names are free.
func TestRenamedByHand(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant(`,"labels":{"a":"b"},"keys":[{"name":"k"}]`)
	c.force("instances/"+guid, `{"name":"moved","dashboard_url":"https://d.example.org"}`)
	c.force("keys/"+c.do("GET", keys+"?names=k", "").str("resources", 0, "guid"), `{"name":"other"}`)
	c.reads(instances+guid, "name=moved", "metadata.labels.a=b", "dashboard_url=https://d.example.org", "last_operation.type=create",
		"relationships.space.data.guid="+c.space("work"))
	for query, want := range map[string]string{
		instances + "?names=it": "", instances + "?names=moved": "moved", keys + "?names=k": "", keys + "?names=other": "other", keys + "?service_instance_names=moved": "other",
	} {
		c.lists(query, want)
	}
	c.force("instances/"+guid, `{"dashboard_url":""}`)
	c.reads(instances+guid, "dashboard_url=")
	c.plant("")
}

// TestNamesOfRows has a database that ignores case in names of instances and keys, and one that does not.
func TestNamesOfRows(t *testing.T) {
	t.Parallel()
	ignoring := quick()
	ignoring.NamesIgnoreCase = true
	type names struct {
		options               Options
		taken, key            string
		instances, keysListed string
		renamed               int
	}
	for name, test := range map[string]names{
		"ignoring case": {ignoring, unprocessableText + "The service instance name is taken: IT.",
			unprocessableText + "The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with name 'K'.", "it", "k", 409},
		"telling case apart": {quick(), "202", "202", "", "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, test.options)
			guid, second := c.plant(`,"keys":[{"name":"k"}]`), c.plantAt("ferry/work", "b", "postgres/small", "")
			c.lists(instances+"?names=IT", test.instances)
			c.lists(keys+"?names=K", test.keysListed)
			c.lists(keys+"?service_instance_names=IT", test.keysListed)
			c.must(test.renamed, "PATCH", "/__sim/instances/"+second, `{"name":"It"}`)
			c.force("instances/"+second, `{"name":"b"}`)
			c.answers("POST", instances, c.instanceBody("IT", "postgres/small", ""), test.taken)
			c.answers("POST", keys, keyBody("K", guid, ""), test.key)
		})
	}
	t.Run("its own name in another case", func(t *testing.T) {
		t.Parallel()
		c := start(t, ignoring)
		guid := c.plant("")
		c.job(c.accepted("PATCH", instances+guid, `{"name":"IT"}`), jobComplete)
		c.reads(instances+guid, "name=IT")
	})
}
