package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// fullShop carries everything that a marketplace of Cloud Foundry can.
func fullShop() broker.Marketplace {
	rich := broker.MarketPlan{
		GUID: "guid-rich", CatalogID: "id-rich", Name: "rich", Description: "all of it",
		Free: false, Bindable: true, PlanUpdateable: true, MaximumPollingDuration: 90 * time.Minute,
		MaintenanceVersion: "2.1.0+build.7", MaintenanceDescription: "new image",
		Costs:        json.RawMessage(`[{"currency":"USD","amount":99.90,"unit":"Monthly"}]`),
		Metadata:     json.RawMessage(`{"bullets":["b"],"displayName":"Rich","maximum":9007199254740993}`),
		CreateSchema: json.RawMessage(`{` + draft7 + `,"properties":{"n":{"$ref":"#/definitions/n"}},"definitions":{"n":{"maximum":1e2}}}`),
		UpdateSchema: json.RawMessage(`{"type":"object"}`),
		BindSchema:   json.RawMessage(`{` + draft4 + `,"type":"object"}`),
	}
	bare := broker.MarketPlan{GUID: "guid-bare", CatalogID: "id-bare", Name: "bare"}
	full := broker.MarketOffering{
		GUID: "guid-full", CatalogID: "id-full", Name: "full.db-1", Description: "a database",
		Tags: []string{"sql", "ü"}, Requires: []string{"syslog_drain", "route_forwarding", "volume_mount", "other"},
		Bindable: true, PlanUpdateable: true, InstancesRetrievable: true, BindingsRetrievable: true, AllowContextUpdates: true,
		Metadata: json.RawMessage(`{"displayName":"Full","imageUrl":"u","longDescription":"l","providerDisplayName":"p","documentationUrl":"d","supportUrl":"s","shareable":true}`),
		Plans:    []broker.MarketPlan{rich, bare},
	}
	poor := broker.MarketOffering{GUID: "guid-poor", CatalogID: "id-poor", Name: "Full.db-1", Plans: []broker.MarketPlan{plan("rich")}}
	poor.Plans[0].CatalogID = "id-poor-rich"
	return broker.Marketplace{Offerings: []broker.MarketOffering{full, poor}}
}

// served is a catalog as a platform reads it.
type served struct {
	t    *testing.T
	text string
	root map[string]any
}

func serve(t *testing.T, m broker.Marketplace, s Source) served {
	t.Helper()
	built, err := build(textOf(t, m), s)
	if err != nil {
		t.Fatal(err)
	}
	v := served{t: t, text: string(built.document.Body)}
	d := json.NewDecoder(strings.NewReader(v.text))
	d.UseNumber()
	if err := d.Decode(&v.root); err != nil {
		t.Fatal(err)
	}
	return v
}

