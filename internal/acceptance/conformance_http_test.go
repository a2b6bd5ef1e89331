package acceptance

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestConformanceHTTP: what holds for every request and answer, whatever it is about.
func TestConformanceHTTP(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.hold([]clause{
		{"HTTP-01 HTTP-11 HTTP-12 ERR-01 ERR-15 every answer is JSON with the status of the text", everyAnswerIsJSON},
		{"HTTP-04 HTTP-05 a body that cannot be read is 400", unreadableBodies},
		{"HTTP-02 HTTP-03 JSON under another Content-Type is read all the same", otherContentTypes},
		{"HTTP-06 HTTP-07 HTTP-10 unknown fields change nothing", unknownFields},
		{"HTTP-08 HTTP-09 a field of our own has our prefix", ownFields},
		{"HTTP-13 ids may hold any character and are compared byte for byte", anyCharacter},
		{"HTTP-14 LIM-06 our ids and operations need no encoding", ourIDs},
		{"HTTP-15 two platforms never see each other's instances", twoPlatforms},
		{"HTTP-18 plain HTTP is spoken on the listener; TLS is its proxy's", plainHTTP},
		{"HTTP-19 an asynchronous request is answered at once, whatever Cloud Foundry does", answersAtOnce},
		{"HTTP-20 unknown paths and methods", unknownPaths},
		{"HTTP-21 a success with nothing to report is {}", nothingToReport},
		{"HTTP-22 of a query parameter given twice the first counts", givenTwice},
		{"AUTH-01 AUTH-02 AUTH-06 AUTH-07 no route answers without the right credentials", wrongCredentials},
		{"AUTH-03 HTTP Basic is what opens the door", func(c tenant) { c.send("GET", "/v2/catalog", "").want(c.t, 200) }},
	})
}

// routes are all that OSB has, for an instance and a binding of these ids.
func routes(id, binding string) [][2]string {
	return [][2]string{
		{"GET", "/v2/catalog"}, {"PUT", at(id)}, {"PATCH", at(id)}, {"GET", at(id)}, {"DELETE", at(id)}, {"GET", at(id) + "/last_operation"},
		{"PUT", bindingAt(id, binding)}, {"GET", bindingAt(id, binding)}, {"DELETE", bindingAt(id, binding)}, {"GET", bindingAt(id, binding) + "/last_operation"},
	}
}

// everyAnswerIsJSON walks one request of each kind; send checks the form of each.
func everyAnswerIsJSON(c tenant) {
	id := c.one()
	c.put(id, "postgres/small", `{"a":1}`, async).want(c.t, 200)
	reserved := map[string]bool{"AsyncRequired": true, "ConcurrencyError": true, "RequiresApp": true, "MaintenanceInfoConflict": true}
	for _, a := range []answer{
		c.put(id, "postgres/small", `{"a":2}`, async).want(c.t, 409),
		c.put(id, "postgres/small", "[]", async).want(c.t, 400),
		c.send("GET", at("nowhere"), "").want(c.t, 404),
		c.send("POST", "/v2/catalog", "").want(c.t, 405),
		c.send("GET", "/v2/catalog", "", header("Authorization", "")).want(c.t, 401),
		c.send("GET", "/v2/catalog", "", header("X-Broker-API-Version", "3.0")).want(c.t, 412),
	} {
		if reserved[a.text("error")] {
			c.t.Errorf("%s: %s has a word that is kept for something else", a.request, a.body)
		}
	}
	c.put(c.id(), "postgres/small", "", plain).says(c.t, 422, "AsyncRequired")
	c.send("DELETE", at("nowhere")+"?service_id=s&plan_id=p&accepts_incomplete=true", "").bare(c.t, 410)
}

