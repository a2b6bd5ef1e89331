package cfsim

import (
	"strings"
	"testing"
)

const (
	textKeyTaken    = unprocessableText + "The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with name 'key'."
	textKeyDeleting = unprocessableText + "The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with the name 'key' that is getting deleted or its deletion failed."
	textKeyBusy     = unprocessableText + "There is an operation in progress for the service binding."
	textNoDetails   = "404 10010 CF-ResourceNotFound: "
)

// startKeyInState leads a key to a state of the table in docs/cf-contract.md 3.2: the plan, and whether it is deleted.
// "create initial" needs workers that never come.
func startKeyInState(t *testing.T, state string) (instance, guid string, c *cloud) {
	t.Helper()
	plans := map[string]string{
		"create initial": "postgres/small", "create in progress": "faults/bind-stalls", "create succeeded": "postgres/small",
		"create failed": "faults/bind-fails", "delete in progress": "faults/unbind-stalls", "delete failed": "faults/unbind-fails",
	}
	c = start(t, map[bool]Options{true: idle(), false: quick()}[state == "create initial"])
	instance = c.plantAt("ferry/work", "it", plans[state], "")
	guid, job := c.createKey("key", instance)
	if strings.HasPrefix(state, "delete") {
		c.job(job, jobComplete)
		c.accepted("DELETE", keys+guid, "")
	}
	c.lastOperation(keys+guid, state)
	return instance, guid, c
}

// TestKeyStateTable walks the table cell by cell.
func TestKeyStateTable(t *testing.T) {
	t.Parallel()
	requests := []string{"POST same name", "GET details", "DELETE", "PATCH metadata"}
	for state, wants := range map[string][4]string{
		"create initial":     {textKeyTaken, textNoDetails + "Creation of service key initial", textKeyBusy, "200"},
		"create in progress": {textKeyTaken, textNoDetails + "Creation of service key in progress", "202", "200"},
		"create succeeded":   {textKeyTaken, "200", "202", "200"},
		"create failed":      {"202", textNoDetails + "Creation of service key failed", "202", "200"},
		"delete in progress": {textKeyDeleting, textNoDetails + "Deletion of service key in progress", textKeyBusy, unprocessableText + "The service binding is being deleted"},
		"delete failed":      {textKeyDeleting, textNoDetails + "Deletion of service key failed", "202", "200"},
	} {
		for i, request := range requests {
			t.Run(state+"/"+request, func(t *testing.T) {
				t.Parallel()
				instance, guid, c := startKeyInState(t, state)
				switch request {
				case "POST same name":
					c.answers("POST", keys, keyBody("key", instance, ""), wants[i])
				case "GET details":
					c.answers("GET", keys+guid+"/details", "", wants[i])
				case "DELETE":
					c.answers("DELETE", keys+guid, "", wants[i])
				case "PATCH metadata":
					c.answers("PATCH", keys+guid, `{"metadata":{"annotations":{"a":"b"}}}`, wants[i])
				}
			})
		}
	}
}

func TestPostOverFailedKey(t *testing.T) {
	t.Parallel()
	instance, old, c := startKeyInState(t, "create failed")
	if guid, _ := c.createKey("key", instance); guid == old {
		t.Errorf("the new key has the old GUID")
	}
	c.asked("it", unbind, 1)
}

// TestCreateKeyTexts has the quoted texts of docs/cf-contract.md 2.4 that no state is needed for.
func TestCreateKeyTexts(t *testing.T) {
	t.Parallel()
	c := start(t, idle())
	small := c.plant("")
	unbindable, queue := c.plantAt("ferry/work", "other", "postgres/no-bindings", ""), c.plantAt("ferry/work", "queue", "queue/standard", "")
	for _, test := range []struct{ body, want string }{
		{keyBody("k", "nowhere", ""), "The service instance could not be found: 'nowhere'"},
		{keyBody("k", unbindable, ""), "Service plan does not allow bindings."},
		{keyBody("k", queue, ""), "Service plan does not allow bindings."},
		{keyBody("k", small, `,"parameters":1`), "Parameters must be an object"},
		{strings.Replace(keyBody("k", small, ""), `"k"`, `""`, 1), "Name can't be blank"},
		{strings.Replace(keyBody("k", small, ""), `"relationships":{`, `"relationships":{"app":{"data":{"guid":"x"}},`, 1), "Relationships Unknown field(s): 'app'"},
		{strings.Replace(keyBody("k", small, ""), `"`+small+`"`, `7`, 1), "Relationships Service instance guid must be a string"},
		{keyBody("k", strings.Repeat("x", 201), ""), "Relationships Service instance guid must be between 1 and 200 characters"},
		{`{"type":"key","name":"k"}`, "Relationships Service instance can't be blank"},
	} {
		c.answers("POST", keys, test.body, unprocessableText+test.want)
	}
}

