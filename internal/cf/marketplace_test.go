package cf

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func TestKeyDetails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   broker.KeyDetails
		absent bool
		fails  bool
	}{
		"credentials keep every byte": {200, `{"credentials": {"big":9007199254740993, "f":1.10,"t":"<&>\u00e9"} }`,
			broker.KeyDetails{Credentials: json.RawMessage(`{"big":9007199254740993, "f":1.10,"t":"<&>\u00e9"}`)}, false, false},
		"volume mounts are objects": {200, `{"credentials":{},"syslog_drain_url":"syslog://d","volume_mounts":[{"driver":"x","n":9007199254740993}]}`,
			broker.KeyDetails{Credentials: json.RawMessage(`{}`), SyslogDrainURL: "syslog://d", VolumeMounts: json.RawMessage(`[{"driver":"x","n":9007199254740993}]`)}, false, false},
		"nulls are nothing":           {200, `{"credentials":{},"syslog_drain_url":null,"volume_mounts":null}`, broker.KeyDetails{Credentials: json.RawMessage(`{}`)}, false, false},
		"absent":                      {404, cfError(10010, "CF-ResourceNotFound", "Service credential binding not found"), broker.KeyDetails{}, true, true},
		"not finished":                {404, cfError(10010, "CF-ResourceNotFound", "Creation of service key in progress"), broker.KeyDetails{}, false, true},
		"delete failed":               {404, cfError(10010, "CF-ResourceNotFound", "Deletion of service key failed"), broker.KeyDetails{}, false, true},
		"a router's 404":              {404, "no route", broker.KeyDetails{}, false, true},
		"no CredHub":                  {503, cfError(10015, "CF-ServiceUnavailable", "Fetching credentials from CredHub failed; reason: x"), broker.KeyDetails{}, false, true},
		"an unfinished key of Korifi": {500, cfError(10001, "UnknownError", "An unknown error occurred."), broker.KeyDetails{}, false, true},
		"half an answer":              {200, `{"credentials":{"a":`, broker.KeyDetails{}, false, true},
		"no credentials":              {200, `{}`, broker.KeyDetails{}, false, false},
		"credentials that are null": {200, `{"credentials":null,"syslog_drain_url":"syslog://d","route_service_url":"https://r","endpoints":[{"host":"h","ports":["1"]}]}`,
			broker.KeyDetails{SyslogDrainURL: "syslog://d", RouteServiceURL: "https://r", Endpoints: json.RawMessage(`[{"host":"h","ports":["1"]}]`)}, false, false},
		"the rest is not as documented": {200, `{"credentials":{},"syslog_drain_url":7,"volume_mounts":{},"route_service_url":[],"endpoints":"none"}`,
			broker.KeyDetails{Credentials: json.RawMessage(`{}`)}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			got, err := s.backend(t, nil).KeyDetails(t.Context(), "g")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			if (err != nil) != test.fails || errors.Is(err, broker.ErrNotFound) != test.absent {
				t.Errorf("error %v, absent %v", err, test.absent)
			}
		})
	}
}

