package catalog

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// schemaMarket has the plan postgres/schema as the simulated Cloud Foundry offers it.
func schemaMarket() broker.Marketplace {
	p := plan("schema")
	const head = `{` + draft4 + `,"type":"object","additionalProperties":false,`
	const sized = `"properties":{"size":{"type":"integer","minimum":1,"maximum":100},"name":{"type":"string"}}`
	p.CreateSchema = json.RawMessage(head + sized + `,"required":["size"]}`)
	p.UpdateSchema = json.RawMessage(head + sized + `}`)
	p.BindSchema = json.RawMessage(head + `"properties":{"name":{"type":"string"}}}`)
	return marketWith(offering("postgres", p, plan("small")))
}

func query(kind lifecycle.Kind, verb lifecycle.Verb, parameters string) broker.ParametersQuery {
	return broker.ParametersQuery{
		Client: "a", ServiceID: "id-postgres", PlanID: "id-schema", Kind: kind, Verb: verb, Parameters: json.RawMessage(parameters),
	}
}

func TestParametersAreCheckedByUse(t *testing.T) {
	t.Parallel()
	r := serving(t, schemaMarket())
	const tooLarge = `parameters: at "/size": must be at most 100 (rule maximum of the plan's schema)`
	const missing = `parameters: at "": must have the property "size" (rule required of the plan's schema)`
	for name, tt := range map[string]struct {
		kind       lifecycle.Kind
		verb       lifecycle.Verb
		parameters string
		want       string
	}{
		"create, valid":             {lifecycle.Instance, lifecycle.Create, `{"size":1,"name":"x"}`, ""},
		"create, too large":         {lifecycle.Instance, lifecycle.Create, `{"size":101}`, tooLarge},
		"create, nothing":           {lifecycle.Instance, lifecycle.Create, "", missing},
		"create, null":              {lifecycle.Instance, lifecycle.Create, " null\n", missing},
		"update, nothing required":  {lifecycle.Instance, lifecycle.Update, `{"name":"x"}`, ""},
		"update, too large":         {lifecycle.Instance, lifecycle.Update, `{"size":101}`, tooLarge},
		"bind, nothing":             {lifecycle.Binding, lifecycle.Create, "", ""},
		"bind, a member of create":  {lifecycle.Binding, lifecycle.Create, `{"size":1}`, `parameters: at "": must not have the property "size" (rule additionalProperties of the plan's schema)`},
		"delete is asked about not": {lifecycle.Instance, lifecycle.Delete, `{"x":1}`, ""},
		"unbind neither":            {lifecycle.Binding, lifecycle.Delete, `{"x":1}`, ""},
		"not JSON":                  {lifecycle.Instance, lifecycle.Create, `{"size":1`, `parameters: not valid JSON: expected a comma or the closing bracket (byte 9)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := said(r.CheckParameters(t.Context(), query(tt.kind, tt.verb, tt.parameters)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutASchemaParametersPass(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	r.cf.set(schemaMarket(), nil)
	q := query(lifecycle.Instance, lifecycle.Create, `{}`)
	if err := r.CheckParameters(t.Context(), q); err != nil || r.cf.count() != 0 {
		t.Errorf("no catalog yet: %v after %d fetches, want neither", err, r.cf.count())
	}
	r.mustRefresh(t)
	if err := r.CheckParameters(t.Context(), q); err == nil {
		t.Error("the plan's schema is not used")
	}
	for name, change := range map[string]func(*broker.ParametersQuery){
		"unknown client":      func(q *broker.ParametersQuery) { q.Client = "b" },
		"unknown offering":    func(q *broker.ParametersQuery) { q.ServiceID = "none" },
		"unknown plan":        func(q *broker.ParametersQuery) { q.PlanID = "none" },
		"plan without schema": func(q *broker.ParametersQuery) { q.PlanID = "id-small" },
	} {
		other := q
		change(&other)
		if err := r.CheckParameters(t.Context(), other); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The user must not suffer from the backing broker's mistake, the operator must learn of it, once.
func TestUnusableSchemaIsReportedOncePerChange(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	m := schemaMarket()
	p := &m.Offerings[0].Plans[0]
	set := func(schema string) {
		t.Helper()
		p.CreateSchema = json.RawMessage(schema)
		r.offer(t, m)
	}
	expect := func(want int) {
		t.Helper()
		for range 3 {
			if err := r.CheckParameters(t.Context(), query(lifecycle.Instance, lifecycle.Create, `{}`)); err != nil {
				t.Errorf("refused: %v", err)
			}
		}
		if n := r.log.count("a parameter schema is of no use"); n != want {
			t.Errorf("%d reports, want %d", n, want)
		}
	}
	set(`{"pattern":"^(?!x)"}`)
	expect(1)
	for _, part := range []string{"level=WARN", "client=a", "offering=postgres", "plan=schema", "schema=create", "regular expression that cannot be used"} {
		if r.log.count(part) == 0 {
			t.Errorf("the report lacks %s", part)
		}
	}
	m.Offerings[0].Description = "changed elsewhere"
	set(`{"pattern":"^(?!x)"}`)
	expect(1)
	set(`{"pattern":"^(?!y)"}`)
	expect(2)
	set(`{"required":["a"]}`)
	if err := r.CheckParameters(t.Context(), query(lifecycle.Instance, lifecycle.Create, `{}`)); err == nil {
		t.Error("the repaired schema is not used")
	}
}

func TestChecksThatWouldTakeTooLongAreReportedOnce(t *testing.T) {
	t.Parallel()
	r := newService(newStore())
	m := schemaMarket()
	m.Offerings[0].Plans[0].CreateSchema = json.RawMessage(`{"patternProperties":{"a":{"$ref":"#"},"^a":{"$ref":"#"}}}`)
	r.offer(t, m)
	for range 3 {
		q := query(lifecycle.Instance, lifecycle.Create, strings.Repeat(`{"a":`, 99)+"{}"+strings.Repeat(`}`, 99))
		if err := r.CheckParameters(t.Context(), q); err != nil {
			t.Errorf("refused: %v", err)
		}
	}
	if n := r.log.count("parameters were not checked"); n != 1 {
		t.Errorf("%d reports, want 1", n)
	}
}

func TestSchemasAreCompiledOnceAndLate(t *testing.T) {
	t.Parallel()
	r := serving(t, schemaMarket())
	key := schemaKey{"id-postgres", "id-schema", createUse}
	schema := r.clients["a"].current.Load().schemas[key]
	if schema.compiled != nil {
		t.Fatal("compiled before anybody asked")
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if err := r.CheckParameters(t.Context(), query(lifecycle.Instance, lifecycle.Create, `{"size":0}`)); err == nil {
				t.Error("not refused")
			}
		})
	}
	all.Wait()
	compiled := schema.compiled
	again := schemaMarket()
	again.Offerings[0].Plans[0].GUID = "new"
	r.offer(t, again)
	if err := r.CheckParameters(t.Context(), query(lifecycle.Instance, lifecycle.Create, `{"size":0}`)); err == nil {
		t.Error("not refused")
	}
	if after := r.clients["a"].current.Load().schemas[key]; after.compiled != compiled {
		t.Error("a change elsewhere compiled the schema again")
	}
}
