package osbtest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// anywhere are the clauses that need nothing but a plan that can be bound. Most are about requests that are refused, or
// that repeat what is done: they send them about the ready instance, which Run finds unchanged, and about ids that
// nobody has.
var anywhere = []clause{
	{"AUTH-01 AUTH-02 AUTH-03 AUTH-06 AUTH-07 no route answers without the right credentials, whatever else is wrong", wrongCredentials},
	{"HDR-01 HDR-02 HDR-04 HDR-06 any version 2.x is welcome, others are refused by name", versions},
	{"HDR-03 HDR-05 AUTH-06 a version that is missing or empty is refused by name", missingVersion},
	{"HDR-07 an older version gets every field", olderVersion},
	{"RID-01 RID-02 RID-04 the request identity comes back on every answer", requestIdentity},
	{"HTTP-11 HTTP-12 HTTP-20 unknown paths and methods", unknownPaths},
	{"HTTP-04 HTTP-05 HTTP-11 HTTP-12 ERR-12 CON-04 requests that are refused, and why", refusals},
	{"PROV-23 ASY-09 ASY-10 ASY-12 ASY-16 HTTP-22 ERR-08 ERR-14 AsyncRequired unless the first flag is the literal true", flags},
	{"BIND-01 CON-49 CON-52 CON-61 DEP-15 DEP-16 LOI-26 LOB-05 UNB-08 UNB-12 what nobody has is absent", absent},
	{"LOI-07 LOI-25 LOB-06 a poll of a delete that nobody remembers is 410", forgotten},
	{"CON-10 CON-63 HTTP-02 HTTP-03 HTTP-06 HTTP-07 HTTP-10 HTTP-21 OID-11 RID-05 PROV-09 PROV-10 PROV-11 PROV-12 the same create in other words", sameInOtherWords},
	{"CON-11 PROV-22 BIND-18 CON-45 each attribute counts", eachAttribute},
	{"UPD-11 UPD-13 UPD-14 UPD-17 UPD-18 UPD-32 UPD-34 UPD-35 CON-21 CAT-44 an update without effect", noEffect},
	{"CON-44 BIND-05 BIND-06 BIND-07 BIND-08 BIND-14 BIND-23 BIND-44 the same bind in other words", sameBindInOtherWords},
	{"FI-01 FI-04 FI-05 FI-09 FI-12 FB-01 FB-03 FB-04 FB-08 FB-10 BIND-36 hints of a fetch decide nothing", fetches},
	{"CAT-01 CAT-05 CAT-06 CAT-07 the catalog, and 304 for who has it", conditionalCatalog},
	{"CAT-09 CAT-10 CAT-11 CAT-12 CAT-13 CAT-14 CAT-24 CAT-25 CAT-26 HTTP-14 the catalog's mandatory fields", mandatoryFields},
	{"PROV-01 CON-64 CON-07 CON-35 CON-41 CON-42 DEP-01 UNB-01 a life in which each request is sent many times at once", crowdedLife},
}

func basic(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }

// wrongCredentials also sends a body and a version that would be refused as well.
func wrongCredentials(s suite) {
	refused := func(r route, value string) {
		r.body = "{"
		s.send(r, Header("Authorization", value), Header("X-Broker-API-Version", "")).Says(http.StatusUnauthorized, "Unauthorized")
	}
	routes := append(s.routes(s.ready.id, s.ready.binding), route{"nothing", "POST", "/v2/nope", ""})
	for _, r := range routes {
		refused(r, basic(s.Username+":wrong"))
	}
	for _, value := range []string{
		"", "Bearer abc", "Basic", "Basic !!!", basic(s.Username), basic(s.Username + ":"), basic(":" + s.Password), basic("nobody:" + s.Password),
		basic(s.Username + ":" + s.Password + " "), basic(s.Username+":"+s.Password) + ", " + basic("x:y"), "Basic\t" + s.Password,
	} {
		refused(routes[0], value)
		refused(routes[4], value)
	}
	if s.Other != nil {
		refused(routes[0], basic(s.Username+":"+s.Other.Password))
	}
}

