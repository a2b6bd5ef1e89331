package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// cfState is GET /__sim/state.
type cfState struct {
	Instances   []cfInstance   `json:"instances"`
	Requests    map[string]int `json:"requests"`
	BrokerCalls []cfCall       `json:"broker_calls"`
}

type cfInstance struct {
	GUID               string            `json:"guid"`
	Name               string            `json:"name"`
	Org                string            `json:"org"`
	Space              string            `json:"space"`
	Offering           string            `json:"offering"`
	Plan               string            `json:"plan"`
	Labels             map[string]string `json:"labels"`
	Annotations        map[string]string `json:"annotations"`
	MaintenanceVersion string            `json:"maintenance_version"`
	Parameters         json.RawMessage   `json:"parameters"`
	LastOperation      cfOperation       `json:"last_operation"`
	Keys               []cfKey           `json:"keys"`
}

type cfKey struct {
	GUID          string            `json:"guid"`
	Name          string            `json:"name"`
	Parameters    json.RawMessage   `json:"parameters"`
	Annotations   map[string]string `json:"annotations"`
	LastOperation cfOperation       `json:"last_operation"`
}

type cfOperation struct {
	Type        string `json:"type"`
	State       string `json:"state"`
	Description string `json:"description"`
}

type cfCall struct {
	Org       string `json:"org"`
	Instance  string `json:"instance"`
	Binding   string `json:"binding"`
	Operation string `json:"operation"`
	Count     int    `json:"count"`
}

// cf returns what Cloud Foundry has.
func (c tenant) cf() cfState {
	c.t.Helper()
	var s cfState
	c.get(c.sim+"/__sim/state").want(c.t, http.StatusOK).decode(c.t, &s)
	return s
}

// rows are the tenant's instances of this name in Cloud Foundry.
func (c tenant) rows(id string) []cfInstance {
	c.t.Helper()
	var found []cfInstance
	for _, i := range c.cf().Instances {
		if i.Name == id && i.Org == c.org {
			found = append(found, i)
		}
	}
	return found
}

// row is the one instance of this name; anything else ends the test.
func (c tenant) row(id string) cfInstance {
	c.t.Helper()
	rows := c.rows(id)
	if len(rows) != 1 {
		c.t.Fatalf("Cloud Foundry has %d instances %s, want one: %+v", len(rows), id, rows)
	}
	return rows[0]
}

// asked is how often the backing broker was asked for this.
func (c tenant) asked(operation, id, binding string) int {
	c.t.Helper()
	for _, call := range c.cf().BrokerCalls {
		if call.Org == c.org && call.Operation == operation && call.Instance == id && call.Binding == binding {
			return call.Count
		}
	}
	return 0
}

// askedFor checks that the backing broker was asked n times.
func (c tenant) askedFor(n int, operation, id, binding string) {
	c.t.Helper()
	if got := c.asked(operation, id, binding); got != n {
		c.t.Errorf("the backing broker was asked %d times to %s %s/%s, want %d", got, operation, id, binding, n)
	}
}

// works waits until the backing broker was asked for something that never ends: from
// then on nothing moves by itself.
func (c tenant) works(operation, id, binding string) {
	c.t.Helper()
	kind := map[string]string{"provision": "create", "bind": "create", "update": "update", "deprovision": "delete", "unbind": "delete"}[operation]
	c.eventually(operation+" of "+id+" reaches the backing broker", func() bool { return c.asked(operation, id, binding) > 0 })
	if binding == "" {
		c.comes(id, kind, "in progress")
	} else {
		c.keyComes(id, binding, kind, "in progress")
	}
}

// comes waits until Cloud Foundry shows the instance in a state.
func (c tenant) comes(id, kind, state string) cfInstance {
	c.t.Helper()
	var row cfInstance
	c.eventually(fmt.Sprintf("%s is %s %s in Cloud Foundry", id, kind, state), func() bool {
		for _, row = range c.rows(id) {
			if row.LastOperation.Type == kind && row.LastOperation.State == state {
				return true
			}
		}
		return false
	})
	return row
}

