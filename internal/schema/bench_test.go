package schema

import (
	"fmt"
	"testing"
)

const postgresCreate = `{` + draft4 + `,"type":"object","additionalProperties":false,` +
	`"properties":{"size":{"type":"integer","minimum":1,"maximum":100},"name":{"type":"string"}},"required":["size"]}`

func BenchmarkCheckParameters(b *testing.B) {
	ordinary := rulesOf(b, postgresCreate)
	arrays := rulesOf(b, `{"additionalProperties":{"type":"array","items":{"type":["array","object"],"maxItems":0}}}`)
	strict := rulesOf(b, `{"additionalProperties":{"allOf":[`+inMany(18, `{"type":"number","maximum":%d}`)+`]}}`)
	for _, bench := range []struct {
		name       string
		rules      *Schema
		parameters string
	}{
		{"ordinary and valid", ordinary, `{"size":5,"name":"db"}`},
		{"ordinary and invalid", ordinary, `{"size":500,"name":7,"other":true}`},
		{"large and valid", arrays, `{` + inMany(9000, `"m%d":[[],{}]`) + `}`},
		{"large and invalid everywhere", strict, `{` + inMany(400, `"m%d":19.5`) + `}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.parameters)))
			for b.Loop() {
				_ = bench.rules.Check([]byte(bench.parameters))
			}
		})
	}
}

func BenchmarkCompileSchema(b *testing.B) {
	for _, bench := range []struct{ name, schema string }{
		{"ordinary", postgresCreate},
		{"at the limits", referencesIntoData(900)},
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

// referencesIntoData is the slowest schema to compile that we know of: each
// reference into a part that is no schema by itself makes the library copy all that
// it knows.
func referencesIntoData(n int) string {
	return fmt.Sprintf(`{"anyOf":[%s],"x":{%s}}`, inMany(n, `{"$ref":"#/x/d%d"}`), inMany(n, `"d%d":{}`))
}
