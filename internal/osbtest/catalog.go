package osbtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// offering and offeringPlan are read without the product's own types, so that a misspelt field shows.
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

func (c Client) offerings() []offering {
	c.T.Helper()
	var body struct{ Services []offering }
	c.Fetch("/v2/catalog").Want(http.StatusOK).Decode(&body)
	return body.Services
}

// MaintenanceVersion is the version of a plan in the catalog, "" where it has none.
func (c Client) MaintenanceVersion(plan string) string {
	c.T.Helper()
	for _, o := range c.offerings() {
		for _, p := range o.Plans {
			if o.Name+"/"+p.Name == plan && p.MaintenanceInfo != nil {
				return fmt.Sprint(p.MaintenanceInfo["version"])
			}
		}
	}
	return ""
}

func conditionalCatalog(s suite) {
	a := s.Fetch("/v2/catalog").Want(http.StatusOK)
	tag := a.Header.Get("ETag")
	if !strings.HasPrefix(tag, `"`) || a.Header.Get("Cache-Control") == "" {
		s.T.Fatalf("%s: ETag %q, Cache-Control %q", a.Request, tag, a.Header.Get("Cache-Control"))
	}
	for name, change := range map[string]Change{"its tag": Header("If-None-Match", tag), "since it was": Header("If-Modified-Since", a.Header.Get("Last-Modified"))} {
		if same := s.Send("GET", "/v2/catalog", "", change).Want(http.StatusNotModified); same.Header.Get("ETag") != tag {
			s.T.Errorf("%s: 304 with the tag %q, want %q", name, same.Header.Get("ETag"), tag)
		}
	}
	a.Same(s.Send("GET", "/v2/catalog", "{{{", Header("If-None-Match", `"other"`)))
}

func mandatoryFields(s suite) {
	friendly := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	taken := map[string]bool{}
	unique := func(what, id string) {
		if id == "" || taken[what+id] {
			s.T.Errorf("the %s %q is empty or not the only one", what, id)
		}
		taken[what+id] = true
	}
	for _, o := range s.offerings() {
		unique("id", o.ID)
		unique("name", o.Name)
		if o.Description == "" || o.Bindable == nil || len(o.Plans) == 0 || !friendly.MatchString(o.Name) || !unreserved.MatchString(o.ID) {
			s.T.Errorf("an offering that lacks a mandatory field, or is hard to type: %+v", o)
		}
		for _, p := range o.Plans {
			unique("id", p.ID)
			unique("name of a plan of "+o.Name, p.Name)
			if p.Description == "" || p.Free == nil || p.Bindable == nil || !friendly.MatchString(p.Name) || !unreserved.MatchString(p.ID) {
				s.T.Errorf("a plan of %s that lacks a mandatory field, or is hard to type: %+v", o.Name, p)
			}
		}
	}
}

// offeringsOfSimulator: what the simulated marketplace says reaches platforms. How a catalog is built, with its corner
// cases, is tested in internal/catalog.
func offeringsOfSimulator(s suite) {
	offerings, plans := map[string]string{}, map[string]string{}
	for _, o := range s.offerings() {
		offerings[o.Name] = fmt.Sprintf("bindable %t, retrievable %t %t, updates %t, contexts %t, tags %v, requires %v, metadata %s, dashboard %s", *o.Bindable,
			*o.InstancesRetrievable, *o.BindingsRetrievable, *o.PlanUpdateable, *o.AllowContextUpdates, o.Tags, o.Requires, o.Metadata["displayName"], o.DashboardClient)
		for _, p := range o.Plans {
			plans[o.Name+"/"+p.Name] = fmt.Sprintf("free %t, bindable %t, updates %t, polling %d, version %v, metadata %s",
				*p.Free, *p.Bindable, *p.PlanUpdateable, p.MaximumPollingDuration, p.MaintenanceInfo["version"], p.Metadata["displayName"])
		}
	}
	for name, want := range map[string]string{
		"postgres": `bindable true, retrievable true true, updates true, contexts true, tags [sql relational], requires [], metadata "postgres", dashboard `,
		"queue":    `bindable false, retrievable false false, updates false, contexts false, tags [messaging], requires [], metadata "queue", dashboard `,
		"drain":    `bindable true, retrievable false false, updates false, contexts false, tags [logs], requires [syslog_drain volume_mount], metadata "drain", dashboard `,
	} {
		if offerings[name] != want {
			s.T.Errorf("%s: %s, want %s", name, offerings[name], want)
		}
	}
	for name, want := range map[string]string{
		"postgres/small":       `free true, bindable true, updates true, polling 0, version <nil>, metadata "small"`,
		"postgres/no-bindings": `free true, bindable false, updates true, polling 0, version <nil>, metadata "no-bindings"`,
		"postgres/maintained":  `free true, bindable true, updates true, polling 0, version 2.1.0, metadata "maintained"`,
		"faults/hurried":       `free true, bindable true, updates true, polling 3, version <nil>, metadata "hurried"`,
		"queue/standard":       `free true, bindable false, updates false, polling 0, version <nil>, metadata "standard"`,
	} {
		if plans[name] != want {
			s.T.Errorf("%s: %s, want %s", name, plans[name], want)
		}
	}
}

func publishedSchemas(s suite) {
	for _, o := range s.offerings() {
		for _, p := range o.Plans {
			for _, schema := range []*schemaOf{p.Schemas.ServiceInstance.Create, p.Schemas.ServiceInstance.Update, p.Schemas.ServiceBinding.Create} {
				if has := schema != nil; has != (o.Name+"/"+p.Name == "postgres/schema") {
					s.T.Errorf("%s/%s has a schema: %t", o.Name, p.Name, has)
				} else if has && (!strings.Contains(string(schema.Parameters), `"$schema":"http://json-schema.org/draft-04/schema#"`) || len(schema.Parameters) > 64*1024) {
					s.T.Errorf("%s/%s: %s, want a schema of draft-04", o.Name, p.Name, schema.Parameters)
				}
			}
		}
	}
}

func caseOfIDs(s suite) {
	upper := Quoted(strings.ToUpper(s.Plan("postgres/small").PlanID))
	id := s.NewID()
	s.Send("PUT", InstancePath(id)+"?"+incomplete, edited(s.InstanceBody("postgres/small", ""), "plan_id", upper)).Says(http.StatusBadRequest, "BadRequest", "plan")
	s.Fetch(InstancePath(id)).Want(http.StatusNotFound)
}