// keyComes waits until Cloud Foundry shows the key in a state.
func (c tenant) keyComes(id, binding, kind, state string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("key %s is %s %s in Cloud Foundry", binding, kind, state), func() bool {
		for _, row := range c.rows(id) {
			for _, k := range row.Keys {
				if k.Name == binding && k.LastOperation.Type == kind && k.LastOperation.State == state {
					return true
				}
			}
		}
		return false
	})
}

// nothingLeft checks that the name is free in Cloud Foundry. Operations end only when
// every call of unknown fate has settled, so there is nothing to wait for.
func (c tenant) nothingLeft(id string) {
	c.t.Helper()
	if rows := c.rows(id); len(rows) != 0 {
		c.t.Errorf("Cloud Foundry still has %+v", rows)
	}
}

// fault is one of the simulator's disturbances.
type fault struct {
	Method  string            `json:"method,omitempty"`
	Route   string            `json:"route,omitempty"`
	Match   string            `json:"match,omitempty"`
	Times   int               `json:"times,omitempty"`
	When    string            `json:"when,omitempty"`
	Action  string            `json:"action"`
	DelayMS int               `json:"delay_ms,omitempty"`
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

const (
	instances = "/v3/service_instances"
	instance  = "/v3/service_instances/:guid"
	keys      = "/v3/service_credential_bindings"
	key       = "/v3/service_credential_bindings/:guid"
)

func (c tenant) disturb(f fault) {
	c.t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		c.t.Fatal(err)
	}
	c.control("POST", "/faults", string(text))
}

// struck waits until all faults that were limited in times have hit.
func (c tenant) struck() {
	c.t.Helper()
	c.eventually("the faults strike", func() bool { return c.control("GET", "/faults", "").body == "[]" })
}

func (c tenant) heal() { c.t.Helper(); c.control("DELETE", "/faults", "") }

// control speaks to the simulator's own controls.
func (c tenant) control(method, path, body string) answer {
	c.t.Helper()
	req, err := http.NewRequest(method, c.sim+"/__sim"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	a := c.do(req)
	a.body = strings.TrimSpace(a.body)
	return a.want(c.t, http.StatusOK)
}

// force puts an instance in a state, whatever its workers do.
func (c tenant) force(guid, kind, state, job string) {
	c.t.Helper()
	c.control("PATCH", "/instances/"+guid, fmt.Sprintf(
		`{"last_operation":{"type":%q,"state":%q,"description":"forced"},"job":%q}`, kind, state, job))
}

// operator calls Cloud Foundry's API as a person who works there would.
func (c tenant) operator(method, path, body string) answer {
	c.t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"ferry"}, "client_secret": {"ferry"}}
	resp, err := c.http.PostForm(c.sim+"/uaa/oauth/token", form)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var token struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&token); err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequest(method, c.sim+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer "+token.AccessToken)
	req.Header.Set("Content-Type", "application/json")
	return c.do(req)
}

// print is what a refusal may not change: the instance in Cloud Foundry, what the
// backing broker was asked, and what polls and fetches show.
func (c tenant) print(id, binding string) string {
	c.t.Helper()
	var out strings.Builder
	state := c.cf()
	for _, i := range state.Instances {
		if i.Name == id {
			_, _ = fmt.Fprintf(&out, "%+v\n", i)
		}
	}
	for _, call := range state.BrokerCalls {
		if call.Instance == id {
			_, _ = fmt.Fprintf(&out, "%+v\n", call)
		}
	}
	paths := []string{at(id)}
	if binding != "" {
		paths = append(paths, bindingAt(id, binding))
	}
	for _, path := range paths {
		for _, a := range []answer{c.send("GET", path, ""), c.poll(path, "")} {
			_, _ = fmt.Fprintf(&out, "%s %d %s\n", a.request, a.status, a.body)
		}
	}
	return out.String()
}

// traceless sends a request that must be refused and checks that it left no trace
// (law 4, ERR-12).
func (c tenant) traceless(t *testing.T, id, binding string, send func() answer) answer {
	t.Helper()
	before := c.print(id, binding)
	a := send()
	if after := c.print(id, binding); a.status >= 400 && after != before {
		t.Errorf("%s: %d left a trace\nbefore %s\nafter %s", a.request, a.status, before, after)
	}
	return a
}
