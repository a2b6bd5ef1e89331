package canon_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/canon"
)

func canonical(t *testing.T, raw string) string {
	t.Helper()
	form, err := canon.Canonical([]byte(raw))
	if err != nil {
		t.Fatalf("Canonical(%q): %v", raw, err)
	}
	return string(form)
}

// RFC 8785 sections 3.2.2.2, 3.2.3 and 3.2.4, restated without their numbers.
func TestCanonicalFollowsRFC8785(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ raw, want string }{
		"members are sorted by UTF-16 code units, not by code points": {
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
			  "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		"strings have one escape each, literals and order of arrays stay": {
			`{"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null, true, false]}`,
			`{"literals":[null,true,false],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		"control characters take the short escape, or lower-case hex": {
			`"\u0000\u0008\u0009\u000A\u000B\u000c\u000d\u0010\u001F\u007f"`,
			`"\u0000\b\t\n\u000b\f\r\u0010\u001f` + "\u007f\"",
		},
		"line and paragraph separators and HTML are not escaped": {
			`"\u2028\u2029<>&\u002f"`, "\"\u2028\u2029<>&/\"",
		},
		"no normalisation of Unicode": {
			`["\u00c5","A\u030a"]`, "[\"Å\",\"A\u030a\"]",
		},
		"objects inside arrays are sorted too": {
			` [ 56 , { "d" : true , "10" : null , "1" : [ ] } ] `, `[56,{"1":[],"10":null,"d":true}]`,
		},
		"a key that is the beginning of another goes first": {
			`{"aa":1,"":2,"a":3}`, `{"":2,"a":3,"aa":1}`,
		},
		"characters outside the basic plane are sorted among themselves": {
			`{"\ud83d\ude01":1,"\ud83d\ude00":2,"\ud800\udc00":3,"\ue000":4,"\ud7ff":5}`,
			"{\"\ud7ff\":5,\"\U00010000\":3,\"😀\":2,\"😁\":1,\"\ue000\":4}",
		},
		"a pair is the character it stands for": {`"\uD83D\uDe00"`, `"😀"`},
		"a noncharacter is a character":         {`"\uffff\ufffd"`, "\"\uffff\ufffd\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, canonical(t, c.raw)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParametersAbsentNullAndEmptyAreTheSame(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"": "", "null": "", " null\n": "", "{}": "", "{\t}": "", `{"b":1,"a":{}}`: `{"a":{},"b":1}`, `{"a":null}`: `{"a":null}`,
	} {
		got, err := canon.Parameters([]byte(raw))
		if err != nil || string(got) != want || (want == "") != (got == nil) {
			t.Errorf("Parameters(%q) = %q (nil %t), %v; want %q", raw, got, got == nil, err, want)
		}
	}
	for raw, want := range map[string]error{
		"[]": canon.ErrNotObject, "0": canon.ErrNotObject, `"{}"`: canon.ErrNotObject, "false": canon.ErrNotObject,
		" ": canon.ErrSyntax, "{": canon.ErrSyntax, `{"a":1,"a":1}`: canon.ErrDuplicateKey,
	} {
		if got, err := canon.Parameters([]byte(raw)); !errors.Is(err, want) || got != nil {
			t.Errorf("Parameters(%q) = %q, %v; want %v", raw, got, err, want)
		}
	}
}

func TestEqualComparesMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2]}`, ` {"b":[2.0],"\u0061":10e-1}`, true},
		{`[1,2]`, `[2,1]`, false},
		{`"1"`, `1`, false},
		{`{"a":null}`, `{}`, false},
		{`null`, `{}`, false},
		{`"a"`, `"A"`, false},
	} {
		if got, err := canon.Equal([]byte(c.a), []byte(c.b)); err != nil || got != c.want {
			t.Errorf("Equal(%s, %s) = %t, %v; want %t", c.a, c.b, got, err, c.want)
		}
	}
	for _, c := range [][2]string{{"x", "1"}, {"1", "x"}} {
		if got, err := canon.Equal([]byte(c[0]), []byte(c[1])); got || !errors.Is(err, canon.ErrSyntax) {
			t.Errorf("Equal(%s, %s) = %t, %v; want a syntax error", c[0], c[1], got, err)
		}
	}
}

// RFC 4231, test case 2.
func TestDigestIsHMACSHA256(t *testing.T) {
	t.Parallel()
	got := canon.Digest([]byte("Jefe"), []byte("what do ya want for nothing?"))
	if want := "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"; got != want {
		t.Errorf("Digest = %s, want %s", got, want)
	}
}

func TestTheFormIsStable(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"z":[1.50,{"y":"\u00e9","x":-0}],"a":1e400,"m":null}`, `"\\u0041"`, `[[[{}]],"",100]`, `1e-7`,
	} {
		once := canonical(t, raw)
		if twice := canonical(t, once); twice != once {
			t.Errorf("Canonical(%s) = %s, whose own form is %s", raw, once, twice)
		}
		spaced := strings.NewReplacer("{", " {\r\n", "}", "\t} ", "[", " [ ", "]", " ]\n", ":", " : ").Replace(raw)
		if got := canonical(t, spaced); got != once {
			t.Errorf("white space changes %s into %s", once, got)
		}
	}
}
