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

const (
	textTaken    = "422 10008 CF-UnprocessableEntity: The service instance name is taken: it."
	textBusy     = "409 60016 CF-AsyncServiceInstanceOperationInProgress: An operation for service instance it is in progress."
	textMissing  = "404 60004 CF-ServiceInstanceNotFound: The service instance could not be found: it"
	textDelete   = "422 10008 CF-UnprocessableEntity: There is an operation in progress for the service instance."
	textKey      = "422 10008 CF-UnprocessableEntity: There is an operation in progress for the service instance"
	textNoKey    = "422 10008 CF-UnprocessableEntity: Service instance not found"
	textNotFound = "404 10010 CF-ResourceNotFound: Service instance not found"
)

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

// checkAnswer compares with a status alone, or with a whole error.
func checkAnswer(t *testing.T, got result, want string) {
	t.Helper()
	text := got.cfErr()
	if len(want) == 3 {
		text = strings.Fields(got.cfErrOr())[0]
	}
	if text != want {
		t.Errorf("got %s, want %s", got.cfErrOr(), want)
	}
	if got.status == 202 && (len(got.body) != 0 || !strings.Contains(got.header.Get("Location"), "/v3/jobs/")) {
		t.Errorf("202 with body %q and location %q", got.body, got.header.Get("Location"))
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
