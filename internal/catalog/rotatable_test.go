package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// OSB "Service Plan Object": binding_rotatable (CAT-30), on plans and only when true.
func TestRotatablePlans(t *testing.T) {
	t.Parallel()
	unbindable := plan("z")
	unbindable.Bindable = false
	m := broker.Marketplace{Offerings: []broker.MarketOffering{
		offering("a", plan("x"), plan("y"), unbindable), offering("b", plan("v"), plan("w")),
	}}
	for name, tt := range map[string]struct {
		names     []string
		want      string
		unmatched []string
	}{
		"none by default":                   {},
		"all bindable plans of an offering": {names: []string{"a"}, want: "a/x a/y"},
		"one plan":                          {names: []string{"b/w"}, want: "b/w"},
		"an offering and one of its plans":  {names: []string{"b", "b/w"}, want: "b/v b/w"},
		"a plan alone names nothing":        {names: []string{"x"}, unmatched: []string{"x"}},
		"a plan that cannot be bound":       {names: []string{"a/z", "a/x"}, want: "a/x", unmatched: []string{"a/z"}},
		"an offering that is not there":     {names: []string{"c", "b/x", "A"}, unmatched: []string{"c", "b/x", "A"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := build(textOf(t, m), Source{Rotatable: tt.names})
			if err != nil {
				t.Fatal(err)
			}
			var known []string
			for _, id := range []string{"a/x", "a/y", "a/z", "b/v", "b/w"} {
				offering, plan, _ := strings.Cut(id, "/")
				if s.plans["id-"+offering]["id-"+plan].BindingRotatable {
					known = append(known, id)
				}
			}
			if got := strings.Join(known, " "); got != tt.want {
				t.Errorf("plans that know: %q, want %q", got, tt.want)
			}
			if n := strings.Count(string(s.document.Body), "binding_rotatable"); n != len(known) {
				t.Errorf("%d times in the body, want %d: %s", n, len(known), s.document.Body)
			}
			for _, id := range known {
				_, plan, _ := strings.Cut(id, "/")
				want := fmt.Sprintf(`"name":%q,"description":"about %s","free":true,"bindable":true,"plan_updateable":false,"binding_rotatable":true}`, plan, plan)
				if !strings.Contains(string(s.document.Body), want) {
					t.Errorf("%s is not marked in %s", id, s.document.Body)
				}
			}
			if diff := cmp.Diff(tt.unmatched, s.unmatched); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRotatableNamesWithoutPlanAreReportedOncePerChange(t *testing.T) {
	t.Parallel()
	r := newRig(newMemory())
	r.shelves["a"].source.Rotatable = []string{"db", "queue/none"}
	for _, step := range []struct {
		name string
		want int
	}{{"db", 1}, {"db", 1}, {"other", 2}, {"db", 3}} {
		r.market.set(shop(step.name), nil)
		r.mustRefresh(t)
		if n := r.log.count("names under catalog.rotatable have no plan"); n != step.want {
			t.Fatalf("%d reports after %s, want %d", n, step.name, step.want)
		}
	}
	if r.log.count(`level=INFO msg="names under`) != 3 || r.log.count(`names="[db queue/none]"`) != 1 || r.log.count("queue/none") != 3 {
		t.Error("the reports do not name what they are about")
	}
}
