package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork bounds one check, in steps. A step is about a tenth of a microsecond of
// the library's time and at most some hundred bytes of its memory, so a check at
// the limit takes tens of milliseconds and tens of megabytes. Parameters of a few
// kilobytes and an ordinary schema take some hundred steps.
const maxWork = 200_000

// TooMuchWork is the error of a check that would go beyond maxWork.
type TooMuchWork struct{}

// Error says so.
func (*TooMuchWork) Error() string {
	return fmt.Sprintf("checking these parameters would take more than %d steps", maxWork)
}

// rehearsal walks the way that the library is going to walk and adds up what each
// step costs there, without doing it. A check that was started cannot be stopped,
// and a short schema can ask for work that grows as a power of the depth of the
// parameters (two references to itself below one property are enough); therefore
// the work is known before it begins.
//
// The sum is an upper bound: where the library stops early, at the first
// alternative that fits for instance, the rehearsal goes on, except for the type
// of a value, which ends most alternatives at once. Its own work is less than the
// sum, since it ends when nothing is left.
type rehearsal struct {
	facts map[*jsonschema.Schema]*facts
	// copies: the library notes the members and elements that nothing has seen yet,
	// a copy for each subschema, before it looks whether the subschema fits.
	copies bool
	left   int
}

// work reports whether the check of v stays within maxWork.
func (r *Schema) work(v any) bool {
	walk := rehearsal{facts: r.facts, copies: r.copies, left: maxWork}
	walk.visit(r.root, v, 0, 0)
	return walk.left >= 0
}

// visit adds the work of holding s against v, which stands depth levels deep in the
// parameters; chain subschemas saw the same v before. The library copies the place
// of each finding, as long as depth, and looks along the chain for a circle.
func (r *rehearsal) visit(s *jsonschema.Schema, v any, depth, chain int) {
	f := r.facts[s]
	r.left -= f.weight + depth/4 + chain/4
	if r.copies {
		r.left -= length(v)
	}
	if r.left < 0 || s.Bool != nil || !f.allow(v) {
		return
	}
	if f.options > 0 {
		r.left -= min(f.options, optionsOf(s)*size(v))
	}
	if s.Ref != nil && s.DraftVersion < 2019 {
		r.visit(s.Ref, v, depth, chain+1)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		r.object(s, v, depth+1)
	case []any:
		r.array(s, f, v, depth+1)
	case string:
		r.left -= len(v) / 32
		r.match(s.Pattern, v)
	case json.Number:
		r.left -= numberSize
	}
	for _, sub := range f.beside {
		if r.left < 0 {
			return
		}
		r.visit(sub, v, depth, chain+1)
	}
}

func length(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// numberSize is the work on one number: it is parsed up to three times.
const numberSize = 20

func optionsOf(s *jsonschema.Schema) int {
	if s.Enum == nil {
		return 1
	}
	return 1 + len(s.Enum.Values)
}

func (f *facts) allow(v any) bool {
	if f.types == nil {
		return true
	}
	name := "object"
	switch v.(type) {
	case nil:
		name = "null"
	case bool:
		name = "boolean"
	case string:
		name = "string"
	case []any:
		name = "array"
	case json.Number:
		name = "number"
	}
	return slices.Contains(f.types, name) || name == "number" && slices.Contains(f.types, "integer")
}

func (r *rehearsal) object(s *jsonschema.Schema, v map[string]any, depth int) {
	r.left -= 2 * len(v)
	for name, child := range v {
		known := false
		if sub := s.Properties[name]; sub != nil {
			known = true
			r.visit(sub, child, depth, 0)
		}
		for p, sub := range s.PatternProperties {
			r.match(p, name)
			if r.left < 0 {
				return
			}
			if p.MatchString(name) {
				known = true
				r.visit(sub, child, depth, 0)
			}
		}
		if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !known {
			r.visit(sub, child, depth, 0)
		}
		if s.UnevaluatedProperties != nil {
			r.visit(s.UnevaluatedProperties, child, depth, 0)
		}
		if s.PropertyNames != nil {
			r.visit(s.PropertyNames, name, depth, 0)
		}
		if r.left < 0 {
			return
		}
	}
}

func (r *rehearsal) array(s *jsonschema.Schema, f *facts, v []any, depth int) {
	r.left -= 2 * len(v)
	if s.UniqueItems {
		// The library hashes the elements, but texts can be made that all have one
		// hash. So every pair counts, and every element as often as it is compared.
		r.left -= len(v)*len(v) + min(len(v), 20)*size(v)
	}
	for i, child := range v {
		if r.left < 0 {
			return
		}
		for _, sub := range f.every {
			r.visit(sub, child, depth, 0)
		}
		switch {
		case i < len(f.first):
			r.visit(f.first[i], child, depth, 0)
		case f.rest != nil:
			r.visit(f.rest, child, depth, 0)
		}
	}
}

// match adds the work of a regular expression on a text.
func (r *rehearsal) match(p jsonschema.Regexp, text string) {
	if ours, ok := p.(*pattern); ok {
		r.left -= 1 + ours.size*utf8.RuneCountInString(text)/8
	}
}

// size is the work of comparing v with something equal.
func size(v any) int {
	total := 1
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			total += 1 + len(name)/32 + size(child)
		}
	case []any:
		for _, child := range v {
			total += size(child)
		}
	case string:
		total += len(v) / 32
	case json.Number:
		total = numberSize
	}
	return total
}
