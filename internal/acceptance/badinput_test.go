package acceptance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// bad is a request that must be refused, and what its answer must name.
type bad struct {
	name, method, path, body string
	adjust                   func(*http.Request)
	status                   int
	word                     string
	parts                    []string
}

// TestBadInput sends what no broker should take: each gets the right 4xx with a body
// that names what is wrong, and the store and Cloud Foundry are as before (law 4,
// ERR-12, HTTP-04, HTTP-05, HTTP-11, HTTP-13, HTTP-20, HDR-01 to HDR-06).
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := start(t)
	id, binding := c.bound("postgres/small")
	fresh := c.id()
	all := slices.Concat(badBodies(c, id, fresh), badTypes(c, id, fresh), badPlans(c, id, fresh), badHeaders(c, id, fresh), badPaths(c))
	before, calls := c.print(id, binding)+c.print(fresh, fresh), changes(c)
	for _, b := range all {
		t.Run(b.name, func(t *testing.T) {
			adjust := []func(*http.Request){}
			if b.adjust != nil {
				adjust = append(adjust, b.adjust)
			}
			c.in(t).send(b.method, b.path, b.body, adjust...).says(t, b.status, b.word, b.parts...)
		})
	}
	if after := c.print(id, binding) + c.print(fresh, fresh); after != before {
		t.Errorf("something changed\nbefore %s\nafter %s", before, after)
	}
	if after := changes(c); after != calls {
		t.Errorf("Cloud Foundry was asked for changes\nbefore %s\nafter %s", calls, after)
	}
	// The ids are as new: what is right is taken under them.
	op := c.put(fresh, "postgres/small", "", async).want(t, http.StatusAccepted).operation()
	c.succeeds(at(fresh), op)
	c.bind(fresh, fresh, "postgres/small", "", plain).want(t, http.StatusCreated)
	c.put(id, "postgres/small", "", async).want(t, http.StatusOK)
}

// changes are all requests that Cloud Foundry got but reads and logins.
func changes(c tenant) string {
	c.t.Helper()
	requests := c.cf().Requests
	var out strings.Builder
	for _, line := range slices.Sorted(maps.Keys(requests)) {
		if !strings.HasPrefix(line, "GET ") && !strings.Contains(line, "/oauth/") {
			_, _ = fmt.Fprintf(&out, "%s: %d\n", line, requests[line])
		}
	}
	return out.String()
}

// bodied are the three routes that take a body, with one that is right.
func bodied(c tenant, id, fresh string) map[string]bad {
	return map[string]bad{
		"provision": {method: "PUT", path: at(fresh) + async.query(), body: c.createBody("postgres/small", "")},
		"update":    {method: "PATCH", path: at(id) + async.query(), body: fmt.Sprintf(`{"service_id":%q}`, c.plan("postgres/small").service)},
		"bind":      {method: "PUT", path: bindingAt(id, fresh), body: c.bindBody("postgres/small", "")},
	}
}

func badBodies(c tenant, id, fresh string) []bad {
	var all []bad
	for route, right := range bodied(c, id, fresh) {
		open := strings.TrimSuffix(right.body, "}")
		for name, body := range map[string]string{
			"empty": "", "blank": " \n", "no JSON": "service_id=1", "half an object": open, "an array": "[" + right.body + "]", "a string": `"x"`,
			"null": "null", "two objects": right.body + right.body, "no UTF-8": open + ",\"x\":\"\xff\"}", "no UTF-8 in a key": open + ",\"\xff\":1}",
			"nested deeply":           open + `,"parameters":{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}}`,
			"nested, never closed":    open + `,"parameters":` + strings.Repeat(`{"a":`, 50000),
			"a key twice":             open + `,"service_id":"x"}`,
			"a key twice, deep":       open + `,"parameters":{"a":[{"k":1,"\u006b":2}]}}`,
			"a key twice, elsewhere":  open + `,"unknown":{"k":1,"k":1}}`,
			"a comment":               open + `/* */}`,
			"a trailing comma":        open + `,}`,
			"NaN":                     open + `,"parameters":{"a":NaN}}`,
			"a number with a zero":    open + `,"parameters":{"a":01}}`,
			"a control character":     open + ",\"parameters\":{\"a\":\"\x01\"}}",
			"half a surrogate escape": open + `,"parameters":{"a":"\u12"}}`,
		} {
			all = append(all, bad{name: route + "/" + name, method: right.method, path: right.path, body: body, status: 400, word: "BadRequest", parts: []string{"body"}})
		}
		all = append(all,
			bad{name: route + "/over 1 MiB", method: right.method, path: right.path, body: open + `,"x":"` + strings.Repeat("a", 1<<20) + `"}`, status: 413, word: "RequestTooLarge", parts: []string{"1048576"}},
			bad{name: route + "/over 1 MiB in chunks", method: right.method, path: right.path, body: strings.Repeat(" ", 1<<20) + right.body, adjust: chunked, status: 413, word: "RequestTooLarge", parts: []string{"1048576"}},
			bad{name: route + "/parameters over 256 KiB", method: right.method, path: right.path, body: open + `,"parameters":{"a":"` + strings.Repeat("a", 256<<10) + `"}}`, status: 400, word: "BadRequest", parts: []string{"parameters", "262144"}},
			bad{name: route + "/a wrong Content-Type", method: right.method, path: right.path, body: "a=b",
				adjust: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, status: 400, word: "BadRequest", parts: []string{"Content-Type"}})
	}
	return all
}