func versions(s suite) {
	for version, status := range map[string]int{
		"2.0": 200, "2.11": 200, "2.13": 200, "2.17": 200, "2.18": 200, "2.999": 200, "1.0": 412, "3.0": 412, "22.17": 412, "2": 400, "latest": 400, "2.x": 400, "2.17.1": 400,
	} {
		a := s.Send("GET", "/v2/catalog", "", Header("X-Broker-API-Version", version)).Want(status)
		if status != http.StatusOK {
			a.names([]string{"X-Broker-API-Version", "2.17"})
		}
	}
}

// missingVersion leaves the status to the client's quirks, which may ask for 412.
func missingVersion(s suite) {
	for _, r := range s.routes(s.ready.id, s.ready.binding) {
		a := s.send(r, Header("X-Broker-API-Version", ""))
		if a.Status != http.StatusPreconditionFailed {
			a.Want(http.StatusBadRequest)
		}
		a.Says(a.Status, "MissingVersion", "X-Broker-API-Version", "2.17")
	}
	for _, value := range []string{"", " "} {
		empty := func(r *http.Request) { r.Header["X-Broker-Api-Version"] = []string{value} }
		if a := s.Send("GET", "/v2/catalog", "", empty); a.Text("error") != "MissingVersion" {
			s.T.Errorf("%s with the version %q: %d %s", a.Request, value, a.Status, a.Body)
		}
	}
}

func olderVersion(s suite) {
	old := Header("X-Broker-API-Version", "2.11")
	for _, path := range []string{"/v2/catalog", InstancePath(s.ready.id), BindingPath(s.ready.id, s.ready.binding)} {
		s.Fetch(path).Want(http.StatusOK).Same(s.Send("GET", path, "", old))
	}
}

// requestIdentity has each status that can be had without changing anything. That the identity comes back is checked of
// every answer.
func requestIdentity(s suite) {
	identity := Header("X-Broker-API-Request-Identity", "e26cee84-6b38-4456-b34e-d1a9f002c956")
	at := func(name string) route { return s.route(name, s.ready.id, s.ready.binding) }
	nobodys := s.route("unbind", s.ready.id, s.NewID())
	create := at("provision")
	create.path = create.flagless()
	create.body = edited(create.body, "space_guid", `"another"`)
	unknown, post, broken := at("catalog"), at("catalog"), at("bind")
	unknown.path, post.method, broken.body = "/v2/nope", "POST", "{"
	for status, send := range map[int]func() Answer{
		200: func() Answer { return s.send(at("fetch"), identity) },
		304: func() Answer { return s.send(at("catalog"), identity, Header("If-None-Match", "*")) },
		400: func() Answer { return s.send(broken, identity) },
		401: func() Answer { return s.send(at("fetch"), identity, Header("Authorization", "")) },
		404: func() Answer { return s.send(unknown, identity) },
		405: func() Answer { return s.send(post, identity) },
		409: func() Answer { return s.send(create, identity) },
		410: func() Answer { return s.send(nobodys, identity) },
		412: func() Answer { return s.send(at("fetch"), identity, Header("X-Broker-API-Version", "1.0")) },
		422: func() Answer { return s.send(at("deprovision"), identity, Sync) },
	} {
		send().Want(status)
	}
}

func unknownPaths(s suite) {
	for _, path := range []string{
		"/v2", "/v2/nope", "/v2/catalog/", "/v2/catalog/x", "/v2/service_instances", "/v2/service_instances/a/b", "/v2/service_instances/a/service_bindings", "/v1/catalog",
	} {
		for _, method := range []string{"GET", "PUT"} {
			s.Send(method, path, "{}").Says(http.StatusNotFound, "NotFound")
		}
	}
	for path, allow := range map[string]string{
		"/v2/catalog": "GET", InstancePath("x"): "GET, PUT, PATCH, DELETE", InstancePath("x") + "/last_operation": "GET",
		BindingPath("x", "y"): "GET, PUT, DELETE", BindingPath("x", "y") + "/last_operation": "GET",
	} {
		a := s.Send("POST", path, "{}")
		if a.Says(http.StatusMethodNotAllowed, "MethodNotAllowed"); a.Header.Get("Allow") != allow {
			s.T.Errorf("%s: Allow %q, want %q", a.Request, a.Header.Get("Allow"), allow)
		}
	}
}

