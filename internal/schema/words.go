package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// explain returns the keyword that was violated and what it demands. Everything in the sentence is the schema's, but
// for the names of members that should not be.
func explain(e *jsonschema.ValidationError) (rule, sentence string) {
	for _, words := range []func(*jsonschema.ValidationError) (string, string){
		ofValues, ofNumbers, ofTexts, ofArrays, ofObjects, ofCombinations,
	} {
		if rule, sentence = words(e); rule != "" {
			return rule, sentence
		}
	}
	return "schema", "must fit the schema"
}

func ofValues(e *jsonschema.ValidationError) (rule, sentence string) {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "type", fmt.Sprintf("must be of type %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Const:
		return "const", "must be " + options([]any{k.Want})
	case *kind.Enum:
		if len(k.Want) == 1 {
			return "enum", "must be " + options(k.Want)
		}
		return "enum", "must be one of " + options(k.Want)
	case *kind.FalseSchema:
		return lastKeyword(e.SchemaURL), "must not be there"
	}
	return "", ""
}

func ofNumbers(e *jsonschema.ValidationError) (rule, sentence string) {
	switch k := e.ErrorKind.(type) {
	case *kind.Minimum:
		return "minimum", "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "maximum", "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "exclusiveMinimum", "must be above " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "exclusiveMaximum", "must be below " + decimal(k.Want)
	case *kind.MultipleOf:
		return "multipleOf", "must be a multiple of " + decimal(k.Want)
	}
	return "", ""
}

func ofTexts(e *jsonschema.ValidationError) (rule, sentence string) {
	switch k := e.ErrorKind.(type) {
	case *kind.MinLength:
		return "minLength", fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return "maxLength", fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.Pattern:
		return "pattern", fmt.Sprintf("must match the regular expression %q", cut(k.Want, 2*maxShown))
	}
	return "", ""
}

func ofArrays(e *jsonschema.ValidationError) (rule, sentence string) {
	switch k := e.ErrorKind.(type) {
	case *kind.MinItems:
		return "minItems", fmt.Sprintf("must have at least %d elements", k.Want)
	case *kind.MaxItems:
		return "maxItems", fmt.Sprintf("must have at most %d elements", k.Want)
	case *kind.UniqueItems:
		return "uniqueItems", fmt.Sprintf("must not have equal elements, as those at %d and %d are", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		return "additionalItems", fmt.Sprintf("must not have its last %d elements", k.Count)
	case *kind.Contains:
		return "contains", "must have an element that fits the schema of the rule"
	case *kind.MinContains:
		return "minContains", fmt.Sprintf("must have at least %d elements that fit the schema of contains", k.Want)
	case *kind.MaxContains:
		return "maxContains", fmt.Sprintf("must have at most %d elements that fit the schema of contains", k.Want)
	}
	return "", ""
}

func ofObjects(e *jsonschema.ValidationError) (rule, sentence string) {
	switch k := e.ErrorKind.(type) {
	case *kind.MinProperties:
		return "minProperties", fmt.Sprintf("must have at least %d properties", k.Want)
	case *kind.MaxProperties:
		return "maxProperties", fmt.Sprintf("must have at most %d properties", k.Want)
	case *kind.Required:
		return "required", "must have " + properties(k.Missing)
	case *kind.AdditionalProperties:
		return "additionalProperties", "must not have " + properties(k.Properties)
	case *kind.PropertyNames:
		return "propertyNames", "must not have " + properties([]string{k.Property})
	case *kind.Dependency:
		return "dependencies", fmt.Sprintf("must have %s, because it has %s", properties(k.Missing), quoted(k.Prop))
	case *kind.DependentRequired:
		return "dependentRequired", fmt.Sprintf("must have %s, because it has %s", properties(k.Missing), quoted(k.Prop))
	}
	return "", ""
}

func ofCombinations(e *jsonschema.ValidationError) (rule, sentence string) {
	switch k := e.ErrorKind.(type) {
	case *kind.Not:
		return "not", "must not fit the schema of the rule"
	case *kind.AnyOf:
		return "anyOf", "must fit at least one of the alternatives"
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "oneOf", "must fit one of the alternatives only"
		}
		return "oneOf", "must fit one of the alternatives"
	}
	return "", ""
}

// properties names some, sorted.
func properties(names []string) string {
	names = slices.Sorted(slices.Values(names))
	var shown []string
	for _, name := range names[:min(len(names), maxFindings)] {
		shown = append(shown, quoted(name))
	}
	if rest := len(names) - len(shown); rest > 0 {
		shown = append(shown, fmt.Sprintf("%d more", rest))
	}
	if len(names) == 1 {
		return "the property " + shown[0]
	}
	return "the properties " + strings.Join(shown, ", ")
}

func quoted(s string) string { return fmt.Sprintf("%q", cut(s, maxShown)) }

// options shows values of the schema.
func options(values []any) string {
	const most = 10
	var shown []string
	for _, v := range values[:min(len(values), most)] {
		text, err := json.Marshal(v)
		if err != nil {
			continue
		}
		shown = append(shown, cut(string(text), maxShown))
	}
	if len(values) > most {
		shown = append(shown, "…")
	}
	return strings.Join(shown, ", ")
}

// decimal writes a number of the schema exactly, as far as it fits.
func decimal(n *big.Rat) string {
	digits, _ := n.FloatPrec()
	return cut(n.FloatString(digits), maxShown)
}

// lastKeyword is the keyword whose subschema is false and so allows nothing.
func lastKeyword(location string) string {
	last := location[strings.LastIndexByte(location, '/')+1:]
	if last == "unevaluatedProperties" || last == "unevaluatedItems" || last == "items" {
		return last
	}
	return "false"
}
