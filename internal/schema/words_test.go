package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	draft4 = `"$schema":"http://json-schema.org/draft-04/schema#"`
	draft6 = `"$schema":"http://json-schema.org/draft-06/schema#"`
	draft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
	draft8 = `"$schema":"https://json-schema.org/draft/2019-09/schema"`
	draft9 = `"$schema":"https://json-schema.org/draft/2020-12/schema"`
)

// schemaOf compiles a schema that is usable.
func schemaOf(t testing.TB, schema string) *Schema {
	t.Helper()
	r, err := Compile([]byte(schema))
	if err != nil {
		t.Fatalf("the schema cannot be used: %v", err)
	}
	return r
}

// said is the text of an error, "" for nil.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ruled is one schema, parameters that satisfy it, and others with what is said.
type ruled struct {
	schema string
	good   []string
	bad    map[string]string // parameters to sentence without "parameters: " and "of the plan's schema"
}

func checkRuled(t *testing.T, cases map[string]ruled) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := schemaOf(t, c.schema)
			for _, good := range c.good {
				if err := r.Check([]byte(good)); err != nil {
					t.Errorf("%s: %v", good, err)
				}
			}
			for bad, want := range c.bad {
				got := strings.ReplaceAll(strings.TrimPrefix(said(r.Check([]byte(bad))), "parameters: "), " of the plan's schema)", ")")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", bad, diff)
				}
			}
		})
	}
}

func TestRulesOfNumbers(t *testing.T) {
	t.Parallel()
	checkRuled(t, map[string]ruled{
		"draft-04 has exclusiveMaximum as a switch": {
			schema: `{` + draft4 + `,"properties":{"n":{"maximum":100,"exclusiveMaximum":true,"minimum":0.5,"exclusiveMinimum":true}}}`,
			good:   []string{`{"n":99.999999999999999999999}`, `{"n":0.50000000000000000001}`, `{"n":"text"}`},
			bad: map[string]string{
				`{"n":100}`:   `at "/n": must be below 100 (rule exclusiveMaximum)`,
				`{"n":100.0}`: `at "/n": must be below 100 (rule exclusiveMaximum)`,
				`{"n":5e-1}`:  `at "/n": must be above 0.5 (rule exclusiveMinimum)`,
			},
		},
		"draft-04 has it off by default": {
			schema: `{` + draft4 + `,"properties":{"n":{"maximum":100,"exclusiveMaximum":false,"minimum":1}}}`,
			good:   []string{`{"n":100}`, `{"n":1}`},
			bad: map[string]string{
				`{"n":100.0000000000000000000001}`: `at "/n": must be at most 100 (rule maximum)`,
				`{"n":0}`:                          `at "/n": must be at least 1 (rule minimum)`,
			},
		},
		"no $schema is draft-04": {
			schema: `{"properties":{"n":{"maximum":7,"exclusiveMaximum":true,"const":1}}}`,
			good:   []string{`{"n":6}`},
			bad:    map[string]string{`{"n":7}`: `at "/n": must be below 7 (rule exclusiveMaximum)`},
		},
		"draft-06 has exclusiveMaximum as a number": {
			schema: `{` + draft6 + `,"properties":{"n":{"exclusiveMaximum":100,"exclusiveMinimum":-1.5}}}`,
			good:   []string{`{"n":99}`},
			bad: map[string]string{
				`{"n":1e2}`:  `at "/n": must be below 100 (rule exclusiveMaximum)`,
				`{"n":-1.5}`: `at "/n": must be above -1.5 (rule exclusiveMinimum)`,
			},
		},
		"numbers are exact beyond binary doubles": {
			schema: `{` + draft7 + `,"properties":{"n":{"const":9007199254740993},"m":{"maximum":9007199254740992},"t":{"multipleOf":0.1}}}`,
			good:   []string{`{"n":9007199254740993.0}`, `{"m":9007199254740992}`, `{"t":0.3}`, `{"t":1e20}`},
			bad: map[string]string{
				`{"n":9007199254740992}`: `at "/n": must be 9007199254740993 (rule const)`,
				`{"m":9007199254740993}`: `at "/m": must be at most 9007199254740992 (rule maximum)`,
				`{"t":0.31}`:             `at "/t": must be a multiple of 0.1 (rule multipleOf)`,
			},
		},
		"an integer may be written with a point": {
			schema: `{` + draft4 + `,"properties":{"n":{"type":"integer"}}}`,
			good:   []string{`{"n":1.0}`, `{"n":1e3}`, `{"n":-0}`},
			bad:    map[string]string{`{"n":1.5}`: `at "/n": must be of type integer, not number (rule type)`},
		},
	})
}

