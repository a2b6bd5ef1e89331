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

// clock is a time that a test moves.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Date(2026, 3, 10, 15, 49, 29, 0, time.UTC).Add(time.Duration(c.offset.Load()))
}

func (c *clock) move(d time.Duration) { c.offset.Add(int64(d)) }

// cloud is a simulator behind a real listener, and somebody logged in.
type cloud struct {
	t     *testing.T
	sim   *Simulator
	url   string
	token string
	// http is its own: a test server that stops closes http.DefaultTransport's connections.
	http *http.Client
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

// each runs a test for every entry of a table at the same time, with a simulator for each.
func each[T any](t *testing.T, o Options, tests map[string]T, run func(c *cloud, name string, test T)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(start(t, o), name, test)
		})
	}
}

// result is an answer that was read to its end.
type result struct {
	status int
	header http.Header
	body   []byte
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

// must is do for calls that are not what the test is about.
func (c *cloud) must(status int, method, path, body string) result {
	c.t.Helper()
	r := c.do(method, path, body)
	if r.status != status {
		c.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, r.status, r.body, status)
	}
	return r
}

// accepted sends what is answered with a job, and returns the job's address.
func (c *cloud) accepted(method, path, body string) string {
	c.t.Helper()
	return c.must(202, method, path, body).header.Get("Location")
}

// answers compares an answer with a status alone, or with a whole error.
func (c *cloud) answers(method, path, body, want string) {
	c.t.Helper()
	checkAnswer(c.t, c.do(method, path, body), want)
}

// checkAnswer compares with a status alone, or with a whole error.
func checkAnswer(t *testing.T, got result, want string) {
	t.Helper()
	text := strconv.Itoa(got.status)
	if len(want) > 3 {
		text = got.cfErr()
	}
	if text != want {
		t.Errorf("got %d %s, want %s", got.status, got.body, want)
	}
	if got.status == 202 && (len(got.body) != 0 || !strings.Contains(got.header.Get("Location"), "/v3/jobs/")) {
		t.Errorf("202 with body %q and location %q", got.body, got.header.Get("Location"))
	}
}

// lists compares the names in a list, in their order.
func (c *cloud) lists(path, want string) {
	c.t.Helper()
	if got := strings.Join(c.must(200, "GET", path, "").names(), " "); got != want {
		c.t.Errorf("%s: %q, want %q", path, got, want)
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

// reads compares values of a resource, given as "path=value".
func (c *cloud) reads(path string, values ...string) result {
	c.t.Helper()
	r := c.must(200, "GET", path, "")
	r.reads(c.t, values...)
	return r
}

// reads compares values of an answer, given as "path=value"; see text.
func (r result) reads(t *testing.T, values ...string) {
	t.Helper()
	for _, line := range values {
		path, want, _ := strings.Cut(line, "=")
		if got := r.text(path); got != want {
			t.Errorf("%s is %q, want %q: %d %s", path, got, want, r.status, r.body)
		}
	}
}

// text reads "a.0.b" of an answer; "a.#" is how many there are, and a value that is no text is as JSON has it. What is
// not there is "", as null is.
func (r result) text(path string) string {
	var steps []any
	path, count := strings.CutSuffix(path, "#")
	for _, part := range strings.FieldsFunc(path, func(c rune) bool { return c == '.' }) {
		if n, err := strconv.Atoi(part); err == nil {
			steps = append(steps, n)
			continue
		}
		steps = append(steps, part)
	}
	value := r.at(steps...)
	list, isList := value.([]any)
	switch {
	case value == nil:
		return ""
	case count && isList:
		return strconv.Itoa(len(list))
	default:
		return fmt.Sprint(value)
	}
}

// at walks into the JSON of an answer; numbers index arrays. What is not there is nil.
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

func (r result) into(v any) bool { return json.Unmarshal(r.body, v) == nil }

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

const textForbidden = "403 10003 CF-NotAuthorized: You are not authorized to perform the requested action"

const textNoJob = "404 10010 CF-ResourceNotFound: Job not found"

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
