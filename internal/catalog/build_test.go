package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// OSB: ids and names are unique (CAT-10, CAT-11, CAT-24, CAT-25), every offering has a plan (CAT-14).
func TestClashes(t *testing.T) {
	t.Parallel()
	a, b := offering("a", plan("a1")), offering("b", plan("b1"))
	named := func(p broker.MarketPlan, name string) broker.MarketPlan { p.Name = name; return p }
	idOfA := func(plans ...broker.MarketPlan) broker.MarketOffering {
		return broker.MarketOffering{GUID: "g", CatalogID: "id-a", Name: "b", Plans: plans}
	}
	const taken = ` is taken by an earlier one`
	tests := map[string]struct {
		offerings []broker.MarketOffering
		ids       string
		want      string // offering:plan,plan offering:plan
		leftOut   []string
	}{
		"keep the order of the marketplace": {[]broker.MarketOffering{offering("z", plan("z2"), plan("z1")), a}, "", "z:z2,z1 a:a1", nil},
		"leave out the later offering with an id": {[]broker.MarketOffering{a, idOfA(plan("b1"))}, "", "a:a1",
			[]string{`offering "b" (g): the id "id-a"` + taken}},
		"are none when the GUIDs count": {[]broker.MarketOffering{a, idOfA(plan("b1"))}, IDsCloudFoundry, "a:a1 b:b1", nil},
		"leave out the later offering with a name": {
			[]broker.MarketOffering{a, {GUID: "g", CatalogID: "other", Name: "a", Plans: b.Plans}}, "", "a:a1",
			[]string{`offering "a" (g): the name` + taken}},
		"leave out the later plan with a name": {[]broker.MarketOffering{offering("a", plan("a1"), named(plan("a2"), "a1"))}, "", "a:a1",
			[]string{`plan "a1" (guid-a2) of offering "a": the name` + taken}},
		"allow one plan name in two offerings": {[]broker.MarketOffering{a, offering("b", named(plan("b1"), "a1"))}, "", "a:a1 b:a1", nil},
		"leave out the later plan with an id in its offering": {
			[]broker.MarketOffering{offering("a", plan("a1"), named(plan("a1"), "a2"))}, "", "a:a1",
			[]string{`plan "a2" (guid-a1) of offering "a": the id "id-a1"` + taken}},
		"leave out the later plan with an id in another offering": {
			[]broker.MarketOffering{a, offering("b", plan("a1"), plan("b1"))}, "", "a:a1 b:b1",
			[]string{`plan "a1" (guid-a1) of offering "b": the id "id-a1"` + taken}},
		"take no ids for an offering that is left out": {
			[]broker.MarketOffering{a, idOfA(plan("c1")), offering("c", plan("c1"))}, "", "a:a1 c:c1",
			[]string{`offering "b" (g): the id "id-a"` + taken}},
		"skip an offering without plans and free its id": {[]broker.MarketOffering{offering("a"), a}, "", "a:a1", nil},
		"leave out what has no id or name": {[]broker.MarketOffering{
			{GUID: "g1", Name: "x", Plans: b.Plans}, {GUID: "g2", CatalogID: "y", Plans: b.Plans},
			offering("a", broker.MarketPlan{GUID: "g3", Name: "n"}, plan("a1")),
		}, "", "a:a1", []string{
			`offering "x" (g1): it has no id`, `offering "" (g2): it has no name`, `plan "n" (g3) of offering "a": it has no id`,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := built(t, broker.Marketplace{Offerings: tt.offerings}, Source{IDs: tt.ids})
			if diff := cmp.Diff(tt.want, outline(t, s.document.Body)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.leftOut, s.leftOut); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func outline(t *testing.T, body []byte) string {
	t.Helper()
	var catalog struct {
		Services []struct {
			Name  string
			Plans []struct{ Name string }
		}
	}
	if err := json.Unmarshal(body, &catalog); err != nil {
		t.Fatal(err)
	}
	var offerings []string
	for _, s := range catalog.Services {
		var plans []string
		for _, p := range s.Plans {
			plans = append(plans, p.Name)
		}
		offerings = append(offerings, s.Name+":"+strings.Join(plans, ","))
	}
	return strings.Join(offerings, " ")
}

func TestNothingUsableIsNoCatalog(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]broker.Marketplace{
		"no offering":           {},
		"an offering, no plans": marketWith(offering("a")),
		"no plan with an id":    marketWith(offering("a", broker.MarketPlan{Name: "n"})),
	} {
		if _, err := build(textOf(t, m), Source{}); !errors.Is(err, errEmpty) {
			t.Errorf("%s: error %v, want errEmpty", name, err)
		}
	}
}

// One marketplace gives one text, whichever process fetched it and whether it was stored in between (CAT-05).
func TestBuildIsDeterministic(t *testing.T) {
	t.Parallel()
	m := marketOf("db")
	m.Offerings[0].Description = "a < b & c \u2028 \xff"
	m.Offerings[0].Metadata = json.RawMessage("{\"html\": \"<&>\u2028\", \"big\": 9007199254740993, \"e\": 1E+2}")
	for i := range 50 {
		name := strings.Repeat("p", i+1)
		m.Offerings[0].Plans = append(m.Offerings[0].Plans, plan(name))
	}
	text := textOf(t, m)
	first := built(t, m, Source{IDs: IDsBroker})
	var stored broker.Marketplace
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	second := built(t, stored, Source{IDs: IDsBroker})
	if first.document.ETag != second.document.ETag || string(first.document.Body) != string(second.document.Body) {
		t.Error("two builds of one marketplace differ")
	}
	if !strings.Contains(string(first.document.Body), `"big":9007199254740993,"e":1E+2`) {
		t.Errorf("numbers changed: %.300s", first.document.Body)
	}
}

// OSB "Service Plan Object": binding_rotatable (CAT-30), on plans and only when true.
func TestRotatablePlans(t *testing.T) {
	t.Parallel()
	unbindable := plan("z")
	unbindable.Bindable = false
	m := marketWith(offering("a", plan("x"), plan("y"), unbindable), offering("b", plan("v"), plan("w")))
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
		"an offering that is not there":     {names: []string{"c", "b/x"}, unmatched: []string{"c", "b/x"}},
		"names without case":                {names: []string{"A/X", "B"}, want: "a/x b/v b/w"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := built(t, m, Source{Rotatable: tt.names})
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
	r := newService(newStore())
	r.clients["a"].source.Rotatable = []string{"db", "queue/none"}
	for _, step := range []struct {
		name string
		want int
	}{{"db", 1}, {"db", 1}, {"other", 2}, {"db", 3}} {
		r.offer(t, marketOf(step.name))
		if n := r.log.count("names under catalog.rotatable have no plan"); n != step.want {
			t.Fatalf("%d reports after %s, want %d", n, step.name, step.want)
		}
	}
	if r.log.count(`level=INFO msg="names under`) != 3 || r.log.count(`names="[db queue/none]"`) != 1 || r.log.count("queue/none") != 3 {
		t.Error("the reports do not name what they are about")
	}
}

func TestMetadataThatIsNoUsableObjectIsLeftOut(t *testing.T) {
	t.Parallel()
	want := string(built(t, marketOf("db"), Source{}).document.Body)
	for name, raw := range map[string]string{
		"absent": "", "null": "null", "empty object": " { } ", "array": `[1]`, "string": `"x"`,
		"cut off": `{"a":`, "key twice": `{"a":1,"a":2}`, "not UTF-8": "{\"a\":\"\xff\"}",
	} {
		m := marketOf("db")
		m.Offerings[0].Metadata = json.RawMessage(raw)
		m.Offerings[0].Plans[0].Metadata = json.RawMessage(raw)
		m.Offerings[0].Plans[0].CreateSchema = json.RawMessage(raw)
		if diff := cmp.Diff(want, string(built(t, m, Source{}).document.Body)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// OSB "Service Plan Object" (CAT-32, CAT-33, CAT-38), where TestCatalog shows one way only.
func TestPlanMapping(t *testing.T) {
	t.Parallel()
	const rest = `,"name":"small","description":"about small","free":true,"bindable":true,"plan_updateable":false`
	for name, tt := range map[string]struct {
		change func(*broker.MarketPlan)
		ids    string
		want   string // what follows the id
	}{
		"GUIDs of Cloud Foundry": {func(*broker.MarketPlan) {}, IDsCloudFoundry, `"guid-small"` + rest},
		"only the schemas that say something": {func(p *broker.MarketPlan) {
			p.CreateSchema, p.UpdateSchema = json.RawMessage(`{`+draft4+`,"type":"object"}`), json.RawMessage(`{}`)
		}, "", `"id-small"` + rest + `,"schemas":{"service_instance":{"create":{"parameters":{` + draft4 + `,"type":"object"}}}}`},
		"a schema of bindings alone": {func(p *broker.MarketPlan) { p.BindSchema = json.RawMessage(`{` + draft4 + `}`) },
			"", `"id-small"` + rest + `,"schemas":{"service_binding":{"create":{"parameters":{` + draft4 + `}}}}`},
		"the polling duration rounded up to seconds": {func(p *broker.MarketPlan) { p.MaximumPollingDuration = 2*time.Second + 1 },
			"", `"id-small"` + rest + `,"maximum_polling_duration":3`},
		"no polling duration that is none": {func(p *broker.MarketPlan) { p.MaximumPollingDuration = -time.Second }, "", `"id-small"` + rest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan("small")
			tt.change(&p)
			body := string(built(t, marketWith(offering("db", p)), Source{IDs: tt.ids}).document.Body)
			_, got, _ := strings.Cut(strings.TrimSuffix(body, `}]}]}`), `"plans":[{"id":`)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// OSB "Cost Object" (CAT-48): metadata and prices of Cloud Foundry to metadata of the plan.
func TestCosts(t *testing.T) {
	t.Parallel()
	const usd = `[{"currency":"USD","amount":1,"unit":"Monthly"}]`
	for name, tt := range map[string]struct{ metadata, prices, want string }{
		"make metadata": {"", `[{"currency":"USD","amount":99.90,"unit":"Monthly"},{"currency":"EUR","amount":0,"unit":"Hour"}]`,
			`{"costs":[{"amount":{"USD":99.90},"unit":"Monthly"},{"amount":{"EUR":0},"unit":"Hour"}]}`},
		"are added to metadata":   {`{"bullets":["b"],"a":1}`, usd, `{"bullets":["b"],"a":1,"costs":[{"amount":{"USD":1},"unit":"Monthly"}]}`},
		"give way to those there": {`{"costs":[]}`, usd, `{"costs":[]}`},
		"lack a part":             {"", `[{"currency":"USD","amount":1},{"amount":1,"unit":"Hour"},{"currency":"USD","unit":"Hour"}]`, ""},
		"are no list of prices":   {"", `{"USD":1}`, ""},
	} {
		if got := string(withCosts(json.RawMessage(tt.metadata), json.RawMessage(tt.prices))); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
