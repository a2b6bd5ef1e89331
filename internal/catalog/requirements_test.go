package catalog

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/schema"
)

// fullMarket carries everything that a marketplace of Cloud Foundry can.
func fullMarket() broker.Marketplace {
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
		Tags: []string{"sql", "ü"}, Requires: []string{"syslog_drain", "other", "route_forwarding", "syslog_drain", "volume_mount"},
		Bindable: true, PlanUpdateable: true, InstancesRetrievable: true, BindingsRetrievable: true, AllowContextUpdates: true,
		Metadata: json.RawMessage(`{"displayName":"Full","imageUrl":"u","longDescription":"l","providerDisplayName":"p","documentationUrl":"d","supportUrl":"s","shareable":true}`),
		Plans:    []broker.MarketPlan{rich, bare},
	}
	poor := broker.MarketOffering{
		GUID: "guid-poor", CatalogID: "id-poor", Name: "Full.db-1", Requires: []string{"other"}, Plans: []broker.MarketPlan{plan("rich")},
	}
	poor.Plans[0].CatalogID = "id-poor-rich"
	return marketWith(full, poor)
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

// TestCatalog states what OSB 2.17 demands of a catalog, one clause an id. What needs HTTP (CAT-05, CAT-06) is tested
// where HTTP is, the entity tag here.
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
			if !strings.Contains(s.text, `"metadata":`+string(fullMarket().Offerings[0].Metadata)) {
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
			s.is("true", pick(1, 0, "binding_rotatable")...)
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
			check(serve(t, fullMarket(), Source{Rotatable: []string{"full.db-1"}}))
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

// What a backing broker gets wrong and OSB forbids is not handed on.
func TestCatalogLeavesOut(t *testing.T) {
	t.Parallel()
	const schemaPath, outside = "schemas", "it refers to something outside itself"
	for name, tt := range map[string]struct {
		change  func(*broker.MarketPlan)
		member  string
		leftOut string // the reason; "": it stays
	}{
		"CAT-36_a_schema_with_a_reference_to_elsewhere": {
			func(p *broker.MarketPlan) {
				p.CreateSchema = json.RawMessage(`{"items":[{"$ref":"http://example.org/x#/a"}]}`)
			}, schemaPath, outside},
		"CAT-36_a_schema_with_a_relative_reference": {
			func(p *broker.MarketPlan) {
				p.BindSchema = json.RawMessage(`{"properties":{"enum":{"$ref":"x.json"}}}`)
			}, schemaPath, outside},
		"CAT-36_but_not_one_with_references_within": {
			func(p *broker.MarketPlan) {
				p.UpdateSchema = json.RawMessage(`{"id":"http://example.org/x#","allOf":[{"$ref":"#/d"},{"$ref":"http://example.org/x#/d"}],"d":{}}`)
			}, schemaPath, ""},
		"CAT-36_nor_one_with_a_property_or_a_default_of_that_name": {
			func(p *broker.MarketPlan) {
				p.UpdateSchema = json.RawMessage(`{"properties":{"$ref":{"type":"string"}},"default":{"$ref":"http://example.org/"}}`)
			}, schemaPath, ""},
		"LIM-08_a_schema_over_64_kB": {
			func(p *broker.MarketPlan) {
				p.CreateSchema = json.RawMessage(`{` + draft4 + `,"title":"` + strings.Repeat("x", schema.MaxBytes) + `"}`)
			}, schemaPath, "it is longer than 65536 bytes"},
		"LIM-08_but_not_one_of_64_kB": {
			func(p *broker.MarketPlan) {
				p.CreateSchema = json.RawMessage(`{` + draft4 + `,"title":"` + strings.Repeat("x", schema.MaxBytes-len(draft4)-len(`{,"title":""}`)) + `"}`)
			}, schemaPath, ""},
		"MI-02_a_version_that_is_not_semantic": {
			func(p *broker.MarketPlan) { p.MaintenanceVersion = "2.1" }, "maintenance_info", "its version is no semantic version"},
		"MI-02_a_version_with_a_leading_zero": {
			func(p *broker.MarketPlan) { p.MaintenanceVersion = "1.02.3" }, "maintenance_info", "its version is no semantic version"},
		"MI-02_but_not_a_prerelease": {
			func(p *broker.MarketPlan) { p.MaintenanceVersion = "1.0.0-rc.1+x-1" }, "maintenance_info", ""},
		"MI-01_a_description_without_version": {
			func(p *broker.MarketPlan) { p.MaintenanceDescription = "new" }, "maintenance_info", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := marketOf("db")
			tt.change(&m.Offerings[0].Plans[0])
			present := serve(t, m, Source{}).at(pick(0, 0, tt.member)...) != nil
			if present != (tt.leftOut == "") {
				t.Errorf("%s present: %t", tt.member, present)
			}
			s := built(t, m, Source{})
			said := strings.Join(s.leftOut, "\n")
			if want := strings.Trim(tt.leftOut, "-"); (want == "") != (said == "") || !strings.Contains(said, want) {
				t.Errorf("left out: %q, want %q", said, want)
			}
			if !present && (len(s.schemas) > 0 || s.plans["id-db"]["id-db-small"].MaintenanceVersion != "") {
				t.Error("what is not published is used all the same")
			}
		})
	}
}

