package deployed

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// odd is a request that no list of requirements names, and the statuses that are right.
type odd struct {
	name string
	send func(p platform, id string) answer
	want []int
	// parameters are what Cloud Foundry has to get, "" if that is not looked at.
	parameters string
}

// created sends a create with a body and a query of the case's own.
func created(query string, body func(right string) string, adjust ...func(*http.Request)) func(platform, string) answer {
	return func(p platform, id string) answer {
		return p.send(http.MethodPut, at(id)+query, body(p.create("postgres/small", "")), adjust...)
	}
}

func asked(method, path string, adjust ...func(*http.Request)) func(platform, string) answer {
	return func(p platform, id string) answer {
		return p.send(method, strings.ReplaceAll(path, "ID", id), "", adjust...)
	}
}

// with puts members into an object.
func with(members string) func(string) string {
	return func(right string) string { return strings.TrimSuffix(right, "}") + "," + members + "}" }
}

func asItIs(right string) string { return right }

func odds() []odd {
	const (
		incomplete = "?accepts_incomplete=true"
		numbers    = `{"n":1e400,"m":-0.0,"k":12345678901234567890.10}`
	)
	accepted, refused := []int{http.StatusAccepted}, []int{http.StatusBadRequest}
	deep := strings.Repeat(`{"a":[`, 20000) + strings.Repeat(`]}`, 20000)
	return []odd{
		{"a body of 3 MiB", created(incomplete, with(`"x":"`+strings.Repeat("a", 3<<20)+`"`)), []int{http.StatusRequestEntityTooLarge}, ""},
		{"parameters of 300 KiB", created(incomplete, with(`"parameters":{"x":"`+strings.Repeat("a", 300<<10)+`"}`)), refused, ""},
		{"parameters 40,000 deep", created(incomplete, with(`"parameters":`+deep)), refused, ""},
		{"XML in name only", created(incomplete, asItIs, header("Content-Type", "text/xml; charset=utf-7")), accepted, ""},
		{"a byte order mark", created(incomplete, func(right string) string { return "\ufeff" + right }), refused, ""},
		{"a number beyond every float", created(incomplete, with(`"parameters":`+numbers)), accepted, numbers},
		{"half an emoji", created(incomplete, with(`"parameters":{"e":"\ud83d"}`)), []int{http.StatusBadRequest, http.StatusAccepted}, ""},
		{"names of JavaScript and zero bytes", created(incomplete, with(`"parameters":{"__proto__":{"a":1},"\u0000":"\u0000"}`)), accepted, ""},
		{"a query of delimiters", created("?&&=&accepts_incomplete=true&&=%00&accepts_incomplete=false", asItIs), accepted, ""},
		{"a flag with blanks", created("?accepts_incomplete=%20true", asItIs), []int{http.StatusUnprocessableEntity}, ""},
		{"an originator that is no Base64", created(incomplete, asItIs, header("X-Broker-API-Originating-Identity", "kubernetes %%%")), accepted, ""},
		{"a request identity of 6,000 letters", created(incomplete, asItIs, header("X-Broker-API-Request-Identity", strings.Repeat("i", 6000))), accepted, ""},
		{"an id of 901 letters", asked(http.MethodGet, at(strings.Repeat("i", 901))), []int{http.StatusBadRequest, http.StatusNotFound}, ""},
		{"an operation of 5,000 letters", asked(http.MethodGet, "/v2/service_instances/ID/last_operation?operation="+strings.Repeat("o", 5000)), []int{http.StatusBadRequest, http.StatusNotFound}, ""},
		{"an operation with a line end", asked(http.MethodGet, "/v2/service_instances/ID/last_operation?operation="+url.QueryEscape("a\r\nSet-Cookie: b")), []int{http.StatusBadRequest, http.StatusNotFound}, ""},
		{"a slash too many", asked(http.MethodGet, "/v2/catalog/"), []int{http.StatusNotFound}, ""},
		{"a body where there is none", func(p platform, _ string) answer { return p.send(http.MethodGet, "/v2/catalog", "{{{") }, []int{http.StatusOK}, ""},
		{"a catalog that is only asked for its header", asked(http.MethodHead, "/v2/catalog"), []int{http.StatusOK, http.StatusMethodNotAllowed}, ""},
		{"a version that will come", asked(http.MethodGet, "/v2/catalog", header("X-Broker-API-Version", "2.999")), []int{http.StatusOK}, ""},
		{"two users in one header", asked(http.MethodGet, "/v2/catalog", header("Authorization", "Basic eDp5, Basic eDp5")), []int{http.StatusUnauthorized}, ""},
	}
}

func oddInputs(t *testing.T, s *stack) {
	var each []testCase
	for _, o := range odds() {
		each = append(each, testCase{o.name, o.play})
	}
	group{cases: each}.play(t, s)
}

// play also checks that what was taken is what Cloud Foundry got, letter by letter.
func (o odd) play(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id := p.newID()
	a := o.send(p, id)
	if !slices.Contains(o.want, a.status) {
		t.Errorf("%.120s: %d %.300s, want one of %v", a.request, a.status, a.body, o.want)
	}
	if a.status != http.StatusAccepted {
		s.sim.nothingLeft(p, id)
		return
	}
	p.succeeds(at(id), a.operation())
	if got := string(s.sim.row(p, id).Parameters); o.parameters != "" && got != o.parameters {
		t.Errorf("Cloud Foundry has the parameters %s, want %s", got, o.parameters)
	}
	p.removed(id, "postgres/small")
}
