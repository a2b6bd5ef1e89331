package schema

import (
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// facts are what the rehearsal needs to know of a subschema.
type facts struct {
	// types that it allows, nil for all.
	types []string
	// weight is the work of its keywords on a value of no size.
	weight int
	// options is the size of its enum and const.
	options int
	// beside see the same value. Of the elements of an array, every see each, first
	// the one at their index, and rest, unless nil, those after.
	beside, every, first []*jsonschema.Schema
	rest                 *jsonschema.Schema
}

// survey walks through all subschemas that can be reached, makes them fit for use
// and says why they are not.
func survey(root *jsonschema.Schema) (map[*jsonschema.Schema]*facts, error) {
	all := map[*jsonschema.Schema]*facts{root: nil}
	for queue := []*jsonschema.Schema{root}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		// Metaschemas are in the library and come without the loader.
		if !strings.HasPrefix(s.Location, schemaURL+"#") {
			return nil, errElsewhere
		}
		// Formats are notes for people: what they mean is not agreed on, and the
		// library has no switch that turns them off for the older drafts.
		s.Format = nil
		all[s] = factsOf(s)
		for _, sub := range slices.Concat(all[s].beside, below(s)) {
			if _, seen := all[sub]; !seen {
				all[sub] = nil
				queue = append(queue, sub)
			}
		}
	}
	walk := roundabout{facts: all, state: map[*jsonschema.Schema]int{}}
	for s := range all {
		if walk.goesRound(s) {
			return nil, errors.New("it refers to itself without a step into the value")
		}
	}
	return all, nil
}

func factsOf(s *jsonschema.Schema) *facts {
	f := &facts{weight: 2 + len(s.Required), beside: beside(s), every: present(s.Contains, s.UnevaluatedItems)}
	f.first, f.rest = s.PrefixItems, s.Items2020
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		f.rest = items
	case []*jsonschema.Schema:
		f.first = items
	}
	if additional, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
		f.rest = additional
	}
	if s.Types != nil {
		f.types = s.Types.ToStrings()
	}
	for _, names := range s.DependentRequired {
		f.weight += 1 + len(names)
	}
	for _, d := range s.Dependencies {
		if names, ok := d.([]string); ok {
			f.weight += 1 + len(names)
		}
	}
	if s.Enum != nil {
		f.options += size(s.Enum.Values)
	}
	if s.Const != nil {
		f.options += size(*s.Const)
	}
	return f
}

// beside are the subschemas that see the same value as s.
func beside(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, present(s.Ref, s.Not, s.If, s.Then, s.Else))
	for _, d := range s.Dependencies {
		if sub, ok := d.(*jsonschema.Schema); ok {
			all = append(all, sub)
		}
	}
	for _, sub := range s.DependentSchemas {
		all = append(all, sub)
	}
	return all
}

// below are the subschemas that see a part of the value of s.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	all := present(s.PropertyNames, s.Contains, s.Items2020, s.UnevaluatedItems, s.UnevaluatedProperties)
	all = append(all, s.PrefixItems...)
	for _, sub := range s.Properties {
		all = append(all, sub)
	}
	for _, sub := range s.PatternProperties {
		all = append(all, sub)
	}
	for _, either := range []any{s.Items, s.AdditionalItems, s.AdditionalProperties} {
		switch sub := either.(type) {
		case *jsonschema.Schema:
			all = append(all, sub)
		case []*jsonschema.Schema:
			all = append(all, sub...)
		}
	}
	return all
}

func present(subs ...*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(subs, func(s *jsonschema.Schema) bool { return s == nil })
}

// roundabout looks for a way from a subschema back to itself on which the value
// stays the same: no value could ever be held against it.
type roundabout struct {
	facts map[*jsonschema.Schema]*facts
	state map[*jsonschema.Schema]int
}

func (r roundabout) goesRound(s *jsonschema.Schema) bool {
	const entered, left = 1, 2
	switch r.state[s] {
	case entered:
		return true
	case left:
		return false
	}
	r.state[s] = entered
	defer func() { r.state[s] = left }()
	return slices.ContainsFunc(r.facts[s].beside, r.goesRound)
}
