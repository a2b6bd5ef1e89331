// Package schema checks parameters against the JSON schema of a plan. The schemas come from backing brokers and the
// parameters from the users of platforms. Nobody vouches for either, so compiling and checking are bounded in time and
// memory whatever they hold.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ferry-broker/ferry/internal/canon"
)

// Schema is a compiled schema. It never changes; any number of goroutines may check with it.
type Schema struct {
	root *jsonschema.Schema
	size bound
}

// Compile compiles the text of a schema. The error says, for an operator, why it cannot be used: it is not a valid
// schema, it refers to something outside itself, or it is beyond the limits of this package. Those bound the time of
// this function: the library compares every part of a schema with every other, which takes a third of a second for the
// largest that is allowed.
func Compile(text []byte) (usable *Schema, err error) {
	defer func() {
		// The library reads what nobody vouches for. Its panic must not become a failure of requests.
		if p := recover(); p != nil {
			usable, err = nil, errors.New("the schema makes the compiler panic")
		}
	}()
	doc, err := decode(text)
	if err != nil {
		return nil, err
	}
	if err := checkLimits(doc); err != nil {
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
	size, err := measure(root)
	if err != nil {
		return nil, err
	}
	return &Schema{root: root, size: size}, nil
}

// schemaURL is the address that a schema has for the library. Nothing is there.
const schemaURL = "plan:///schema"

// errElsewhere refuses whatever a schema wants to have fetched. OSB forbids such references ("Input Parameters Schema
// Object"), and following one would let a backing broker choose what this process connects to or reads.
var errElsewhere = errors.New("it refers to something outside itself")

// nowhere is the loader that the library uses for other schemas, from files and networks.
type nowhere struct{}

// Load always returns errElsewhere.
func (nowhere) Load(string) (any, error) { return nil, errElsewhere }

// decode reads JSON and keeps its numbers as they are written. canon.Check goes first: it bounds the nesting and
// refuses a key that occurs twice, which the standard library accepts.
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

// The limits of regular expressions. They run on Go's engine, whose time is the size of the program times the length of
// the text; there is no backtracking. What is left to bound is the program, since x{1000} is short to write.
const (
	maxPatternText = 2000
	// maxPatternSize and maxPatternsSize are instructions of one expression and of all expressions of a schema, some 40
	// bytes each.
	maxPatternSize  = 4000
	maxPatternsSize = 20000
)

// pattern is a compiled regular expression with the size of its program.
type pattern struct {
	*regexp.Regexp
	size int
}

// patterns compiles the regular expressions of one schema, each text once: the library asks a second time when it holds
// the schema against its metaschema. JSON Schema asks for the expressions of ECMA 262. A schema that uses what Go lacks
// of them, such as looking ahead, cannot be used.
type patterns struct {
	known   map[string]*pattern
	size    int   // of all programs together
	refused error // why an expression was refused, if one was
}

func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known := p.known[text]; known != nil {
		return known, nil
	}
	compiled, err := p.compileNew(text)
	if err != nil {
		p.refused = err
		return nil, err
	}
	if p.known == nil {
		p.known = map[string]*pattern{}
	}
	p.known[text] = compiled
	return compiled, nil
}

func (p *patterns) compileNew(text string) (*pattern, error) {
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
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("it has a regular expression that cannot be used here: %s", cut(err.Error(), 200))
	}
	return &pattern{Regexp: compiled, size: size}, nil
}

// programSize is about the number of instructions that an expression compiles to, never fewer. The parser has bounded
// the nesting and the product of repetitions.
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

// reason makes the library's error short. It may quote the schema, which is public, since the catalog holds it.
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
