package deployed

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

// refusals are faults of the platform's, and no reason for a warning.
func refusals() []testCase {
	return []testCase{
		{"AUTH-01 AUTH-02 no route answers without the right credentials", unauthorised},
		{"HDR-01 HDR-03 a version that is missing is 400, another major one is 412", versions},
		{"HTTP-04 HTTP-05 a body that cannot be read is 400", malformedBodies},
		{"HTTP-20 paths and methods that OSB does not have", unknownPaths},
		{"PROV-23 ASY-09 AsyncRequired without the flag", asyncRequired},
		{"PROV-16 BIND-12 unknown ids and missing fields are 400, an unknown instance is 404", invalidRequests},
		{"RID-01 the request identity comes back", requestIdentity},
		{"odd input is answered, and does no harm", oddInputs},
	}
}

// routes are all that OSB has for an instance and a binding.
func routes(id, binding string) [][2]string {
	return [][2]string{
		{"GET", "/v2/catalog"}, {"PUT", at(id)}, {"PATCH", at(id)}, {"GET", at(id)}, {"DELETE", at(id)}, {"GET", at(id) + "/last_operation"},
		{"PUT", bindingAt(id, binding)}, {"GET", bindingAt(id, binding)}, {"DELETE", bindingAt(id, binding)}, {"GET", bindingAt(id, binding) + "/last_operation"},
	}
}

func unauthorised(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, value := range []string{"", "Bearer abc", "Basic !!!", basic("demo"), basic("demo:"), basic("demo:calm-password-90c2"), basic("nobody:" + p.token)} {
		for _, r := range routes("x", "y") {
			a := p.send(r[0], r[1], "", header("Authorization", value))
			if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: %d, want 401 with WWW-Authenticate", a.request, value, a.status)
			}
		}
	}
}

func versions(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	without := func(r *http.Request) { r.Header.Del("X-Broker-API-Version") }
	for _, r := range routes("x", "y") {
		p.send(r[0], r[1], "", without).says(t, http.StatusBadRequest, "MissingVersion")
		p.send(r[0], r[1], "", header("X-Broker-API-Version", "3.0")).says(t, http.StatusPreconditionFailed, "UnsupportedVersion")
	}
}

func malformedBodies(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id := p.newID()
	right := p.create("postgres/small", "")
	open := strings.TrimSuffix(right, "}")
	for _, body := range []string{
		"", " \n", "service_id=1", "[]", "null", `"x"`, open, right + right, open + `,"service_id":"x"}`, open + ",}", open + `,"parameters":[]}`,
	} {
		p.send(http.MethodPut, at(id)+async.query(), body).says(t, http.StatusBadRequest, "BadRequest")
		p.send(http.MethodPut, bindingAt(id, "b"), body).says(t, http.StatusBadRequest, "BadRequest")
	}
	s.sim.nothingLeft(p, id)
}

func unknownPaths(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	for _, path := range []string{"/v2", "/v2/nope", "/v2/catalog/x", "/v2/service_instances", "/v2/service_instances/a/b", "/v1/catalog", "/"} {
		p.send(http.MethodGet, path, "").want(t, http.StatusNotFound)
	}
	for method, path := range map[string]string{
		"POST": "/v2/catalog", "PATCH": bindingAt("a", "b"), "DELETE": at("a") + "/last_operation", "OPTIONS": at("a"),
	} {
		if a := p.send(method, path, "").want(t, http.StatusMethodNotAllowed); a.header.Get("Allow") == "" {
			t.Errorf("%s: 405 without Allow", a.request)
		}
	}
}

func asyncRequired(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id := p.newID()
	for _, query := range []string{"", "?accepts_incomplete=false", "?accepts_incomplete=1", "?accepts_incomplete=TRUE", "?accepts_incomplete=false&accepts_incomplete=true"} {
		p.send(http.MethodPut, at(id)+query, p.create("postgres/small", "")).says(t, http.StatusUnprocessableEntity, "AsyncRequired")
	}
	p.send(http.MethodDelete, at(id)+plain.query(p.hints("postgres/small")...), "").says(t, http.StatusUnprocessableEntity, "AsyncRequired")
	s.sim.nothingLeft(p, id)
}

func invalidRequests(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	id := p.newID()
	for _, replaced := range []string{`"service_id"`, `"plan_id"`, `"organization_guid"`, `"space_guid"`} {
		body := strings.Replace(p.create("postgres/small", ""), replaced, `"x"`, 1)
		p.send(http.MethodPut, at(id)+async.query(), body).says(t, http.StatusBadRequest, "BadRequest")
	}
	foreign := strings.Replace(p.create("postgres/small", ""), p.plan("postgres/small").plan, p.plan("queue/standard").plan, 1)
	p.send(http.MethodPut, at(id)+async.query(), foreign).says(t, http.StatusBadRequest, "BadRequest")
	p.put(id, "postgres/schema", `{"size":"large"}`).says(t, http.StatusBadRequest, "BadRequest")
	p.delete(id, "postgres/small").want(t, http.StatusGone)
	p.send(http.MethodDelete, at(id)+async.query(), "").says(t, http.StatusBadRequest, "BadRequest")
	p.patch(id, "postgres/small", "").says(t, http.StatusNotFound, "NotFound")
	p.bind(id, "b", "postgres/small", "", plain).says(t, http.StatusNotFound, "NotFound")
	p.unbind(id, "b", "postgres/small", plain).want(t, http.StatusGone)
	p.poll(at(id), "").says(t, http.StatusNotFound, "NotFound")
	s.sim.nothingLeft(p, id)
}

func requestIdentity(t *testing.T, s *stack) {
	const name, value = "X-Broker-API-Request-Identity", "e26cee84-6b38-4456-b34e-d1a9f002c956"
	p := s.platform(t, "demo")
	for _, r := range routes("x", "y") {
		if a := p.send(r[0], r[1], "", header(name, value)); a.header.Get(name) != value {
			t.Errorf("%s: %d with the request identity %q, want %s", a.request, a.status, a.header.Get(name), value)
		}
	}
}
