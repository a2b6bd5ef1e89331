package canon

import (
	"slices"
	"strings"
)

// parser reads one JSON text from left to right, recursing once per level of
// nesting. Without keep it only checks: children are dropped as soon as they
// have been read.
type parser struct {
	text string
	pos  int
	keep bool
	path []step // the containers around pos, outermost first
}

// document reads the one value that the whole text must be.
func (p *parser) document() (node, error) {
	root, err := p.value()
	if err != nil {
		return node{}, err
	}
	p.space()
	if p.pos < len(p.text) {
		return node{}, p.syntax("the text should end after the first value")
	}
	return root, nil
}

func (p *parser) value() (node, error) {
	p.space()
	switch c := p.peek(); {
	case c == '{':
		return p.object()
	case c == '[':
		return p.array()
	case c == '"':
		text, err := p.quoted()
		return node{kind: stringNode, text: text}, err
	case c == '-' || isDigit(c):
		return p.number()
	}
	return p.literal()
}

func (p *parser) object() (node, error) {
	if err := p.enter(); err != nil {
		return node{}, err
	}
	n := node{kind: objectNode}
	var seen keySet
	for more := !p.closed('}'); more; {
		child, err := p.member(&seen)
		if err != nil {
			return node{}, err
		}
		if p.keep {
			n.children = append(n.children, child)
		}
		if more, err = p.another('}'); err != nil {
			return node{}, err
		}
	}
	p.leave()
	slices.SortFunc(n.children, func(a, b node) int { return compareUTF16(a.key, b.key) })
	return n, nil
}

// member reads a key and its value.
func (p *parser) member(seen *keySet) (node, error) {
	p.space()
	start := p.pos
	if p.peek() != '"' {
		return node{}, p.syntax("expected a key in double quotes")
	}
	key, err := p.quoted()
	if err != nil {
		return node{}, err
	}
	if !seen.add(key) {
		return node{}, p.duplicate(key, start)
	}
	p.path[len(p.path)-1] = step{key: key, named: true}
	p.space()
	if !p.accept(':') {
		return node{}, p.syntax("expected a colon after the key")
	}
	child, err := p.value()
	child.key = key
	return child, err
}

func (p *parser) array() (node, error) {
	if err := p.enter(); err != nil {
		return node{}, err
	}
	n := node{kind: arrayNode}
	for more := !p.closed(']'); more; p.path[len(p.path)-1].index++ {
		child, err := p.value()
		if err != nil {
			return node{}, err
		}
		if p.keep {
			n.children = append(n.children, child)
		}
		if more, err = p.another(']'); err != nil {
			return node{}, err
		}
	}
	p.leave()
	return n, nil
}

// enter steps over an opening bracket, if the nesting allows one more.
func (p *parser) enter() error {
	if len(p.path) == MaxDepth {
		return p.tooDeep()
	}
	p.pos++
	p.path = append(p.path, step{})
	return nil
}

func (p *parser) leave() { p.path = p.path[:len(p.path)-1] }

// closed steps over the bracket end if it comes next.
func (p *parser) closed(end byte) bool {
	p.space()
	return p.accept(end)
}

// another steps over what must follow an element: a comma (true) or end.
func (p *parser) another(end byte) (bool, error) {
	if p.closed(end) {
		return false, nil
	}
	if p.accept(',') {
		return true, nil
	}
	return false, p.syntax("expected a comma or the closing bracket")
}

func (p *parser) literal() (node, error) {
	for _, word := range [...]string{"null", "true", "false"} {
		if strings.HasPrefix(p.text[p.pos:], word) {
			p.pos += len(word)
			return node{kind: plainNode, text: word}, nil
		}
	}
	if p.pos == len(p.text) {
		return node{}, p.syntax("the text ends where a value should be")
	}
	return node{}, p.syntax("expected a value")
}

func (p *parser) space() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

// peek returns the next byte, 0 at the end; no token of JSON begins with 0.
func (p *parser) peek() byte {
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

func (p *parser) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.pos++
	return true
}

// keySet holds the keys of one object. Most objects are small, and a map for
// each would be most of the cost of a check.
type keySet struct {
	few  [8]string
	n    int
	many map[string]struct{}
}

// add reports whether key is new.
func (s *keySet) add(key string) bool {
	if s.many == nil && s.n < len(s.few) {
		if slices.Contains(s.few[:s.n], key) {
			return false
		}
		s.few[s.n] = key
		s.n++
		return true
	}
	if s.many == nil {
		s.many = make(map[string]struct{}, 2*len(s.few))
		for _, k := range s.few {
			s.many[k] = struct{}{}
		}
	}
	_, found := s.many[key]
	s.many[key] = struct{}{}
	return !found
}