// The ids of what stays are the same, whatever else changes (CAT-02, CAT-03).
func TestCatalogOverTime(t *testing.T) {
	t.Parallel()
	before := fullMarket()
	after := fullMarket()
	full := &after.Offerings[0]
	full.GUID, full.Plans[0].GUID = "new", "new too" // the broker was registered anew
	full.Description, full.Plans[0].Description = "edited", "edited"
	full.Plans = append([]broker.MarketPlan{plan("added")}, full.Plans[0])
	after.Offerings = append([]broker.MarketOffering{offering("new", plan("first"))}, *full)
	first, second := serve(t, before, Source{IDs: IDsBroker}), serve(t, after, Source{IDs: IDsBroker})

	t.Run("CAT-02_ids_of_what_stays_do_not_change", func(t *testing.T) {
		t.Parallel()
		for _, path := range [][2][]any{{offer(0, "id"), offer(1, "id")}, {pick(0, 0, "id"), pick(1, 1, "id")}} {
			if was, is := first.at(path[0]...), second.at(path[1]...); was == nil || was != is {
				t.Errorf("id %v became %v", was, is)
			}
		}
	})
	t.Run("CAT-03_parts_come_go_and_change", func(t *testing.T) {
		t.Parallel()
		for want, path := range map[string][]any{"edited": offer(1, "description"), "added": pick(1, 0, "name"), "first": pick(0, 0, "name")} {
			if got := second.at(path...); got != want {
				t.Errorf("%v is %v, want %s", path, got, want)
			}
		}
		if strings.Contains(second.text, "id-poor") {
			t.Error("what was removed is still there")
		}
	})
	t.Run("CAT-04_a_plan_that_went_is_unknown_to_new_instances_only", func(t *testing.T) {
		t.Parallel()
		r := serving(t, before)
		r.offer(t, after)
		if _, err := r.Plan(t.Context(), "a", "id-poor", "id-poor-rich"); err == nil {
			t.Error("the plan is still offered")
		}
		if p, err := r.Plan(t.Context(), "a", "id-full", "id-rich"); err != nil || p.PlanGUID != "new too" {
			t.Errorf("plan %+v, error %v", p, err)
		}
	})
}

// RFC 7232: a strong entity tag is quoted visible ASCII without W/, the same for the same bytes and different for
// others.
func TestCatalogTag(t *testing.T) {
	t.Parallel()
	tag := func(m broker.Marketplace) string {
		s := built(t, m, Source{})
		return s.document.ETag
	}
	t.Run("CAT-05_the_entity_tag_is_strong", func(t *testing.T) {
		t.Parallel()
		changed := fullMarket()
		changed.Offerings[1].Plans[0].Free = false
		if one, again, other := tag(fullMarket()), tag(fullMarket()), tag(changed); one != again || one == other ||
			!regexp.MustCompile(`^"[!#-~]+"$`).MatchString(one) {
			t.Errorf("tags %s, %s, %s", one, again, other)
		}
	})
	t.Run("CAT-06_Modified_survives_the_form_of_a_header", func(t *testing.T) {
		t.Parallel()
		r := serving(t, fullMarket())
		doc := r.document(t)
		header := doc.Modified.Format("Mon, 02 Jan 2006 15:04:05 GMT")
		if back, err := time.Parse(time.RFC1123, header); err != nil || !back.Equal(doc.Modified) {
			t.Errorf("%v became %v, %v", doc.Modified, back, err)
		}
	})
}
