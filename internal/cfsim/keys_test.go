package cfsim

import (
	"strings"
	"testing"
)

// TestDetailsWithoutCredentials has the backing broker bring anything but an
// object of credentials.
func TestDetailsWithoutCredentials(t *testing.T) {
	t.Parallel()
	for _, details := range []string{`{}`, `{"credentials":null}`, `{"credentials":[1]}`, `{"credentials":"text"}`, `{"credentials":{},"syslog_drain_url":"syslog://x"}`} {
		t.Run(details, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.must(200, "POST", "/__sim/broker", `{"operation":"bind","binding":"bare","answer":"accepted","details":`+details+`}`)
			guid := c.ready("it", "postgres/small")
			bare, usual := c.readyKey("bare", guid), c.readyKey("usual", guid)
			path := "/v3/service_credential_bindings/" + bare + "/details"
			if got := string(c.must(200, "GET", path, "").body); got != details {
				t.Errorf("details %s", got)
			}
			full := string(c.must(200, "GET", "/v3/service_credential_bindings/"+usual+"/details", "").body)
			c.must(200, "PATCH", "/__sim/keys/"+usual, `{"details":`+details+`}`)
			if got := string(c.must(200, "GET", "/v3/service_credential_bindings/"+usual+"/details", "").body); got != details {
				t.Errorf("details by the control %s", got)
			}
			c.must(200, "PATCH", "/__sim/keys/"+usual, `{"details":null,"name":"usual"}`)
			if got := string(c.must(200, "GET", "/v3/service_credential_bindings/"+usual+"/details", "").body); got != full {
				t.Errorf("details again %s, want %s", got, full)
			}
		})
	}
	c := start(t, quick())
	c.must(400, "POST", "/__sim/broker", `{"operation":"bind","answer":"done","details":[]}`)
	c.must(400, "POST", "/__sim/broker", `{"operation":"unbind","answer":"done","details":{}}`)
}

const (
	textKeyTaken    = "422 10008 CF-UnprocessableEntity: The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with name 'key'."
	textKeyDeleting = "422 10008 CF-UnprocessableEntity: The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with the name 'key' that is getting deleted or its deletion failed."
	textKeyBusy     = "422 10008 CF-UnprocessableEntity: There is an operation in progress for the service binding."
	textKeyDeleted  = "422 10008 CF-UnprocessableEntity: The service binding is being deleted"
)

func textDetails(state string) string {
	return "404 10010 CF-ResourceNotFound: " + state
}

