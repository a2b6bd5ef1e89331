package canon

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
