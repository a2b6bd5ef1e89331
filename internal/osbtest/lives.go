package osbtest

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// simulated are the clauses that need the plans of the simulator, or look into its Cloud Foundry.
var simulated = []clause{
	{"UPD-05 UPD-06 UPD-07 UPD-08 UPD-09 UPD-12 UPD-30 UPD-31 CON-24 MI-14 an update replaces what it names and keeps the rest", updates},
	{"PROV-13 CON-63 HTTP-06 what is sent as parameters reaches the backing broker letter for letter", exactParameters},
	{"PROV-12 CON-63 the namespace is an attribute, a Kubernetes cluster id is none", clusterIDs},
	{"PROV-14 PROV-16 UPD-04 UPD-10 UPD-25 BIND-10 BIND-12 ORPH-09 parameters are held against the plan's schema", schemas},
	{"MI-04 MI-05 MI-06 MI-07 MI-08 MI-09 MI-10 MI-11 MI-12 MI-13 PROV-24 UPD-24 ERR-11 HDR-07 versions of plans", maintenance},
	{"UPD-15 UPD-16 UPD-33 ERR-06 ERR-07 CAT-43 BIND-02 BIND-03 BIND-45 CAT-39 FI-03 FI-13 CAT-17 offerings that cannot be bound, changed or fetched", limitedOfferings},
	{"BIND-28 BIND-33 BIND-34 FB-08 FB-12 CAT-18 CAT-41 CAT-42 log drains and volumes", drainsAndVolumes},
	{"BIND-19 BIND-22 ERR-10 ERR-14 RequiresApp", requiresApp},
	{"PROV-25 PROV-27 UPD-28 FI-11 CON-10 a dashboard is told once Cloud Foundry has one", dashboards},
	{"BIND-05 BIND-06 BIND-07 BIND-09 BIND-18 BIND-26 FB-06 FB-07 FB-09 BIND-43 CON-05 CON-46 CON-62 the bindings of an instance", bindingsOfOne},
	{"CON-51 UNB-13 DEP-17 one binding id under two instances is two bindings; hints of a delete decide nothing", sameBindingID},
	{"CON-39 DEP-01 DEP-03 DEP-04 LIM-02 a delete takes the bindings along", deleteWithBindings},
	{"CON-50 CON-02 CON-03 CON-04 ERR-09 a bind of an instance that is busy", bindOfBusy},
	{"CON-36 DEP-12 ASY-17 a delete or an update while a binding is made or removed", besideBindings},
	{"CON-53 a bind that is held is ended by an unbind", heldBindEnds},
	{"ROT-01 ROT-02 ROT-03 ROT-04 ROT-05 ROT-06 ROT-08 ROT-10 CAT-30 BIND-15 rotations", rotations},
	{"ROT-09 a predecessor that is none", noPredecessor},
	{"HTTP-13 ORPH-13 PROV-02 LOI-11 LOB-09 ASY-15 any character may stand in an id", anyCharacter},
	{"OID-01 OID-03 OID-10 ORPH-11 a create whose originator cannot be read is carried out", unreadableOriginator},
	{"CAT-15 CAT-16 CAT-19 CAT-20 CAT-22 CAT-27 CAT-29 CAT-31 CAT-33 CAT-34 CAT-38 CAT-46 CAT-47 MI-01 MI-02 MI-03 the catalog of the simulator", offeringsOfSimulator},
	{"CAT-32 CAT-35 CAT-37 schemas are passed on", publishedSchemas},
	{"CAT-08 ids are compared with their case", caseOfIDs},
	{"CON-01 CON-64 CON-63 many creates at once are all served, and of two that differ one wins", manyCreates},
}

