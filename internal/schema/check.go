package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Check holds parameters against the schema. The error is one for users, or a
// *TooMuchWork for what was not checked.
func (r *Schema) Check(parameters []byte) (err error) {
	defer func() {
		// As in Compile: what the library stumbles over is not the user's fault.
		if p := recover(); p != nil {
			err = &TooMuchWork{}
		}
	}()
	v, err := decode(parameters)
	if err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if place, ok := longNumber(v, nil); ok {
		return fmt.Errorf("parameters: at %q: the number must have at most %d digits, and an exponent within ±%d",
			pointer(place), maxDigits, maxDigits)
	}
	if !r.work(v) {
		return &TooMuchWork{}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(r.root.Validate(v), &invalid) {
		return nil
	}
	return findingsOf(invalid)
}

// longNumber returns the place of a number beyond maxDigits, the first one in the
// order of sorted names.
func longNumber(v any, place []string) ([]string, bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedNames(v) {
			if found, ok := longNumber(v[name], append(place, name)); ok {
				return found, true
			}
		}
	case []any:
		for i, child := range v {
			if found, ok := longNumber(child, append(place, strconv.Itoa(i))); ok {
				return found, true
			}
		}
	case json.Number:
		return place, !isShort(v)
	}
	return nil, false
}