func TestKeyDetails(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	instance := c.ready("it", "drain/standard")
	key := c.readyKey("key", instance)
	first := c.must(200, "GET", keys+key+"/details", "")
	if again := c.must(200, "GET", keys+key+"/details", ""); string(first.body) != string(again.body) {
		t.Errorf("details differ between reads: %s and %s", first.body, again.body)
	}
	password := first.str("credentials", "password")
	first.reads(t, "credentials.big=9007199254740993", "credentials.uri=postgres://"+key+":"+password+"@db.example.org:5432/"+instance, "credentials.username="+key,
		"syslog_drain_url=syslog-tls://drain.example.org:6514/"+instance, "volume_mounts.0.driver=nfsv3driver")
	if password == "" {
		t.Errorf("no password: %s", first.body)
	}
	plain := c.readyKey("key", c.ready("plain", "postgres/small"))
	c.reads(keys+plain+"/details", "syslog_drain_url=", "volume_mounts=")
}

// TestDetailsWithoutCredentials has the backing broker bring anything but an object of credentials.
func TestDetailsWithoutCredentials(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]bool{`{}`: true, `{"credentials":null}`: true, `{"credentials":[1]}`: true, `{"credentials":"text"}`: true,
		`{"credentials":{},"syslog_drain_url":"syslog://x"}`: true}, func(c *cloud, details string, _ bool) {
		c.instruct(`{"operation":"bind","binding":"bare","answer":"accepted","details":` + details + `}`)
		guid := c.plant("")
		bare, usual := c.readyKey("bare", guid), c.readyKey("usual", guid)
		detailsOf := func(key, want string) {
			c.t.Helper()
			if got := string(c.must(200, "GET", keys+key+"/details", "").body); got != want {
				c.t.Errorf("details %s, want %s", got, want)
			}
		}
		detailsOf(bare, details)
		full := string(c.must(200, "GET", keys+usual+"/details", "").body)
		c.force("keys/"+usual, `{"details":`+details+`}`)
		detailsOf(usual, details)
		c.force("keys/"+usual, `{"details":null,"name":"usual"}`)
		detailsOf(usual, full)
	})
}

// TestMetadataOfAKey is kept from its creation on and can be changed. Parameters can be read where the offering says
// so.
func TestMetadataOfAKey(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := keyBody("k", c.plant(""), `,"parameters":{"p":1},"metadata":{"annotations":{"a":"1"},"labels":{"l":"1"}}`)
	c.job(c.accepted("POST", keys, body), jobComplete)
	key := keys + c.reads(keys+"?label_selector=l=1", "resources.0.metadata.annotations.a=1").str("resources", 0, "guid")
	c.must(200, "PATCH", key, `{"metadata":{"annotations":{"a":"2"},"labels":{"l":null}}}`).reads(t, "metadata.annotations.a=2", "metadata.labels.l=")
	c.reads(key+"/parameters", "p=1")
	drain := c.readyKey("k", c.plantAt("ferry/work", "drain", "drain/standard", ""))
	c.answers("GET", keys+drain+"/parameters", "",
		"400 90007 CF-ServiceFetchBindingParametersNotSupported: This service does not support fetching service binding parameters.")
	c.answers("GET", instances+c.plantAt("ferry/work", "queue", "queue/standard", "")+"/parameters", "",
		"400 120004 CF-ServiceFetchInstanceParametersNotSupported: This service does not support fetching service instance parameters.")
}
