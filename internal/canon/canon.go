// Package canon decides whether two JSON texts say the same thing, so that a request sent twice is recognised whatever
// its spelling.
//
// The canonical form is that of RFC 8785 (members sorted by UTF-16 code units, one way to escape a string, no white
// space) but for numbers: RFC 8785 rounds them to binary doubles, which would make 9007199254740993 and
// 9007199254740992 the same. Here a number is an exact decimal: its significant digits without leading or trailing
// zeros, then "e" and a power of ten unless that power is zero. So 1.0, 1 and 1e0 are "1", 1500 is "15e2", 0.25 is
// "25e-2", and every zero, negative ones too, is "0".
//
// Stricter than RFC 8259 in what two readers could understand differently: a key that occurs twice in an object, text
// that is not UTF-8, and an escaped surrogate without its other half are refused. The canonical form is JSON itself,
// and its own canonical form.
//
// No error text of this package holds a value, because parameters may be secrets; keys may appear, shortened.
//
// All functions are pure and may be called concurrently.
package canon

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how many arrays and objects may stand inside each other, [ErrTooDeep] beyond. It bounds the stack that a
// request can make us use.
const MaxDepth = 512

// The reasons why a text is refused. Errors of this package wrap one of them and add the place, as a byte offset that
// starts at 0; their texts are fit for the description of an answer.
var (
	// ErrSyntax says that the text is not JSON as RFC 8259 defines it.
	ErrSyntax = errors.New("not valid JSON")
	// ErrDuplicateKey says that a key occurs twice in one object, equal after unescaping. The text names the key and,
	// as a JSON pointer, the object.
	ErrDuplicateKey = errors.New("a key occurs twice in an object")
	// ErrTooDeep says that the text nests deeper than [MaxDepth].
	ErrTooDeep = errors.New("nested too deeply")
	// ErrNotUTF8 says that a string holds bytes that are not UTF-8, or an escaped surrogate without its other half,
	// which no UTF-8 can express.
	ErrNotUTF8 = errors.New("not valid UTF-8")
	// ErrNotObject says that parameters are neither an object nor null.
	ErrNotObject = errors.New("not a JSON object")
)

// Canonical returns the canonical form of the one JSON value in raw. Two texts have the same form exactly when they
// mean the same. The error is [ErrSyntax], [ErrDuplicateKey], [ErrTooDeep] or [ErrNotUTF8]. The work grows as the
// length of raw, sorting apart; the size of an exponent costs nothing.
func Canonical(raw []byte) ([]byte, error) {
	p := parser{text: string(raw), keep: true}
	root, err := p.document()
	if err != nil {
		return nil, err
	}
	return root.appendTo(make([]byte, 0, len(raw))), nil
}

// Parameters is [Canonical] for the parameters of a request, where absent (no bytes at all), null and {} mean the same
// and give nil. Any other value that is not an object is [ErrNotObject].
func Parameters(raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	form, err := Canonical(raw)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(form, []byte("null")), bytes.Equal(form, []byte("{}")):
		return nil, nil
	case form[0] != '{':
		return nil, ErrNotObject
	}
	return form, nil
}

// Check returns the error that [Canonical] would return for raw, without building the form: for whole bodies, of which
// only parts are compared.
func Check(raw []byte) error {
	p := parser{text: string(raw)}
	_, err := p.document()
	return err
}

// Member is one member of an object: its key, escapes resolved, and its value as it stands in the text.
type Member struct {
	Key   string
	Value json.RawMessage
}

// Members returns the members of the one JSON object in raw, in their order. It checks what [Check] does, all of raw in
// one reading; any other value is [ErrNotObject]. The values share memory with raw.
func Members(raw []byte) ([]Member, error) {
	members := make([]Member, 0, 8)
	p := parser{text: string(raw), path: make([]step, 0, 4)}
	p.found = func(key string, from, to int) { members = append(members, Member{key, raw[from:to:to]}) }
	root, err := p.document()
	if err != nil {
		return nil, err
	}
	if root.kind != objectNode {
		return nil, ErrNotObject
	}
	return members, nil
}

// Digest returns the HMAC-SHA256 of a canonical form under salt, as 64 lower-case hex digits. With a salt of its own in
// each record, equal parameters of two records cannot be told to be equal from what is stored.
func Digest(salt, canonical []byte) string {
	mac := hmac.New(sha256.New, salt)
	mac.Write(canonical)
	var sum [sha256.Size]byte
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], mac.Sum(sum[:0]))
	return string(digits[:])
}

type kind uint8

const (
	plainNode  kind = iota // null, true, false or a number: text is the form
	stringNode             // text is what the string means
	arrayNode
	objectNode // children are sorted by key
)

// node is a value that has been read.
type node struct {
	kind     kind
	key      string // of a member of an object
	text     string
	children []node
}

// appendTo appends the canonical form to dst.
func (n node) appendTo(dst []byte) []byte {
	switch n.kind {
	case plainNode:
		dst = append(dst, n.text...)
	case stringNode:
		dst = appendQuoted(dst, n.text)
	case arrayNode:
		dst = n.appendChildren(dst, '[', ']')
	case objectNode:
		dst = n.appendChildren(dst, '{', '}')
	}
	return dst
}

func (n node) appendChildren(dst []byte, opening, closing byte) []byte {
	dst = append(dst, opening)
	for i, child := range n.children {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.kind == objectNode {
			dst = append(appendQuoted(dst, child.key), ':')
		}
		dst = child.appendTo(dst)
	}
	return append(dst, closing)
}

// appendQuoted writes s as RFC 8785 section 3.2.2.2 does: only what must be escaped is, in its shortest form.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, c := range []byte(s) {
		if c >= ' ' && c != '"' && c != '\\' {
			dst = append(dst, c)
			continue
		}
		switch i := strings.IndexByte("\"\\\b\f\n\r\t", c); {
		case i >= 0:
			dst = append(dst, '\\', `"\bfnrt`[i])
		case c < 0x10:
			dst = strconv.AppendUint(append(dst, `\u000`...), uint64(c), 16)
		default:
			dst = strconv.AppendUint(append(dst, `\u00`...), uint64(c), 16)
		}
	}
	return append(dst, '"')
}

// compareUTF16 orders strings by their UTF-16 code units (RFC 8785 section 3.2.3). It differs from the order of bytes
// where a character outside the basic plane, a surrogate pair from D800 up, meets one from E000 up.
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