func unreadableBodies(c tenant) {
	id := c.one()
	for _, path := range []string{at(c.id()) + "?accepts_incomplete=true", bindingAt(id, c.id())} {
		for _, body := range []string{"{", "[]", "null", `"text"`, "", "{}{}", `{"service_id":1}`, `{"parameters":{"a":1,"a":2}}`} {
			c.send("PUT", path, body).says(c.t, 400, "BadRequest")
		}
		c.send("PUT", path, "service_id=s&plan_id=p", header("Content-Type", "application/x-www-form-urlencoded")).
			says(c.t, 400, "BadRequest", "Content-Type")
	}
	c.send("PATCH", at(id)+"?accepts_incomplete=true", "{").says(c.t, 400, "BadRequest")
}

func otherContentTypes(c tenant) {
	for _, kind := range []string{"", "application/x-www-form-urlencoded", "application/json; charset=utf-8", "text/plain"} {
		c.send("PUT", at(c.id())+"?accepts_incomplete=true", c.createBody("postgres/small", ""), header("Content-Type", kind)).want(c.t, 202)
	}
}

func unknownFields(c tenant) {
	id, body := c.id(), c.createBody("postgres/small", `{"a":1}`)
	more := edited(body, "colour", `{"a":[1,null]}`, "Service_ID", `"x"`, "context", `{"platform":"mainframe","more":1}`)
	op := c.send("PUT", at(id)+"?accepts_incomplete=true&colour=red", more).want(c.t, 202).operation()
	c.succeeds(at(id), op)
	c.send("PUT", at(id)+"?accepts_incomplete=true", body).want(c.t, 200) // no part of what makes it the same
	c.patch(id, "postgres/small", `"parameters":{"a":1},"colour":1`, async).want(c.t, 200)
	c.send("PUT", bindingAt(id, c.id()), edited(c.bindBody("postgres/small", ""), "colour", "1", "bind_resource", `{"colour":1}`)).want(c.t, 201)
}

func ownFields(c tenant) {
	a := c.put(c.id(), "postgres/small", "", plain).want(c.t, 422)
	if a.text("ferry_details") == "" {
		c.t.Errorf("%s says nothing of its own", a.body)
	}
	for field := range a.fields {
		if field != "error" && field != "description" && !strings.HasPrefix(field, "ferry_") {
			c.t.Errorf("%s has the field %s", a.body, field)
		}
	}
}

func anyCharacter(c tenant) {
	ids := []string{"a/b", "a b", "%", "ünï", "a+b", "x?y#z", "%2F", "A", "a"}
	for _, id := range ids {
		name := "any " + id
		c.succeeds(at(name), c.put(name, "postgres/small", fmt.Sprintf(`{"id":%q}`, name), async).want(c.t, 202).operation())
		c.send("PUT", bindingAt(name, id), c.bindBody("postgres/small", "")).want(c.t, 201)
		c.poll(bindingAt(name, id), "a/b ü").want(c.t, 200)
		c.row(name)
	}
	c.gone("any %", "postgres/small")
	c.send("GET", at("any %2F"), "").want(c.t, 200)
}

func ourIDs(c tenant) {
	for name, p := range c.plans {
		if !unreserved.MatchString(p.service) || !unreserved.MatchString(p.plan) {
			c.t.Errorf("%s has the ids %+v", name, p)
		}
	}
	id := c.one()
	binding := c.id()
	for _, a := range []answer{
		c.bind(id, binding, "postgres/small", "", async), c.patch(id, "postgres/small", `"parameters":{"a":2}`, async), c.delete(id, "postgres/small", async),
	} {
		if op := a.want(c.t, 202).operation(); !unreserved.MatchString(op) || len(op) > 200 {
			c.t.Errorf("%s: the operation %q", a.request, op)
		}
	}
}

func twoPlatforms(c tenant) {
	id, o := c.one(), c.other()
	o.send("GET", at(id), "").want(c.t, 404)
	o.delete(id, "postgres/small", async).bare(c.t, 410)
	op := o.put(id, "postgres/small", `{"a":2}`, async).want(c.t, 202).operation()
	o.succeeds(at(id), op)
	o.gone(id, "postgres/small")
	c.send("GET", at(id), "").want(c.t, 200)
}