// flags are those of a create of an id that nobody has, and of a delete of one.
func flags(s suite) {
	id := s.NewID()
	s.Traceless(id, "", func() {
		for _, query := range []string{"", "?accepts_incomplete=false", "?accepts_incomplete=True", "?accepts_incomplete=1", "?accepts_incomplete=%20true", "?accepts_incomplete=false&accepts_incomplete=true"} {
			s.Send("PUT", InstancePath(id)+query, s.InstanceBody(s.Bindable, s.Parameters)).Says(422, "AsyncRequired", "accepts_incomplete=true")
		}
		s.Deprovision(id, s.Bindable, Sync).Says(422, "AsyncRequired")
		s.Deprovision(s.ready.id, s.Bindable, Sync).Says(422, "AsyncRequired")
		s.Update(s.ready.id, s.Bindable, `"parameters":{"a":9}`, Sync).Says(422, "AsyncRequired")
		s.Update(s.ready.id, s.Bindable, "", Sync).Says(422, "AsyncRequired")
	})
}

// absent are an instance, and a binding of one, that nobody has.
func absent(s suite) {
	id, binding := s.NewID(), s.NewID()
	for _, r := range append(s.routes(id, binding), s.routes(s.ready.id, binding)[7:]...) {
		switch r.name {
		case "catalog", "provision":
		case "deprovision", "unbind":
			s.send(r).Bare(http.StatusGone)
		default:
			s.send(r).Says(http.StatusNotFound, "NotFound")
		}
		if r.name == "update" || r.name == "bind" {
			s.send(r, Async).Says(http.StatusNotFound, "NotFound")
			s.send(r, Sync).Says(http.StatusNotFound, "NotFound")
		}
	}
	for _, hints := range []string{"", "?service_id=s", "?plan_id=&service_id=s", "?" + incomplete} {
		s.Send("DELETE", BindingPath(id, binding)+hints, "").Bare(http.StatusGone)
		s.Send("DELETE", InstancePath(id)+hints, "").Says(http.StatusBadRequest, "BadRequest")
	}
}

func forgotten(s suite) {
	s.Poll(InstancePath(s.NewID()), "delete-of-long-ago").Bare(http.StatusGone)
	s.Poll(BindingPath(s.NewID(), "b"), "unbind-of-long-ago").Bare(http.StatusGone)
}

func kubernetes(user string) string {
	return "kubernetes " + base64.StdEncoding.EncodeToString([]byte(`{"username":"`+user+`","uid":"uid-`+user+`","groups":["a"],"extra":{"x":["y"]}}`))
}

// sameInOtherWords repeats the create of the ready instance with everything that is no attribute said otherwise, or not
// at all.
func sameInOtherWords(s suite) {
	create := s.route("provision", s.ready.id, "")
	same := func(body string, changes ...Change) {
		s.Send("PUT", create.path, body, changes...).Want(http.StatusOK).Lacks("operation")
	}
	for _, members := range [][]string{
		{}, {"context", `{}`}, {"context", "null"}, {"context", `{"platform":"mainframe"}`},
		{"context", `{"platform":"cloudfoundry","organization_guid":"org","organization_name":"o","space_guid":"space","space_name":"s","instance_name":"i","organization_annotations":{"a/b":"c"}}`},
		{"maintenance_info", `{"version":"9.9.9"}`}, {"colour", `"red"`, "services", `[{}]`},
	} {
		same(edited(create.body, members...))
	}
	if s.Parameters == "" {
		same(edited(create.body, "parameters", "null"))
		same(edited(create.body, "parameters", "{}"))
	}
	for _, kind := range []string{"", "application/x-www-form-urlencoded", "application/json; charset=utf-8", "text/xml; charset=utf-7"} {
		same(create.body, Header("Content-Type", kind))
	}
	for _, user := range []string{"", kubernetes("another"), "cloudfoundry !!!", "alone", "one two three", "kubernetes %%%"} {
		same(create.body, Header("X-Broker-API-Originating-Identity", user), Header("X-Broker-API-Request-Identity", "r-"+s.NewID()))
	}
	s.Send("PUT", create.path+"&colour=red&&=%00&accepts_incomplete=false", create.body).Want(http.StatusOK)
}

