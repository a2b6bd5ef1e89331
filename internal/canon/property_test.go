package canon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/canon"
)

// writer spells random values; the same value may come out in many spellings.
type writer struct{ *rand.Rand }

// value makes a value of decoded Go types, numbers as json.Number.
func (w writer) value(depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch w.IntN(kinds) {
	case 0:
		return []any{nil, true, false}[w.IntN(3)]
	case 1, 2:
		return json.Number(strconv.Itoa(w.IntN(2000) - 1000))
	case 3:
		return w.key()
	case 4:
		items := make([]any, w.IntN(4))
		for i := range items {
			items[i] = w.value(depth - 1)
		}
		return items
	}
	members := map[string]any{}
	for range w.IntN(12) {
		members[w.key()] = w.value(depth - 1)
	}
	return members
}

func (w writer) key() string {
	alphabet := []rune("ab1\n\"\\/\u0080öé€\ufb33\ue000😀😁\u2028")
	key := make([]rune, w.IntN(4))
	for i := range key {
		key[i] = alphabet[w.IntN(len(alphabet))]
	}
	return string(key)
}

// spell writes v with random order, space, escapes and forms of numbers.
func (w writer) spell(b *strings.Builder, v any) {
	b.WriteString([]string{"", "", " ", "\n\t"}[w.IntN(4)])
	switch v := v.(type) {
	case json.Number:
		zeros := w.IntN(3)
		b.WriteString(string(v) + "." + strings.Repeat("0", zeros+1))
		if w.IntN(2) == 0 {
			b.WriteString([]string{"e0", "E-0", "e+000"}[w.IntN(3)])
		}
	case string:
		w.spellString(b, v)
	case []any:
		for i, item := range v {
			b.WriteByte("[,"[min(i, 1)])
			w.spell(b, item)
		}
		b.WriteString([]string{"[]", "]"}[min(len(v), 1)])
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for i, key := range keys {
			b.WriteByte("{,"[min(i, 1)])
			w.spellString(b, key)
			b.WriteString(" :")
			w.spell(b, v[key])
		}
		b.WriteString([]string{"{}", "}"}[min(len(v), 1)])
	default:
		text, _ := json.Marshal(v)
		b.Write(text)
	}
	b.WriteString([]string{"", " \r"}[w.IntN(2)])
}

func (w writer) spellString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		quoted := strconv.QuoteToASCII(string(r))
		switch {
		case w.IntN(2) == 0 && r > 0xffff:
			r -= 0x10000
			b.WriteString(`\u` + strconv.FormatInt(int64(0xd800+r>>10), 16) + `\u` + strconv.FormatInt(int64(0xdc00+r&0x3ff), 16))
		case w.IntN(2) == 0 && r <= 0xffff:
			b.WriteString(`\u` + strconv.FormatInt(int64(0x10000+r), 16)[1:])
		case r == '"' || r == '\\' || r == '\n':
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

func TestEverySpellingOfAValueHasOneForm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		w := writer{rand.New(rand.NewPCG(seed, 8785))}
		value := w.value(4)
		var first string
		for i := range 4 {
			var b strings.Builder
			w.spell(&b, value)
			form := canonical(t, b.String())
			if i == 0 {
				first = form
			}
			if form != first || canonical(t, form) != form {
				t.Fatalf("seed %d: %q has the form %q, another spelling %q", seed, b.String(), form, first)
			}
		}
		if got := decode(t, []byte(first)); !same(got, value) {
			t.Fatalf("seed %d: the form %q does not mean what was written", seed, first)
		}
	}
}

func TestValuesThatDifferHaveFormsThatDiffer(t *testing.T) {
	t.Parallel()
	w := writer{rand.New(rand.NewPCG(1, 2))}
	values, forms := make([]any, 150), make([]string, 150)
	for i := range values {
		var b strings.Builder
		values[i] = w.value(2)
		w.spell(&b, values[i])
		forms[i] = canonical(t, b.String())
	}
	for i := range values {
		for j := range i {
			if (forms[i] == forms[j]) != same(values[i], values[j]) {
				t.Errorf("%q and %q: forms equal %t", forms[i], forms[j], forms[i] == forms[j])
			}
		}
	}
}

