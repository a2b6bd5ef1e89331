package cf

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// TestMarketplace: active offerings with their active plans, page by page, each field letter for letter, and ids and
// names that two backing brokers share.
func TestMarketplace(t *testing.T) {
	t.Parallel()
	const plan1 = `{"guid":"p1","name":"small","description":"d","available":true,"free":false,
		"costs":[{"currency":"USD","amount":199.990,"unit":"Monthly"}],"maintenance_info":{"version":"2.1.0","description":"m"},
		"broker_catalog":{"id":"c","metadata":{"bullets": ["x"]},"maximum_polling_duration":3,"features":{"bindable":true,"plan_updateable":true}},
		"schemas":{"service_instance":{"create":{"parameters":{"maximum":9007199254740993}},"update":{"parameters":{"type": "object"}}},"service_binding":{"create":{"parameters":{"b":1}}}},
		"relationships":{"service_offering":{"data":{"guid":"o1"}}}}`
	plan := func(guid, offering, available string) string {
		return `{"guid":"` + guid + `","available":` + available + `,"costs":[],"maintenance_info":{},"broker_catalog":{"id":"c","metadata":{},"maximum_polling_duration":null},
			"schemas":{"service_instance":{"create":{"parameters":{}}}},"relationships":{"service_offering":{"data":{"guid":"` + offering + `"}}}}`
	}
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("organization_guids") != "org-guid" || q.Get("available") != "true" {
			t.Errorf("asked with %s", r.URL.RawQuery)
		}
		switch {
		case r.URL.Path == "/v3/service_offerings":
			reply(w, 200, list(`{"guid":"o1","name":"db","description":"d","available":true,"tags":["t"],"requires":["syslog_drain"],"shareable":true,"documentation_url":"https://docs.example.org",
				"broker_catalog":{"id":"s","metadata":{"n": 1.0},"features":{"plan_updateable":true,"bindable":true,"instances_retrievable":true,"bindings_retrievable":true,"allow_context_updates":true}}}`,
				`{"guid":"o2","name":"gone","available":false}`, `{"guid":"o3","name":"empty","available":true}`, `{"guid":"o4","name":"db","available":true,"broker_catalog":{"id":"s"}}`))
		case q.Get("page") == "":
			reply(w, 200, `{"pagination":{"next":{"href":"https://x/v3/service_plans?page=2&available=true&organization_guids=org-guid"}},"resources":[`+plan1+`]}`)
		default:
			reply(w, 200, list(plan("p2", "o1", "true"), plan("p3", "o1", "false"), plan("p4", "o2", "true"), plan("p5", "o9", "true"), plan("p6", "o4", "true")))
		}
	})
	got, err := s.backend(t, nil).Marketplace(t.Context())
	want := broker.Marketplace{Offerings: []broker.MarketOffering{{
		GUID: "o1", CatalogID: "s", Name: "db", Description: "d", Tags: []string{"t"}, Requires: []string{"syslog_drain"},
		Bindable: true, PlanUpdateable: true, InstancesRetrievable: true, BindingsRetrievable: true, AllowContextUpdates: true,
		Shareable: true, DocumentationURL: "https://docs.example.org", Metadata: json.RawMessage(`{"n": 1.0}`),
		Plans: []broker.MarketPlan{{
			GUID: "p1", CatalogID: "c", Name: "small", Description: "d", Bindable: true, PlanUpdateable: true, MaximumPollingDuration: 3 * time.Second,
			MaintenanceVersion: "2.1.0", MaintenanceDescription: "m", Costs: json.RawMessage(`[{"currency":"USD","amount":199.990,"unit":"Monthly"}]`),
			Metadata: json.RawMessage(`{"bullets": ["x"]}`), CreateSchema: json.RawMessage(`{"maximum":9007199254740993}`),
			UpdateSchema: json.RawMessage(`{"type": "object"}`), BindSchema: json.RawMessage(`{"b":1}`),
		}, {GUID: "p2", CatalogID: "c"}},
	}, {GUID: "o4", CatalogID: "s", Name: "db", Plans: []broker.MarketPlan{{GUID: "p6", CatalogID: "c"}}}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestPollingDurationsWithinReason(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[string]time.Duration{
		`60`: time.Minute, `60.0`: time.Minute, `0`: 0, `-1`: 0, `1e300`: 0, `9223372036854775807`: 0, `"60"`: 0, `null`: 0, `31622400`: 366 * 24 * time.Hour, `31622401`: 0,
	} {
		var row planRow
		if err := json.Unmarshal([]byte(`{"broker_catalog":{"maximum_polling_duration":`+seconds+`}}`), &row); err != nil {
			t.Fatal(err)
		}
		if got := marketPlan(row).MaximumPollingDuration; got != want {
			t.Errorf("%s: %v; want %v", seconds, got, want)
		}
	}
}

// TestTornMarketplace: plans are listed before offerings. A broker that is registered again in between gets new GUIDs
// for both, so that nothing fits together. An offering whose plans the org does not see, and plans of nothing, are no
// sign of that.
func TestTornMarketplace(t *testing.T) {
	t.Parallel()
	plan := func(offering int64) string {
		return list(fmt.Sprintf(`{"guid":"p","name":"small","available":true,"relationships":{"service_offering":{"data":{"guid":"o%d"}}}}`, offering))
	}
	offering := func(n int64) string { return list(fmt.Sprintf(`{"guid":"o%d","name":"db","available":true}`, n)) }
	for name, test := range map[string]struct {
		plans, offerings func(read int64) string // the n-th time, from 1
		found            int
		reads            int64
	}{
		"whole at once":                      {plan, offering, 1, 1},
		"registered again once":              {plan, func(read int64) string { return offering(max(2, read)) }, 1, 2},
		"for ever: what is read second goes": {plan, func(read int64) string { return offering(read + 1) }, 0, 2},
		"offerings without plans":            {func(int64) string { return list() }, offering, 0, 1},
		"plans without offerings":            {plan, func(int64) string { return list() }, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reads atomic.Int64
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v3/service_plans" {
					reply(w, 200, test.plans(reads.Add(1)))
					return
				}
				reply(w, 200, test.offerings(reads.Load()))
			})
			market, err := s.backend(t, nil).Marketplace(t.Context())
			if err != nil || len(market.Offerings) != test.found || reads.Load() != test.reads {
				t.Errorf("%+v, %v after %d reads; want %d offerings after %d", market, err, reads.Load(), test.found, test.reads)
			}
		})
	}
}
