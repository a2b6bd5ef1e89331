package schema

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ferry-broker/ferry/internal/canon"
)

// maxSteps bounds one check. A step is about a tenth of a microsecond of the library's time and at most some hundred
// bytes of its memory, so a check at the limit takes tens of milliseconds and tens of megabytes. Parameters of a few
// kilobytes and an ordinary schema take some hundred steps.
const maxSteps = 200_000

// bound is the size of a schema, where size is what it does with one value of the parameters: how many of its
// subschemas look at it and what they compare it with. A check that was started cannot be stopped, and the length of a
// schema says little: two references to itself below one property ask for work that doubles with each level of the
// parameters. The bound is found once, when the schema is compiled. It knows of a value only how deep it stands; a
// check multiplies it by the size of the parameters, and is not begun when that is too much.
type bound struct {
	// byDepth is for values at each depth, 0 for the parameters themselves. Nothing looks at what stands deeper.
	byDepth []cost
	// chain is how many subschemas may see one value through each other. The library looks back along all of them.
	chain int
	// names: something looks at the names of members.
	names bool
	// unique: some subschema wants the elements of an array to differ.
	unique bool
}

// cost is what is done with one value at most. No field grows far above maxSteps.
type cost struct {
	// visits is how many subschemas look at the value, and each at every name, member and element in it.
	visits int
	// fixed are the steps that do not depend on the value: options to compare with, required names to look for.
	fixed int
	// program is how many instructions of regular expressions each character of a text goes through.
	program int
}

func (c cost) plus(d cost) cost {
	return cost{min(c.visits+d.visits, maxSteps+1), min(c.fixed+d.fixed, maxSteps+1), min(c.program+d.program, maxSteps+1)}
}

func (c cost) max(d cost) cost {
	return cost{max(c.visits, d.visits), max(c.fixed, d.fixed), max(c.program, d.program)}
}

// numberWeight is the work on one number: it is parsed up to three times.
const numberWeight = 20

// steps returns at most how many steps a check of v takes, or a number above maxSteps.
func (b bound) steps(v any) int {
	sum := reckoning{bound: b}
	sum.add(v, 0)
	return sum.steps
}

// weigh returns the steps that it takes to compare v with something equal.
func weigh(v any) int { return (&reckoning{}).add(v, 0) }

// reckoning adds up the steps on the values of some parameters.
type reckoning struct {
	bound
	steps int
}

// add adds the steps on v, which stands depth levels deep, and on all in it. It returns the weight of both.
func (r *reckoning) add(v any, depth int) (weight int) {
	weight, look, characters := 1, 0, 0
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			look += 3 + len(name)/32
			weight += 1 + len(name)/32 + r.add(child, depth+1)
			if r.names {
				r.add(name, depth+1)
			}
		}
	case []any:
		for _, child := range v {
			weight += r.add(child, depth+1)
		}
		look = 3 * len(v)
		if r.unique {
			// The library hashes the elements, but texts can be made that all have one hash: every pair counts.
			look += len(v) * weight / 2
		}
	case string:
		weight += len(v) / 32
		look, characters = weight, utf8.RuneCountInString(v)
	case json.Number:
		weight = numberWeight
		look = weight
	}
	if depth < len(r.byDepth) {
		c := r.byDepth[depth]
		// The library copies the place of each finding, and looks along the chain for a circle.
		each := 2 + look + (depth+r.chain)/4
		r.steps = min(r.steps+c.visits*each+c.fixed+c.program*characters/8, maxSteps+1)
	}
	return weight
}

// part is a subschema, or a regular expression for names, as one that hands values on.
type part struct {
	own cost
	// beside see the same value. Of what is in that value, each name, member and element is seen by one of either at
	// most, and perhaps by all of each.
	beside, either, each []*part
	// chain is the longest way along beside, 0 as long as it is not known.
	chain   int
	entered bool
	// now is the cost at the depth that is looked at, above the one at the depth before.
	now, above cost
}

// graph holds the parts of a schema that can be reached, and what is known of its bound.
type graph struct {
	parts map[*jsonschema.Schema]*part
	queue []*jsonschema.Schema
	// order has each part behind all that are beside it.
	order []*part
	bound bound
}

// measure finds the bound of a schema. The error says why the schema is not fit for use.
func measure(root *jsonschema.Schema) (bound, error) {
	g, err := walk(root)
	if err != nil {
		return bound{}, err
	}
	for _, p := range g.parts {
		if !g.settle(p) {
			return bound{}, errors.New("it refers to itself without a step into the value")
		}
		g.bound.chain = max(g.bound.chain, p.chain)
	}
	g.bound.byDepth = g.byDepth(g.parts[root])
	return g.bound, nil
}

