package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// NotChecked is the error of a check that was not made.
type NotChecked struct{ Why string }

// Error says why.
func (e *NotChecked) Error() string { return e.Why }

// Check holds parameters, JSON of any kind, against the schema. The error is one for users, or a *NotChecked. It takes
// some tens of milliseconds and tens of megabytes at most, however the schema and the parameters are made.
//
// A text for users names up to five violated rules, each with the JSON pointer of its place. It holds no value of the
// parameters, only names of their members, shortened.
func (r *Schema) Check(parameters []byte) (err error) {
	defer func() {
		// As in Compile: what the library stumbles over is not the user's fault.
		if p := recover(); p != nil {
			err = &NotChecked{"the check panicked"}
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
	if r.size.steps(v) > maxSteps {
		return &NotChecked{fmt.Sprintf("checking these parameters would take more than %d steps", maxSteps)}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(r.root.Validate(v), &invalid) {
		return nil
	}
	return findingsOf(invalid)
}

// longNumber returns the place of a number beyond maxDigits, the first one in the order of sorted names.
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

func sortedNames(v map[string]any) []string {
	return slices.Sorted(maps.Keys(v))
}

const (
	// maxFindings is how many violated rules one error names.
	maxFindings = 5
	// maxShown bounds a text in an error: a member's name, a value of the schema.
	maxShown = 64
	// maxTokens bounds the length of a place.
	maxTokens = 12
)

// findingsOf makes the error for users. The library's own texts are not used: they quote values.
func findingsOf(invalid *jsonschema.ValidationError) error {
	var all findings
	all.collect(invalid)
	texts := make([]string, 0, maxFindings+1)
	for _, f := range all.first {
		texts = append(texts, f.String())
	}
	if all.more {
		texts = append(texts, "and more")
	}
	return errors.New("parameters: " + strings.Join(texts, "; "))
}

// findings keeps the first few by place, so that the same parameters get the same error: the library finds in the order
// of Go's maps.
type findings struct {
	first []finding
	more  bool
}

// collect adds e, or its causes where e itself says nothing. Of alternatives that all fail only that is said: the
// reasons of each would confuse more than help.
func (fs *findings) collect(e *jsonschema.ValidationError) {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			fs.collect(cause)
		}
	default:
		rule, sentence := explain(e)
		fs.add(finding{place: e.InstanceLocation, rule: rule, sentence: sentence})
	}
}

func (fs *findings) add(f finding) {
	at, known := slices.BinarySearchFunc(fs.first, f, finding.compare)
	if known {
		return
	}
	if at == maxFindings {
		fs.more = true
		return
	}
	fs.first = slices.Insert(fs.first, at, f)
	if len(fs.first) > maxFindings {
		fs.first, fs.more = fs.first[:maxFindings], true
	}
}

// finding is one violated rule.
type finding struct {
	place    []string
	rule     string
	sentence string
}

func (f finding) compare(other finding) int {
	return cmp.Or(slices.Compare(f.place, other.place),
		strings.Compare(f.rule, other.rule), strings.Compare(f.sentence, other.sentence))
}

// String names the place and the rule, never a value.
func (f finding) String() string {
	return fmt.Sprintf("at %q: %s (rule %s of the plan's schema)", pointer(f.place), f.sentence, f.rule)
}

// pointer writes a place as RFC 6901 has it, shortened, because the names on the way are the user's.
func pointer(place []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for i, token := range place {
		if i == maxTokens {
			b.WriteString("/…")
			break
		}
		b.WriteString("/" + cut(escape.Replace(token), maxShown))
	}
	return b.String()
}

// cut shortens s to at most n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := 0
	for i := range s {
		if runes++; runes == n {
			return s[:i] + "…"
		}
	}
	return s
}
