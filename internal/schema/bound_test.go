package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// witness counts what the library does: it is called once for each subschema that was held against a value.
type witness struct {
	steps  *int
	schema *jsonschema.Schema
}

func (w witness) Validate(ctx *jsonschema.ValidatorContext, v any) {
	*w.steps += 2 + len(ctx.ValueLocation())/4 + ownCost(w.schema).fixed
	switch v := v.(type) {
	case map[string]any:
		*w.steps += 3 * len(v)
		for name := range v {
			for names := range w.schema.PatternProperties {
				*w.steps += programOf(names) * len([]rune(name)) / 8
			}
		}
	case []any:
		*w.steps += 3 * len(v)
	case string:
		*w.steps += programOf(w.schema.Pattern) * len([]rune(v)) / 8
	case json.Number:
		*w.steps += numberWeight
	}
}

// checkBound checks v and fails when the library does more than the bound says.
func checkBound(t *testing.T, r *Schema, v any) {
	t.Helper()
	bound := r.size.steps(v)
	if bound > maxSteps {
		return
	}
	done := 0
	g, err := walk(r.root)
	if err != nil {
		t.Fatal(err)
	}
	for s := range g.parts {
		s.Extensions = []jsonschema.SchemaExt{witness{&done, s}}
	}
	defer func() {
		for s := range g.parts {
			s.Extensions = nil
		}
	}()
	_ = r.root.Validate(v)
	if done > bound {
		t.Errorf("%d steps, and the bound says %d", done, bound)
	}
}

// family is a schema with parameters that grow, made so that they ask for as much work as they can.
type family struct {
	name string
	made func(n int) (schema, parameters string)
	most int // the largest n that is a request
	// ordinary: checked even then.
	ordinary bool
}

func families() []family {
	growing := func(schema, open, each, shut string) func(int) (string, string) {
		return func(n int) (string, string) { return schema, open + inMany(n, each) + shut }
	}
	nested := func(schema, open, shut string) func(int) (string, string) {
		return func(n int) (string, string) {
			return schema, `{"a":` + strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) + `}`
		}
	}
	times := func(n int, part string) string { return strings.TrimSuffix(strings.Repeat(part+",", n), ",") }
	return []family{
		{"an ordinary schema", growing(`{`+draft4+`,"type":"object","additionalProperties":{"type":"array","items":{"type":["array","object"],"maxItems":0}}}`, `{`, `"m%d":[[],{}]`, `}`), 9000, true},
		{"alternatives at every level", nested(`{`+draft4+`,"definitions":{"n":{"properties":{"a":{`+
			`"anyOf":[{"$ref":"#/definitions/n"},{"$ref":"#/definitions/n"}]}},"required":["none"]}},"$ref":"#/definitions/n"}`, `{"a":`, `}`), 400, false},
		{"alternatives in alternatives", nested(`{"definitions":{"a":{"anyOf":[{"$ref":"#/definitions/b"},{"$ref":"#/definitions/b"}]},"b":{"anyOf":[{"$ref":"#/definitions/c"},{"$ref":"#/definitions/c"}]},
		  "c":{"allOf":[`+times(4, `{"items":{"$ref":"#/definitions/a"}}`)+`]}},"additionalProperties":{"$ref":"#/definitions/a"}}`, `[`, `]`), 60, false},
		{"patterns of names at every level", nested(`{"patternProperties":{"a":{"$ref":"#"},"^a":{"$ref":"#"},"a$":{"$ref":"#"}}}`, `{"a":`, `}`), 100, false},
		{"unique elements", func(n int) (string, string) {
			hashes := make([]string, n) // all the same for a hash that does not mark where a text ends
			for i := range hashes {
				hashes[i] = fmt.Sprintf(`["%s","%s%d"]`, strings.Repeat(`a\u0004`, i%12), strings.Repeat(`a\u0004`, 11-i%12), i)
			}
			return `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + strings.Join(hashes, ",") + `]}`
		}, 6000, false},
		{"unique elements that are large", func(n int) (string, string) {
			return `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + inMany(20, `[`+strings.Repeat("1e300,", n)+`%d]`) + `]}`
		}, 1800, false},
		{"a large expression on a long text", func(n int) (string, string) {
			return `{"properties":{"a":{"pattern":"(x+x+){200}y"}}}`, `{"a":"` + strings.Repeat("x", n) + `"}`
		}, 256 << 10, false},
		{"a large expression on many names", growing(`{"patternProperties":{"([a-f][0-9]){300}":{}}}`, `{`, `"m%d":[[],{}]`, `}`), 9000, false},
		{"many options for a large value", growing(`{"additionalProperties":{"enum":[`+inMany(900, `[[],%d]`)+`]}}`, `{`, `"m%d":[[],{}]`, `}`), 9000, false},
		{"notes of what was not seen, for each alternative", growing(`{`+draft8+`,"anyOf":[`+inMany(900, `{"type":"string","maxLength":%d}`)+`,{}],"unevaluatedProperties":false}`, `{`, `"m%d":1`, `}`), 9000, false},
		{"names with rules of their own", growing(`{`+draft6+`,"propertyNames":{"allOf":[`+times(500, `{"maxLength":1}`)+`]}}`, `{`, `"m%d":[[],{}]`, `}`), 9000, false},
		{"numbers that break every rule", growing(`{"additionalProperties":{"allOf":[`+inMany(18, `{"type":"number","maximum":%d,"multipleOf":7}`)+`]}}`, `{`, `"m%d":1e399`, `}`), 9000, false},
		{"findings far inside", growing(`{"items":{"$ref":"#"},"minItems":3}`, `[`, strings.Repeat(`[`, 400)+`%d`+strings.Repeat(`]`, 400), `]`), 40, false},
		{"references through references", func(n int) (string, string) {
			links := make([]string, n)
			for i := range links {
				links[i] = fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/definitions/d%d"}]}`, i+1, i)
			}
			return fmt.Sprintf(`{"definitions":{"d0":{},%s},"allOf":[{"$ref":"#/definitions/d%d"}]}`, strings.Join(links, ","), n), `{}`
		}, 500, false},
		{"names that are missing", growing(`{"additionalProperties":{"required":[`+inMany(300, `"r%d"`)+`]}}`, `{`, `"m%d":{}`, `}`), 9000, false},
		{"alternatives that all fit", growing(`{"additionalProperties":{"oneOf":[`+times(20, `{"minProperties":1}`)+`]}}`, `{`, `"m%d":{}`, `}`), 9000, false},
	}
}

