package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

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
