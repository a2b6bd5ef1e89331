package osbtest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Answer is what came back for one request. Its checks report on the test of the client that sent the request.
type Answer struct {
	T testing.TB
	// Request is method, path and query.
	Request string
	// Status is 0 where there is no answer.
	Status int
	Header http.Header
	Body   string
	// Fields is nil where the body is no JSON object.
	Fields map[string]json.RawMessage

	sent *http.Request
}

// Secret is a word in parameters that may get nowhere but to the backing broker, and back to who asks for the
// parameters.
const Secret = "marked-secret-52c1"

// Big loses its last digit in whatever reads it as a float.
const Big = "9007199254740993"

// Marked are parameters with a secret, and with a number that has to stay exact.
const Marked = `{"word":"` + Secret + `","big":` + Big + `}`

var (
	errorWord = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	// unreserved is what may stand in a URL as it is.
	unreserved = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,64}$`)
)

// endpoint is what a request was sent to.
type endpoint string

const (
	catalog  endpoint = "catalog"
	instance endpoint = "instance"
	binding  endpoint = "binding"
	polls    endpoint = "last_operation of an instance"
	bound    endpoint = "last_operation of a binding"
	nowhere  endpoint = ""
)

func endpointOf(request string) endpoint {
	_, path, _ := strings.Cut(request, " ")
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(strings.TrimPrefix(path, "/v2/"), "/")
	switch {
	case path == "/v2/catalog":
		return catalog
	case !strings.HasPrefix(path, "/v2/service_instances/"):
		return nowhere
	case len(parts) == 2:
		return instance
	case len(parts) == 3 && parts[2] == "last_operation":
		return polls
	case len(parts) == 4 && parts[2] == "service_bindings":
		return binding
	case len(parts) == 5 && parts[4] == "last_operation":
		return bound
	}
	return nowhere
}

// fields are what OSB 2.17 lets a success have, by method and endpoint; a 202 has the operation instead of a binding's
// data.
var fields = map[string][]string{
	"GET " + string(catalog):     {"services"},
	"PUT " + string(instance):    {"dashboard_url", "metadata"},
	"PATCH " + string(instance):  {"dashboard_url", "metadata"},
	"GET " + string(instance):    {"service_id", "plan_id", "dashboard_url", "parameters", "maintenance_info", "metadata"},
	"DELETE " + string(instance): {},
	"PUT " + string(binding):     {"credentials", "syslog_drain_url", "volume_mounts"},
	"GET " + string(binding):     {"credentials", "syslog_drain_url", "volume_mounts", "parameters"},
	"DELETE " + string(binding):  {},
	"GET " + string(polls):       {"state", "description", "instance_usable", "update_repeatable"},
	"GET " + string(bound):       {"state", "description"},
}

// reserved are the error words that the specification gives one meaning each, with the text that platforms compare (""
// where there is none).
var reserved = map[string]string{
	"AsyncRequired":           "This service plan requires client support for asynchronous service operations.",
	"ConcurrencyError":        "The Service Broker does not support concurrent requests that mutate the same resource.",
	"RequiresApp":             "This service supports generation of credentials through binding an application only.",
	"MaintenanceInfoConflict": "",
}

// Faults says what is wrong with an answer, whatever was asked for: HTTP-01, HTTP-08, HTTP-09, HTTP-14, HTTP-21,
// AUTH-07, RID-02, RID-04, ERR-01, ERR-02, ERR-03, ERR-05, ERR-07, ERR-14, ERR-15, LIM-01 to LIM-06 (LIM-02, LIM-03,
// LIM-04, LIM-05), ASY-11, ASY-12, ASY-14, LOI-11, LOI-12, LOI-16, LOI-17, LOI-18, LOB-10, LOB-11, LOB-16, BIND-16,
// BIND-17, PROV-25, PROV-28, UPD-30, FI-14.
func (a Answer) Faults() []string {
	if method, _, _ := strings.Cut(a.Request, " "); method == http.MethodHead || !strings.Contains(a.Request, " /v2") {
		return nil
	}
	found := slices.Concat(a.wrongForm(), a.wrongWait())
	switch {
	case a.Status >= http.StatusBadRequest && a.Status != http.StatusGone:
		found = append(found, a.wrongError()...)
	case a.Status != http.StatusNotModified:
		found = append(found, a.wrongSuccess()...)
	}
	return found
}

// faults collects sentences.
type faults []string

func (f *faults) add(wrong bool, what string) {
	if wrong {
		*f = append(*f, what)
	}
}

func (a Answer) wrongForm() (found faults) {
	whole := a.Status != http.StatusNotModified
	found.add(whole && a.Header.Get("Content-Type") != "application/json", "not said to be JSON: "+a.Header.Get("Content-Type"))
	found.add(whole && a.Fields == nil, "no JSON object")
	found.add(!whole && a.Body != "", "304 with a body")
	if a.sent != nil {
		const identity = "X-Broker-API-Request-Identity"
		found.add(a.Header.Get(identity) != a.sent.Header.Get(identity), "another request identity: "+a.Header.Get(identity))
	}
	method, _, _ := strings.Cut(a.Request, " ")
	rest := a.Body
	if method == http.MethodGet {
		rest = strings.Replace(rest, string(a.Fields["parameters"]), "", 1)
	}
	found.add(strings.Contains(rest, Secret), "a secret")
	found.add(a.Fields["description"] != nil && a.Text("description") == "", "an empty description")
	return found
}

// wrongWait judges what tells a platform to wait, and for what.
func (a Answer) wrongWait() (found faults) {
	wait := a.Header["Retry-After"]
	seconds, err := strconv.Atoi(strings.Join(wait, ","))
	found.add(len(wait) > 0 && (err != nil || seconds < 1 || seconds > 300), "Retry-After "+strings.Join(wait, ","))
	waits := a.Status == http.StatusAccepted || a.State() == "in progress"
	found.add(waits && len(wait) == 0, "no Retry-After")
	if a.Status != http.StatusAccepted {
		found.add(a.Fields["operation"] != nil, "an operation without 202")
		return found
	}
	found.add(!unreserved.MatchString(a.Operation()), "202 with the operation "+a.Operation())
	if a.sent != nil {
		found.add(a.sent.URL.Query().Get("accepts_incomplete") != "true", "202 without accepts_incomplete")
	}
	return found
}

func (a Answer) wrongSuccess() (found faults) {
	method, _, _ := strings.Cut(a.Request, " ")
	at := endpointOf(a.Request)
	allowed := fields[method+" "+string(at)]
	switch {
	case a.Status == http.StatusGone:
		allowed = nil
	case a.Status == http.StatusAccepted && at == binding:
		allowed = []string{"operation"}
	case a.Status == http.StatusAccepted:
		allowed = append(slices.Clone(allowed), "operation")
	}
	for name := range a.Fields {
		found.add(!slices.Contains(allowed, name) && !strings.HasPrefix(name, "ferry_"), "the field "+name)
	}
	found.add(a.Status == http.StatusCreated && (method != http.MethodPut || at != binding), "201")
	if at != polls && at != bound || a.Status != http.StatusOK {
		return found
	}
	state := a.State()
	found.add(!slices.Contains([]string{"in progress", "succeeded", "failed"}, state), "the state "+state)
	found.add(state == "failed" && a.Fields["description"] == nil, "failed without a description")
	for _, name := range []string{"instance_usable", "update_repeatable"} {
		found.add(a.Fields[name] != nil && (state != "failed" || string(a.Fields[name]) != "false"), name+" "+string(a.Fields[name]))
	}
	return found
}

func (a Answer) wrongError() (found faults) {
	method, _, _ := strings.Cut(a.Request, " ")
	word := a.Text("error")
	found.add(!errorWord.MatchString(word) || a.Text("description") == "", "no OSB error body")
	for name := range a.Fields {
		of := map[string][]string{
			"error": nil, "description": nil, "update_repeatable": {http.MethodPatch}, "instance_usable": {http.MethodPatch, http.MethodDelete},
		}
		methods, known := of[name]
		found.add(!known && !strings.HasPrefix(name, "ferry_"), "the field "+name)
		found.add(methods != nil && (!slices.Contains(methods, method) || endpointOf(a.Request) != instance), name)
	}
	text, special := reserved[word]
	found.add(special && a.Status != http.StatusUnprocessableEntity, word+" without 422")
	found.add(special && text != "" && a.Text("description") != text, "other words than platforms compare for "+word)
	challenge := strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Basic ")
	found.add(challenge != (a.Status == http.StatusUnauthorized), "a challenge that is missing, or out of place")
	found.add((a.Status == http.StatusMethodNotAllowed) != (a.Header.Get("Allow") != ""), "Allow "+a.Header.Get("Allow"))
	return found
}

// Want ends the test when the status is another one.
func (a Answer) Want(status int) Answer {
	a.T.Helper()
	if a.Status != status {
		a.T.Fatalf("%s: %d %.500s, want %d", a.Request, a.Status, a.Body, status)
	}
	return a
}

// Says checks status and error word, and that the description (or what Ferry adds to it) has these parts.
func (a Answer) Says(status int, word string, parts ...string) {
	a.T.Helper()
	if a.Status != status || a.Text("error") != word {
		a.T.Errorf("%s: %d %.500s, want %d %s", a.Request, a.Status, a.Body, status, word)
		return
	}
	a.names(parts)
}

func (a Answer) names(parts []string) {
	a.T.Helper()
	for _, part := range parts {
		if !strings.Contains(a.Text("description")+a.Text("ferry_details"), part) {
			a.T.Errorf("%s: %.500s does not name %q", a.Request, a.Body, part)
		}
	}
}

// Bare checks a status whose answer has nothing to tell: {}.
func (a Answer) Bare(status int) {
	a.T.Helper()
	if a.Status != status || a.Fields == nil || len(a.Fields) != 0 {
		a.T.Errorf("%s: %d %.500s, want %d {}", a.Request, a.Status, a.Body, status)
	}
}

// Has checks that a field of the body is this JSON text.
func (a Answer) Has(field, want string) {
	a.T.Helper()
	if got := string(a.Fields[field]); got != want {
		a.T.Errorf("%s: %s is %s in %.500s, want %s", a.Request, field, got, a.Body, want)
	}
}

// Lacks checks that the body has none of the fields.
func (a Answer) Lacks(names ...string) {
	a.T.Helper()
	for _, name := range names {
		if _, found := a.Fields[name]; found {
			a.T.Errorf("%s: %s stands in %.500s", a.Request, name, a.Body)
		}
	}
}

// Same checks that another answer has the same status and body.
func (a Answer) Same(b Answer) {
	a.T.Helper()
	if a.Status != b.Status || a.Body != b.Body {
		a.T.Errorf("%s: %d %.500s, want as before %d %.500s", b.Request, b.Status, b.Body, a.Status, a.Body)
	}
}

// Decode reads the body.
func (a Answer) Decode(into any) {
	a.T.Helper()
	if err := json.Unmarshal([]byte(a.Body), into); err != nil {
		a.T.Fatalf("%s: %v in %.500s", a.Request, err, a.Body)
	}
}

// Text returns a string in the body, "" where there is none.
func (a Answer) Text(name string) (s string) {
	_ = json.Unmarshal(a.Fields[name], &s) // another type is "" too
	return s
}

// Operation is the operation that a 202 names.
func (a Answer) Operation() string { return a.Text("operation") }

// State is what a poll says.
func (a Answer) State() string { return a.Text("state") }

// Credentials are those of a binding, letter for letter.
func (a Answer) Credentials() string { return string(a.Fields["credentials"]) }

// RetryAfter is how long the broker asks to wait; 0 where it does not.
func (a Answer) RetryAfter() time.Duration {
	seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second
}

// OneOperation checks that all were accepted under one operation, or came after its end, and returns the operation.
func OneOperation(t testing.TB, afterwards int, answers ...Answer) (operation string) {
	t.Helper()
	for _, a := range answers {
		switch {
		case a.Status == afterwards && a.Operation() == "":
		case a.Status != http.StatusAccepted:
			t.Errorf("%s: %d %.300s, want 202, or %d after the end", a.Request, a.Status, a.Body, afterwards)
		case operation == "":
			operation = a.Operation()
		case operation != a.Operation():
			t.Errorf("%s: operation %s, others have %s", a.Request, a.Operation(), operation)
		}
	}
	if operation == "" {
		t.Fatal("nobody was told of an operation")
	}
	return operation
}