// largest returns parameters of the family that are checked, and nearly the largest of those; nil when there are none.
func (f family) largest(t testing.TB) (r *Schema, parameters any) {
	t.Helper()
	compiled := ""
	fits := func(n int) bool {
		schema, text := f.made(n)
		if schema != compiled {
			r, compiled = schemaOf(t, schema), schema
		}
		v, err := decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if r.size.steps(v) > maxSteps {
			return false
		}
		parameters = v
		return true
	}
	low, high := 0, 1
	for high <= f.most && fits(high) {
		low, high = high, 2*high
	}
	for i := 0; i < 3 && low > 0; i++ {
		if middle := (low + high) / 2; middle <= f.most && fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	schema, _ := f.made(low)
	return schemaOf(t, schema), parameters
}

// Parameters that would take too long are told before anything is held against them, and what is checked takes no more
// than was reckoned.
func TestChecksAreBounded(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			schema, parameters := f.made(f.most)
			err := schemaOf(t, schema).Check([]byte(parameters))
			if _, skipped := errors.AsType[*NotChecked](err); skipped == f.ordinary {
				t.Errorf("error %.200v", err)
			}
			if skipped := said(err); !f.ordinary && skipped != "checking these parameters would take more than 200000 steps" {
				t.Errorf("%.200s", skipped)
			}
			r, v := f.largest(t)
			if v == nil {
				t.Fatal("nothing is checked at all")
			}
			checkBound(t, r, v)
		})
	}
}

