package cf

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

// The rows of Cloud Foundry's documentation, whole.
const (
	wholeInstance = `{"guid":"g","created_at":"2026-01-02T03:04:00Z","updated_at":"2026-01-02T03:04:00Z","name":"one","tags":["a"],"type":"managed",
		"maintenance_info":{"version":"1.0.0","description":"x"},"upgrade_available":false,"dashboard_url":"https://d.example.org",
		"broker_provided_metadata":{"labels":{"a":"b"},"attributes":{"c":"d"}},"syslog_drain_url":null,"route_service_url":null,
		"last_operation":{"type":"create","state":"succeeded","description":"x","updated_at":"2026-01-02T03:04:00Z","created_at":"2026-01-02T03:04:00Z"},
		"relationships":{"space":{"data":{"guid":"space-guid"}},"service_plan":{"data":{"guid":"p"}}},
		"metadata":{"labels":{"ferry-client":"suite","other":null},"annotations":{"ferry-operation":"op","ferry-seq":"7","ferry-id":"one","other":null}},
		"links":{"self":{"href":"https://api/x"},"parameters":null}}`
	wholeKey = `{"guid":"g","created_at":"2026-01-02T03:04:00Z","updated_at":"2026-01-02T03:04:00Z","name":"one","type":"key",
		"last_operation":{"type":"create","state":"succeeded","description":"x","updated_at":"2026-01-02T03:04:00Z","created_at":"2026-01-02T03:04:00Z"},
		"relationships":{"service_instance":{"data":{"guid":"i"}},"app":null},
		"metadata":{"labels":{},"annotations":{"ferry-operation":"op","ferry-seq":"7","ferry-id":"one"}},"links":{"details":{"href":"https://api/x"}}}`
	wholeOffering = `{"guid":"o","created_at":"2026-01-02T03:04:00Z","updated_at":"2026-01-02T03:04:00Z","name":"db","description":"x","available":true,"tags":["a"],"requires":["syslog_drain"],
		"shareable":true,"documentation_url":"https://d.example.org","broker_catalog":{"id":"bo","metadata":{"a":1},"features":{"plan_updateable":true,"bindable":true,
		"instances_retrievable":true,"bindings_retrievable":true,"allow_context_updates":false}},"relationships":{"service_broker":{"data":{"guid":"b"}}},
		"metadata":{"labels":{},"annotations":{}},"links":{}}`
	wholePlan = `{"guid":"p","created_at":"2026-01-02T03:04:00Z","updated_at":"2026-01-02T03:04:00Z","name":"small","visibility_type":"public","available":true,"free":false,
		"costs":[{"currency":"USD","amount":1.5,"unit":"MONTHLY"}],"description":"x","maintenance_info":{"version":"1.0.0","description":"x"},
		"broker_catalog":{"id":"bp","metadata":{"a":1},"maximum_polling_duration":60,"features":{"bindable":true,"plan_updateable":true}},
		"schemas":{"service_instance":{"create":{"parameters":{"type":"object"}},"update":{"parameters":{"type":"object"}}},"service_binding":{"create":{"parameters":{"type":"object"}}}},
		"relationships":{"service_offering":{"data":{"guid":"o"}},"space":null},"metadata":{"labels":{},"annotations":{}},"links":{}}`
	wholeJob = `{"guid":"j","created_at":"2026-01-02T03:04:00Z","updated_at":"2026-01-02T03:04:00Z","operation":"service_instance.create","state":"FAILED",
		"errors":[{"code":10009,"title":"CF-UnableToPerform","detail":"bind could not be completed: x"}],"warnings":[{"detail":"w"}],
		"links":{"self":{"href":"https://api/v3/jobs/j"},"service_instances":{"href":"https://api/v3/service_instances/g"}}}`
	wholeDetails = `{"credentials":{"a":1},"syslog_drain_url":"syslog://d","volume_mounts":[{"a":1}],"route_service_url":"https://r","endpoints":[{"host":"h"}]}`
	wholeRoot    = `{"links":{"self":{"href":"x"},"cloud_controller_v2":null,"cloud_controller_v3":{"href":"x","meta":{"version":"3.1"}},"network_policy_v0":{"href":"x"},
		"login":{"href":"LOGIN"},"uaa":{"href":"UAA"},"credhub":null,"routing":null,"logging":null,"log_cache":null,"log_stream":null,
		"app_ssh":{"href":"x","meta":{"host_key_fingerprint":"x","oauth_client":"x"}}}}`
)

// each calls do for every field of the JSON, at any depth, with that field missing, null, and of another type; path
// names it.
func each(t *testing.T, whole string, do func(path, change, text string)) {
	t.Helper()
	var walk func(at map[string]any, path string, root any)
	walk = func(at map[string]any, path string, root any) {
		for key, value := range at {
			here := strings.TrimPrefix(path+"."+key, ".")
			if deeper, ok := value.(map[string]any); ok {
				walk(deeper, here, root)
			}
			for change, other := range map[string]any{"missing": nil, "null": nil, "another type": []any{[]any{7}}} {
				if at[key] = other; change == "missing" {
					delete(at, key)
				}
				text, err := json.Marshal(root)
				if err != nil {
					t.Fatal(err)
				}
				do(here, change, string(text))
			}
			at[key] = value
		}
	}
	var root map[string]any
	if err := json.Unmarshal([]byte(whole), &root); err != nil {
		t.Fatal(err)
	}
	walk(root, "", root)
}