func TestRulesOfValuesAndTexts(t *testing.T) {
	t.Parallel()
	checkRuled(t, map[string]ruled{
		"type, enum and a text": {
			schema: `{` + draft4 + `,"type":"object","properties":{"a":{"type":["string","null"]},"e":{"enum":["x",1,null,{"k":1}]},"o":{"enum":["only"]}}}`,
			good:   []string{`{"a":null,"e":1.0}`, `{"a":"","e":{"k":1},"o":"only"}`},
			bad: map[string]string{
				`{"a":7}`:      `at "/a": must be of type null or string, not number (rule type)`,
				`{"e":"X"}`:    `at "/e": must be one of "x", 1, null, {"k":1} (rule enum)`,
				`{"o":"none"}`: `at "/o": must be "only" (rule enum)`,
				`[]`:           `at "": must be of type object, not array (rule type)`,
				`7`:            `at "": must be of type object, not number (rule type)`,
			},
		},
		"lengths are characters, patterns search": {
			schema: `{` + draft4 + `,"properties":{"s":{"minLength":2,"maxLength":3},"p":{"pattern":"^[a-z]+$"},"q":{"pattern":"\\d"}}}`,
			good:   []string{`{"s":"üü","p":"abc","q":"a1b"}`},
			bad: map[string]string{
				`{"s":"ü"}`:      `at "/s": must have at least 2 characters (rule minLength)`,
				`{"s":"üüüü"}`:   `at "/s": must have at most 3 characters (rule maxLength)`,
				`{"p":"abc\n"}`:  `at "/p": must match the regular expression "^[a-z]+$" (rule pattern)`,
				`{"q":"secret"}`: `at "/q": must match the regular expression "\\d" (rule pattern)`,
			},
		},
		"formats are notes, in every draft": {
			schema: `{` + draft4 + `,"properties":{"m":{"format":"email"},"r":{"format":"regex"}}}`,
			good:   []string{`{"m":"no mail","r":"("}`},
		},
		"formats of draft-07":  {schema: `{` + draft7 + `,"properties":{"m":{"format":"ipv4"}}}`, good: []string{`{"m":"x"}`}},
		"formats of 2019-09":   {schema: `{` + draft8 + `,"properties":{"m":{"format":"ipv4"}}}`, good: []string{`{"m":"x"}`}},
		"contents are ignored": {schema: `{` + draft7 + `,"properties":{"m":{"contentEncoding":"base64"}}}`, good: []string{`{"m":"%"}`}},
	})
}

func TestRulesOfObjects(t *testing.T) {
	t.Parallel()
	checkRuled(t, map[string]ruled{
		"required and additional properties are named": {
			schema: `{` + draft4 + `,"properties":{"a":{},"b":{}},"required":["a","b"],"additionalProperties":false}`,
			good:   []string{`{"a":1,"b":2}`},
			bad: map[string]string{
				`{"a":1}`: `at "": must have the property "b" (rule required)`,
				`{"x":1}`: `at "": must not have the property "x" (rule additionalProperties); at "": must have the properties "a", "b" (rule required)`,
				`{"a":1,"b":1,"t":1,"s":1,"r":1,"q":1,"p":1,"o":1}`: `at "": must not have the properties "o", "p", "q", "r", "s", 1 more (rule additionalProperties)`,
			},
		},
		"patterns of names, counts and dependencies": {
			schema: `{` + draft4 + `,"patternProperties":{"^n_":{"type":"integer"}},"additionalProperties":{"type":"string"},
			  "minProperties":1,"maxProperties":3,"dependencies":{"a":["b","c"],"d":{"required":["e"]}}}`,
			good: []string{`{"n_x":1,"s":"t"}`},
			bad: map[string]string{
				`{}`:                               `at "": must have at least 1 properties (rule minProperties)`,
				`{"w":"","x":"","y":"","z":""}`:    `at "": must have at most 3 properties (rule maxProperties)`,
				`{"n_x":"1"}`:                      `at "/n_x": must be of type integer, not string (rule type)`,
				`{"s":1}`:                          `at "/s": must be of type string, not number (rule type)`,
				`{"a":"","b":""}`:                  `at "": must have the property "c", because it has "a" (rule dependencies)`,
				`{"d":""}`:                         `at "": must have the property "e" (rule required)`,
				`{"n_/~":{"deep":[1]},"n_b":true}`: `at "/n_~1~0": must be of type integer, not object (rule type); at "/n_b": must be of type integer, not boolean (rule type)`,
			},
		},
		"names, in draft-06": {
			schema: `{` + draft6 + `,"propertyNames":{"maxLength":3},"properties":{"no":false}}`,
			good:   []string{`{"abc":1}`},
			bad: map[string]string{
				`{"abcd":1}`: `at "": must not have the property "abcd" (rule propertyNames)`,
				`{"no":1}`:   `at "/no": must not be there (rule false)`,
			},
		},
		"dependent and unevaluated, in 2019-09": {
			schema: `{` + draft8 + `,"allOf":[{"properties":{"a":{}}}],"dependentRequired":{"a":["b"]},"dependentSchemas":{"b":{"required":["c"]}},
			  "properties":{"b":{},"c":{}},"unevaluatedProperties":false}`,
			good: []string{`{"a":1,"b":1,"c":1}`},
			bad: map[string]string{
				`{"a":1}`: `at "": must have the property "b", because it has "a" (rule dependentRequired)`,
				`{"b":1}`: `at "": must have the property "c" (rule required)`,
				`{"z":1}`: `at "/z": must not be there (rule unevaluatedProperties)`,
			},
		},
	})
}

