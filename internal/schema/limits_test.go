package schema

import (
	"fmt"
	"strings"
	"testing"
)

// inMany returns n parts, each with its number, with commas between.
func inMany(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ schema, why string }{
		"a reference to a file":          {`{"$ref":"file:///etc/passwd"}`, "outside itself"},
		"a reference to the network":     {`{"properties":{"a":{"$ref":"http://127.0.0.1:1/x#/a"}}}`, "outside itself"},
		"a relative reference":           {`{"properties":{"a":{"$ref":"other.json"}}}`, "outside itself"},
		"a reference to a metaschema":    {`{"properties":{"a":{"$ref":"http://json-schema.org/draft-07/schema#"}}}`, "outside itself"},
		"a draft that is elsewhere":      {`{"$schema":"http://127.0.0.1:1/own"}`, "outside itself"},
		"draft-03":                       {`{"$schema":"http://json-schema.org/draft-03/schema#"}`, "outside itself"},
		"a reference to nothing":         {`{"$ref":"#/definitions/none"}`, "not found"},
		"exclusiveMaximum of draft-06":   {`{` + draft4 + `,"properties":{"a":{"exclusiveMaximum":5}}}`, `at "/properties/a": must have the property "maximum", because it has "exclusiveMaximum"`},
		"exclusiveMaximum of draft-04":   {`{` + draft7 + `,"properties":{"a":{"maximum":5,"exclusiveMaximum":true}}}`, `must be of type number, not boolean (rule type)`},
		"a type that does not exist":     {`{"type":"text"}`, "no valid schema"},
		"not JSON":                       {`{"type":`, "not valid JSON"},
		"a key twice":                    {`{"type":"object","type":"string"}`, "twice"},
		"looking ahead":                  {`{"pattern":"^(?!x)"}`, "regular expression that cannot be used"},
		"a broken expression":            {`{"patternProperties":{"(":{}}}`, "regular expression that cannot be used"},
		"an expression that is long":     {`{"pattern":"` + strings.Repeat("a", maxPatternText+1) + `"}`, "more than 2000 bytes"},
		"an expression that repeats":     {`{"pattern":"(abcdefghij{10}){99}"}`, "repeats too much"},
		"many expressions":               {`{"anyOf":[` + inMany(50, `{"pattern":"%d(abc){200}"}`) + `]}`, "too large together"},
		"a number of a gigabit":          {`{"maximum":1e999999999}`, "digits"},
		"a number of many digits":        {`{"maximum":` + strings.Repeat("9", maxDigits+1) + `}`, "digits"},
		"a count beyond whole numbers":   {`{"maxLength":18446744073709551617}`, "maxLength is too large"},
		"many values":                    {`{"enum":[` + inMany(maxSchemaValues, "%d") + `]}`, "more than 4000 values"},
		"deep nesting":                   {strings.Repeat(`{"not":`, maxSchemaDepth) + `{}` + strings.Repeat(`}`, maxSchemaDepth), "nests deeper"},
		"an index spelled otherwise":     {`{"$ref":"#/x/00","x":[{}]}`, "leading 0"},
		"an index escaped":               {`{"$ref":"#/x/%2B0","x":[{}]}`, "leading 0"},
		"a dynamic reference":            {`{` + draft9 + `,"$dynamicRef":"#a"}`, "$dynamicRef"},
		"a recursive reference":          {`{` + draft8 + `,"properties":{"a":{"$recursiveRef":"#"}}}`, "$recursiveRef"},
		"a circle":                       {`{"anyOf":[{"$ref":"#"}]}`, "without a step"},
		"a circle of two":                {`{"definitions":{"a":{"allOf":[{"$ref":"#/definitions/b"}]},"b":{"not":{"$ref":"#/definitions/a"}}},"properties":{"x":{"$ref":"#/definitions/a"}}}`, "without a step"},
		"two parts with one id":          {`{"properties":{"a":{"id":"x"},"b":{"id":"x"}}}`, "duplicate id"},
		"an id that is no address":       {`{"id":"http://[::1"}`, ""},
		"a reference that is no address": {`{"$ref":"%zz"}`, "parsing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Compile([]byte(tt.schema))
			if err == nil || r != nil || !strings.Contains(err.Error(), tt.why) || len(err.Error()) > 500 {
				t.Errorf("rules %v, error %v, want %q", r, err, tt.why)
			}
		})
	}
}

// The largest schemas that are accepted compile in bounded time.
func TestLargestSchemasCompileInTime(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"many references":      `{"definitions":{` + inMany(1300, `"d%[1]d":{"$ref":"#/definitions/d1300"}`) + `,"d1300":{}},"allOf":[{"$ref":"#/definitions/d0"}]}`,
		"many ids":             `{"definitions":{` + inMany(1300, `"d%[1]d":{"id":"i%[1]d"}`) + `}}`,
		"references into data": referencesIntoData(900),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(schema) > MaxBytes {
				t.Fatalf("%d bytes are too long for a schema", len(schema))
			}
			if r := schemaOf(t, schema); len(r.size.byDepth) == 0 {
				t.Error("nothing was measured")
			}
		})
	}
}

func TestNumbersBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	r := schemaOf(t, `{`+draft4+`,"properties":{"size":{"type":"integer","maximum":100,"multipleOf":0.5,"enum":[1,2]},"l":{"uniqueItems":true}}}`)
	for _, parameters := range []string{
		`{"size":1e999999999}`, `{"size":1e-999999999}`, `{"size":-1E+401}`, `{"size":1e` + strings.Repeat("9", 300) + `}`,
		`{"size":` + strings.Repeat("1", maxDigits+1) + `}`, `{"size":1.` + strings.Repeat("0", maxDigits) + `}`,
	} {
		const want = `parameters: at "/size": the number must have at most 400 digits, and an exponent within ±400`
		if got := said(r.Check([]byte(parameters))); got != want {
			t.Errorf("%.40s: %q", parameters, got)
		}
	}
	const want = `parameters: at "/l/1/x": the number must`
	if got := said(r.Check([]byte(`{"l":[1,{"a":1,"x":1e500}],"z":1e999}`))); !strings.HasPrefix(got, want) {
		t.Errorf("%q", got)
	}
	if err := r.Check([]byte(`{"size":10e-1,"l":[1e400,1e-400,` + strings.Repeat("1", maxDigits) + `]}`)); err != nil {
		t.Errorf("within the limit: %v", err)
	}
}