// keyStates leads a key to each state of table 3.2: the plan, and whether it
// is deleted. "create initial" needs workers that never come.
func startKeyInState(t *testing.T, state string) (instance, guid string, c *cloud) {
	t.Helper()
	plans := map[string]string{
		"create initial": "postgres/small", "create in progress": "faults/bind-stalls", "create succeeded": "postgres/small",
		"create failed": "faults/bind-fails", "delete in progress": "faults/unbind-stalls", "delete failed": "faults/unbind-fails",
	}
	if state == "create initial" {
		c = start(t, idle())
		instance = c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"it","offering":"postgres","plan":"small"}`).str("guid")
	} else {
		c = start(t, quick())
		instance = c.ready("it", plans[state])
	}
	guid, job := c.createKey("key", instance)
	if strings.HasPrefix(state, "delete") {
		c.job(job, jobComplete)
		c.must(202, "DELETE", "/v3/service_credential_bindings/"+guid, "")
	}
	c.lastOperation("/v3/service_credential_bindings/"+guid, state)
	return instance, guid, c
}

// TestKeyStateTable walks table 3.2 cell by cell: post, details, delete, patch.
func TestKeyStateTable(t *testing.T) {
	t.Parallel()
	table := map[string][4]string{
		"create initial":     {textKeyTaken, textDetails("Creation of service key initial"), textKeyBusy, "200"},
		"create in progress": {textKeyTaken, textDetails("Creation of service key in progress"), "202", "200"},
		"create succeeded":   {textKeyTaken, "200", "202", "200"},
		"create failed":      {"202", textDetails("Creation of service key failed"), "202", "200"},
		"delete in progress": {textKeyDeleting, textDetails("Deletion of service key in progress"), textKeyBusy, textKeyDeleted},
		"delete failed":      {textKeyDeleting, textDetails("Deletion of service key failed"), "202", "200"},
	}
	columns := []struct {
		name string
		send func(c *cloud, instance, guid string) result
	}{
		{"POST same name", func(c *cloud, instance, _ string) result {
			return c.do("POST", "/v3/service_credential_bindings", keyBody("key", instance, ""))
		}},
		{"details", func(c *cloud, _, guid string) result {
			return c.do("GET", "/v3/service_credential_bindings/"+guid+"/details", "")
		}},
		{"DELETE", func(c *cloud, _, guid string) result {
			return c.do("DELETE", "/v3/service_credential_bindings/"+guid, "")
		}},
		{"PATCH metadata", func(c *cloud, _, guid string) result {
			return c.do("PATCH", "/v3/service_credential_bindings/"+guid, `{"metadata":{"annotations":{"a":"b"}}}`)
		}},
	}
	for state, wants := range table {
		for i, column := range columns {
			t.Run(state+"/"+column.name, func(t *testing.T) {
				t.Parallel()
				instance, guid, c := startKeyInState(t, state)
				checkAnswer(t, column.send(c, instance, guid), wants[i])
			})
		}
	}
}

func TestPostOverFailedKey(t *testing.T) {
	t.Parallel()
	instance, old, c := startKeyInState(t, "create failed")
	guid, _ := c.createKey("key", instance)
	if guid == old {
		t.Errorf("the new key has the old GUID")
	}
	eventually(t, "orphan unbind", func() bool { return c.calls("it", unbind) == 1 })
}

func TestKeyDetails(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	instance := c.ready("it", "drain/standard")
	key := c.readyKey("key", instance)
	path := "/v3/service_credential_bindings/" + key + "/details"
	first, second := c.must(200, "GET", path, ""), c.must(200, "GET", path, "")
	if string(first.body) != string(second.body) {
		t.Errorf("details differ between reads: %s and %s", first.body, second.body)
	}
	if !strings.Contains(string(first.body), `"big":9007199254740993`) {
		t.Errorf("big is not exact: %s", first.body)
	}
	password := first.str("credentials", "password")
	want := "postgres://" + key + ":" + password + "@db.example.org:5432/" + instance
	if got := first.str("credentials", "uri"); got != want || password == "" {
		t.Errorf("uri %q, want %q", got, want)
	}
	if first.str("syslog_drain_url") == "" || first.at("volume_mounts", 0, "driver") == nil {
		t.Errorf("drain without its extras: %s", first.body)
	}
	plain := c.must(200, "GET", "/v3/service_credential_bindings/"+c.readyKey("key", c.ready("plain", "postgres/small"))+"/details", "")
	if plain.at("syslog_drain_url") != nil || plain.at("volume_mounts") != nil {
		t.Errorf("postgres with extras: %s", plain.body)
	}
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

// TestMetadataOfAKey is kept from its creation on and can be changed.
func TestMetadataOfAKey(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	instance := c.ready("it", "postgres/small")
	body := keyBody("k", instance, `,"parameters":{"p":1},"metadata":{"annotations":{"a":"1"},"labels":{"l":"1"}}`)
	c.job(c.must(202, "POST", "/v3/service_credential_bindings", body).header.Get("Location"), jobComplete)
	key := c.do("GET", "/v3/service_credential_bindings?label_selector=l=1", "")
	guid := key.str("resources", 0, "guid")
	if key.str("resources", 0, "metadata", "annotations", "a") != "1" {
		t.Errorf("key %s", key.body)
	}
	r := c.must(200, "PATCH", "/v3/service_credential_bindings/"+guid, `{"metadata":{"annotations":{"a":"2"},"labels":{"l":null}}}`)
	if r.str("metadata", "annotations", "a") != "2" || r.at("metadata", "labels", "l") != nil {
		t.Errorf("patched %s", r.body)
	}
	if got := string(c.must(200, "GET", "/v3/service_credential_bindings/"+guid+"/parameters", "").body); got != `{"p":1}` {
		t.Errorf("parameters %s", got)
	}
	drain := c.readyKey("k", c.ready("drain", "drain/standard"))
	checkAnswer(t, c.do("GET", "/v3/service_credential_bindings/"+drain+"/parameters", ""),
		"400 90007 CF-ServiceFetchBindingParametersNotSupported: This service does not support fetching service binding parameters.")
	checkAnswer(t, c.do("GET", "/v3/service_instances/"+c.ready("queue", "queue/standard")+"/parameters", ""),
		"400 120004 CF-ServiceFetchInstanceParametersNotSupported: This service does not support fetching service instance parameters.")
}
