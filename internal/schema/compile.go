package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ferry-broker/ferry/internal/canon"
)

// schemaURL is the address that a schema has for the library. Nothing is there.
const schemaURL = "plan:///schema"

// errElsewhere refuses whatever a schema wants to have fetched. OSB forbids such
// references ("Input Parameters Schema Object"), and following one would let a
// backing broker choose what this process connects to or reads.
var errElsewhere = errors.New("it refers to something outside itself")

// nowhere is the library's way to files and networks, closed.
type nowhere struct{}

// Load always returns errElsewhere.
func (nowhere) Load(string) (any, error) { return nil, errElsewhere }

// Schema is a schema that can be used. It never changes; any number of goroutines
// may check with it.
type Schema struct {
	root  *jsonschema.Schema
	facts map[*jsonschema.Schema]*facts
	// copies: some subschema has a rule for what no other has seen.
	copies bool
}

// Compile makes a Schema of its text. The error says, for an operator, why it cannot
// be used: it is no valid schema, it reaches outside itself, or it is beyond what
// checkSchemaLimits allows. Those limits bound the time of this function: the
// library compares every part of a schema with every other, which is some millions
// of steps for maxSchemaValues parts: a third of a second at worst, once a schema.
func Compile(text []byte) (usable *Schema, err error) {
	defer func() {
		// Behind us is a library that reads what strangers wrote. Its panic must not
		// become a failure of requests.
		if p := recover(); p != nil {
			usable, err = nil, errors.New("the schema makes the compiler panic")
		}
	}()
	doc, err := decode(text)
	if err != nil {
		return nil, err
	}
	if err := checkSchemaLimits(doc); err != nil {
		return nil, err
	}
	patterns := &patterns{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(patterns.compile)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	root, err := c.Compile(schemaURL)
	if err != nil {
		return nil, patterns.reason(err)
	}
	all, err := survey(root)
	if err != nil {
		return nil, err
	}
	usable = &Schema{root: root, facts: all}
	for s := range all {
		usable.copies = usable.copies || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
	}
	return usable, nil
}

// reason makes the library's error short. It may quote the schema, which is public,
// since the catalog holds it.
func (p *patterns) reason(err error) error {
	var refused *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	switch {
	case errors.Is(err, errElsewhere):
		return errElsewhere
	case p.refused != nil:
		return p.refused
	case errors.As(err, &refused) && errors.As(refused.Err, &invalid):
		var all findings
		all.collect(invalid)
		f := all.first[0]
		return fmt.Errorf("it is no valid schema of its draft: at %q: %s (rule %s)", pointer(f.place), f.sentence, f.rule)
	}
	return errors.New(cut(err.Error(), 200))
}

// decode reads JSON with its numbers as they are written. canon.Check goes first:
// it bounds the nesting, and the standard library takes a key that occurs twice.
func decode(text []byte) (any, error) {
	if err := canon.Check(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, canon.ErrSyntax
	}
	return v, nil
}

// The limits of regular expressions. They run on Go's engine, whose time is the
// size of the program times the length of the text: there is no backtracking that
// could explode. What is left to bound is the program, since x{1000} of something
// long is short to write.
const (
	maxPatternText = 2000
	// maxPatternSize and maxPatternsSize are instructions of one expression and of
	// all expressions of a schema, some 40 bytes each.
	maxPatternSize  = 4000
	maxPatternsSize = 20000
)

// pattern is a compiled regular expression with the size of its program.
type pattern struct {
	*regexp.Regexp
	size int
}

// patterns compiles the regular expressions of one schema, each text once: the
// library asks a second time when it holds the schema against its metaschema.
// JSON Schema speaks of ECMA 262; what of it Go lacks, looking ahead above all,
// makes a schema unusable.
type patterns struct {
	known   map[string]*pattern
	size    int
	refused error
}

func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known := p.known[text]; known != nil {
		return known, nil
	}
	made, err := p.make(text)
	if err != nil {
		p.refused = err
		return nil, err
	}
	if p.known == nil {
		p.known = map[string]*pattern{}
	}
	p.known[text] = made
	return made, nil
}

func (p *patterns) make(text string) (*pattern, error) {
	if len(text) > maxPatternText {
		return nil, fmt.Errorf("it has a regular expression of more than %d bytes", maxPatternText)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("it has a regular expression that cannot be used here: %s", cut(err.Error(), 200))
	}
	size := programSize(tree)
	if size > maxPatternSize {
		return nil, fmt.Errorf("it has a regular expression that repeats too much: %q", cut(text, 100))
	}
	if p.size += size; p.size > maxPatternsSize {
		return nil, errors.New("its regular expressions are too large together")
	}
	made, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("it has a regular expression that cannot be used here: %s", cut(err.Error(), 200))
	}
	return &pattern{Regexp: made, size: size}, nil
}

// programSize is about the number of instructions that an expression compiles to,
// never fewer. The parser has bounded the nesting and the product of repetitions.
func programSize(e *syntax.Regexp) int {
	size := 2
	if e.Op == syntax.OpLiteral {
		size += len(e.Rune)
	}
	for _, sub := range e.Sub {
		size += programSize(sub)
	}
	if e.Op == syntax.OpRepeat {
		size *= max(e.Min+1, e.Max)
	}
	return size
}

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
