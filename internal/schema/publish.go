package schema

import (
	"encoding/json"
	"slices"
	"strings"
)

// references collects what a schema refers to and what it calls itself.
type references struct{ to, ids []string }

// RefersOutside reports whether a schema has a reference to something that is not
// in it, which OSB forbids in a catalog ("Input Parameters Schema Object"); some
// platforms refuse a whole catalog for it.
func RefersOutside(schema json.RawMessage) bool {
	var doc any
	if json.Unmarshal(schema, &doc) != nil {
		return false
	}
	var r references
	r.schema(doc)
	return slices.ContainsFunc(r.to, func(reference string) bool {
		document, _, _ := strings.Cut(reference, "#")
		return document != "" && !slices.Contains(r.ids, document)
	})
}

func (r *references) schema(v any) {
	switch v := v.(type) {
	case []any:
		for _, sub := range v {
			r.schema(sub)
		}
	case map[string]any:
		for keyword, sub := range v {
			r.keyword(keyword, sub)
		}
	}
}

func (r *references) keyword(keyword string, v any) {
	text, isText := v.(string)
	switch keyword {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if isText {
			r.to = append(r.to, text)
		}
	case "id", "$id":
		if isText {
			document, _, _ := strings.Cut(text, "#")
			r.ids = append(r.ids, document)
		}
	case "enum", "const", "default", "examples":
		// Data, whatever it looks like.
	case "properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas":
		// The members are names here, not keywords.
		names, _ := v.(map[string]any)
		for _, sub := range names {
			r.schema(sub)
		}
	default:
		r.schema(v)
	}
}