// field names one that must be there, or as documented, and why: without it a row would be taken for absent or for a
// stranger's, or it cannot be told which one it is.
type field = map[string]bool

// walk is one kind of answer, read as its user reads it.
type walk struct {
	whole string
	// needed must be there and be no null; typed, and all of needed, must not be of another type.
	needed, typed field
	read          func(*Backend) error
	answers       func(text string) map[string]string // by path
}

func walks(t *testing.T) map[string]walk {
	t.Helper()
	ctx := t.Context()
	decides := field{"last_operation": true, "last_operation.type": true, "last_operation.state": true, "relationships": true,
		"metadata": true, "metadata.labels": true, "metadata.annotations": true}
	for _, key := range []string{"ferry-operation", "ferry-seq", "ferry-id", "other"} {
		decides["metadata.annotations."+key] = true
	}
	for _, key := range []string{"labels.ferry-client", "labels.other"} {
		decides["metadata."+key] = true
	}
	for _, key := range []string{"space", "service_plan", "service_instance"} {
		decides["relationships."+key], decides["relationships."+key+".data"], decides["relationships."+key+".data.guid"] = true, true, true
	}
	rows := func(look broker.Look, err error) error {
		if err == nil && (len(look.Rows) != 1 || look.Rows[0].GUID != "g") {
			return fmt.Errorf("rows %+v", look.Rows)
		}
		return err
	}
	market := func(b *Backend) error {
		market, err := b.Marketplace(ctx)
		if err == nil && len(market.Offerings) > 1 {
			return fmt.Errorf("marketplace %+v", market)
		}
		return err
	}
	flags := field{"name": true, "available": true, "free": true, "broker_catalog": true, "broker_catalog.id": true, "relationships": true,
		"relationships.service_offering": true, "relationships.service_offering.data": true, "relationships.service_offering.data.guid": true, "broker_catalog.features": true}
	for _, key := range []string{"plan_updateable", "bindable", "instances_retrievable", "bindings_retrievable", "allow_context_updates"} {
		flags["broker_catalog.features."+key] = true
	}
	decides["name"] = true
	offered := maps.Clone(flags)
	delete(offered, "relationships") // an offering's lead to its broker
	return map[string]walk{
		"instance": {wholeInstance, field{"guid": true}, decides, func(b *Backend) error {
			return rows(b.FindInstances(ctx, broker.Lookup{Name: "one", GUIDs: []string{"g"}}))
		},
			func(text string) map[string]string { return map[string]string{"/v3/service_instances": list(text)} }},
		"key": {wholeKey, field{"guid": true}, decides, func(b *Backend) error {
			return rows(b.FindKeys(ctx, broker.Lookup{Instance: "i", Name: "one", GUIDs: []string{"g"}}))
		},
			func(text string) map[string]string {
				return map[string]string{"/v3/service_credential_bindings": list(text)}
			}},
		"offering": {wholeOffering, field{"guid": true}, offered, market, func(text string) map[string]string {
			return map[string]string{"/v3/service_offerings": list(text), "/v3/service_plans": list(wholePlan)}
		}},
		"plan": {wholePlan, field{"guid": true}, flags, market, func(text string) map[string]string {
			return map[string]string{"/v3/service_offerings": list(wholeOffering), "/v3/service_plans": list(text)}
		}},
		"job": {wholeJob, field{"state": true}, field{"guid": true}, func(b *Backend) error { _, err := b.Job(ctx, "j"); return err },
			func(text string) map[string]string { return map[string]string{"/v3/jobs/j": text} }},
		"details": {wholeDetails, nil, field{"credentials": true}, func(b *Backend) error { _, err := b.KeyDetails(ctx, "k", ""); return err },
			func(text string) map[string]string {
				return map[string]string{"/v3/service_credential_bindings/k/details": text}
			}},
		"page": {`{"pagination":{"total_results":1,"total_pages":1,"first":{"href":"x"},"last":{"href":"x"},"next":null,"previous":null},"resources":[` + wholeInstance + `],
			"included":{"spaces":[],"organizations":null}}`, field{"pagination": true, "resources": true},
			field{"pagination.next": true, "included": true, "included.spaces": true},
			func(b *Backend) error { return rows(b.FindInstances(ctx, broker.Lookup{Name: "one"})) },
			func(text string) map[string]string { return map[string]string{"/v3/service_instances": text} }},
	}
}

// TestWhatIsOptionalMayBeMissing: each field that Cloud Foundry documents, missing, null, or of another type, keeps
// nothing else from being read, but for the few that decide something: those are never guessed.
func TestWhatIsOptionalMayBeMissing(t *testing.T) {
	t.Parallel()
	for kind, w := range walks(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			fields := 0
			var answers map[string]string
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if body, ok := answers[r.URL.Path]; ok {
					reply(w, 200, body)
					return
				}
				reply(w, 404, notFound("not found"))
			})
			b := s.backend(t, nil)
			b.instances.flavors.learn(cloudController)
			each(t, w.whole, func(path, change, text string) {
				fields++
				answers = w.answers(text)
				fails := w.needed[path] || change == "another type" && w.typed[path]
				if err := w.read(b); (err != nil) != fails {
					t.Errorf("%s %s: %v; want an error %v", path, change, err, fails)
				}
			})
			if fields < 15 {
				t.Errorf("only %d fields were tried", fields)
			}
		})
	}
}