// eachAttribute repeats what is there with one attribute changed.
func eachAttribute(s suite) {
	create, bind := s.route("provision", s.ready.id, ""), s.route("bind", s.ready.id, s.ready.binding)
	other := []string{"parameters", `{"another":2}`}
	for name := range s.Plans {
		if name != s.Bindable {
			other = append(other, "plan_id", Quoted(s.Plan(name).PlanID))
		}
	}
	for _, members := range [][]string{
		other[:2], other[max(0, len(other)-2):], {"organization_guid", `"another"`}, {"space_guid", `"another"`}, {"service_id", `"another"`},
	} {
		s.Send("PUT", create.path, edited(create.body, members...)).Says(http.StatusConflict, "Conflict")
		s.Send("PUT", create.flagless(), edited(create.body, members...)).Says(http.StatusConflict, "Conflict")
	}
	for _, members := range [][]string{
		other[:2], other[max(0, len(other)-2):], {"app_guid", `"app"`}, {"bind_resource", `{"app_guid":"app"}`}, {"bind_resource", `{"route":"a.example.org"}`}, {"service_id", `"another"`},
	} {
		for _, flag := range []Change{Sync, Async} {
			s.Send("PUT", bind.path, edited(bind.body, members...), flag).Says(http.StatusConflict, "Conflict")
		}
	}
}

// noEffect sends updates to what is in force.
func noEffect(s suite) {
	plan := `"plan_id":` + Quoted(s.Plan(s.Bindable).PlanID)
	for _, members := range []string{
		"", plan, `"parameters":{}`, `"parameters":null`, `"context":{"platform":"cloudfoundry","instance_name":"new"}`, `"colour":1`,
		plan + `,"previous_values":{"plan_id":"stale","service_id":"x","organization_id":"y","space_id":"z","maintenance_info":{"version":"0.0.0"}}`,
		`"previous_values":7`,
	} {
		s.Update(s.ready.id, s.Bindable, members).Bare(http.StatusOK)
	}
}

// sameBindInOtherWords says nothing about an app in every way of saying nothing.
func sameBindInOtherWords(s suite) {
	bind := s.route("bind", s.ready.id, s.ready.binding)
	credentials := s.send(bind).Want(http.StatusOK).Credentials()
	for _, members := range [][]string{
		{"app_guid", `""`}, {"app_guid", "null"}, {"bind_resource", "{}"}, {"bind_resource", `{"app_guid":""}`}, {"parameters", "{}"}, {"colour", "1"},
		{"bind_resource", `{"space_guid":"s","app_annotations":{"a":"b"},"credential_client_id":"c"}`},
		{"context", `{"platform":"cloudfoundry","organization_guid":"o","organization_name":"n","space_guid":"s","space_name":"n"}`},
		{"context", `{"platform":"kubernetes","namespace":"n","clusterid":"c"}`},
	} {
		for _, flag := range []Change{Sync, Async} {
			if a := s.Send("PUT", bind.path, edited(bind.body, members...), flag).Want(http.StatusOK); a.Credentials() != credentials {
				s.T.Errorf("%s: other credentials than before", a.Request)
			}
		}
	}
}