func TestRulesOfArrays(t *testing.T) {
	t.Parallel()
	checkRuled(t, map[string]ruled{
		"counts, uniqueness and elements": {
			schema: `{` + draft4 + `,"properties":{"l":{"minItems":1,"maxItems":3,"uniqueItems":true,"items":{"type":"number"}},
			  "t":{"items":[{"type":"string"}],"additionalItems":false}}}`,
			good: []string{`{"l":[1,2,3],"t":["a"]}`, `{"t":[]}`},
			bad: map[string]string{
				`{"l":[]}`:           `at "/l": must have at least 1 elements (rule minItems)`,
				`{"l":[1,2,3,4]}`:    `at "/l": must have at most 3 elements (rule maxItems)`,
				`{"l":[1,1.0]}`:      `at "/l": must not have equal elements, as those at 0 and 1 are (rule uniqueItems)`,
				`{"l":[1,"2"]}`:      `at "/l/1": must be of type number, not string (rule type)`,
				`{"t":["a",1,2]}`:    `at "/t": must not have its last 2 elements (rule additionalItems)`,
				`{"t":[7],"l":[[]]}`: `at "/l/0": must be of type number, not array (rule type); at "/t/0": must be of type string, not number (rule type)`,
			},
		},
		"contains, in draft-06": {
			schema: `{` + draft6 + `,"properties":{"l":{"contains":{"const":1}}}}`,
			good:   []string{`{"l":[0,1]}`},
			bad:    map[string]string{`{"l":[0]}`: `at "/l": must have an element that fits the schema of the rule (rule contains)`},
		},
		"prefixItems and counted contains, in 2020-12": {
			schema: `{` + draft9 + `,"properties":{"l":{"prefixItems":[{"type":"string"}],"items":false},"c":{"contains":{"type":"null"},"minContains":2,"maxContains":3}}}`,
			good:   []string{`{"l":["a"],"c":[null,1,null]}`},
			bad: map[string]string{
				`{"l":[1]}`:                        `at "/l/0": must be of type string, not number (rule type)`,
				`{"l":["a","b"]}`:                  `at "/l/1": must not be there (rule items)`,
				`{"c":[null]}`:                     `at "/c": must have at least 2 elements that fit the schema of contains (rule minContains)`,
				`{"c":[null,null,null,null,null]}`: `at "/c": must have at most 3 elements that fit the schema of contains (rule maxContains)`,
			},
		},
	})
}