func updates(s suite) {
	c, id := s.Tenant, s.Ready("postgres/small", `{"a":1,"b":2}`)
	large := `"plan_id":` + Quoted(c.Plan("postgres/large").PlanID)
	a := c.Update(id, "postgres/small", `"parameters":`+Marked).Want(http.StatusAccepted)
	a.Lacks("dashboard_url", "metadata")
	c.Succeeds(InstancePath(id), a.Operation())
	c.HasParameters(id, Marked)
	c.Provision(id, "postgres/small", Marked).Bare(http.StatusOK)
	for _, old := range []string{`{"a":1,"b":2}`, `{"b":2,"word":"` + Secret + `","big":` + Big + `}`} {
		c.Provision(id, "postgres/small", old).Says(http.StatusConflict, "Conflict")
	}
	c.Updated(id, "postgres/small", large+`,"parameters":{},"previous_values":{"plan_id":"stale","maintenance_info":{"version":"0.0.1"}}`)
	if row := c.Row(id); row.Plan != "large" || string(row.Parameters) != Marked {
		c.T.Errorf("after a new plan Cloud Foundry has %+v with %s", row, row.Parameters)
	}
	c.Provision(id, "postgres/large", Marked).Bare(http.StatusOK)
	c.Provision(id, "postgres/small", Marked).Says(http.StatusConflict, "Conflict")
	c.Updated(id, "postgres/large", large+`,"parameters":{"b":false}`)
	c.HasParameters(id, `{"b":false}`)
	for range 2 {
		c.Update(id, "postgres/large", large+`,"parameters":{"b":false}`).Bare(http.StatusOK)
	}
	a = c.Fetch(InstancePath(id)).Want(http.StatusOK)
	a.Has("plan_id", Quoted(c.Plan("postgres/large").PlanID))
	a.Has("parameters", `{"b":false}`)
	c.AskedFor(3, "update", id, "")
	c.Gone(id, "postgres/large")
}

// exactParameters: numbers and order are compared as values and passed on as text.
func exactParameters(s suite) {
	const sent = `{"n":1.0,"s":"3","big":9007199254740993,"e":[1E2,-0,0.10,1e400],"k":12345678901234567890.10,"a":{"x":[],"y":{},"z":null,"w":""},"__proto__":{"\u0000":"\u0000"}}`
	c, id := s.Tenant, s.NewID()
	create := func(parameters string) Answer { return c.Provision(id, "postgres/small", parameters) }
	c.Succeeds(InstancePath(id), create(sent).Want(http.StatusAccepted).Operation())
	c.HasParameters(id, sent)
	create(`{"a":{"w":"","z":null,"y":{},"x":[]},"s":"3","e":[100,0,1e-1,10e399],"k":12345678901234567890.1,"big":9007199254740993.0,"n":1e0,"__proto__":{"\u0000":"\u0000"}}`).Bare(200)
	for _, other := range []string{
		strings.Replace(sent, "993", "992", 1), strings.Replace(sent, `"3"`, "3", 1), strings.Replace(sent, "1E2,-0", "-0,1E2", 1), strings.Replace(sent, `"y":{},`, "", 1),
	} {
		create(other).Says(http.StatusConflict, "Conflict")
	}
	c.Fetch(InstancePath(id)).Has("parameters", sent)
	c.Gone(id, "postgres/small")
}

func clusterIDs(s suite) {
	c, id := s.Tenant, s.NewID()
	send := func(namespace, cluster string) Answer {
		return c.Send("PUT", InstancePath(id)+"?"+incomplete, edited(c.InstanceBody("postgres/small", ""), "organization_guid", Quoted(cluster),
			"context", fmt.Sprintf(`{"platform":"kubernetes","namespace":%q,"clusterid":%q,"namespace_annotations":{"a":"b"}}`, namespace, cluster)))
	}
	namespace := strings.Repeat("n", 80)
	c.Succeeds(InstancePath(id), send(namespace, "cluster-1").Want(http.StatusAccepted).Operation())
	send(namespace, "cluster-2").Bare(http.StatusOK)
	send("other", "cluster-1").Says(http.StatusConflict, "Conflict")
	c.Gone(id, "postgres/small")
}

// schemas: nothing is stored of what does not fit; a duplicate is compared and not checked.
func schemas(s suite) {
	const plan = "postgres/schema"
	c, id := s.Tenant, s.NewID()
	for parameters, part := range map[string]string{`{"size":0}`: "/size", `{"size":"1"}`: "/size", "": "size", "{}": "size", `{"size":1,"name":2}`: "/name", `{"size":1,"colour":"red"}`: "colour"} {
		c.Refused(id, "", func() Answer { return c.Provision(id, plan, parameters) }).Says(http.StatusBadRequest, "BadRequest", part)
	}
	c.Succeeds(InstancePath(id), c.Provision(id, plan, `{"size":100}`).Want(http.StatusAccepted).Operation())
	c.Provision(id, plan, `{"size":0}`).Says(http.StatusConflict, "Conflict")
	c.Provision(id, plan, `{"size":1e2}`).Bare(http.StatusOK)
	c.Traceless(id, "b", func() {
		c.Update(id, plan, `"parameters":{"size":0}`).Says(http.StatusBadRequest, "BadRequest", "/size")
		c.Bind(id, "b", plan, `{"name":1}`).Says(http.StatusBadRequest, "BadRequest", "/name")
		c.Bind(id, "b", plan, `{"name":1}`, Async).Says(http.StatusBadRequest, "BadRequest", "/name")
	})
	// A new plan brings its own schema.
	c.Updated(id, plan, `"parameters":{"name":"x"}`)
	c.Updated(id, plan, `"plan_id":`+Quoted(c.Plan("postgres/small").PlanID))
	back := `"plan_id":` + Quoted(c.Plan(plan).PlanID)
	c.Update(id, plan, back+`,"parameters":{"size":0}`).Says(http.StatusBadRequest, "BadRequest", "/size")
	c.Updated(id, plan, back+`,"parameters":{"size":2}`)
	c.Bind(id, "b", plan, `{"name":"x"}`).Want(http.StatusCreated)
	c.Gone(id, plan)
}