// fetches reads the ready instance and its binding. Which fields an answer may have is checked of every one.
func fetches(s suite) {
	p := s.Plan(s.Bindable)
	credentials := s.send(s.route("bind", s.ready.id, s.ready.binding)).Credentials()
	for _, query := range []string{"", "?service_id=nope&plan_id=nope", "?service_id=&plan_id="} {
		a := s.Fetch(InstancePath(s.ready.id) + query).Want(http.StatusOK)
		a.Has("service_id", Quoted(p.ServiceID))
		a.Has("plan_id", Quoted(p.PlanID))
		if a = s.Fetch(BindingPath(s.ready.id, s.ready.binding) + query).Want(http.StatusOK); a.Credentials() != credentials {
			s.T.Errorf("%s: other credentials than the bind", a.Request)
		}
		for _, path := range []string{InstancePath(s.ready.id), BindingPath(s.ready.id, s.ready.binding)} {
			s.Fetch(path+"/last_operation"+query).Want(http.StatusOK).Has("state", `"succeeded"`)
		}
	}
}

// refusal is a request with one thing wrong. A body is changed by members, as edited does, or is another one.
type refusal struct {
	name, route string
	members     []string
	body        *string
	parts       []string
}

// refusals sends each, about the ready instance or ids that nobody has, and finds that nothing has changed. That what
// cannot be decoded is refused is shown in full by internal/api; here stands one of each kind.
func refusals(s suite) {
	id, binding := s.NewID(), s.NewID()
	s.Traceless(id, binding, func() {
		for _, r := range s.wrongBodies() {
			right := s.route(r.route, s.ready.id, binding)
			if r.route == "provision" {
				right = s.route(r.route, id, binding)
			}
			body := right.body
			if r.members != nil {
				body = edited(body, r.members...)
			}
			if r.body != nil {
				body = *r.body
			}
			s.Send(right.method, right.path, body).Says(http.StatusBadRequest, "BadRequest", r.parts...)
		}
		s.wrongSizes(id)
		s.wrongIDs()
	})
}

func (s suite) wrongBodies() (all []refusal) {
	for _, name := range []string{"provision", "update", "bind"} {
		right := s.route(name, s.ready.id, "x").body
		bodies := []string{"", "service_id=1", "[]", "null", `"x"`, right[:len(right)-1], right + right, right[:len(right)-1] + `,"service_id":"x"}`,
			right[:len(right)-1] + `,"x":{"k":1,"k":1}}`, "\ufeff" + right}
		if s.Verbatim {
			bodies = append(bodies, right[:len(right)-1]+",\"x\":\"\xff\"}")
		}
		for _, body := range bodies {
			all = append(all, refusal{route: name, body: &body, parts: []string{"body"}})
		}
	}
	return append(all, wrongFields...)
}

