package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"
)

// clause is a duty of the OSB text, or several that one walk shows. Ids are those of
// internal/osb/testdata/requirements.tsv; docs/osb-conformance.md lists them all.
type clause struct {
	// name begins with the ids.
	name  string
	check func(tenant)
}

// hold checks clauses beside each other on one broker.
func (c tenant) hold(clauses []clause) {
	for _, cl := range clauses {
		c.t.Run(cl.name, func(t *testing.T) { cl.check(c.parallel(t)) })
	}
}

// unreserved is what may stand in a URL as it is.
var unreserved = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)

// header sets one header of a request, "" removes it.
func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
}

// bare checks a success that has nothing to report.
func (a answer) bare(t *testing.T, status int) {
	t.Helper()
	if a.status != status || len(a.fields) != 0 || a.fields == nil {
		t.Errorf("%s: %d %s, want %d {}", a.request, a.status, a.body, status)
	}
}

// has checks that a body has a field of this JSON text.
func (a answer) has(t *testing.T, field, want string) {
	t.Helper()
	if got := string(a.fields[field]); got != want {
		t.Errorf("%s: %s is %s in %s, want %s", a.request, field, got, a.body, want)
	}
}

// lacks checks that a body has none of the fields.
func (a answer) lacks(t *testing.T, fields ...string) {
	t.Helper()
	for _, field := range fields {
		if _, found := a.fields[field]; found {
			t.Errorf("%s: %s stands in %s", a.request, field, a.body)
		}
	}
}

// same checks that two answers are equal but for their moment.
func (a answer) same(t *testing.T, b answer) {
	t.Helper()
	if a.status != b.status || a.body != b.body {
		t.Errorf("%s: %d %s, want as before %d %s", b.request, b.status, b.body, a.status, a.body)
	}
}

// edited is a body with members added or replaced; null stays null.
func edited(body string, members ...string) string {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		panic(err) // a fault of the test
	}
	for i := 0; i < len(members); i += 2 {
		fields[members[i]] = json.RawMessage(members[i+1])
		if members[i+1] == "" {
			delete(fields, members[i])
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

// one is what starts a process that takes no time: an instance of postgres/small.
func (c tenant) one() string { c.t.Helper(); return c.ready("postgres/small", `{"a":1}`) }