// Version is maintenance_info with a version.
func Version(v string) string {
	return fmt.Sprintf(`"maintenance_info":{"version":%q,"description":"ignored","more":1}`, v)
}

func maintenance(s suite) {
	const plan, conflict = "postgres/maintained", "MaintenanceInfoConflict"
	c, id := s.Tenant, s.NewID()
	body := c.InstanceBody(plan, "")
	create := func(body, version string) Answer {
		return c.Send("PUT", InstancePath(id)+"?"+incomplete, body[:len(body)-1]+","+version+"}")
	}
	for _, version := range []string{"9.9.9", "not a version"} {
		c.Refused(id, "", func() Answer { return create(body, Version(version)) }).Says(422, conflict, "maintenance_info")
	}
	c.Refused(id, "", func() Answer { return create(c.InstanceBody("postgres/small", ""), Version("1.0.0")) }).Says(422, conflict)
	c.Succeeds(InstancePath(id), create(body, `"maintenance_info":{}`).Want(http.StatusAccepted).Operation())
	create(body, Version("9.9.9")).Bare(http.StatusOK) // no attribute
	a := c.Send("GET", InstancePath(id), "", Header("X-Broker-API-Version", "2.11"))
	a.Has("maintenance_info", `{"version":"2.1.0"}`)
	small, back := `"plan_id":`+Quoted(c.Plan("postgres/small").PlanID), `"plan_id":`+Quoted(c.Plan(plan).PlanID)
	c.Traceless(id, "", func() {
		for _, members := range []string{Version("9.9.9"), Version("x"), small + "," + Version("2.1.0")} {
			c.Update(id, plan, members).Says(422, conflict, "maintenance_info")
		}
		c.Update(id, plan, Version("2.1.0")).Bare(http.StatusOK) // the one that it has
	})
	c.Updated(id, plan, small)
	c.Update(id, plan, back+","+Version("9.9.9")).Says(422, conflict)
	c.Updated(id, plan, back+","+Version("2.1.0"))
	c.Gone(id, plan)
}

func limitedOfferings(s suite) {
	c, id, unbindable := s.Tenant, s.Ready("queue/standard", ""), s.Ready("postgres/no-bindings", "")
	c.Fetch(InstancePath(id)).Says(http.StatusNotFound, "NotFound")
	c.Traceless(id, "b", func() {
		a := c.Update(id, "queue/standard", `"plan_id":`+Quoted(c.Plan("queue/priority").PlanID))
		a.Says(422, "Unprocessable", "plan")
		a.Has("update_repeatable", "false")
		c.Bind(id, "b", "queue/standard", "").Says(http.StatusBadRequest, "BadRequest", "bindings")
		foreign := edited(c.InstanceBody("queue/standard", ""), "plan_id", Quoted(c.Plan("postgres/small").PlanID))
		c.Send("PUT", InstancePath(c.NewID())+"?"+incomplete, foreign).Says(http.StatusBadRequest, "BadRequest", "plan")
	})
	c.Refused(unbindable, "b", func() Answer { return c.Bind(unbindable, "b", "postgres/no-bindings", "") }).Says(http.StatusBadRequest, "BadRequest", "bindings")
	plan := `"plan_id":` + Quoted(c.Plan("queue/standard").PlanID)
	c.Update(id, "queue/standard", plan).Bare(http.StatusOK)
	c.Updated(id, "queue/standard", plan+`,"parameters":{"a":1}`)
	c.Gone(id, "queue/standard")
	c.Gone(unbindable, "postgres/no-bindings")
}

