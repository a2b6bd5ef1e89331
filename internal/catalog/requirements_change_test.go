package catalog

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/schema"
)

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
			m := shop("db")
			tt.change(&m.Offerings[0].Plans[0])
			present := serve(t, m, Source{}).at(pick(0, 0, tt.member)...) != nil
			if present != (tt.leftOut == "") {
				t.Errorf("%s present: %t", tt.member, present)
			}
			s, err := build(textOf(t, m), Source{})
			if err != nil {
				t.Fatal(err)
			}
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
	before := fullShop()
	after := fullShop()
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
		r := newRig(newMemory())
		r.market.set(before, nil)
		r.mustRefresh(t)
		r.market.set(after, nil)
		r.mustRefresh(t)
		if _, err := r.Plan(t.Context(), "a", "id-poor", "id-poor-rich"); err == nil {
			t.Error("the plan is still offered")
		}
		if p, err := r.Plan(t.Context(), "a", "id-full", "id-rich"); err != nil || p.PlanGUID != "new too" {
			t.Errorf("plan %+v, error %v", p, err)
		}
	})
}

// RFC 7232: a strong entity tag is quoted visible ASCII without W/, the same for the
// same bytes and different for others.
func TestCatalogTag(t *testing.T) {
	t.Parallel()
	tag := func(m broker.Marketplace) string {
		s, err := build(textOf(t, m), Source{})
		if err != nil {
			t.Fatal(err)
		}
		return s.document.ETag
	}
	t.Run("CAT-05_the_entity_tag_is_strong", func(t *testing.T) {
		t.Parallel()
		changed := fullShop()
		changed.Offerings[1].Plans[0].Free = false
		if one, again, other := tag(fullShop()), tag(fullShop()), tag(changed); one != again || one == other ||
			!regexp.MustCompile(`^"[!#-~]+"$`).MatchString(one) {
			t.Errorf("tags %s, %s, %s", one, again, other)
		}
	})
	t.Run("CAT-06_Modified_survives_the_form_of_a_header", func(t *testing.T) {
		t.Parallel()
		r := newRig(newMemory())
		r.market.set(fullShop(), nil)
		r.mustRefresh(t)
		doc, err := r.Document(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		header := doc.Modified.Format("Mon, 02 Jan 2006 15:04:05 GMT")
		if back, err := time.Parse(time.RFC1123, header); err != nil || !back.Equal(doc.Modified) {
			t.Errorf("%v became %v, %v", doc.Modified, back, err)
		}
	})
}