// wrongFields are members that are missing, of a wrong type, or unknown.
var wrongFields = []refusal{
	{name: "PROV-05 PROV-15", route: "provision", members: []string{"service_id", ""}, parts: []string{"service_id"}},
	{name: "PROV-06 PROV-15", route: "provision", members: []string{"plan_id", `""`}, parts: []string{"plan_id"}},
	{name: "PROV-07 PROV-15", route: "provision", members: []string{"organization_guid", "null"}, parts: []string{"organization_guid"}},
	{name: "PROV-08 PROV-15", route: "provision", members: []string{"space_guid", "1"}, parts: []string{"space_guid"}},
	{name: "PROV-16", route: "provision", members: []string{"service_id", `"no-such-service"`}, parts: []string{"service"}},
	{name: "PROV-16", route: "provision", members: []string{"plan_id", `"no-such-plan"`}, parts: []string{"plan"}},
	{name: "PROV-13", route: "provision", members: []string{"parameters", "[]"}, parts: []string{"parameters"}},
	{name: "PROV-10", route: "provision", members: []string{"context", `{"platform":1}`}, parts: []string{"context.platform"}},
	{name: "MI-04", route: "provision", members: []string{"maintenance_info", `{"version":2}`}, parts: []string{"maintenance_info.version"}},
	{name: "UPD-02 UPD-03", route: "update", members: []string{"service_id", ""}, parts: []string{"service_id"}},
	{name: "UPD-03", route: "update", members: []string{"service_id", "[]"}, parts: []string{"service_id"}},
	{name: "UPD-04 UPD-36", route: "update", members: []string{"service_id", `"nope"`, "parameters", `{"a":2}`}, parts: []string{"service_id"}},
	{name: "UPD-04 UPD-05", route: "update", members: []string{"plan_id", `"nope"`}, parts: []string{"plan"}},
	{name: "UPD-04", route: "update", members: []string{"plan_id", "1"}, parts: []string{"plan_id"}},
	{name: "UPD-04 UPD-07", route: "update", members: []string{"parameters", `"a"`}, parts: []string{"parameters"}},
	{name: "UPD-04", route: "update", members: []string{"context", "1"}, parts: []string{"context"}},
	{name: "BIND-04 BIND-11", route: "bind", members: []string{"service_id", "null"}, parts: []string{"service_id"}},
	{name: "BIND-04 BIND-11", route: "bind", members: []string{"plan_id", ""}, parts: []string{"plan_id"}},
	{name: "BIND-12", route: "bind", members: []string{"service_id", `"nope"`}, parts: []string{"service"}},
	{name: "BIND-12 BIND-43", route: "bind", members: []string{"plan_id", `"nope"`}, parts: []string{"plan"}},
	{name: "BIND-09 BIND-12", route: "bind", members: []string{"parameters", "1"}, parts: []string{"parameters"}},
	{name: "BIND-12", route: "bind", members: []string{"app_guid", "1"}, parts: []string{"app_guid"}},
	{name: "BIND-12", route: "bind", members: []string{"bind_resource", "[]"}, parts: []string{"bind_resource"}},
	{name: "ROT-09", route: "bind", members: []string{"predecessor_binding_id", "{}"}, parts: []string{"predecessor_binding_id"}},
}

// wrongSizes are bodies and parameters beyond their limits, which are named (LOI-04).
func (s suite) wrongSizes(id string) {
	s.T.Helper()
	create := s.route("provision", id, "")
	s.Send("PUT", create.path, edited(create.body, "x", Quoted(strings.Repeat("a", 1<<20)))).Says(http.StatusRequestEntityTooLarge, "RequestTooLarge", "1048576")
	s.Send("PUT", create.path, edited(create.body, "parameters", `{"x":`+Quoted(strings.Repeat("a", 256<<10))+`}`)).Says(http.StatusBadRequest, "BadRequest", "parameters", "262144")
	deep := create.body[:len(create.body)-1] + `,"y":` + strings.Repeat(`{"a":[`, 20000) + strings.Repeat(`]}`, 20000) + `}`
	s.Send("PUT", create.path, deep).Says(http.StatusBadRequest, "BadRequest", "nested")
}

// wrongIDs are ids that are too long, and deletes that do not say of what (LOI-04, LOB-03, LOI-05, LOB-04, DEP-02,
// DEP-05, DEP-06, UNB-02, UNB-03, UNB-04).
func (s suite) wrongIDs() {
	s.T.Helper()
	long := strings.Repeat("x", 901)
	for _, r := range s.routes(long, "b")[1:] {
		s.send(r).Says(http.StatusBadRequest, "BadRequest", "instance id", "900")
	}
	for _, r := range s.routes("i", long)[6:] {
		s.send(r).Says(http.StatusBadRequest, "BadRequest", "binding id", "900")
	}
	for _, hints := range []string{"", "&service_id=s", "&plan_id=p", "&service_id=&plan_id=p"} {
		for _, path := range []string{InstancePath(s.ready.id), BindingPath(s.ready.id, s.ready.binding)} {
			for _, flag := range []string{"true", "false"} {
				s.Send("DELETE", path+"?accepts_incomplete="+flag+hints, "").Says(http.StatusBadRequest, "BadRequest")
			}
		}
	}
	s.Poll(InstancePath(s.ready.id), strings.Repeat("o", 5000)).Want(http.StatusOK)
}

