package osbtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Cloud is one org of a simulated Cloud Foundry as its operator sees it, past its API (docs/simulator.md). The zero
// value says that Cloud Foundry is a real one.
type Cloud struct {
	T     testing.TB
	URL   string
	Org   string
	HTTP  *http.Client
	Clock Clock
}

// CloudState is GET /__sim/state.
type CloudState struct {
	Instances   []Instance     `json:"instances"`
	Requests    map[string]int `json:"requests"`
	BrokerCalls []BrokerCall   `json:"broker_calls"`
}

// Instance is a service instance that Cloud Foundry has.
type Instance struct {
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
	LastOperation      LastOperation     `json:"last_operation"`
	Keys               []Key             `json:"keys"`
}

// Key is a service key that Cloud Foundry has.
type Key struct {
	GUID          string            `json:"guid"`
	Name          string            `json:"name"`
	Parameters    json.RawMessage   `json:"parameters"`
	Annotations   map[string]string `json:"annotations"`
	LastOperation LastOperation     `json:"last_operation"`
}

// LastOperation is that of a row in Cloud Foundry.
type LastOperation struct {
	Type        string `json:"type"`
	State       string `json:"state"`
	Description string `json:"description"`
}

// BrokerCall says how often the backing broker was asked for something.
type BrokerCall struct {
	Org       string `json:"org"`
	Instance  string `json:"instance"`
	Binding   string `json:"binding"`
	Operation string `json:"operation"`
	Count     int    `json:"count"`
}

// Routes of Cloud Foundry's API as faults and counters name them.
const (
	Instances   = "/v3/service_instances"
	OneInstance = "/v3/service_instances/:guid"
	Keys        = "/v3/service_credential_bindings"
	OneKey      = "/v3/service_credential_bindings/:guid"
)

// Simulated reports whether there is anything to look at.
func (c Cloud) Simulated() bool { return c.URL != "" }

// State returns all that Cloud Foundry has and was asked.
func (c Cloud) State() (s CloudState) {
	c.T.Helper()
	c.Control(http.MethodGet, "/state", "").Decode(&s)
	return s
}

// Rows are the org's instances of this name.
func (c Cloud) Rows(name string) (found []Instance) {
	c.T.Helper()
	for _, i := range c.State().Instances {
		if i.Name == name && i.Org == c.Org {
			found = append(found, i)
		}
	}
	return found
}

// Row is the one instance of this name; anything else ends the test.
func (c Cloud) Row(name string) Instance {
	c.T.Helper()
	rows := c.Rows(name)
	if len(rows) != 1 {
		c.T.Fatalf("Cloud Foundry has %d instances %s, want one: %+v", len(rows), name, rows)
	}
	return rows[0]
}

// NothingLeft checks that the name is free. Operations end only when every call of unknown fate has settled, so that
// there is nothing to wait for.
func (c Cloud) NothingLeft(name string) {
	c.T.Helper()
	if rows := c.Rows(name); len(rows) != 0 {
		c.T.Errorf("Cloud Foundry still has %+v", rows)
	}
}

// HasParameters checks what the backing broker was given last.
func (c Cloud) HasParameters(name, want string) {
	c.T.Helper()
	if got := string(c.Row(name).Parameters); got != want {
		c.T.Errorf("the backing broker has the parameters %s of %s, want %s", got, name, want)
	}
}

// HasKeys checks that an instance has one key of each of these names and no other.
func (c Cloud) HasKeys(name string, want ...string) {
	c.T.Helper()
	row := c.Row(name)
	same := len(row.Keys) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = strings.Contains(fmt.Sprint(row.Keys), want[i])
	}
	if !same {
		c.T.Errorf("Cloud Foundry has the keys %+v of %s, want %v", row.Keys, name, want)
	}
}

// Asked is how often the backing broker was asked for this. Where keys cannot be marked (on Korifi) their names have
// the operation behind the binding's id.
func (c Cloud) Asked(operation, instance, binding string) (times int) {
	c.T.Helper()
	for _, call := range c.State().BrokerCalls {
		own := call.Binding == binding || binding != "" && strings.HasPrefix(call.Binding, binding+"~")
		if call.Org == c.Org && call.Operation == operation && call.Instance == instance && own {
			times += call.Count
		}
	}
	return times
}

// AskedFor checks that the backing broker was asked n times.
func (c Cloud) AskedFor(n int, operation, instance, binding string) {
	c.T.Helper()
	if got := c.Asked(operation, instance, binding); got != n {
		c.T.Errorf("the backing broker was asked %d times to %s %s/%s, want %d", got, operation, instance, binding, n)
	}
}

// Comes waits until Cloud Foundry shows an operation of an instance in a state.
func (c Cloud) Comes(name, operation, state string) (row Instance) {
	c.T.Helper()
	c.Clock.eventually(c.T, fmt.Sprintf("%s is %s %s in Cloud Foundry", name, operation, state), func() bool {
		for _, row = range c.Rows(name) {
			if row.LastOperation.Type == operation && row.LastOperation.State == state {
				return true
			}
		}
		return false
	})
	return row
}

