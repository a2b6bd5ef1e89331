package cfsim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestMetadataRules(t *testing.T) {
	t.Parallel()
	label := func(key, value string) string { return `{"labels":{"` + key + `":"` + value + `"}}` }
	annotation := func(key, value string) string { return `{"annotations":{"` + key + `":"` + value + `"}}` }
	long := strings.Repeat("a", 64)
	tests := map[string]struct{ metadata, want string }{
		"a plain label":                   {label("a.b_c-d", "v"), "200"},
		"a label with a prefix":           {label("example.org/a", "v"), "200"},
		"an empty label":                  {label("a", ""), "200"},
		"null for both":                   {`{"labels":null,"annotations":null}`, "200"},
		"a prefix without a dot":          {label("example/a", "v"), "Metadata label key error: prefix 'example' must be in valid dns format"},
		"the reserved prefix":             {label("cloudfoundry.org/a", "v"), "Metadata label key error: prefix 'cloudfoundry.org' is reserved"},
		"two slashes":                     {label("a.b/c/d", "v"), "Metadata label key error: key has more than one '/'"},
		"a key that begins badly":         {label("-a", "v"), "Metadata label key error: '-a' starts or ends with invalid characters"},
		"a key with a blank":              {label("a b", "v"), "Metadata label key error: 'a b' contains invalid characters"},
		"a long key":                      {label(long, "v"), "Metadata label key error: 'aaaaaaaa...' is greater than 63 characters"},
		"an empty key":                    {label("", "v"), "Metadata label key error: key cannot be empty string"},
		"a long label":                    {label("a", long), "Metadata label value error: 'aaaaaaaa...' is greater than 63 characters"},
		"a label with a blank":            {label("a", "b c"), "Metadata label value error: 'b c' contains invalid characters"},
		"a label that is a number":        {`{"labels":{"a":1}}`, "Metadata label value error: 'a' must be a string"},
		"an annotation with anything":     {annotation("a", "b c / ü"), "200"},
		"a long annotation":               {annotation("a", strings.Repeat("ü", 5000)), "200"},
		"an annotation that is too long":  {annotation("a", strings.Repeat("ü", 5001)), "Metadata annotation value error: 'üüüüüüüü...' is greater than 5000 characters"},
		"a bad key without an annotation": {annotation("-a", ""), "200"},
		"a bad key with an annotation":    {annotation("-a", "b"), "Metadata annotation key error: '-a' starts or ends with invalid characters"},
		"labels that are a list":          {`{"labels":[]}`, "Metadata 'labels' is not an object"},
		"no object":                       {`[]`, "Metadata must be an object"},
	}
	c := start(t, idle())
	path := instances + c.plant("")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := test.want
			if want != "200" {
				want = unprocessableText + want
			}
			checkAnswer(t, c.do("PATCH", path, `{"metadata":`+test.metadata+`}`), want)
		})
	}
}

func TestMetadataLimits(t *testing.T) {
	t.Parallel()
	many := func(kind string, from, n int) string {
		values := map[string]string{}
		for i := range n {
			values[fmt.Sprintf("k%d", from+i)] = "v"
		}
		encoded, _ := json.Marshal(map[string]any{"metadata": map[string]any{kind: values}})
		return string(encoded)
	}
	c := start(t, idle())
	path := instances + c.plant("")
	c.must(200, "PATCH", path, many("labels", 0, 50))
	c.must(200, "PATCH", path, many("labels", 0, 50))
	c.answers("PATCH", path, many("labels", 50, 2), "422 390020 CF-LabelLimitExceeded: Failed to add 2 labels because it would exceed maximum of 50")
	c.must(200, "PATCH", path, `{"metadata":{"labels":{"k0":null,"other":"v"}}}`)
	c.must(200, "PATCH", path, many("annotations", 0, 200))
	c.answers("PATCH", path, many("annotations", 200, 1), "422 390023 CF-AnnotationLimitExceeded: Failed to add 1 annotations because it would exceed maximum of 200")
}