// What people publish is checked, also where it refers to itself.
func TestOrdinaryParametersAreChecked(t *testing.T) {
	t.Parallel()
	filter := `{` + draft7 + `,"definitions":{"f":{"anyOf":[
	  {"properties":{"and":{"type":"array","items":{"$ref":"#/definitions/f"}}},"required":["and"]},
	  {"properties":{"or":{"type":"array","items":{"$ref":"#/definitions/f"}}},"required":["or"]},
	  {"properties":{"field":{"enum":["name","size"]},"is":{"type":["string","number"]}},"required":["field","is"]}]}},
	  "properties":{"filter":{"$ref":"#/definitions/f"}}}`
	wide := `{` + draft4 + `,"additionalProperties":false,"properties":{` +
		inMany(300, `"p%d":{"type":"string","pattern":"^[a-z][a-z0-9-]{0,62}$","enum":["small","medium","large"]}`) + `}}`
	allowed := `{` + draft4 + `,"properties":{"size":{"enum":[` + inMany(50, "%d") + `]},
	  "allowed":{"uniqueItems":true,"items":{"type":"string","pattern":"^([0-9]{1,3}[.]){3}[0-9]{1,3}/[0-9]{1,2}$"}}}}`
	for name, tt := range map[string]struct{ schema, parameters string }{
		"a tree of conditions": {filter, `{"filter":{"and":[{"or":[{"and":[{"field":"name","is":"x"},{"field":"size","is":1}]}]},{"field":"name","is":"y"}]}}`},
		"every property":       {wide, `{` + inMany(300, `"p%d":"medium"`) + `}`},
		"many addresses":       {allowed, `{"size":7,"allowed":[` + inMany(200, `"10.0.%d.0/24"`) + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := schemaOf(t, tt.schema).Check([]byte(tt.parameters)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The largest check of each family, and how many times as long it takes as that of the ordinary schema.
func BenchmarkLargestChecks(b *testing.B) {
	ordinary := 0.0
	for _, f := range families() {
		b.Run(f.name, func(b *testing.B) {
			r, v := f.largest(b)
			b.ReportAllocs()
			for b.Loop() {
				_ = r.root.Validate(v)
			}
			each := b.Elapsed().Seconds() / float64(b.N)
			if f.ordinary {
				ordinary = each
			}
			b.ReportMetric(each/ordinary, "x-ordinary")
		})
	}
}

const postgresCreate = `{` + draft4 + `,"type":"object","additionalProperties":false,` +
	`"properties":{"size":{"type":"integer","minimum":1,"maximum":100},"name":{"type":"string"}},"required":["size"]}`

func BenchmarkCheckParameters(b *testing.B) {
	ordinary := schemaOf(b, postgresCreate)
	for _, bench := range []struct{ name, parameters string }{
		{"valid", `{"size":5,"name":"db"}`},
		{"invalid", `{"size":500,"name":7,"other":true}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = ordinary.Check([]byte(bench.parameters))
			}
		})
	}
}

func BenchmarkCompileSchema(b *testing.B) {
	for _, bench := range []struct{ name, schema string }{
		{"ordinary", postgresCreate},
		{"at the limits", referencesIntoData(900)},
		{"refers to itself everywhere", `{"properties":{` + inMany(1300, `"a%d":{"$ref":"#"}`) + `}}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compile([]byte(bench.schema)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// referencesIntoData is the slowest schema to compile that we know of: each reference into a part that is no schema by
// itself makes the library copy all that it knows.
func referencesIntoData(n int) string {
	return fmt.Sprintf(`{"anyOf":[%s],"x":{%s}}`, inMany(n, `{"$ref":"#/x/d%d"}`), inMany(n, `"d%d":{}`))
}

// FuzzParametersAgainstSchema looks for a schema and parameters that make a check panic, hang, take more than the bound
// says, or depend on how the parameters are written: neither white space nor the order of members counts, and the
// numbers stay as they are.
func FuzzParametersAgainstSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{postgresCreate, `{"size":101,"name":7}`},
		{`{` + draft4 + `,"properties":{"n":{"maximum":5,"exclusiveMaximum":true}}}`, `{"n":5.0}`},
		{`{` + draft6 + `,"propertyNames":{"maxLength":1},"properties":{"l":{"contains":{"const":1e2}}}}`, `{"lo":1,"l":[100]}`},
		{`{` + draft7 + `,"if":{"required":["a"]},"then":{"required":["b"]},"else":false}`, `{"a":null}`},
		{`{` + draft8 + `,"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":{"type":"null"}}`, `{"b":1,"a":2}`},
		{`{` + draft9 + `,"properties":{"l":{"prefixItems":[{"type":"string"}],"items":{"$ref":"#"},"uniqueItems":true}}}`, `{"l":["a",{},{}]}`},
		{`{"definitions":{"n":{"anyOf":[{"items":{"$ref":"#/definitions/n"}},{"type":"string"}]}},"additionalProperties":{"$ref":"#/definitions/n"}}`, `{"a":[[["x"]],1]}`},
		{`{"patternProperties":{"^a":{"$ref":"#"},"a$":{"$ref":"#"}},"dependencies":{"a":["b"],"c":{"minProperties":3}}}`, `{"a":{"a":{"a":{}}},"c":0}`},
		{`{"properties":{"n":{"multipleOf":0.01,"enum":[1,1.5,{"a":[1]}]}}}`, `{"n":1e-400}`},
		{`{"anyOf":[{"$ref":"#"}]}`, `{}`},
		{`{"$ref":"#/x/00","x":[{"id":"#a","pattern":"(?i)a{1,9}"}]}`, `[1e999999999]`},
		{`{"not":{"oneOf":[{},{"format":"regex"}]}}`, `{"a":"(","b":"\ud83d\ude00"}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, schema, parameters []byte) {
		if len(schema) > MaxBytes || len(parameters) > 256<<10 {
			return
		}
		r, err := Compile(schema)
		if err != nil {
			return
		}
		said1 := said(r.Check(parameters))
		if again := said(r.Check(parameters)); again != said1 {
			t.Fatalf("%q at first, then %q", said1, again)
		}
		v, err := decode(parameters)
		if err != nil {
			return
		}
		checkBound(t, r, v)
		var spread bytes.Buffer
		e := json.NewEncoder(&spread) // sorts members
		e.SetIndent("\n", "\t ")
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		if other := said(r.Check(spread.Bytes())); other != said1 {
			t.Fatalf("%q as written, %q as %s", said1, other, spread.Bytes())
		}
	})
}