// KeyComes waits until Cloud Foundry shows an operation of a key in a state.
func (c Cloud) KeyComes(name, key, operation, state string) (found Key) {
	c.T.Helper()
	c.Clock.eventually(c.T, fmt.Sprintf("key %s is %s %s in Cloud Foundry", key, operation, state), func() bool {
		for _, row := range c.Rows(name) {
			for _, found = range row.Keys {
				if found.Name == key && found.LastOperation.Type == operation && found.LastOperation.State == state {
					return true
				}
			}
		}
		return false
	})
	return found
}

// KeysGo waits until an instance has no keys.
func (c Cloud) KeysGo(name string) {
	c.T.Helper()
	c.Clock.eventually(c.T, name+" has no key", func() bool { return len(c.Row(name).Keys) == 0 })
}

// Fault is a disturbance of calls to Cloud Foundry.
type Fault struct {
	Method  string            `json:"method,omitempty"`
	Route   string            `json:"route,omitempty"`
	Match   string            `json:"match,omitempty"`
	Times   int               `json:"times,omitempty"`
	When    string            `json:"when,omitempty"`
	Action  string            `json:"action,omitempty"`
	DelayMS int               `json:"delay_ms,omitempty"`
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Page    string            `json:"page,omitempty"`
}

// Disturb puts a fault in force.
func (c Cloud) Disturb(f Fault) {
	c.T.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		c.T.Fatal(err)
	}
	c.Control(http.MethodPost, "/faults", string(text))
}

// Instruct makes the backing broker answer otherwise than its plans have it.
func (c Cloud) Instruct(format string, args ...any) {
	c.T.Helper()
	c.Control(http.MethodPost, "/broker", fmt.Sprintf(format, args...))
}

// Force puts an instance and its latest job in a state, whatever its workers do.
func (c Cloud) Force(guid, operation, state, job string) {
	c.T.Helper()
	c.Control(http.MethodPatch, "/instances/"+guid, forced(operation, state, "forced", job))
}

// ForceKey is Force for a key.
func (c Cloud) ForceKey(guid, operation, state, job string) {
	c.T.Helper()
	c.Control(http.MethodPatch, "/keys/"+guid, forced(operation, state, "forced", job))
}

// Forced is Force with a description of its own; the job may be "" to leave it alone.
func (c Cloud) Forced(guid, operation, state, description, job string) {
	c.T.Helper()
	c.Control(http.MethodPatch, "/instances/"+guid, forced(operation, state, description, job))
}

func forced(operation, state, description, job string) string {
	return fmt.Sprintf(`{"last_operation":{"type":%q,"state":%q,"description":%q}%s}`, operation, state, description, member("job", quotedUnlessEmpty(job)))
}

func quotedUnlessEmpty(s string) string {
	if s == "" {
		return ""
	}
	return Quoted(s)
}

// Quoted is a text in JSON.
func Quoted(s string) string {
	text, _ := json.Marshal(s) // strings always encode
	return string(text)
}

// Control calls one of the simulator's own controls.
func (c Cloud) Control(method, path, body string) Answer {
	c.T.Helper()
	return c.do(method, "/__sim"+path, body, "").Want(http.StatusOK)
}

// Operator calls Cloud Foundry's API as a person who works there would.
func (c Cloud) Operator(method, path, body string) Answer {
	c.T.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"ferry"}, "client_secret": {"ferry"}}
	resp, err := c.HTTP.PostForm(c.URL+"/uaa/oauth/token", form)
	if err != nil {
		c.T.Fatal(err)
	}
	var token struct {
		AccessToken string `json:"access_token"`
	}
	read(c.T, resp).Decode(&token)
	return c.do(method, path, body, "bearer "+token.AccessToken)
}

func (c Cloud) do(method, path, body, authorization string) Answer {
	c.T.Helper()
	req, err := http.NewRequest(method, c.URL+path, strings.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		c.T.Fatalf("%s %s: %v", method, path, err)
	}
	a := read(c.T, resp)
	a.Request = method + " " + path
	return a
}

// read reads an answer that is none of the broker's under test.
func read(t testing.TB, resp *http.Response) Answer {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := Answer{T: t, Status: resp.StatusCode, Header: resp.Header, Body: strings.TrimSpace(string(text))}
	_ = json.Unmarshal(text, &a.Fields) // lists have none
	return a
}

// On says which calls a fault hits, and how often; it strikes before the call takes effect unless it was said
// otherwise.
func (f Fault) On(method, route string, times int) Fault {
	f.Method, f.Route, f.Times = method, route, times
	if f.When == "" {
		f.When = "before"
	}
	return f
}

// After lets the call take effect, and loses its answer.
func (f Fault) After() Fault { f.When = "after"; return f }