// at walks by member names and indexes; nil when there is nothing.
func (s served) at(path ...any) any {
	var v any = s.root
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

// is checks the value at a path, written as JSON; "" means that it is absent.
func (s served) is(want string, path ...any) {
	s.t.Helper()
	got := ""
	if v := s.at(path...); v != nil {
		text, err := json.Marshal(v)
		if err != nil {
			s.t.Fatal(err)
		}
		got = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("%v (-want +got):\n%s", path, diff)
	}
}

// offer and pick are the beginning of a path.
func offer(i int, rest ...any) []any   { return append([]any{"services", i}, rest...) }
func pick(i, j int, rest ...any) []any { return append(offer(i, "plans", j), rest...) }

// TestCatalog states what OSB 2.17 demands of a catalog, one clause an id. What
// needs HTTP (CAT-05, CAT-06) is tested where HTTP is, the entity tag here.
func TestCatalog(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(served){
		"CAT-01_the_body_holds_services": func(s served) {
			if len(s.root) != 1 {
				s.t.Errorf("members of the body: %v", s.root)
			}
			s.is(`"full.db-1"`, offer(0, "name")...)
		},
		"CAT-07_services_is_an_array": func(s served) {
			if list, ok := s.at("services").([]any); !ok || len(list) != 2 {
				s.t.Errorf("services: %v", s.at("services"))
			}
		},
		"CAT-08_names_differ_by_case": func(s served) {
			s.is(`"full.db-1"`, offer(0, "name")...)
			s.is(`"Full.db-1"`, offer(1, "name")...)
		},
		"CAT-09_names_are_handed_on_unchanged":        func(s served) { s.is(`"rich"`, pick(0, 0, "name")...) },
		"CAT-10_every_offering_has_a_name_of_its_own": func(s served) { s.distinct("name", s.at(offer(0)...), s.at(offer(1)...)) },
		"CAT-11_every_offering_has_an_id_of_its_own":  func(s served) { s.distinct("id", s.at(offer(0)...), s.at(offer(1)...)) },
		"CAT-12_description_is_never_empty": func(s served) {
			s.is(`"a database"`, offer(0, "description")...)
			s.is(`"Full.db-1"`, offer(1, "description")...)
		},
		"CAT-13_bindable_is_always_present": func(s served) {
			s.is("true", offer(0, "bindable")...)
			s.is("false", offer(1, "bindable")...)
		},
		"CAT-14_every_offering_has_a_plan": func(s served) {
			s.is(`"rich"`, pick(0, 0, "name")...)
			s.is(`"rich"`, pick(1, 0, "name")...)
		},
		"CAT-15_tags": func(s served) {
			s.is(`["sql","ü"]`, offer(0, "tags")...)
			s.is("", offer(1, "tags")...)
		},
		"CAT-16_requires_holds_known_permissions_only": func(s served) {
			s.is(`["syslog_drain","route_forwarding","volume_mount"]`, offer(0, "requires")...)
			s.is("", offer(1, "requires")...)
		},
		"CAT-17_instances_retrievable": func(s served) { s.both("instances_retrievable") },
		"CAT-18_bindings_retrievable":  func(s served) { s.both("bindings_retrievable") },
		"CAT-19_allow_context_updates": func(s served) { s.both("allow_context_updates") },
		"CAT-20_metadata_of_an_offering_is_opaque": func(s served) {
			if !strings.Contains(s.text, `"metadata":`+string(fullShop().Offerings[0].Metadata)) {
				s.t.Errorf("changed: %s", s.text)
			}
			s.is("", offer(1, "metadata")...)
		},
		"CAT-21_no_dashboard_client_is_made_up": func(s served) { s.is("", offer(0, "dashboard_client")...) },
		"CAT-22_plan_updateable_of_an_offering": func(s served) { s.both("plan_updateable") },
		"CAT-24_every_plan_has_an_id_of_its_own": func(s served) {
			s.distinct("id", s.at(pick(0, 0)...), s.at(pick(0, 1)...), s.at(pick(1, 0)...))
		},
		"CAT-25_every_plan_has_a_name_of_its_own_in_its_offering": func(s served) {
			s.distinct("name", s.at(pick(0, 0)...), s.at(pick(0, 1)...))
			s.is(`"rich"`, pick(1, 0, "name")...)
		},
		"CAT-26_description_of_a_plan_is_never_empty": func(s served) {
			s.is(`"all of it"`, pick(0, 0, "description")...)
			s.is(`"bare"`, pick(0, 1, "description")...)
		},
		"CAT-27_metadata_of_a_plan_is_opaque": func(s served) {
			s.is("9007199254740993", pick(0, 0, "metadata", "maximum")...)
			s.is("", pick(0, 1, "metadata")...)
		},
		"CAT-28_free_is_always_said": func(s served) {
			s.is("false", pick(0, 0, "free")...)
			s.is("true", pick(1, 0, "free")...)
		},
		"CAT-29_bindable_of_a_plan_overrides": func(s served) {
			s.is("false", pick(0, 1, "bindable")...)
			s.is("true", pick(1, 0, "bindable")...)
		},
		"CAT-30_binding_rotatable_where_the_operator_says_so": func(s served) {
			s.is("true", pick(0, 0, "binding_rotatable")...)
			s.is("", pick(0, 1, "binding_rotatable")...)
			s.is("", pick(1, 0, "binding_rotatable")...)
			s.is("", offer(0, "binding_rotatable")...)
		},
		"CAT-31_plan_updateable_of_a_plan_overrides": func(s served) {
			s.is("true", pick(0, 0, "plan_updateable")...)
			s.is("false", pick(0, 1, "plan_updateable")...)
		},
		"CAT-32_schemas_are_where_platforms_look": func(s served) {
			s.is(`"object"`, pick(0, 0, "schemas", "service_instance", "update", "parameters", "type")...)
			s.is(`"object"`, pick(0, 0, "schemas", "service_binding", "create", "parameters", "type")...)
			s.is("1e2", pick(0, 0, "schemas", "service_instance", "create", "parameters", "definitions", "n", "maximum")...)
			s.is("", pick(0, 1, "schemas")...)
		},
		"CAT-33_maximum_polling_duration_in_seconds": func(s served) {
			s.is("5400", pick(0, 0, "maximum_polling_duration")...)
			s.is("", pick(0, 1, "maximum_polling_duration")...)
		},
		"CAT-34_maintenance_info": func(s served) {
			s.is(`{"description":"new image","version":"2.1.0+build.7"}`, pick(0, 0, "maintenance_info")...)
			s.is("", pick(0, 1, "maintenance_info")...)
		},
		"CAT-35_every_schema_names_its_draft": func(s served) {
			s.is(`"http://json-schema.org/draft-07/schema#"`, pick(0, 0, "schemas", "service_instance", "create", "parameters", "$schema")...)
			s.is(`"http://json-schema.org/draft-04/schema#"`, pick(0, 0, "schemas", "service_instance", "update", "parameters", "$schema")...)
		},
		"CAT-37_a_schema_without_draft_is_draft-04": func(s served) {
			s.is(`"http://json-schema.org/draft-04/schema#"`, pick(0, 0, "schemas", "service_instance", "update", "parameters", "$schema")...)
		},
		"CAT-40_41_42_permissions_of_route_log_and_volume_services_arrive": func(s served) {
			for _, word := range []string{"route_forwarding", "syslog_drain", "volume_mount"} {
				if list, _ := s.at(offer(0, "requires")...).([]any); !slices.Contains(list, any(word)) {
					s.t.Errorf("%s is missing", word)
				}
			}
		},
		"CAT-39_what_can_be_bound_says_so":          func(s served) { s.is("true", pick(1, 0, "bindable")...) },
		"CAT-43_what_can_change_its_plan_says_so":   func(s served) { s.is("true", pick(0, 0, "plan_updateable")...) },
		"CAT-44_what_takes_context_updates_says_so": func(s served) { s.is("true", offer(0, "allow_context_updates")...) },
		"CAT-46_49_metadata_that_people_see_arrives": func(s served) {
			for _, key := range []string{"displayName", "imageUrl", "longDescription", "providerDisplayName", "documentationUrl", "supportUrl", "shareable"} {
				if s.at(offer(0, "metadata", key)...) == nil {
					s.t.Errorf("%s is missing", key)
				}
			}
		},
		"CAT-47_48_costs_have_amount_and_unit": func(s served) {
			s.is(`["b"]`, pick(0, 0, "metadata", "bullets")...)
			s.is(`[{"amount":{"USD":99.90},"unit":"Monthly"}]`, pick(0, 0, "metadata", "costs")...)
		},
		"MI-01_02_version_is_a_semantic_version": func(s served) { s.is(`"2.1.0+build.7"`, pick(0, 0, "maintenance_info", "version")...) },
		"MI-03_description_explains":             func(s served) { s.is(`"new image"`, pick(0, 0, "maintenance_info", "description")...) },
		"LIM-09_maintenance_info_has_no_other_members": func(s served) {
			if info, _ := s.at(pick(0, 0, "maintenance_info")...).(map[string]any); len(info) != 2 {
				s.t.Errorf("members: %v", info)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(serve(t, fullShop(), Source{Rotatable: []string{"full.db-1"}}))
		})
	}
}

// distinct checks that a member is there, not empty, and different in each.
func (s served) distinct(member string, objects ...any) {
	s.t.Helper()
	seen := map[string]bool{"": true}
	for _, object := range objects {
		text, _ := object.(map[string]any)[member].(string)
		if seen[text] {
			s.t.Errorf("%s %q is empty or not unique", member, text)
		}
		seen[text] = true
	}
}

// both checks a switch of offerings, on in the first and off, not absent, in the second.
func (s served) both(member string) {
	s.t.Helper()
	s.is("true", offer(0, member)...)
	s.is("false", offer(1, member)...)
}
