package acceptance

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// answer is what came back for one request.
type answer struct {
	request string
	status  int
	header  http.Header
	body    string
	fields  map[string]json.RawMessage
}

// send makes an OSB request with the tenant's credentials, and checks of the answer
// what holds for every one. It may be called from any goroutine.
func (c tenant) send(method, path, body string, adjust ...func(*http.Request)) answer {
	c.t.Helper()
	req, err := http.NewRequest(method, c.broker+path, strings.NewReader(body))
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
		return answer{}
	}
	req.SetBasicAuth(c.user, c.secret)
	req.Header.Set("X-Broker-API-Version", "2.17")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, f := range adjust {
		f(req)
	}
	a := c.do(req)
	if a.status != 0 && strings.HasPrefix(path, "/v2") && method != http.MethodHead {
		a.fit(c.t, req)
	}
	return a
}

func (c tenant) do(req *http.Request) answer {
	c.t.Helper()
	a := answer{request: req.Method + " " + req.URL.RequestURI()}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Errorf("%s: no answer: %v", a.request, err)
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Errorf("%s: half an answer: %v", a.request, err)
	}
	a.status, a.header, a.body = resp.StatusCode, resp.Header, string(body)
	_ = json.Unmarshal(body, &a.fields) // fit complains where it matters
	return a
}

// get asks for something that needs no credentials.
func (c tenant) get(url string) answer {
	c.t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.do(req)
}

var errorWord = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// fit checks what holds for every answer under /v2.
func (a answer) fit(t *testing.T, req *http.Request) {
	t.Helper()
	for _, fault := range a.faults(req.Method, req.URL.RawQuery) {
		t.Errorf("%s: %s: %d %s", a.request, fault, a.status, a.body)
	}
}

// faults lists what is wrong with an answer, whatever the request was about: HTTP-01,
// HTTP-21, ASY-12, ERR-02, ERR-03, ERR-05, ERR-07, LOI-18 and Decided 11.
func (a answer) faults(method, query string) []string {
	var found []string
	add := func(wrong bool, what string) {
		if wrong {
			found = append(found, what)
		}
	}
	whole := a.status != http.StatusNotModified
	add(whole && a.header.Get("Content-Type") != "application/json", "not said to be JSON")
	add(whole && a.fields == nil, "no JSON object")
	add(a.status == 202 && !strings.Contains(query, "accepts_incomplete=true"), "202 without accepts_incomplete")
	wait := a.header.Get("Retry-After")
	add(a.status == 202 && (a.operation() == "" || wait == ""), "202 without operation or Retry-After")
	n, err := strconv.Atoi(wait)
	add(wait != "" && (err != nil || n < 1 || n > 300), "Retry-After "+wait)
	_, described := a.fields["description"]
	add(described && a.text("description") == "", "an empty description")
	if a.status < 400 || a.status == http.StatusGone {
		return found
	}
	add(!errorWord.MatchString(a.text("error")) || !described, "no OSB error body")
	_, repeatable := a.fields["update_repeatable"]
	add(repeatable && method != http.MethodPatch, "update_repeatable")
	_, usable := a.fields["instance_usable"]
	add(usable && method != http.MethodPatch && method != http.MethodDelete, "instance_usable")
	return found
}

// want ends the test when the status is another one.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s: %d %s, want %d", a.request, a.status, a.body, status)
	}
	return a
}

// says checks the status, the error word, and words in the description.
func (a answer) says(t *testing.T, status int, word string, parts ...string) {
	t.Helper()
	if a.status != status || a.text("error") != word {
		t.Errorf("%s: %d %s, want %d %s", a.request, a.status, a.body, status, word)
		return
	}
	for _, part := range parts {
		if !strings.Contains(a.text("description")+a.text("ferry_details"), part) {
			t.Errorf("%s: %s does not name %q", a.request, a.body, part)
		}
	}
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		t.Fatalf("%s: %v in %s", a.request, err, a.body)
	}
}

// text returns a string in the body, "" when there is none.
func (a answer) text(name string) (s string) {
	_ = json.Unmarshal(a.fields[name], &s) // a wrong type is "" too
	return s
}

func (a answer) operation() string   { return a.text("operation") }
func (a answer) state() string       { return a.text("state") }
func (a answer) credentials() string { return string(a.fields["credentials"]) }
