package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// offering and offeringPlan are read without osb's own types, so that a misspelt
// field shows.
type offering struct {
	ID, Name, Description string
	Bindable              *bool
	Tags, Requires        []string
	Metadata              map[string]json.RawMessage
	DashboardClient       json.RawMessage `json:"dashboard_client"`
	InstancesRetrievable  *bool           `json:"instances_retrievable"`
	BindingsRetrievable   *bool           `json:"bindings_retrievable"`
	AllowContextUpdates   *bool           `json:"allow_context_updates"`
	PlanUpdateable        *bool           `json:"plan_updateable"`
	Plans                 []offeringPlan
}

type offeringPlan struct {
	ID, Name, Description  string
	Metadata               map[string]json.RawMessage
	Free, Bindable         *bool
	PlanUpdateable         *bool           `json:"plan_updateable"`
	BindingRotatable       json.RawMessage `json:"binding_rotatable"`
	MaximumPollingDuration int             `json:"maximum_polling_duration"`
	MaintenanceInfo        map[string]any  `json:"maintenance_info"`
	Schemas                struct {
		ServiceInstance struct{ Create, Update *schemaOf } `json:"service_instance"`
		ServiceBinding  struct{ Create *schemaOf }         `json:"service_binding"`
	}
}

type schemaOf struct{ Parameters json.RawMessage }

// marketplace returns the catalog as platforms read it, by offering and by
// offering/plan.
func (c tenant) marketplace() (map[string]offering, map[string]offeringPlan) {
	c.t.Helper()
	var body struct{ Services []offering }
	c.send("GET", "/v2/catalog", "").want(c.t, 200).decode(c.t, &body)
	offerings, plans := map[string]offering{}, map[string]offeringPlan{}
	for _, o := range body.Services {
		offerings[o.Name] = o
		for _, p := range o.Plans {
			plans[o.Name+"/"+p.Name] = p
		}
	}
	return offerings, plans
}

// TestConformanceCatalog shows the catalog of the simulated marketplace as platforms get it.
// How it is built, with its corner cases, is tested in internal/catalog.
func TestConformanceCatalog(t *testing.T) {
	t.Parallel()
	c := start(t)
	offerings, plans := c.marketplace()
	t.Run("CAT-01 CAT-07 CAT-05 CAT-06 the body, and 304 for who has it", func(t *testing.T) { conditionalCatalog(c.parallel(t)) })
	t.Run("CAT-10 CAT-11 CAT-12 CAT-13 CAT-14 CAT-24 CAT-25 CAT-26 mandatory fields and uniqueness", func(t *testing.T) {
		mandatoryFields(t, offerings)
	})
	t.Run("CAT-09 names and texts", func(t *testing.T) { texts(t, offerings) })
	t.Run("CAT-15 CAT-16 CAT-17 CAT-18 CAT-19 CAT-20 CAT-22 CAT-41 CAT-42 CAT-43 CAT-44 CAT-46 offerings", func(t *testing.T) {
		offeringFields(t, offerings)
	})
	t.Run("CAT-27 CAT-29 CAT-31 CAT-33 CAT-34 CAT-38 CAT-39 CAT-47 MI-01 MI-02 MI-03 plans", func(t *testing.T) { planFields(t, plans) })
	t.Run("CAT-32 CAT-35 CAT-37 schemas are passed on", func(t *testing.T) { schemasOf(t, plans) })
	t.Run("CAT-08 ids are compared with their case", func(t *testing.T) {
		c := c.parallel(t)
		body := c.createBody("postgres/small", "")
		c.send("PUT", at(c.id())+"?accepts_incomplete=true", edited(body, "plan_id", quoted(strings.ToUpper(c.plan("postgres/small").plan)))).want(t, 400)
	})
}

func conditionalCatalog(c tenant) {
	a := c.send("GET", "/v2/catalog", "").want(c.t, 200)
	if tag := a.header.Get("ETag"); !strings.HasPrefix(tag, `"`) || a.header.Get("Cache-Control") == "" {
		c.t.Fatalf("%s: ETag %q, Cache-Control %q", a.request, tag, a.header.Get("Cache-Control"))
	}
	for name, f := range map[string]func(*http.Request){
		"its tag":      header("If-None-Match", a.header.Get("ETag")),
		"since it was": header("If-Modified-Since", a.header.Get("Last-Modified")),
	} {
		if same := c.send("GET", "/v2/catalog", "", f); same.status != 304 || same.body != "" || same.header.Get("ETag") != a.header.Get("ETag") {
			c.t.Errorf("%s: %d %q, want 304 without a body", name, same.status, same.body)
		}
	}
	c.send("GET", "/v2/catalog", "", header("If-None-Match", `"other"`)).want(c.t, 200)
}

func mandatoryFields(t *testing.T, offerings map[string]offering) {
	ids := map[string]bool{}
	unique := func(id string) {
		if id == "" || ids[id] {
			t.Errorf("the id %q is empty or not the only one", id)
		}
		ids[id] = true
	}
	if len(offerings) != 4 {
		t.Errorf("%d offerings by name, want 4", len(offerings))
	}
	for _, o := range offerings {
		unique(o.ID)
		if o.Name == "" || o.Description == "" || o.Bindable == nil || len(o.Plans) == 0 {
			t.Errorf("an offering without a mandatory field: %+v", o)
		}
		names := map[string]bool{}
		for _, p := range o.Plans {
			unique(p.ID)
			if p.Name == "" || p.Description == "" || names[p.Name] {
				t.Errorf("a plan of %s without a mandatory field, or with a name that was taken: %+v", o.Name, p)
			}
			names[p.Name] = true
		}
	}
}