func plainHTTP(c tenant) {
	if !strings.HasPrefix(c.broker, "http://") {
		c.t.Errorf("the broker listens at %s", c.broker)
	}
	c.send("GET", "/v2/catalog", "").want(c.t, 200)
}

// answersAtOnce: the plan's backing broker never answers, so whoever waits for it
// does not come back within the test's patience.
func answersAtOnce(c tenant) {
	id, began := c.id(), time.Now()
	c.put(id, "faults/create-times-out", "", async).want(c.t, 202)
	c.delete(id, "faults/create-times-out", async).want(c.t, 202)
	if took := time.Since(began); took > 10*time.Second {
		c.t.Errorf("two asynchronous requests took %s", took)
	}
}

func unknownPaths(c tenant) {
	for _, path := range []string{"/v2", "/v2/nope", "/v2/catalog/x", "/v2//catalog", "/v2/service_instances", "/v2/service_instances/a/b", "/v1/catalog", "/v2/../v2/catalog"} {
		c.send("GET", path, "").want(c.t, 404)
		c.send("GET", path, "", header("Authorization", "")).want(c.t, map[bool]int{true: 401, false: 404}[strings.HasPrefix(path, "/v2")])
	}
	for method, path := range map[string]string{"POST": "/v2/catalog", "PATCH": bindingAt("a", "b"), "DELETE": at("a") + "/last_operation", "OPTIONS": at("a")} {
		a := c.send(method, path, "").want(c.t, 405)
		if !strings.Contains(a.header.Get("Allow"), "GET") {
			c.t.Errorf("%s: Allow %q", a.request, a.header.Get("Allow"))
		}
	}
}

func nothingToReport(c tenant) {
	id, binding := c.bound("postgres/small")
	c.put(id, "postgres/small", "", async).bare(c.t, 200)
	c.patch(id, "postgres/small", "", async).bare(c.t, 200)
	c.unbind(id, binding, "postgres/small", plain).bare(c.t, 200)
	c.unbind(id, binding, "postgres/small", plain).bare(c.t, 410)
	c.gone(id, "postgres/small")
	c.delete(id, "postgres/small", async).bare(c.t, 410)
}

func givenTwice(c tenant) {
	c.send("PUT", at(c.id())+"?accepts_incomplete=true&accepts_incomplete=false", c.createBody("postgres/small", "")).want(c.t, 202)
	c.send("PUT", at(c.id())+"?accepts_incomplete=false&accepts_incomplete=true", c.createBody("postgres/small", "")).want(c.t, 422)
	id, binding := c.bound("postgres/small")
	p := c.plan("postgres/small")
	c.send("DELETE", bindingAt(id, binding)+"?service_id="+p.service+"&service_id="+p.service+"&plan_id="+p.plan, "").bare(c.t, 200)
}

func wrongCredentials(c tenant) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	wrong := map[string]string{
		"none": "", "another scheme": "Bearer abc", "garbage": "Basic !!!", "no colon": basic("demo"), "a wrong user": basic("nobody:demo"),
		"a wrong password": basic("demo:wrong"), "an empty password": basic("demo:"), "the other client's": basic("demo:second's"),
	}
	for name, value := range wrong {
		for _, route := range routes("i", "b") {
			// A body and a version that would be refused as well: 401 comes first.
			a := c.send(route[0], route[1], "{", header("Authorization", value), header("X-Broker-API-Version", ""))
			if a.status != 401 || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") || a.text("description") == "" {
				c.t.Errorf("%s %s: %d %v %s, want 401 with a challenge", name, a.request, a.status, a.header, a.body)
			}
		}
	}
}