// TestCredentialsOfAnotherKind [20]: what no platform can be handed is said once and for all, without its value.
func TestCredentialsOfAnotherKind(t *testing.T) {
	t.Parallel()
	for credentials, kind := range map[string]string{`["hunter2"]`: "an array", `"hunter2"`: "a text", `17`: "a number", `true`: "a boolean"} {
		s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"credentials": `+credentials+`}`) })
		_, err := s.backend(t, nil).KeyDetails(t.Context(), "g")
		said, ok := errors.AsType[broker.UserTexter](err)
		if !errors.Is(err, broker.ErrCredentials) || !ok || !strings.Contains(said.UserText(), kind) || strings.Contains(said.UserText()+err.Error(), "hunter2") {
			t.Errorf("%s: %v; want that the credentials are %s", credentials, err, kind)
		}
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
		never  bool
		fails  bool
	}{
		"as the broker sent them": {200, `{"a": 1.0, "big":9007199254740993}`, `{"a": 1.0, "big":9007199254740993}`, false, false},
		"none":                    {200, `{}`, `{}`, false, false},
		"instance not offered":    {400, cfError(120004, "CF-ServiceFetchInstanceParametersNotSupported", "x"), "", true, true},
		"key not offered":         {400, cfError(90007, "CF-ServiceFetchBindingParametersNotSupported", "x"), "", true, true},
		"absent":                  {404, cfError(10010, "CF-ResourceNotFound", "x"), "", false, true},
		"no such call":            {404, cfError(10000, "CF-NotFound", "Unknown request"), "", true, true},
		"a router's 404":          {404, "no route", "", false, true},
		"in progress":             {409, cfError(60016, "CF-AsyncServiceInstanceOperationInProgress", "x"), "", false, true},
		"a broker that fails":     {502, cfError(10001, "CF-ServiceBrokerBadResponse", "x"), "", false, true},
		"not JSON":                {200, `<html>`, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			b := s.backend(t, nil)
			for what, get := range map[string]func() (json.RawMessage, error){
				"InstanceParameters": func() (json.RawMessage, error) { return b.InstanceParameters(t.Context(), "g") },
				"KeyParameters":      func() (json.RawMessage, error) { return b.KeyParameters(t.Context(), "g") },
			} {
				got, err := get()
				if errors.Is(err, broker.ErrBusy) != (name == "in progress") {
					t.Errorf("%s: %v; want ErrBusy while an operation runs, and only then", what, err)
				}
				if errors.Is(err, broker.ErrNotFound) != (name == "absent") {
					t.Errorf("%s: %v; want ErrNotFound for what Cloud Foundry does not know, and only then", what, err)
				}
				if string(got) != test.want || (err != nil) != test.fails || errors.Is(err, broker.ErrNotRetrievable) != test.never {
					t.Errorf("%s = %s, %v", what, got, err)
				}
			}
		})
	}
}

func TestWhatTheBackingBrokerSaidIsInTheRow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body, dashboard string
		provided        *lifecycle.Provided
	}{
		"given": {
			`{"guid":"g","dashboard_url":"https://d.example.org","broker_provided_metadata":{"labels":{"a":"b"},"attributes":{"c":"d"}}}`,
			"https://d.example.org", &lifecycle.Provided{Labels: map[string]string{"a": "b"}, Attributes: map[string]string{"c": "d"}},
		},
		"null":  {`{"guid":"g","dashboard_url":null,"broker_provided_metadata":null}`, "", nil},
		"empty": {`{"guid":"g","broker_provided_metadata":{"labels":{},"attributes":{}}}`, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, test.body) })
			look, err := s.backend(t, nil).FindInstance(t.Context(), "g")
			if err != nil || len(look.Rows) != 1 {
				t.Fatalf("%+v, %v", look, err)
			}
			if diff := cmp.Diff(test.provided, look.Rows[0].Provided); diff != "" || look.Rows[0].DashboardURL != test.dashboard {
				t.Errorf("dashboard %q, provided (-want +got):\n%s", look.Rows[0].DashboardURL, diff)
			}
		})
	}
}

func TestMarksOfAnotherClientAreNotOurs(t *testing.T) {
	t.Parallel()
	for label, ours := range map[string]bool{`,"labels":{"ferry-client":"other"}`: false, `,"labels":{"ferry-client":"suite"}`: true, ``: true} {
		s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, `{"guid":"g","metadata":{"annotations":{"ferry-operation":"create-1","ferry-seq":"7"}`+label+`}}`)
		})
		look, err := s.backend(t, nil).FindInstance(t.Context(), "g")
		if err != nil || len(look.Rows) != 1 || look.Rows[0].Marked != ours {
			t.Errorf("label %q: %+v, %v; want marked %v", label, look, err, ours)
		}
	}
}

func TestMarketplace(t *testing.T) {
	t.Parallel()
	const plan1 = `{"guid":"p1","name":"small","description":"d","available":true,"free":false,
		"costs":[{"currency":"USD","amount":199.990,"unit":"Monthly"}],"maintenance_info":{"version":"2.1.0","description":"m"},
		"broker_catalog":{"id":"c1","metadata":{"bullets": ["x"]},"maximum_polling_duration":3,"features":{"bindable":true,"plan_updateable":false}},
		"schemas":{"service_instance":{"create":{"parameters":{"type": "object"}},"update":{"parameters":{}}},"service_binding":{"create":{"parameters":{}}}},
		"relationships":{"service_offering":{"data":{"guid":"o1"}}}}`
	plan := func(guid, offering, available string) string {
		return `{"guid":"` + guid + `","available":` + available + `,"costs":[],"maintenance_info":{},"broker_catalog":{"id":"c","metadata":{},"maximum_polling_duration":null},
			"relationships":{"service_offering":{"data":{"guid":"` + offering + `"}}}}`
	}
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("organization_guids") != "org-guid" || q.Get("available") != "true" {
			t.Errorf("asked with %s", r.URL.RawQuery)
		}
		switch {
		case r.URL.Path == "/v3/service_offerings":
			reply(w, 200, `{"pagination":{"next":null},"resources":[
				{"guid":"o1","name":"db","description":"d","available":true,"tags":["t"],"requires":["syslog_drain"],"shareable":true,"documentation_url":"https://docs.example.org",
				 "broker_catalog":{"id":"s1","metadata":{"n": 1.0},"features":{"plan_updateable":true,"bindable":true,"instances_retrievable":true,"bindings_retrievable":true,"allow_context_updates":true}}},
				{"guid":"o2","name":"gone","available":false},{"guid":"o3","name":"empty","available":true}]}`)
		case q.Get("page") == "":
			reply(w, 200, `{"pagination":{"next":{"href":"https://x/v3/service_plans?page=2&available=true&organization_guids=org-guid"}},"resources":[`+plan1+`]}`)
		default:
			reply(w, 200, `{"pagination":{"next":null},"resources":[`+plan("p2", "o1", "true")+`,`+plan("p3", "o1", "false")+`,`+plan("p4", "o2", "true")+`,`+plan("p5", "o9", "true")+`]}`)
		}
	})
	got, err := s.backend(t, nil).Marketplace(t.Context())
	want := broker.Marketplace{Offerings: []broker.MarketOffering{{
		GUID: "o1", CatalogID: "s1", Name: "db", Description: "d", Tags: []string{"t"}, Requires: []string{"syslog_drain"},
		Bindable: true, PlanUpdateable: true, InstancesRetrievable: true, BindingsRetrievable: true, AllowContextUpdates: true,
		Shareable: true, DocumentationURL: "https://docs.example.org", Metadata: json.RawMessage(`{"n": 1.0}`),
		Plans: []broker.MarketPlan{{
			GUID: "p1", CatalogID: "c1", Name: "small", Description: "d", Bindable: true, MaximumPollingDuration: 3 * time.Second,
			MaintenanceVersion: "2.1.0", MaintenanceDescription: "m",
			Costs:    json.RawMessage(`[{"currency":"USD","amount":199.990,"unit":"Monthly"}]`),
			Metadata: json.RawMessage(`{"bullets": ["x"]}`), CreateSchema: json.RawMessage(`{"type": "object"}`),
		}, {GUID: "p2", CatalogID: "c"}},
	}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestMarketplaceOfSeveralBrokers: pages of offerings, and ids and names that two brokers share, are handed on as they
// are.
func TestMarketplaceOfSeveralBrokers(t *testing.T) {
	t.Parallel()
	offering := func(n string) string {
		return `{"guid":"o` + n + `","name":"db","available":true,"broker_catalog":{"id":"same","features":{"bindable":true}},
			"relationships":{"service_broker":{"data":{"guid":"b` + n + `"}}}}`
	}
	plan := func(n string) string {
		return `{"guid":"p` + n + `","name":"small","available":true,"maintenance_info":{"version":"1.0.` + n + `"},"broker_catalog":{"id":"same-plan"},
			"schemas":{"service_instance":{"create":{"parameters":{"$schema":"http://json-schema.org/draft-04/schema#", "type":"object","maximum":9007199254740993}}}},
			"relationships":{"service_offering":{"data":{"guid":"o` + n + `"}}}}`
	}
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		row := offering
		if r.URL.Path == "/v3/service_plans" {
			row = plan
		}
		switch page := r.URL.Query().Get("page"); page {
		case "":
			reply(w, 200, `{"pagination":{"next":{"href":"http://192.0.2.1`+r.URL.Path+`?page=2"}},"resources":[`+row("1")+`]}`)
		case "2":
			reply(w, 200, `{"pagination":{"next":{"href":"`+r.URL.Path+`?page=3"}},"resources":[]}`)
		default:
			reply(w, 200, `{"pagination":{"next":null},"resources":[`+row("2")+`]}`)
		}
	})
	market, err := s.backend(t, nil).Marketplace(t.Context())
	if err != nil || len(market.Offerings) != 2 {
		t.Fatalf("%+v, %v; want both offerings", market, err)
	}
	for i, o := range market.Offerings {
		n := string(rune('1' + i))
		if o.GUID != "o"+n || o.CatalogID != "same" || o.Name != "db" || len(o.Plans) != 1 {
			t.Fatalf("offering %d is %+v", i, o)
		}
		p := o.Plans[0]
		schema := `{"$schema":"http://json-schema.org/draft-04/schema#", "type":"object","maximum":9007199254740993}`
		if p.GUID != "p"+n || p.CatalogID != "same-plan" || p.MaintenanceVersion != "1.0."+n || string(p.CreateSchema) != schema {
			t.Errorf("plan %+v", p)
		}
	}
}

// TestCallsAreObserved: metrics see routes, never GUIDs.
func TestCallsAreObserved(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	s := newStub(t, accept)
	b := s.backend(t, func(c *Config) {
		c.Observe = func(call, result string, took time.Duration) {
			if took < 0 {
				t.Errorf("%s took %v", call, took)
			}
			seen[call+" "+result]++
		}
	})
	_, _ = b.DeleteInstance(t.Context(), "g-1")
	_, _ = b.DeleteKey(t.Context(), "k-1")
	want := map[string]int{
		"GET / 200": 1, "POST /oauth/token 200": 1,
		"DELETE /v3/service_instances/:guid 202": 1, "DELETE /v3/service_credential_bindings/:guid 202": 1,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTornMarketplace: plans are listed before offerings. A broker that is registered again in between gets new GUIDs
// for both, so that nothing fits together.
func TestTornMarketplace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ tears, offerings, lists int64 }{
		"registered again once":              {tears: 1, offerings: 1, lists: 2},
		"for ever: what is read second goes": {tears: 9, offerings: 0, lists: 2},
		"whole at once":                      {tears: 0, offerings: 1, lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lists atomic.Int64
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v3/service_plans" {
					reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"p","name":"small","available":true,
						"relationships":{"service_offering":{"data":{"guid":"o`+fmt.Sprint(lists.Add(1))+`"}}}}]}`)
					return
				}
				registered := lists.Load()
				if registered <= test.tears {
					registered++
				}
				reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"o`+fmt.Sprint(registered)+`","name":"db","available":true}]}`)
			})
			market, err := s.backend(t, nil).Marketplace(t.Context())
			if err != nil || int64(len(market.Offerings)) != test.offerings {
				t.Errorf("%+v, %v; want %d offerings", market, err, test.offerings)
			}
			if got := lists.Load(); got != test.lists {
				t.Errorf("the plans were listed %d times, want %d", got, test.lists)
			}
		})
	}
}

// TestAMarketplaceOfHalves: an offering whose plans the org does not see, and plans of nothing, are no sign of a
// marketplace that moved while it was read.
func TestAMarketplaceOfHalves(t *testing.T) {
	t.Parallel()
	const (
		none     = `{"pagination":{"next":null},"resources":[]}`
		plan     = `{"pagination":{"next":null},"resources":[{"guid":"p","name":"small","available":true,"relationships":{"service_offering":{"data":{"guid":"o"}}}}]}`
		offering = `{"pagination":{"next":null},"resources":[{"guid":"o","name":"db","available":true}]}`
	)
	for name, lists := range map[string]struct{ plans, offerings string }{
		"offerings without plans": {none, offering},
		"plans without offerings": {plan, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read atomic.Int64
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v3/service_plans" {
					read.Add(1)
					reply(w, 200, lists.plans)
					return
				}
				reply(w, 200, lists.offerings)
			})
			market, err := s.backend(t, nil).Marketplace(t.Context())
			if err != nil || len(market.Offerings) != 0 || read.Load() != 1 {
				t.Errorf("%+v, %v after %d reads; want an empty one after one", market, err, read.Load())
			}
		})
	}
}