// walk visits all subschemas that can be reached, and makes them fit for use.
func walk(root *jsonschema.Schema) (*graph, error) {
	g := &graph{parts: map[*jsonschema.Schema]*part{}}
	for g.of(root); len(g.queue) > 0; g.queue = g.queue[1:] {
		s := g.queue[0]
		// Metaschemas are in the library and come without the loader.
		if !strings.HasPrefix(s.Location, schemaURL+"#") {
			return nil, errElsewhere
		}
		// Formats are notes for people: what they mean is not agreed on, and the library has no switch that turns them
		// off for the older drafts.
		s.Format = nil
		g.parts[s].own = ownCost(s)
		g.bound.unique = g.bound.unique || s.UniqueItems
		g.bound.names = g.bound.names || s.PropertyNames != nil || s.PatternProperties != nil
		g.link(g.parts[s], s)
	}
	return g, nil
}

// ownCost is what s does with a value by itself.
func ownCost(s *jsonschema.Schema) cost {
	c := cost{visits: 1, fixed: len(s.Required), program: programOf(s.Pattern)}
	if s.Enum != nil {
		c.fixed += weigh(s.Enum.Values)
	}
	if s.Const != nil {
		c.fixed += weigh(*s.Const)
	}
	for _, names := range s.DependentRequired {
		c.fixed += 1 + len(names)
	}
	for _, d := range s.Dependencies {
		if names, ok := d.([]string); ok {
			c.fixed += 1 + len(names)
		}
	}
	return c
}

func programOf(p jsonschema.Regexp) int {
	if ours, ok := p.(*pattern); ok {
		return ours.size
	}
	return 0
}

// link tells p, which is the part of s, where values go from there.
func (g *graph) link(p *part, s *jsonschema.Schema) {
	p.beside = g.of(slices.Concat(s.AllOf, s.AnyOf, s.OneOf,
		[]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, slices.Collect(maps.Values(s.DependentSchemas)))...)
	for _, d := range s.Dependencies {
		p.beside = append(p.beside, g.either(d)...)
	}
	p.either = g.of(slices.Concat(s.PrefixItems, []*jsonschema.Schema{s.Items2020, s.PropertyNames},
		slices.Collect(maps.Values(s.Properties)))...)
	for _, sub := range []any{s.Items, s.AdditionalItems, s.AdditionalProperties} {
		p.either = append(p.either, g.either(sub)...)
	}
	p.each = g.of(s.Contains, s.UnevaluatedItems, s.UnevaluatedProperties)
	for names, sub := range s.PatternProperties {
		match := &part{own: cost{fixed: 1, program: programOf(names)}}
		g.order = append(g.order, match)
		p.each = append(append(p.each, match), g.of(sub)...)
	}
}

// of returns the parts of those subschemas that are there.
func (g *graph) of(subs ...*jsonschema.Schema) []*part {
	var parts []*part
	for _, s := range subs {
		if s == nil {
			continue
		}
		if g.parts[s] == nil {
			g.parts[s] = &part{}
			g.queue = append(g.queue, s)
		}
		parts = append(parts, g.parts[s])
	}
	return parts
}

// either is of for a keyword that may hold one subschema, several or something else.
func (g *graph) either(sub any) []*part {
	switch sub := sub.(type) {
	case *jsonschema.Schema:
		return g.of(sub)
	case []*jsonschema.Schema:
		return g.of(sub...)
	}
	return nil
}

// settle puts p into the order. It reports false when a way leads from p back to itself on which the value stays the
// same: no value could ever be held against it.
func (g *graph) settle(p *part) bool {
	if p.chain > 0 || p.entered {
		return p.chain > 0
	}
	p.entered = true
	longest := 0
	for _, other := range p.beside {
		if !g.settle(other) {
			return false
		}
		longest = max(longest, other.chain)
	}
	p.chain = longest + 1
	g.order = append(g.order, p)
	return true
}

// byDepth returns what root does with a value at each depth, each found from the depth above. The list ends where
// nothing looks at values any more, and where a single one is too much: whatever is deeper stands in such a value.
func (g *graph) byDepth(root *part) []cost {
	var all []cost
	for depth := range canon.MaxDepth + 2 { // the outermost value, and the names in the innermost
		for _, p := range g.order {
			p.now = p.own
			if depth > 0 {
				p.now = inside(p)
			}
			for _, other := range p.beside {
				p.now = p.now.plus(other.now)
			}
		}
		if root.now == (cost{}) {
			break
		}
		if all = append(all, root.now); max(root.now.visits, root.now.fixed) > maxSteps {
			break
		}
		for _, p := range g.order {
			p.above = p.now
		}
	}
	return all
}

// inside is what p does with something in its value, from what each part does with a value that it sees itself.
func inside(p *part) cost {
	var c cost
	for _, sub := range p.either {
		c = c.max(sub.above)
	}
	for _, sub := range p.each {
		c = c.plus(sub.above)
	}
	return c
}