// TestConformanceHeaders: the version, the request's identity and its originator.
func TestConformanceHeaders(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.hold([]clause{
		{"HDR-01 HDR-02 HDR-04 HDR-06 versions", versions},
		{"HDR-03 HDR-05 a version that is missing or empty is 400 and named", missingVersion},
		{"HDR-07 an older version gets every field", olderVersion},
		{"RID-01 RID-02 RID-04 the request identity comes back on every answer", requestIdentity},
		{"RID-03 the request identity stands in the log", identityInLog},
		{"RID-05 OID-11 identities are no part of what makes requests the same", identitiesAreNoAttributes},
		{"OID-01 OID-03 OID-10 ORPH-11 requests without an originator, or with one that cannot be read, are carried out", unreadableOriginators},
		{"OID-02 OID-04 OID-05 OID-06 OID-07 OID-08 OID-09 the originator is audited by id alone", originators},
	})
	t.Run("HDR-03 the client that wants 412 for a missing version gets it", func(t *testing.T) {
		t.Parallel()
		c := start(t, func(s *settings) { s.config.Clients[0].Quirks.MissingVersion = 412 })
		c.send("GET", "/v2/catalog", "", header("X-Broker-API-Version", "")).says(t, 412, "MissingVersion", "X-Broker-API-Version")
		c.other().send("GET", "/v2/catalog", "", header("X-Broker-API-Version", "")).want(t, 400)
	})
}

func versions(c tenant) {
	for version, status := range map[string]int{
		"2.0": 200, "2.11": 200, "2.13": 200, "2.16": 200, "2.17": 200, "2.18": 200, "2.99": 200,
		"1.0": 412, "3.0": 412, "2": 400, "latest": 400, "2.x": 400, "2.17.1": 400,
	} {
		a := c.send("GET", "/v2/catalog", "", header("X-Broker-API-Version", version))
		if a.status != status || status != 200 && !strings.Contains(a.text("description"), "2.17") {
			c.t.Errorf("version %s: %d %.200s, want %d that names 2.17", version, a.status, a.body, status)
		}
	}
}

func missingVersion(c tenant) {
	for _, value := range []string{"", " "} {
		for _, route := range routes("i", "b") {
			a := c.send(route[0], route[1], "", func(r *http.Request) { r.Header["X-Broker-Api-Version"] = []string{value} })
			a.says(c.t, 400, "MissingVersion", "X-Broker-API-Version", "2.17")
		}
	}
	c.send("GET", "/v2/catalog", "", header("X-Broker-API-Version", "")).says(c.t, 400, "MissingVersion", "X-Broker-API-Version")
}

func olderVersion(c tenant) {
	old := header("X-Broker-API-Version", "2.11")
	newest := c.send("GET", "/v2/catalog", "").want(c.t, 200)
	newest.same(c.t, c.send("GET", "/v2/catalog", "", old))
	id := c.ready("postgres/maintained", "")
	a := c.send("GET", at(id), "", old).want(c.t, 200)
	a.has(c.t, "maintenance_info", `{"version":"2.1.0"}`)
}

func requestIdentity(c tenant) {
	id := c.one()
	identity := "request of " + id
	for what, send := range map[string]func(...func(*http.Request)) answer{
		"200": func(f ...func(*http.Request)) answer { return c.send("GET", at(id), "", f...) },
		"304": func(f ...func(*http.Request)) answer {
			return c.send("GET", "/v2/catalog", "", append(f, header("If-None-Match", "*"))...)
		},
		"400": func(f ...func(*http.Request)) answer { return c.send("PUT", at(id), "{", f...) },
		"401": func(f ...func(*http.Request)) answer {
			return c.send("GET", at(id), "", append(f, header("Authorization", ""))...)
		},
		"404": func(f ...func(*http.Request)) answer { return c.send("GET", "/v2/nope", "", f...) },
		"405": func(f ...func(*http.Request)) answer { return c.send("POST", "/v2/catalog", "", f...) },
		"410": func(f ...func(*http.Request)) answer {
			return c.send("DELETE", bindingAt(id, "none")+"?service_id=s&plan_id=p", "", f...)
		},
		"412": func(f ...func(*http.Request)) answer {
			return c.send("GET", at(id), "", append(f, header("X-Broker-API-Version", "1.0"))...)
		},
		"422": func(f ...func(*http.Request)) answer {
			return c.send("PUT", at(c.id()), c.createBody("postgres/small", ""), f...)
		},
	} {
		a := send(header("X-Broker-API-Request-Identity", identity))
		if got := a.header.Get("X-Broker-API-Request-Identity"); fmt.Sprint(a.status) != what || got != identity {
			c.t.Errorf("%s: %d with the identity %q, want %s with %q", a.request, a.status, got, what, identity)
		}
	}
}