func TestRulesThatCombine(t *testing.T) {
	t.Parallel()
	checkRuled(t, map[string]ruled{
		"all, any, one, not": {
			schema: `{` + draft4 + `,"properties":{
			  "all":{"allOf":[{"minimum":1},{"maximum":3}]}, "any":{"anyOf":[{"type":"string"},{"minimum":5}]},
			  "one":{"oneOf":[{"multipleOf":2},{"multipleOf":3}]}, "not":{"not":{"type":"null"}}}}`,
			good: []string{`{"all":2,"any":"x","one":4,"not":1}`},
			bad: map[string]string{
				`{"all":0}`:    `at "/all": must be at least 1 (rule minimum)`,
				`{"any":4}`:    `at "/any": must fit at least one of the alternatives (rule anyOf)`,
				`{"one":6}`:    `at "/one": must fit one of the alternatives only (rule oneOf)`,
				`{"one":5}`:    `at "/one": must fit one of the alternatives (rule oneOf)`,
				`{"not":null}`: `at "/not": must not fit the schema of the rule (rule not)`,
			},
		},
		"conditions, in draft-07": {
			schema: `{` + draft7 + `,"if":{"properties":{"ha":{"const":true}},"required":["ha"]},"then":{"required":["nodes"]},"else":{"not":{"required":["nodes"]}}}`,
			good:   []string{`{"ha":true,"nodes":3}`, `{}`},
			bad: map[string]string{
				`{"ha":true}`: `at "": must have the property "nodes" (rule required)`,
				`{"nodes":3}`: `at "": must not fit the schema of the rule (rule not)`,
			},
		},
		"references within, by pointer, by anchor and by its own address": {
			schema: `{` + draft9 + `,"$id":"https://example.org/plan","$defs":{"n":{"type":"integer"},"m":{"$anchor":"M","type":"boolean"}},
			  "properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#M"},"c":{"$ref":"https://example.org/plan#/$defs/n"}}}`,
			good: []string{`{"a":1,"b":true,"c":1}`},
			bad: map[string]string{
				`{"a":"x","b":1,"c":"x"}`: `at "/a": must be of type integer, not string (rule type); at "/b": must be of type boolean, not number (rule type); at "/c": must be of type integer, not string (rule type)`,
			},
		},
		"a schema that refers to itself": {
			schema: `{` + draft4 + `,"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#"}}}`,
			good:   []string{`{"v":1,"next":{"v":2,"next":{}}}`},
			bad:    map[string]string{`{"next":{"next":{"v":"x"}}}`: `at "/next/next/v": must be of type integer, not string (rule type)`},
		},
		"the same finding once, five at most": {
			schema: `{` + draft4 + `,"allOf":[{"additionalProperties":{"maximum":0}},{"additionalProperties":{"maximum":0}}]}`,
			bad: map[string]string{
				`{"a":1}`: `at "/a": must be at most 0 (rule maximum)`,
				`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`: `at "/a": must be at most 0 (rule maximum); at "/b": must be at most 0 (rule maximum); ` +
					`at "/c": must be at most 0 (rule maximum); at "/d": must be at most 0 (rule maximum); at "/e": must be at most 0 (rule maximum); and more`,
			},
		},
	})
}

// Parameters may hold secrets, and errors reach logs and other people's screens.
func TestNoValueReachesAnError(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	long := strings.Repeat("n", 60) + secret
	for name, tt := range map[string]struct{ schema, parameters string }{
		"type":       {`{"properties":{"a":{"type":"object"}}}`, `{"a":"hunter2"}`},
		"enum":       {`{"properties":{"a":{"enum":["x",{"y":1}]}}}`, `{"a":"hunter2"}`},
		"const":      {`{` + draft6 + `,"properties":{"a":{"const":{"y":1}}}}`, `{"a":{"y":"hunter2"}}`},
		"pattern":    {`{"properties":{"a":{"pattern":"^x"}}}`, `{"a":"hunter2"}`},
		"length":     {`{"properties":{"a":{"maxLength":1}}}`, `{"a":"hunter2"}`},
		"format":     {`{"properties":{"a":{"format":"email","maxLength":1}}}`, `{"a":"hunter2"}`},
		"unique":     {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":["hunter2","hunter2"]}`},
		"any":        {`{"properties":{"a":{"anyOf":[{"pattern":"^x"},{"enum":["y"]}]}}}`, `{"a":"hunter2"}`},
		"not":        {`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"hunter2"}`},
		"contains":   {`{` + draft6 + `,"properties":{"a":{"contains":{"pattern":"^x"}}}}`, `{"a":["hunter2"]}`},
		"additional": {`{"additionalProperties":false}`, `{"a":"hunter2"}`},
		"numbers":    {`{"properties":{"a":{"maximum":1,"multipleOf":7}}}`, `{"a":7002}`},
		"digits":     {`{"properties":{"a":{"maximum":1}}}`, `{"a":7002e999}`},
		"a name":     {`{"additionalProperties":false}`, `{"` + long + `":1}`},
		"a place":    {`{"additionalProperties":{"type":"string"}}`, `{"` + long + `":1}`},
		"names":      {`{` + draft6 + `,"propertyNames":{"maxLength":3}}`, `{"` + long + `":1}`},
		"syntax":     {`{"type":"object"}`, `{"a":hunter2}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := said(schemaOf(t, tt.schema).Check([]byte(tt.parameters)))
			if got == "" || strings.Contains(got, secret) || strings.Contains(got, "7002") {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestErrorsStayShort(t *testing.T) {
	t.Parallel()
	deep := schemaOf(t, `{"properties":{"v":{"type":"string"}},"additionalProperties":{"$ref":"#"}}`)
	name := strings.Repeat("\x7f", 100)
	got := said(deep.Check([]byte(strings.Repeat(`{"`+name+`":`, 30) + `{"v":1}` + strings.Repeat(`}`, 30))))
	if len(got) > 4500 || !strings.Contains(got, `/…": must be of type string`) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
