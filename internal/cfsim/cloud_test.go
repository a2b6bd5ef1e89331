package cfsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// quick are delays that a test does not notice.
func quick() Options {
	return Options{JobDelay: time.Millisecond, BrokerDelay: 2 * time.Millisecond, PollInterval: time.Millisecond, BrokerTimeout: 20 * time.Millisecond}
}

// idle is a Cloud Controller whose workers never come.
func idle() Options {
	o := quick()
	o.JobDelay = time.Hour
	return o
}

// cloud is a simulator behind a real listener, and somebody logged in.
type cloud struct {
	t     *testing.T
	sim   *Simulator
	url   string
	token string
	// http is its own: a test server that stops closes http.DefaultTransport's connections.
	http *http.Client
}

// result is an answer that was read to its end.
type result struct {
	status int
	header http.Header
	body   []byte
}

func start(t *testing.T, o Options) *cloud {
	t.Helper()
	sim := New(o)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		sim.Close()
		server.Close()
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &cloud{t: t, sim: sim, url: server.URL, http: &http.Client{Transport: transport}}
	c.token = c.login(url.Values{"grant_type": {"client_credentials"}}, "ferry", "ferry").str("access_token")
	return c
}

func (c *cloud) login(form url.Values, id, secret string) result {
	c.t.Helper()
	request, err := http.NewRequest("POST", c.url+tokenRoute, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(id, secret)
	return c.send(request)
}

func (c *cloud) send(request *http.Request) result {
	c.t.Helper()
	r, err := c.try(request)
	if err != nil {
		c.t.Fatalf("%s %s: %v", request.Method, request.URL, err)
	}
	return r
}

func (c *cloud) try(request *http.Request) (result, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return result{response.StatusCode, response.Header, body}, err
}

func (c *cloud) request(method, path, body string) *http.Request {
	c.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = c.url + path
	}
	request, err := http.NewRequest(method, path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "bearer "+c.token)
	}
	return request
}

func (c *cloud) do(method, path, body string) result {
	c.t.Helper()
	return c.send(c.request(method, path, body))
}

// must is do for calls that are not what the test is about.
func (c *cloud) must(status int, method, path, body string) result {
	c.t.Helper()
	r := c.do(method, path, body)
	if r.status != status {
		c.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, r.status, r.body, status)
	}
	return r
}

func (r result) into(v any) bool { return json.Unmarshal(r.body, v) == nil }

// at walks into the JSON of an answer; numbers index arrays. What is not there
// is nil.
func (r result) at(path ...any) any {
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			array, _ := value.([]any)
			if step >= len(array) {
				return nil
			}
			value = array[step]
		}
	}
	return value
}

func (r result) str(path ...any) string {
	text, _ := r.at(path...).(string)
	return text
}

// cfErr renders the error of an answer as "status code title detail".
func (r result) cfErr() string {
	var body struct {
		Errors []cfError `json:"errors"`
	}
	if !r.into(&body) || len(body.Errors) != 1 {
		return string(r.body)
	}
	e := apiError{r.status, body.Errors[0]}
	return e.Error()
}

func (c *cloud) org(name string) string { return fixedGUID("organization", name) }

func (c *cloud) planGUID(name string) string {
	c.t.Helper()
	offeringName, planName, _ := strings.Cut(name, "/")
	guid := c.do("GET", "/v3/service_plans?names="+planName+"&service_offering_names="+offeringName, "").str("resources", 0, "guid")
	if guid == "" {
		c.t.Fatalf("no plan %s", name)
	}
	return guid
}

// space makes a space in the organization ferry, or finds it.
func (c *cloud) space(name string) string {
	c.t.Helper()
	found := c.do("GET", "/v3/spaces?names="+name+"&organization_guids="+c.org("ferry"), "").str("resources", 0, "guid")
	if found != "" {
		return found
	}
	return c.must(201, "POST", "/v3/spaces", `{"name":"`+name+`","relationships":{"organization":{"data":{"guid":"`+c.org("ferry")+`"}}}}`).str("guid")
}

// instanceBody is a create in the space "work"; more is appended to its fields.
func (c *cloud) instanceBody(name, plan, more string) string {
	c.t.Helper()
	return `{"type":"managed","name":"` + name + `","relationships":{"space":{"data":{"guid":"` + c.space("work") + `"}},` +
		`"service_plan":{"data":{"guid":"` + c.planGUID(plan) + `"}}}` + more + `}`
}

// create posts an instance and returns its GUID and the path of its job.
func (c *cloud) create(name, plan string) (guid, job string) {
	c.t.Helper()
	job = c.must(202, "POST", "/v3/service_instances", c.instanceBody(name, plan, "")).header.Get("Location")
	return c.do("GET", "/v3/service_instances?names="+name, "").str("resources", 0, "guid"), job
}

// ready creates an instance and waits for it.
func (c *cloud) ready(name, plan string) string {
	c.t.Helper()
	guid, job := c.create(name, plan)
	c.job(job, jobComplete)
	return guid
}

func keyBody(name, instance, more string) string {
	return `{"type":"key","name":"` + name + `","relationships":{"service_instance":{"data":{"guid":"` + instance + `"}}}` + more + `}`
}

func (c *cloud) createKey(name, instance string) (guid, job string) {
	c.t.Helper()
	job = c.must(202, "POST", "/v3/service_credential_bindings", keyBody(name, instance, "")).header.Get("Location")
	return c.do("GET", "/v3/service_credential_bindings?names="+name+"&service_instance_guids="+instance, "").str("resources", 0, "guid"), job
}

func (c *cloud) readyKey(name, instance string) string {
	c.t.Helper()
	guid, job := c.createKey(name, instance)
	c.job(job, jobComplete)
	return guid
}