// chunked sends a body without its length.
func chunked(r *http.Request) { r.ContentLength = -1 }

// badTypes are wrong types in every field, and every mandatory field missing.
func badTypes(c tenant, id, fresh string) []bad {
	texts := map[string][]string{
		"provision": {"service_id", "plan_id", "organization_guid", "space_guid"},
		"update":    {"service_id", "plan_id"},
		"bind":      {"service_id", "plan_id", "app_guid", "predecessor_binding_id"},
	}
	objects := map[string][]string{
		"provision": {"context", "parameters", "maintenance_info"}, "update": {"context", "parameters", "maintenance_info"}, "bind": {"context", "parameters", "bind_resource"},
	}
	mandatory := map[string][]string{"provision": texts["provision"], "update": {"service_id"}, "bind": {"service_id", "plan_id"}}
	inner := map[string][]string{
		"provision": {`"context":{"platform":1}`, `"context":{"namespace":[]}`, `"maintenance_info":{"version":2}`},
		"update":    {`"context":{"platform":{}}`, `"maintenance_info":{"version":true}`},
		"bind":      {`"bind_resource":{"app_guid":1}`, `"bind_resource":{"route":{}}`},
	}
	var all []bad
	for route, right := range bodied(c, id, fresh) {
		add := func(name, body string, parts ...string) {
			all = append(all, bad{name: route + "/" + name, method: right.method, path: right.path, body: body, status: 400, word: "BadRequest", parts: parts})
		}
		for _, field := range texts[route] {
			for _, value := range []string{"1", "true", "[]", "{}", `["x"]`} {
				add(field+" is "+value, with(right.body, field, value), field)
			}
		}
		for _, field := range objects[route] {
			for _, value := range []string{"1", "false", "[]", `"{}"`} {
				add(field+" is "+value, with(right.body, field, value), field)
			}
		}
		for _, field := range mandatory[route] {
			add("without "+field, with(right.body, field, ""), field)
			add(field+" is empty", with(right.body, field, `""`), field)
			add(field+" is null", with(right.body, field, "null"), field)
		}
		for _, members := range inner[route] {
			name := strings.Split(members, `"`)
			add(members, strings.TrimSuffix(right.body, "}")+","+members+"}", name[1], name[3])
		}
	}
	return all
}