// decode reads one value with the standard library, numbers untouched.
func decode(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decoding %q: %v", text, err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("%q goes on after its value: %v", text, err)
	}
	return v
}

// same compares decoded values, numbers as fractions.
func same(a, b any) bool {
	return cmp.Equal(a, b, cmp.Comparer(func(a, b json.Number) bool {
		ra, okA := new(big.Rat).SetString(string(a))
		rb, okB := new(big.Rat).SetString(string(b))
		return okA && okB && ra.Cmp(rb) == 0
	}))
}

// bigExponent finds numbers that a fraction should not be made of.
var bigExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3}`)

// loneSurrogate over-matches (it also finds pairs), which only makes the fuzz target ask less of such texts.
var loneSurrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

func FuzzCanonical(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":1.0,"b":[true,null]}`, `{"b":[true,null],"a":1}`}, {`9007199254740993`, `9007199254740992`},
		{`"\ud83d\ude00"`, `"😀"`}, {`{"a":1,"\u0061":2}`, `{}`}, {`[-0.0e3]`, `[0]`}, {`1e999999999`, `10e999999998`},
		{`"\ud800"`, `"\ufffd"`}, {` {"a" : {"b":[ 1 ]} , "\u0062":" "}`, `[{"a":1}]`}, {"\"\xff\"", `"\u00ff"`}, {`[[[]]]`, ` [ [ [ ] ] ] `}, {`{"é":"\/"}`, `{"\u00e9":"/"}`}, {`0.1e1`, `01`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		formA, errA := canon.Canonical(a)
		checkAgainstStdlib(t, a, formA, errA)
		formB, errB := canon.Canonical(b)
		if errA != nil || errB != nil || bigExponent.Match(a) || bigExponent.Match(b) {
			return
		}
		equal := same(decode(t, a), decode(t, b))
		if bytes.Equal(formA, formB) != equal {
			t.Errorf("%q and %q: forms %q and %q, values equal %t", a, b, formA, formB, equal)
		}
	})
}

// checkMembers: a text that is accepted has the members that encoding/json finds in it.
func checkMembers(t *testing.T, raw []byte) {
	t.Helper()
	got, err := canon.Members(raw)
	if bytes.TrimSpace(raw)[0] != '{' {
		if !errors.Is(err, canon.ErrNotObject) {
			t.Errorf("Members(%q) = %v, %v; want ErrNotObject", raw, got, err)
		}
		return
	}
	var want map[string]json.RawMessage
	if err := errors.Join(err, json.Unmarshal(raw, &want)); err != nil {
		t.Fatalf("Members(%q): %v", raw, err)
	}
	found := map[string]json.RawMessage{}
	for _, m := range got {
		found[m.Key] = m.Value
	}
	if d := cmp.Diff(want, found); d != "" || len(got) != len(found) {
		t.Errorf("Members(%q), -encoding/json +got:\n%s", raw, d)
	}
}

func checkAgainstStdlib(t *testing.T, raw, form []byte, err error) {
	t.Helper()
	if checked := canon.Check(raw); (checked == nil) != (err == nil) {
		t.Errorf("Check(%q) = %v, Canonical says %v", raw, checked, err)
	}
	if err != nil {
		if plain := json.Valid(raw) && utf8.Valid(raw) && !loneSurrogate.Match(raw); plain && !bytes.ContainsAny(raw, "{[") {
			t.Errorf("Canonical(%q) refuses a plain value: %v", raw, err)
		}
		return
	}
	if !json.Valid(raw) || !utf8.Valid(raw) {
		t.Fatalf("Canonical(%q) accepts what is not JSON", raw)
	}
	checkMembers(t, raw)
	again, err := canon.Canonical(form)
	if err != nil || !bytes.Equal(again, form) {
		t.Errorf("the form %q of %q has the form %q, %v", form, raw, again, err)
	}
	if !bigExponent.Match(raw) && !same(decode(t, raw), decode(t, form)) {
		t.Errorf("the form %q of %q means something else", form, raw)
	}
}
