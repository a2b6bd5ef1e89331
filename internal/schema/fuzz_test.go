package schema

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzParametersAgainstSchema looks for a schema and parameters that make a check
// panic, hang, or depend on how the parameters are written: neither white space nor
// the order of members counts, and the numbers stay as they are.
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