// crowdedLife is the bug report that the broker exists for: every request of a life is sent many times at once, and
// repeated once it is done.
func crowdedLife(s suite) {
	c, n := s.Tenant, s.Crowd
	x := subject{id: c.NewID(), plan: s.Bindable, parameters: s.Parameters}
	if c.Simulated() {
		x.parameters = Marked
	}
	posts, keys := s.counted(x.id)
	create := func(int) Answer { return sameCreate(c, x) }
	x.operation = OneOperation(c.T, http.StatusOK, Together(n, create)...)
	c.Succeeds(x.path(), x.operation)
	for _, a := range Together(n, create) {
		a.Want(http.StatusOK).Lacks("operation")
	}
	crowdedBinds(c, x, n, false)
	crowdedBinds(c, x, n, true)
	if c.Simulated() {
		row := c.Row(x.id)
		if string(row.Parameters) != Marked || row.Annotations["ferry-operation"] != x.operation || row.Labels["ferry-client"] != c.Name {
			c.T.Errorf("Cloud Foundry has %+v with %s, want the marks of %s", row, row.Parameters, x.operation)
		}
		if posts() != 1 || keys() != 2 {
			c.T.Errorf("%d POSTs of the instance and %d of its keys, want 1 and 2", posts(), keys())
		}
	}
	leaves := func(int) Answer { return deprovision(c, x) }
	c.Succeeds(x.path(), OneOperation(c.T, http.StatusGone, Together(n, leaves)...))
	for _, a := range Together(n, leaves) {
		a.Bare(http.StatusGone)
	}
	c.Fetch(x.path()).Says(http.StatusNotFound, "NotFound")
	if c.Simulated() {
		c.NothingLeft(x.id)
		c.AskedFor(1, "deprovision", x.id, "")
	}
}

// counted counts the POSTs of an instance, and those of its keys, whose body has its GUID.
func (s suite) counted(id string) (instances, keys func() int) {
	if !s.Simulated() {
		return nil, nil
	}
	return s.Calls(http.MethodPost, Instances, Quoted(id)), s.Calls(http.MethodPost, Keys, "key-of-"+id)
}

// crowdedBinds binds and unbinds, with accepts_incomplete or held: one key is made, and all get its credentials
// (BIND-24, BIND-25, BIND-26, LOB-01, LOB-02, LOB-09, LOB-12, LOB-13, LOB-14).
func crowdedBinds(c Tenant, x subject, n int, async bool) {
	c.T.Helper()
	x.binding = fmt.Sprintf("key-of-%s-%t", x.id, async)
	x.parameters = ""
	flag := map[bool]Change{true: Async, false: Sync}[async]
	answers := Together(n, func(int) Answer { return sameBind(c, x, flag) })
	if async && accepted(answers) {
		c.Succeeds(x.path(), OneOperation(c.T, http.StatusOK, answers...))
		answers = nil
	}
	credentials := c.Fetch(x.path()).Want(http.StatusOK).Credentials()
	made := 0
	for _, a := range append(answers, sameBind(c, x), sameBind(c, x, Async)) {
		if a.Status == http.StatusCreated {
			made++
		} else {
			a.Want(http.StatusOK)
		}
		if a.Credentials() == "" || a.Credentials() != credentials {
			c.T.Errorf("%s: other credentials than are fetched", a.Request)
		}
	}
	if made > 1 || answers != nil && made == 0 {
		c.T.Errorf("201 was answered %d times, want once", made)
	}
	answers = Together(n, func(int) Answer { return unbind(c, x, flag) })
	if async && accepted(answers) {
		c.Succeeds(x.path(), OneOperation(c.T, http.StatusGone, answers...))
	}
	c.Fetch(x.path()).Says(http.StatusNotFound, "NotFound")
	unbind(c, x).Bare(http.StatusGone)
}

// accepted reports whether any answer is a 202.
func accepted(answers []Answer) bool {
	return slices.ContainsFunc(answers, func(a Answer) bool { return a.Status == http.StatusAccepted })
}