func dashboards(s suite) {
	const url = "https://dashboard.example.org/?instance=1&view=all"
	c, id := s.Tenant, s.NewID()
	for _, operation := range []string{"provision", "update"} {
		c.Instruct(`{"operation":%q,"org":%q,"instance":%q,"times":1,"answer":"done","dashboard_url":%q}`, operation, c.Org, id, url+operation)
	}
	shows := func(want string, answers ...Answer) {
		for _, a := range answers {
			a.Want(http.StatusOK).Has("dashboard_url", strings.ReplaceAll(Quoted(want), `\u0026`, "&"))
		}
	}
	a := c.Provision(id, "postgres/small", `{"a":1}`).Want(http.StatusAccepted)
	c.Succeeds(InstancePath(id), a.Operation())
	shows(url+"provision", c.Provision(id, "postgres/small", `{"a":1}`), c.Fetch(InstancePath(id)))
	c.Updated(id, "postgres/small", `"parameters":{"a":2}`)
	shows(url+"update", c.Provision(id, "postgres/small", `{"a":2}`), c.Fetch(InstancePath(id)))
	c.Gone(id, "postgres/small")
}

// anyCharacter: ids are decoded once, kept byte for byte, and are the names of rows where Cloud Foundry takes them.
func anyCharacter(s suite) {
	c, run := s.Tenant, s.NewID()
	names := []string{run + ` äΩ-🐘  1+1=2:@;,~'"\&#?% 100% sure...`, run + "A", run + "a", strings.Repeat("z", 200-len(run)) + run, run + strings.Repeat("w", 600), run + " a b "}
	if s.Verbatim {
		names = append(names, run+"%25", run+"///a/b%2F", run+"a\tb\x00c", run+"\xff", "../"+run)
	}
	for _, id := range names {
		op := c.Provision(id, "postgres/small", `{"a":1}`).Want(http.StatusAccepted).Operation()
		c.Provision(id, "postgres/small", `{"a":2}`).Says(http.StatusConflict, "Conflict")
		c.Succeeds(InstancePath(id), op)
		c.Bind(id, id, "postgres/small", "").Want(http.StatusCreated)
		c.Poll(BindingPath(id, id), "a/b ü+%").Want(http.StatusOK)
		s.named(id, op, len(id) <= 255 && strings.TrimSpace(id) == id && utf8.ValidString(id) && !strings.ContainsAny(id, "\t\x00"))
	}
	for _, id := range names {
		c.Fetch(BindingPath(id, id)).Want(http.StatusOK)
		c.Unbind(id, id, "postgres/small").Bare(http.StatusOK)
		c.Gone(id, "postgres/small")
	}
}

// named checks the names of the row of an operation, and of its key.
func (s suite) named(id, operation string, itself bool) {
	s.T.Helper()
	for _, row := range s.State().Instances {
		if row.Annotations["ferry-operation"] != operation {
			continue
		}
		if same := row.Name == id && len(row.Keys) == 1 && row.Keys[0].Name == id; same != itself {
			s.T.Errorf("Cloud Foundry calls the instance and the key of %q %q", id, row.Name)
		}
		return
	}
	s.T.Errorf("Cloud Foundry has no row of %q", id)
}

func unreadableOriginator(s suite) {
	id := s.NewID()
	for _, value := range []string{"kubernetes bm90IGpzb24=", "cloudfoundry !!!", "", "kubernetes " + strings.Repeat("A", 8<<10)} {
		a := s.Provision(id, "postgres/small", "", Header("X-Broker-API-Originating-Identity", value))
		if a.Status == http.StatusAccepted {
			s.Succeeds(InstancePath(id), a.Operation())
		} else {
			a.Bare(http.StatusOK)
		}
	}
	s.Gone(id, "postgres/small")
}

// manyCreates: identical ones are one, and of two that differ one wins.
func manyCreates(s suite) {
	c, ids, raced := s.Tenant, []string{s.NewID(), s.NewID(), s.NewID(), s.NewID(), s.NewID()}, s.NewID()
	answers := make(chan []Answer, 1)
	go func() {
		answers <- Together(8, func(i int) Answer { return c.Provision(raced, "postgres/async", fmt.Sprintf(`{"a":%d}`, i%2)) })
	}()
	for i, a := range Together(2*len(ids), func(i int) Answer { return c.Provision(ids[i%len(ids)], "postgres/small", "") }) {
		if a.Status == http.StatusAccepted {
			c.Succeeds(InstancePath(ids[i%len(ids)]), a.Operation())
		} else {
			a.Bare(http.StatusOK)
		}
	}
	var won []Answer
	for _, a := range <-answers {
		if a.Status != http.StatusConflict {
			won = append(won, a)
		}
	}
	c.Succeeds(InstancePath(raced), OneOperation(c.T, http.StatusOK, won...))
	for _, id := range append(ids, raced) {
		c.AskedFor(1, "provision", id, "")
		c.Gone(id, "postgres/small")
	}
}
