package canon

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted reads a string and returns what it means, escapes resolved.
func (p *parser) quoted() (string, error) {
	p.pos++
	start := p.pos
	var b strings.Builder // stays empty until the first escape
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
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

// char steps over one unescaped character of a string, which begins with c.
func (p *parser) char(c byte) error {
	if c < ' ' {
		return p.syntax("a control character in a string must be escaped")
	}
	if c < utf8.RuneSelf {
		p.pos++
		return nil
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

// appendQuoted writes s as RFC 8785 section 3.2.2.2 does: only what must be
// escaped is, in its shortest form.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, c := range []byte(s) {
		switch i := strings.IndexByte("\"\\\b\f\n\r\t", c); {
		case i >= 0:
			dst = append(dst, '\\', `"\bfnrt`[i])
		case c < 0x10:
			dst = strconv.AppendUint(append(dst, `\u000`...), uint64(c), 16)
		case c < ' ':
			dst = strconv.AppendUint(append(dst, `\u00`...), uint64(c), 16)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// compareUTF16 orders strings by their UTF-16 code units (RFC 8785 section
// 3.2.3). It differs from the order of bytes where a character outside the
// basic plane, a surrogate pair from D800 up, meets one from E000 up.
func compareUTF16(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return cmp.Compare(len(a), len(b))
	}
	for !utf8.RuneStart(a[i]) || !utf8.RuneStart(b[i]) {
		i--
	}
	ra, _ := utf8.DecodeRuneInString(a[i:])
	rb, _ := utf8.DecodeRuneInString(b[i:])
	if order := cmp.Compare(firstUnit(ra), firstUnit(rb)); order != 0 {
		return order
	}
	return cmp.Compare(ra, rb)
}

func firstUnit(r rune) rune {
	if high, _ := utf16.EncodeRune(r); high != utf8.RuneError {
		return high
	}
	return r
}