func texts(t *testing.T, offerings map[string]offering) {
	friendly := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)
	for _, o := range offerings {
		if !friendly.MatchString(o.Name) || len(o.Description) > 255 || len(strings.Join(o.Tags, "")) > 2048 {
			t.Errorf("an offering that is hard to type, or to show: %+v", o)
		}
		for _, p := range o.Plans {
			if !friendly.MatchString(p.Name) || len(p.Description) > 255 {
				t.Errorf("a plan that is hard to type, or to show: %+v", p)
			}
		}
	}
}

func offeringFields(t *testing.T, offerings map[string]offering) {
	for name, want := range map[string]string{
		"postgres": "bindable true, retrievable true true, updates true, contexts true, tags [sql relational], requires [], metadata postgres",
		"queue":    "bindable false, retrievable false false, updates false, contexts false, tags [messaging], requires [], metadata queue",
		"drain":    "bindable true, retrievable false false, updates false, contexts false, tags [logs], requires [syslog_drain volume_mount], metadata drain",
	} {
		o := offerings[name]
		got := fmt.Sprintf("bindable %t, retrievable %t %t, updates %t, contexts %t, tags %v, requires %v, metadata %s", *o.Bindable,
			*o.InstancesRetrievable, *o.BindingsRetrievable, *o.PlanUpdateable, *o.AllowContextUpdates, o.Tags, o.Requires, strings.Trim(string(o.Metadata["displayName"]), `"`))
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if o.DashboardClient != nil {
			t.Errorf("%s has a dashboard_client that nobody made: %s", name, o.DashboardClient)
		}
	}
}

func planFields(t *testing.T, plans map[string]offeringPlan) {
	for name, want := range map[string]string{
		"postgres/small":       "free true, bindable true, updates true, polling 0, version <nil>",
		"postgres/no-bindings": "free true, bindable false, updates true, polling 0, version <nil>",
		"postgres/maintained":  "free true, bindable true, updates true, polling 0, version 2.1.0",
		"faults/hurried":       "free true, bindable true, updates true, polling 3, version <nil>",
		"queue/standard":       "free true, bindable false, updates false, polling 0, version <nil>",
	} {
		p := plans[name]
		got := fmt.Sprintf("free %t, bindable %t, updates %t, polling %d, version %v", *p.Free, *p.Bindable, *p.PlanUpdateable, p.MaximumPollingDuration, p.MaintenanceInfo["version"])
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if string(p.Metadata["displayName"]) != quoted(strings.Split(name, "/")[1]) {
			t.Errorf("%s: metadata %s", name, p.Metadata)
		}
		if description, found := p.MaintenanceInfo["description"]; found && description == "" {
			t.Errorf("%s: maintenance_info %v", name, p.MaintenanceInfo)
		}
	}
}

func schemasOf(t *testing.T, plans map[string]offeringPlan) {
	s := plans["postgres/schema"].Schemas
	for what, schema := range map[string]*schemaOf{"create": s.ServiceInstance.Create, "update": s.ServiceInstance.Update, "bind": s.ServiceBinding.Create} {
		if schema == nil || !strings.Contains(string(schema.Parameters), `"$schema":"http://json-schema.org/draft-04/schema#"`) || len(schema.Parameters) > 64*1024 {
			t.Errorf("%s: %+v, want a draft-04 schema", what, schema)
		}
	}
	if small := plans["postgres/small"].Schemas; small.ServiceInstance.Create != nil || small.ServiceBinding.Create != nil {
		t.Errorf("a plan without schemas has %+v", small)
	}
}

// restless fetches the marketplace again and again.
func restless(s *settings) { s.config.Clients[0].CatalogRefresh = 50 * time.Millisecond }

// TestConformanceCatalogChanges: plans come and go in Cloud Foundry, ids stay (CAT-02, CAT-03,
// CAT-04, CAT-18, PROV-16).
func TestConformanceCatalogChanges(t *testing.T) {
	t.Parallel()
	c := start(t, restless, warnings) // a fetch may see half a registration
	before := c.catalog()
	id, binding := c.bound("postgres/large")
	c.control("POST", "/marketplace", `{"hide":["postgres/large"],"reregister":true}`)
	c.eventually("the plan leaves the catalog", func() bool { _, found := c.catalog()["postgres/large"]; return !found })
	for name, p := range c.catalog() {
		if before[name] != p {
			t.Errorf("CAT-02 %s: the ids %+v, before %+v", name, p, before[name])
		}
	}
	c.put(c.id(), "postgres/large", "", async).says(t, 400, "BadRequest", "plan")
	// CAT-04: what has the plan goes on with it.
	c.put(id, "postgres/large", "", async).want(t, 200)
	c.bind(id, binding, "postgres/large", "", plain).want(t, 200)
	c.bind(id, c.id(), "postgres/large", "", plain).want(t, 201)
	// Cloud Foundry changes nothing of a plan that is hidden; that is the operation's failure.
	c.fails(at(id), c.patch(id, "postgres/large", `"parameters":{"a":2}`, async).want(t, 202).operation(), "inaccessible plan")
	c.unbind(id, binding, "postgres/large", plain).want(t, 200)
	c.gone(id, "postgres/large")
	c.control("POST", "/marketplace", `{"show":["postgres/large"]}`)
	c.eventually("the plan comes back", func() bool { return c.catalog()["postgres/large"] == before["postgres/large"] })
}
