package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// MaxBytes is OSB's limit for one schema in bytes ("Input Parameters Schema Object").
const MaxBytes = 64 * 1024

// The limits of a schema. Together with MaxBytes, its length, they bound what compiling it takes. Published schemas
// stay far below them.
const (
	// maxSchemaValues is how many values (objects, arrays, texts, numbers, words) a schema has. The library compares
	// each subschema with every other.
	maxSchemaValues = 4000
	// maxSchemaDepth is how deep they stand inside each other.
	maxSchemaDepth = 64
	// maxDigits bounds the numbers of schemas and parameters: the characters that one is written with, and its exponent
	// either way. The library turns numbers into fractions of whole numbers, so that 1e999999999 would be a gigabit
	// long.
	maxDigits = 400
)

func checkLimits(doc any) error { return (&limitCheck{}).value(doc, 1) }

// limitCheck looks at every value of a schema before the library does.
type limitCheck struct{ values int }

func (s *limitCheck) value(v any, depth int) error {
	if s.values++; s.values > maxSchemaValues {
		return fmt.Errorf("it has more than %d values", maxSchemaValues)
	}
	if depth > maxSchemaDepth {
		return fmt.Errorf("it nests deeper than %d levels", maxSchemaDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			if err := member(key, child); err != nil {
				return err
			}
			if err := s.value(child, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, child := range v {
			if err := s.value(child, depth+1); err != nil {
				return err
			}
		}
	case json.Number:
		if !isShort(v) {
			return fmt.Errorf("it has a number of more than %d digits, or an exponent beyond that", maxDigits)
		}
	}
	return nil
}

// member refuses members that the library would misread or that cost too much. They are looked for everywhere, also
// where they may be data and not keywords: a schema that is refused by mistake is only not used.
func member(key string, v any) error {
	switch v := v.(type) {
	case string:
		if key == "$ref" && !isPlainReference(v) {
			return errors.New("it refers to an element by an index with a sign or a leading 0")
		}
		// Where these lead depends on the references before them, which measure does not know.
		if key == "$dynamicRef" || key == "$recursiveRef" {
			return fmt.Errorf("it uses %s", key)
		}
	case json.Number:
		if !slices.Contains(counts, key) || !isShort(v) {
			break
		}
		if n, ok := new(big.Rat).SetString(string(v)); ok && n.IsInt() && !n.Num().IsInt64() {
			return fmt.Errorf("its %s is too large", key)
		}
	}
	return nil
}

// counts are the keywords whose number the library reads as an int64 without looking whether it is one.
var counts = []string{
	"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
}

// isPlainReference reports whether each place has one spelling only. The library takes /items/00 for /items/0 and
// compiles the place once for each spelling, with all below it, so that a short text could ask for any amount of work.
func isPlainReference(reference string) bool {
	_, fragment, _ := strings.Cut(reference, "#")
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return false
	}
	for _, token := range strings.Split(fragment, "/") {
		if i, err := strconv.Atoi(token); err == nil && strconv.Itoa(i) != token {
			return false
		}
	}
	return true
}

// isShort reports whether a number is within maxDigits.
func isShort(n json.Number) bool {
	if len(n) > maxDigits {
		return false
	}
	i := strings.IndexAny(string(n), "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(string(n[i+1:]))
	return err == nil && -maxDigits <= exponent && exponent <= maxDigits
}

// RefersOutside reports whether a schema has a reference to something that is not in it, which OSB forbids in a catalog
// ("Input Parameters Schema Object"); some platforms refuse a whole catalog for it.
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

// references collects what a schema refers to and what it calls itself.
type references struct{ to, ids []string }

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
