package deployed

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answer is what came back for one request.
type answer struct {
	request string
	status  int
	header  http.Header
	body    string
	fields  map[string]json.RawMessage
}

var errorWord = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// fit checks what holds for every answer of the broker (HTTP-01, ASY-12, ERR-02).
func (a answer) fit(t *testing.T) {
	t.Helper()
	check := func(holds bool, what string) {
		if !holds {
			t.Errorf("%s: %s: %d %.500s", a.request, what, a.status, a.body)
		}
	}
	if a.status == http.StatusNotModified || strings.HasPrefix(a.request, http.MethodHead) {
		return
	}
	check(a.header.Get("Content-Type") == "application/json", "not said to be JSON: "+a.header.Get("Content-Type"))
	check(a.fields != nil, "no JSON object")
	check(a.status != http.StatusAccepted || a.operation() != "" && a.header.Get("Retry-After") != "", "202 without operation or Retry-After")
	if a.status >= http.StatusBadRequest && a.status != http.StatusGone {
		check(a.text("description") != "" && (a.fields["error"] == nil || errorWord.MatchString(a.text("error"))), "no OSB error body")
	}
}

// want ends the test when the status is another one.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s: %d %.500s, want %d", a.request, a.status, a.body, status)
	}
	return a
}

// says checks the status and the error word.
func (a answer) says(t *testing.T, status int, word string) {
	t.Helper()
	if a.status != status || a.text("error") != word {
		t.Errorf("%s: %d %.500s, want %d %s", a.request, a.status, a.body, status, word)
	}
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		t.Fatalf("%s: %v in %.500s", a.request, err, a.body)
	}
}

// text returns a string in the body, "" when there is none.
func (a answer) text(name string) (s string) {
	_ = json.Unmarshal(a.fields[name], &s) // a wrong type is "" too
	return s
}

func (a answer) operation() string   { return a.text("operation") }
func (a answer) credentials() string { return string(a.fields["credentials"]) }

// same reports what differs.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differ (-want +got):\n%s", what, diff)
	}
}
