package canon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// parser reads one JSON text from left to right, recursing once per level of nesting. Without keep it only checks:
// children are dropped as soon as they have been read.
type parser struct {
	text string
	pos  int
	keep bool
	// found, if any, is told where the values of the outermost object stand.
	found func(key string, from, to int)
	path  []step // the containers around pos, outermost first
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
	p.space()
	from := p.pos
	child, err := p.value()
	if child.key = key; err == nil && len(p.path) == 1 && p.found != nil {
		p.found(key, from, p.pos)
	}
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

func (p *parser) space() {
	for p.pos < len(p.text) && p.text[p.pos] <= ' ' && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
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

// keySet holds the keys of one object. Most objects are small, and a map for each would be most of the cost of a check.
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

// quoted reads a string and returns what it means, escapes resolved.
func (p *parser) quoted() (string, error) {
	p.pos++
	start := p.pos
	var b strings.Builder // stays empty until the first escape
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\': // most of what there is
			p.pos++
		case c == '"':
			rest := p.text[start:p.pos]
			p.pos++
			if b.Len() == 0 {
				return rest, nil
			}
			b.WriteString(rest)
			return b.String(), nil
		case c == '\\':
			b.WriteString(p.text[start:p.pos])
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			start = p.pos
		default:
			if err := p.char(c); err != nil {
				return "", err
			}
		}
	}
	return "", p.syntax("the text ends inside a string")
}

// char steps over one unescaped character of a string, which begins with c and is not of plain ASCII.
func (p *parser) char(c byte) error {
	if c < ' ' {
		return p.syntax("a control character in a string must be escaped")
	}
	r, size := utf8.DecodeRuneInString(p.text[p.pos:])
	if r == utf8.RuneError && size == 1 {
		return p.notUTF8("a string holds bytes that are no character")
	}
	p.pos += size
	return nil
}

// escape reads one escape, or two when they are the halves of a surrogate pair.
func (p *parser) escape() (rune, error) {
	if r, ok := p.unit(); ok {
		return p.pair(r)
	}
	if p.pos+1 < len(p.text) {
		if i := strings.IndexByte(`"\/bfnrt`, p.text[p.pos+1]); i >= 0 {
			p.pos += 2
			return rune("\"\\/\b\f\n\r\t"[i]), nil
		}
	}
	return 0, p.syntax("a string holds an escape that JSON does not know")
}

// pair completes r with the escape after it if r is a high surrogate.
func (p *parser) pair(r rune) (rune, error) {
	const escaped = len(`\uXXXX`)
	if !utf16.IsSurrogate(r) {
		p.pos += escaped
		return r, nil
	}
	second := parser{text: p.text, pos: p.pos + escaped}
	low, _ := second.unit()
	full := utf16.DecodeRune(r, low)
	if full == utf8.RuneError {
		return 0, p.notUTF8("a string holds half of an escaped surrogate pair")
	}
	p.pos += 2 * escaped
	return full, nil
}

// unit returns the UTF-16 code unit of the escape \uXXXX at pos, if there is one.
func (p *parser) unit() (rune, bool) {
	rest := p.text[min(p.pos, len(p.text)):]
	if len(rest) < 6 || rest[:2] != `\u` {
		return 0, false
	}
	var r rune
	for _, c := range []byte(rest[2:6]) {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}

// step is the way from a container to the child being read.
type step struct {
	key   string
	named bool // of an object: key counts, not index
	index int
}

func (p *parser) syntax(problem string) error {
	return fmt.Errorf("%w: %s (byte %d)", ErrSyntax, problem, p.pos)
}

func (p *parser) notUTF8(problem string) error {
	return fmt.Errorf("%w: %s (byte %d)", ErrNotUTF8, problem, p.pos)
}

func (p *parser) tooDeep() error {
	return fmt.Errorf("%w: more than %d arrays and objects inside each other (byte %d)", ErrTooDeep, MaxDepth, p.pos)
}

func (p *parser) duplicate(key string, offset int) error {
	where := "the outermost object"
	if outer := p.path[:len(p.path)-1]; len(outer) > 0 {
		where = "the object at " + strconv.Quote(shorten(pointer(outer)))
	}
	return fmt.Errorf("%w: %q in %s (byte %d)", ErrDuplicateKey, shorten(key), where, offset)
}

// pointer writes a path as RFC 6901 has it.
func pointer(path []step) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, s := range path {
		b.WriteByte('/')
		if s.named {
			b.WriteString(escape.Replace(s.key))
		} else {
			b.WriteString(strconv.Itoa(s.index))
		}
	}
	return b.String()
}

// shorten keeps an error text readable when a key is as long as the body.
func shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
