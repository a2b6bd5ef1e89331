package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