// job waits until a job has a state, and fails the test when it ends otherwise.
func (c *cloud) job(location, state string) result {
	c.t.Helper()
	var last result
	eventually(c.t, "job "+state, func() bool {
		last = c.must(200, "GET", location, "")
		got := last.str("state")
		if got != state && (got == jobComplete || got == jobFailed) {
			c.t.Fatalf("job ended as %s %s, want %s", got, last.body, state)
		}
		return got == state
	})
	return last
}

// lastOperation waits until a resource has one, written as "type state".
func (c *cloud) lastOperation(path, want string) result {
	c.t.Helper()
	var last result
	eventually(c.t, path+" "+want, func() bool {
		last = c.must(200, "GET", path, "")
		return last.str("last_operation", "type")+" "+last.str("last_operation", "state") == want
	})
	return last
}

// eventually polls a condition that workers bring about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		<-time.After(time.Millisecond)
	}
}

type simState struct {
	Instances []struct {
		GUID               string
		Name, Org, Space   string
		Offering, Plan     string
		Labels             map[string]string
		Annotations        map[string]string
		MaintenanceVersion string                       `json:"maintenance_version"`
		Parameters         json.RawMessage              `json:"parameters"`
		LastOperation      struct{ Type, State string } `json:"last_operation"`
		Keys               []struct {
			GUID, Name string
			Parameters json.RawMessage
		}
	}
	Requests    map[string]int
	BrokerCalls []struct {
		Org, Instance, Binding, Operation string
		Count                             int
	} `json:"broker_calls"`
}

func (c *cloud) state() simState {
	c.t.Helper()
	var state simState
	if r := c.must(200, "GET", "/__sim/state", ""); !r.into(&state) {
		c.t.Fatalf("state: %s", r.body)
	}
	return state
}

// calls counts what the backing broker was asked for an instance.
func (c *cloud) calls(instance, operation string) int {
	c.t.Helper()
	n := 0
	for _, call := range c.state().BrokerCalls {
		if call.Instance == instance && call.Operation == operation {
			n += call.Count
		}
	}
	return n
}

// cfErrOr is cfErr, or the status and body of what is no error.
func (r result) cfErrOr() string {
	if r.status < 400 {
		return strconv.Itoa(r.status) + " " + string(r.body)
	}
	return r.cfErr()
}

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

// fault adds one.
func (c *cloud) fault(json string) { c.t.Helper(); c.must(200, "POST", "/__sim/faults", json) }

// instruct tells the backing broker what to answer.
func (c *cloud) instruct(body string) {
	c.t.Helper()
	c.must(200, "POST", "/__sim/broker", body)
}

func (c *cloud) workers(held bool) {
	c.t.Helper()
	word := "false"
	if held {
		word = "true"
	}
	c.must(200, "POST", "/__sim/workers", `{"held":`+word+`}`)
}

func (c *cloud) touched(tick, want string) {
	c.t.Helper()
	if r := c.must(200, "POST", "/__sim/clock", tick); string(r.body) != `{"touched":`+want+`}` {
		c.t.Errorf("%s: %s, want %s", tick, r.body, want)
	}
}

// names lists the names of a list's resources.
func (r result) names() []string {
	list := []string{}
	for i := 0; r.at("resources", i) != nil; i++ {
		list = append(list, r.str("resources", i, "name"))
	}
	return list
}

// jobError renders the first error of a job.
func jobError(r result) string {
	return fmt.Sprint(r.at("errors", 0, "code")) + " " + r.str("errors", 0, "title") + ": " + r.str("errors", 0, "detail")
}

// clock is a time that a test moves.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Date(2026, 3, 10, 15, 49, 29, 0, time.UTC).Add(time.Duration(c.offset.Load()))
}

func (c *clock) move(d time.Duration) { c.offset.Add(int64(d)) }

func recursive() Options {
	o := quick()
	o.RecursiveDelete = true
	return o
}

func korifi() Options {
	o := quick()
	o.Korifi = true
	return o
}

// instanceBodyIn is a create in a space.
func (c *cloud) instanceBodyIn(space, name, plan string) string {
	c.t.Helper()
	return `{"type":"managed","name":"` + name + `","relationships":{"space":{"data":{"guid":"` + space + `"}},"service_plan":{"data":{"guid":"` + c.planGUID(plan) + `"}}}}`
}

// rolePost is the body of a role for a user that is given as JSON.
func rolePost(kind, place, guid, user string) string {
	return `{"type":"` + kind + `","relationships":{"` + place + `":{"data":{"guid":"` + guid + `"}},"user":{"data":` + user + `}}}`
}

func mustEncode(t *testing.T, v any) []byte {
	t.Helper()
	body, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// planPatch writes PLAN(x/y) out.
func (c *cloud) planPatch(body string) string {
	name, isPlan := strings.CutPrefix(body, "PLAN(")
	if !isPlan {
		return body
	}
	return `{"relationships":{"service_plan":{"data":{"guid":"` + c.planGUID(strings.TrimSuffix(name, ")")) + `"}}}}`
}

const unprocessableText = "422 10008 CF-UnprocessableEntity: "

const (
	textTaken    = "422 10008 CF-UnprocessableEntity: The service instance name is taken: it."
	textBusy     = "409 60016 CF-AsyncServiceInstanceOperationInProgress: An operation for service instance it is in progress."
	textMissing  = "404 60004 CF-ServiceInstanceNotFound: The service instance could not be found: it"
	textDelete   = "422 10008 CF-UnprocessableEntity: There is an operation in progress for the service instance."
	textKey      = "422 10008 CF-UnprocessableEntity: There is an operation in progress for the service instance"
	textNoKey    = "422 10008 CF-UnprocessableEntity: Service instance not found"
	textNotFound = "404 10010 CF-ResourceNotFound: Service instance not found"
)

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