// with returns a flat JSON object with one field set to another value, or left out.
func with(object, field, value string) string {
	var members []string
	for _, m := range strings.Split(strings.Trim(object, "{}"), ",") {
		if !strings.HasPrefix(m, fmt.Sprintf("%q:", field)) {
			members = append(members, m)
		}
	}
	if value != "" {
		members = append(members, fmt.Sprintf("%q:%s", field, value))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func badPlans(c tenant, id, fresh string) []bad {
	foreign := c.plan("queue/standard").plan
	var all []bad
	for route, right := range bodied(c, id, fresh) {
		add := func(name, field, value string) {
			all = append(all, bad{name: route + "/" + name, method: right.method, path: right.path, body: with(right.body, field, fmt.Sprintf("%q", value)), status: 400, word: "BadRequest", parts: []string{strings.TrimSuffix(field, "_id")}})
		}
		add("an unknown service", "service_id", "no-such-service")
		add("an unknown plan", "plan_id", "no-such-plan")
		add("a plan of another offering", "plan_id", foreign)
		add("a service of another plan", "service_id", c.plan("queue/standard").service)
	}
	stale := func(route string) bad {
		b := bodied(c, id, fresh)[route]
		b.name, b.status, b.word, b.parts = route+"/maintenance_info of no plan", 422, "MaintenanceInfoConflict", []string{"maintenance_info"}
		b.body = strings.TrimSuffix(b.body, "}") + `,"maintenance_info":{"version":"1.0.0"}}`
		return b
	}
	none := bad{name: "bind/a plan that has no bindings", method: "PUT", status: 400, word: "BadRequest", parts: []string{"bindings"}}
	none.path, none.body = bindingAt(c.ready("queue/standard", ""), fresh), c.bindBody("queue/standard", "")
	nowhere := bad{name: "bind/an instance that nobody has", method: "PUT", path: bindingAt(fresh, fresh), body: c.bindBody("postgres/small", ""), status: 404, word: "NotFound"}
	return append(all, stale("provision"), stale("update"), none, nowhere)
}

func badHeaders(c tenant, id, fresh string) []bad {
	const version = "X-Broker-API-Version"
	var all []bad
	for route, right := range bodied(c, id, fresh) {
		for value, want := range map[string]bad{
			"missing": {status: 400, word: "MissingVersion"}, "": {status: 400, word: "MissingVersion"}, "2": {status: 400, word: "BadRequest"}, "two.one": {status: 400, word: "BadRequest"},
			"2.x": {status: 400, word: "BadRequest"}, "1.0": {status: 412, word: "UnsupportedVersion"}, "3.0": {status: 412, word: "UnsupportedVersion"}, "22.17": {status: 412, word: "UnsupportedVersion"},
		} {
			want.name, want.method, want.path, want.body = route+"/version "+value, right.method, right.path, right.body
			want.parts = []string{version, "2.17"}
			want.adjust = func(r *http.Request) {
				if r.Header.Set(version, value); value == "missing" {
					r.Header.Del(version)
				}
			}
			all = append(all, want)
		}
	}
	return all
}

func badPaths(c tenant) []bad {
	long := strings.Repeat("x", 901)
	var all []bad
	for _, q := range append(everyRoute(c, long, "b"), call{name: "provision", method: "PUT", path: at(long) + async.query(), body: c.createBody("postgres/small", "")}) {
		all = append(all, bad{name: q.name + "/an instance id over 900 bytes", method: q.method, path: q.path, body: q.body, status: 400, word: "BadRequest", parts: []string{"instance id", "900"}})
	}
	for _, q := range everyRoute(c, "i", strings.Repeat("é", 451)) {
		if strings.Contains(q.path, "/service_bindings/%") {
			all = append(all, bad{name: q.name + "/a binding id over 900 bytes", method: q.method, path: q.path, body: q.body, status: 400, word: "BadRequest", parts: []string{"binding id", "900"}})
		}
	}
	for _, path := range []string{"/v2/service_instances/x/", "/v2//service_instances/x", "/v2/service_instances/../catalog", "/v2/service_instances/%2e%2E", "/v3/info"} {
		all = append(all, bad{name: "path " + path, method: "PUT", path: path, body: c.createBody("postgres/small", ""), status: 404, word: "NotFound"})
	}
	return all
}

// TestOddIDs: any character may stand in an id (HTTP-13); they reach Cloud Foundry
// verbatim and come back.
func TestOddIDs(t *testing.T) {
	t.Parallel()
	c := start(t)
	for name, id := range map[string]string{
		"a slash": "a/b", "only slashes": "///", "spaces": "a b  c", "an emoji": "db-🐘", "percent": "50%25", "plus and question": "a+b?c=d&e#f", "dots": "...", "quotes": `"'\`,
		"umlauts": "größe", "a name of ours": "service_bindings", "commas": "a,b,c", "semicolon and colon": "a;b:c", "200 bytes": strings.Repeat("y", 200),
	} {
		t.Run(name, func(t *testing.T) {
			oddLife(c.parallel(t), id, func(row cfInstance) bool { return row.Name == id && row.Keys[0].Name == id })
		})
	}
	// What Cloud Foundry does not take as a name gets another one there.
	for name, id := range map[string]string{
		"blanks around": " a b ", "a tab": "a\tb", "256 characters": strings.Repeat("z", 256), "900 bytes": strings.Repeat("w", 900), "a zero": "a\x00b", "no UTF-8": "a\xffb",
	} {
		t.Run(name, func(t *testing.T) {
			oddLife(c.parallel(t), id, func(row cfInstance) bool { return strings.HasPrefix(row.Name, "ferry-") })
		})
	}
}

// oddLife walks an id through its life; fits judges its row in Cloud Foundry.
func oddLife(c tenant, id string, fits func(cfInstance) bool) {
	const plan = "postgres/small"
	op := c.put(id, plan, "", async).want(c.t, http.StatusAccepted).operation()
	c.succeeds(at(id), op)
	created := c.bind(id, id, plan, "", plain).want(c.t, http.StatusCreated)
	again := c.bind(id, id, plan, "", plain).want(c.t, http.StatusOK)
	if created.credentials() != again.credentials() {
		c.t.Errorf("credentials %s and %s", created.credentials(), again.credentials())
	}
	marked := func(row cfInstance) bool { return row.Annotations["ferry-operation"] == op }
	rows := c.cf().Instances
	if i := slices.IndexFunc(rows, marked); i < 0 || len(rows[i].Keys) != 1 || !fits(rows[i]) {
		c.t.Errorf("Cloud Foundry has no such instance with one key: %+v", rows)
	}
	c.send("GET", bindingAt(id, id), "").want(c.t, http.StatusOK)
	c.unbind(id, id, plan, plain).want(c.t, http.StatusOK)
	c.gone(id, plan)
	if slices.ContainsFunc(c.cf().Instances, marked) {
		c.t.Error("something is left in Cloud Foundry")
	}
}
