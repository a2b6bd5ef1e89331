package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/schema"
)

// OSB "Service Offering Object": CAT-10 to CAT-22.
func TestOfferingMapping(t *testing.T) {
	t.Parallel()
	const flags = `"bindable":true,"instances_retrievable":false,"bindings_retrievable":false,"allow_context_updates":false,"plan_updateable":false,`
	tests := map[string]struct {
		change func(*broker.MarketOffering)
		ids    string
		want   string // the offering up to its plans
	}{
		"names ids of the backing broker": {
			want: `{"id":"id-db","name":"db","description":"about db",` + flags,
		},
		"names GUIDs of Cloud Foundry": {
			ids:  IDsCloudFoundry,
			want: `{"id":"guid-db","name":"db","description":"about db",` + flags,
		},
		"says the name when the description is empty": {
			change: func(o *broker.MarketOffering) { o.Description = "" },
			want:   `{"id":"id-db","name":"db","description":"db",` + flags,
		},
		"keeps a name that is not CLI-friendly": {
			change: func(o *broker.MarketOffering) { o.Name = "My DB <v2>" },
			want:   `{"id":"id-db","name":"My DB <v2>","description":"about db",` + flags,
		},
		"keeps tags and the known permissions only": {
			change: func(o *broker.MarketOffering) {
				o.Tags = []string{"sql", "ü"}
				o.Requires = []string{"volume_mount", "root", "syslog_drain", "volume_mount", "route_forwarding"}
			},
			want: `{"id":"id-db","name":"db","description":"about db","tags":["sql","ü"],"requires":["volume_mount","syslog_drain","route_forwarding"],` + flags,
		},
		"leaves out permissions when none is known": {
			change: func(o *broker.MarketOffering) { o.Requires = []string{"root"} },
			want:   `{"id":"id-db","name":"db","description":"about db",` + flags,
		},
		"says all flags": {
			change: func(o *broker.MarketOffering) {
				o.Bindable, o.PlanUpdateable, o.InstancesRetrievable = false, true, true
				o.BindingsRetrievable, o.AllowContextUpdates = true, true
			},
			want: `{"id":"id-db","name":"db","description":"about db","bindable":false,"instances_retrievable":true,"bindings_retrievable":true,"allow_context_updates":true,"plan_updateable":true,`,
		},
		"hands metadata on with order and numbers as they came": {
			change: func(o *broker.MarketOffering) {
				o.Metadata = json.RawMessage(`{ "z": 1.50, "a": "<&>", "n": 9007199254740993 }`)
			},
			want: `{"id":"id-db","name":"db","description":"about db",` + flags + `"metadata":{"z":1.50,"a":"<&>","n":9007199254740993},`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := offering("db", plan("small"))
			if tt.change != nil {
				tt.change(&o)
			}
			body := bodyOf(t, broker.Marketplace{Offerings: []broker.MarketOffering{o}}, tt.ids)
			got, _, _ := strings.Cut(strings.TrimPrefix(body, `{"services":[`), `"plans":`)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMetadataThatIsNoUsableObjectIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"absent": "", "null": "null", "empty object": " { } ", "array": `[1]`, "string": `"x"`,
		"cut off": `{"a":`, "key twice": `{"a":1,"a":2}`, "not UTF-8": "{\"a\":\"\xff\"}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := shop("db")
			m.Offerings[0].Metadata = json.RawMessage(raw)
			m.Offerings[0].Plans[0].Metadata = json.RawMessage(raw)
			m.Offerings[0].Plans[0].CreateSchema = json.RawMessage(raw)
			if diff := cmp.Diff(bodyOf(t, shop("db"), IDsBroker), bodyOf(t, m, IDsBroker)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// OSB "Service Plan Object": CAT-24 to CAT-38, CAT-48, LIM-08.
func TestPlanMapping(t *testing.T) {
	t.Parallel()
	const head = `{"id":"id-small","name":"small","description":"about small",`
	const flags = `"free":true,"bindable":true,"plan_updateable":false`
	const draft = `"$schema":"http://json-schema.org/draft-04/schema#"`
	tests := map[string]struct {
		change func(*broker.MarketPlan)
		ids    string
		want   string
	}{
		"says free, bindable and plan_updateable always": {
			change: func(p *broker.MarketPlan) { p.Free, p.Bindable = false, false },
			want:   head + `"free":false,"bindable":false,"plan_updateable":false}`,
		},
		"names GUIDs of Cloud Foundry": {
			ids:  IDsCloudFoundry,
			want: `{"id":"guid-small","name":"small","description":"about small",` + flags + `}`,
		},
		"says the name when the description is empty": {
			change: func(p *broker.MarketPlan) { p.Description = "" },
			want:   `{"id":"id-small","name":"small","description":"small",` + flags + `}`,
		},
		"publishes only the schemas that say something": {
			change: func(p *broker.MarketPlan) {
				p.CreateSchema = json.RawMessage(`{` + draft + `,"type":"object"}`)
				p.UpdateSchema = json.RawMessage(`{}`)
			},
			want: head + flags + `,"schemas":{"service_instance":{"create":{"parameters":{` + draft + `,"type":"object"}}}}}`,
		},
		"publishes a schema of bindings alone": {
			change: func(p *broker.MarketPlan) { p.BindSchema = json.RawMessage(`{` + draft + `}`) },
			want:   head + flags + `,"schemas":{"service_binding":{"create":{"parameters":{` + draft + `}}}}}`,
		},
		"gives a schema without $schema the one all know": {
			change: func(p *broker.MarketPlan) { p.UpdateSchema = json.RawMessage(`{"type":"object"}`) },
			want:   head + flags + `,"schemas":{"service_instance":{"update":{"parameters":{` + draft + `,"type":"object"}}}}}`,
		},
		"leaves out a schema over 64 kB": {
			change: func(p *broker.MarketPlan) {
				p.CreateSchema = json.RawMessage(`{` + draft + `,"title":"` + strings.Repeat("x", schema.MaxBytes) + `"}`)
			},
			want: head + flags + `}`,
		},
		"rounds the polling duration up to seconds": {
			change: func(p *broker.MarketPlan) { p.MaximumPollingDuration = 2*time.Second + 1 },
			want:   head + flags + `,"maximum_polling_duration":3}`,
		},
		"leaves out a polling duration that is none": {
			change: func(p *broker.MarketPlan) { p.MaximumPollingDuration = -time.Second },
			want:   head + flags + `}`,
		},
		"publishes maintenance_info": {
			change: func(p *broker.MarketPlan) {
				p.MaintenanceVersion, p.MaintenanceDescription = "2.1.0", "new image"
			},
			want: head + flags + `,"maintenance_info":{"version":"2.1.0","description":"new image"}}`,
		},
		"publishes no maintenance_info without a version": {
			change: func(p *broker.MarketPlan) { p.MaintenanceDescription = "new image" },
			want:   head + flags + `}`,
		},
		"makes metadata of costs": {
			change: func(p *broker.MarketPlan) {
				p.Costs = json.RawMessage(`[{"currency":"USD","amount":99.90,"unit":"Monthly"},{"currency":"EUR","amount":0,"unit":"Hour"}]`)
			},
			want: head + `"metadata":{"costs":[{"amount":{"USD":99.90},"unit":"Monthly"},{"amount":{"EUR":0},"unit":"Hour"}]},` + flags + `}`,
		},
		"adds costs to metadata": {
			change: func(p *broker.MarketPlan) {
				p.Metadata = json.RawMessage(`{"bullets":["b"],"a":1}`)
				p.Costs = json.RawMessage(`[{"currency":"USD","amount":1,"unit":"Monthly"}]`)
			},
			want: head + `"metadata":{"bullets":["b"],"a":1,"costs":[{"amount":{"USD":1},"unit":"Monthly"}]},` + flags + `}`,
		},
		"prefers the costs of the metadata": {
			change: func(p *broker.MarketPlan) {
				p.Metadata = json.RawMessage(`{"costs":[]}`)
				p.Costs = json.RawMessage(`[{"currency":"USD","amount":1,"unit":"Monthly"}]`)
			},
			want: head + `"metadata":{"costs":[]},` + flags + `}`,
		},
		"leaves out a cost that lacks a part": {
			change: func(p *broker.MarketPlan) {
				p.Costs = json.RawMessage(`[{"currency":"USD","amount":1},{"amount":1,"unit":"Hour"},{"currency":"USD","unit":"Hour"}]`)
			},
			want: head + flags + `}`,
		},
		"leaves out costs that are none": {
			change: func(p *broker.MarketPlan) { p.Costs = json.RawMessage(`{"USD":1}`) },
			want:   head + flags + `}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan("small")
			if tt.change != nil {
				tt.change(&p)
			}
			body := bodyOf(t, broker.Marketplace{Offerings: []broker.MarketOffering{offering("db", p)}}, tt.ids)
			_, got, _ := strings.Cut(strings.TrimSuffix(body, `]}]}`), `"plans":[`)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