func identityInLog(c tenant) {
	identity := "audit-" + c.id()
	c.send("GET", "/v2/catalog", "", header("X-Broker-API-Request-Identity", identity)).want(c.t, 200)
	c.eventually("the log has the identity", func() bool { return len(c.journal.find(slog.LevelInfo, identity)) > 0 })
}

func kubernetes(user string) string {
	return "kubernetes " + base64.StdEncoding.EncodeToString([]byte(`{"username":"`+user+`","uid":"uid-`+user+`","groups":["a"],"extra":{"x":["y"]}}`))
}

func identitiesAreNoAttributes(c tenant) {
	id := c.id()
	send := func(request, user string) answer {
		return c.send("PUT", at(id)+"?accepts_incomplete=true", c.createBody("faults/create-stalls", ""),
			header("X-Broker-API-Request-Identity", request), header("X-Broker-API-Originating-Identity", kubernetes(user)))
	}
	op := send("r-1", "one").want(c.t, 202).operation()
	if again := send("r-2", "two").operation(); again != op {
		c.t.Errorf("another identity got the operation %s, want %s", again, op)
	}
	// The same request identity on another request makes it no duplicate.
	c.send("PUT", at(id)+"?accepts_incomplete=true", c.createBody("faults/create-stalls", `{"a":2}`), header("X-Broker-API-Request-Identity", "r-1")).want(c.t, 409)
}

func unreadableOriginators(c tenant) {
	for _, value := range []string{"", "cloudfoundry !!!", "kubernetes e30=", "one two three", "mainframe e30=", "alone", "kubernetes " + strings.Repeat("A", 8<<10)} {
		id := c.id()
		op := c.send("PUT", at(id)+"?accepts_incomplete=true", c.createBody("postgres/small", ""), header("X-Broker-API-Originating-Identity", value)).
			want(c.t, 202).operation()
		c.succeeds(at(id), op)
	}
}

func originators(c tenant) {
	id := c.id()
	user := "pat-" + id
	c.send("PUT", at(id)+"?accepts_incomplete=true", edited(c.createBody("postgres/small", ""), "context", `{"platform":"kubernetes","namespace":"n","clusterid":"c"}`),
		header("X-Broker-API-Originating-Identity", kubernetes(user))).want(c.t, 202)
	c.eventually("the log names the user's id", func() bool { return len(c.journal.find(slog.LevelInfo, "uid-"+user)) > 0 })
	if lines := c.journal.find(slog.LevelInfo, url.QueryEscape(kubernetes(user))); len(lines) > 0 || len(c.journal.find(slog.LevelInfo, "username")) > 0 {
		c.t.Errorf("the log tells more than the id: %s", lines)
	}
	cf := "cloudfoundry " + base64.StdEncoding.EncodeToString([]byte(`{"user_id":"cf-`+user+`","user_name":"secret name"}`))
	c.send("GET", at(id)+"/last_operation", "", header("X-Broker-API-Originating-Identity", cf)).want(c.t, 200)
	c.eventually("the log names the id from Cloud Foundry", func() bool { return len(c.journal.find(slog.LevelInfo, "cf-"+user)) > 0 })
	if lines := c.journal.find(slog.LevelInfo, "secret name"); len(lines) > 0 {
		c.t.Errorf("the log tells the name: %s", lines)
	}
}
