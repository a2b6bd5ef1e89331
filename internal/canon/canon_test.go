package canon_test

import (
	"errors"
	"fmt"
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

// RFC 4231, test case 2.
func TestDigestIsHMACSHA256(t *testing.T) {
	t.Parallel()
	got := canon.Digest([]byte("Jefe"), []byte("what do ya want for nothing?"))
	if want := "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"; got != want {
		t.Errorf("Digest = %s, want %s", got, want)
	}
}

func TestNumbersOfOneValueHaveOneForm(t *testing.T) {
	t.Parallel()
	for want, spellings := range map[string][]string{
		"0":                    {"0", "-0", "0.0", "-0.00", "0e5", "0E-999999999999999999999", "-0e+1"},
		"1":                    {"1", "1.0", "1e0", "1E+0", "1e-0", "10e-1", "0.1e1", "1.000e00", "100000000000000000000e-20"},
		"-1":                   {"-1", "-1.0", "-0.01e2"},
		"1e1":                  {"10", "1e1", "1e+01", "100e-1", "0.001e4"},
		"15e2":                 {"1500", "1.5e3", "15e2", "150.00e1"},
		"25e-2":                {"0.25", "25e-2", "2.5E-1", "0.2500"},
		"9007199254740993":     {"9007199254740993", "9007199254740993.0", "9.007199254740993e15"},
		"9007199254740992":     {"9007199254740992", "900719925474099200e-2"},
		"1e-324":               {"1e-324", "0.1e-323"},
		"17976931348623157e92": {"179769313486231570e91", "1.7976931348623157e108"},
	} {
		for _, spelling := range spellings {
			if got := canonical(t, spelling); got != want {
				t.Errorf("Canonical(%s) = %s, want %s", spelling, got, want)
			}
		}
	}
}

func TestExponentsOfAnySizeAreExact(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 40)
	zeros := strings.Repeat("0", 40)
	for raw, want := range map[string]string{
		"1e999999999":                       "1e999999999",
		"10e999999999999999998":             "1e999999999999999999",
		"10e999999999999999999":             "1e1000000000000000000",
		"0.1e1000000000000000000":           "1e999999999999999999",
		"0.01e1000000000000000001":          "1e999999999999999999",
		"0.1e-999999999999999999":           "1e-1000000000000000000",
		"10e-1000000000000000000":           "1e-999999999999999999",
		"10e-00001000000000000000000":       "1e-999999999999999999",
		"0.1e-" + nines:                     "1e-1" + zeros,
		"10e" + nines:                       "1e1" + zeros,
		"0.1e1" + zeros:                     "1e" + nines,
		"100e8" + nines:                     "1e9" + zeros[1:] + "1",
		"-5.0e+" + nines:                    "-5e" + nines,
		"1" + zeros + "e-40":                "1",
		"0." + zeros + "7e41":               "7",
		"1e9223372036854775807":             "1e9223372036854775807",
		"10e9223372036854775807":            "1e9223372036854775808",
		"1e-9223372036854775809":            "1e-9223372036854775809",
		"1e100000000000000000000000000":     "1e100000000000000000000000000",
		"0.1e100000000000000000000000000":   "1e99999999999999999999999999",
		"0.1e100000000000000000100000000":   "1e100000000000000000099999999",
		"0.001e100000000000000000000000002": "1e99999999999999999999999999",
	} {
		if got := canonical(t, raw); got != want {
			t.Errorf("Canonical(%s) = %s, want %s", raw, got, want)
		}
	}
}

// Converting these to binary, or writing them out, would take minutes or the memory of the machine; read as digits they
// are nothing special.
func TestLongNumbersCostNoMoreThanTheirLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 1<<20)
	for raw, want := range map[string]string{
		"1e" + long:  "1e" + long,
		"1e-" + long: "1e-" + long,
		long:         long,
		"0." + long:  long + "e-1048576",
		"10e" + long: "1e1" + strings.Repeat("0", 1<<20),
	} {
		if got := canonical(t, raw); got != want {
			t.Errorf("a number of %d bytes that begins with %.5s has the wrong form, of %d bytes", len(raw), raw, len(got))
		}
	}
}

func TestRefusalsNameTheReason(t *testing.T) {
	t.Parallel()
	for want, texts := range map[error][]string{
		canon.ErrSyntax: {
			"", " ", "{", "[", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `{'a':1}`, `{"a" 1}`, `{"a":1 "b":2}`,
			`{,}`, "[1,]", "[,1]", "[1 2]", "[1}", `{"a":1]`, "1 2", "{}{}", "nul", "nullx", "True", "NaN", "Infinity",
			"01", "-01", "-", "+1", ".5", "1.", "1.e1", "1e", "1e+", "0x10", "1_000", "--1",
			`"`, `"a`, `"\`, `"\"`, `"\u12"`, `"\u12g4"`, `"\U0041"`, `"\a"`, `"\'"`, `"\u`, "\"\n\"", "\"\x00\"", "\"\x1f\"",
			"\x00", "\xef\xbb\xbf{}", "{}\x00", "\xff", "// x\n1", "[1]/**/", "\u00a01", "\v1",
		},
		canon.ErrNotUTF8: {
			"\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "{\"\x80\":1}", "[\"ok\",\"\xfe\"]",
			`"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\udc00\ud800"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\u0041"`, `{"\ud800":1}`, `"\ud800`,
		},
		canon.ErrDuplicateKey: {
			`{"a":1,"a":1}`, `{"a":1,"b":2,"\u0061":3}`, `[[{"x":{"":0,"":0}}]]`, `{"a":{"b":1,"b":2}}`, `{"😀":1,"\ud83d\ude00":2}`,
			object(20, `,"k7":0`), object(8, `,"k0":0`), object(9, `,"k8":0`),
		},
		canon.ErrTooDeep: {
			nested(canon.MaxDepth + 1), strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18), strings.Repeat(`[{"a":`, 1<<17),
		},
	} {
		for _, text := range texts {
			form, err := canon.Canonical([]byte(text))
			if !errors.Is(err, want) || form != nil {
				t.Errorf("Canonical(%.40q) = %q, %v; want %v", text, form, err, want)
			}
			if checked := canon.Check([]byte(text)); fmt.Sprint(checked) != fmt.Sprint(err) {
				t.Errorf("Check(%.40q) = %v, but Canonical says %v", text, checked, err)
			}
		}
	}
}

func TestCheckAcceptsWhatCanonicalAccepts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"null", "\t\r\n 1 \n", `{"a":{"a":{"a":[]}}}`, `[{"a":1},{"a":1}]`, `{"a":1,"A":2}`, nested(canon.MaxDepth),
		`{"é":1,"e\u0301":2}`, "-1.5E+3", `"\u0000"`, object(100, ""),
	} {
		if err := canon.Check([]byte(text)); err != nil {
			t.Errorf("Check(%.40q) = %v", text, err)
		}
		canonical(t, text)
	}
}

func TestErrorsSayWhereAndNeverWhat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{"password":hunter2}`, "not valid JSON: expected a value (byte 12)"},
		{`{"password":"hunter2`, "not valid JSON: the text ends inside a string (byte 20)"},
		{`{"password":"hunter2\x"}`, "not valid JSON: a string holds an escape that JSON does not know (byte 20)"},
		{`{"password":"hunter2" "b":1}`, "not valid JSON: expected a comma or the closing bracket (byte 22)"},
		{"{\"password\":\"hunter2\xff\"}", "not valid UTF-8: a string holds bytes that are no character (byte 20)"},
		{`{"password":"hunter2","password":"hunter2"}`, `a key occurs twice in an object: "password" in the outermost object (byte 22)`},
		{`[{"a/b~":[0,{"k":"hunter2","k":1}]}]`, `a key occurs twice in an object: "k" in the object at "/0/a~1b~0/1" (byte 27)`},
		{`{"a":{},"b":{"c":1,"c":2}}`, `a key occurs twice in an object: "c" in the object at "/b" (byte 19)`},
		{`["\n",{"\n":{"\n":1,"\n":2}}]`, `a key occurs twice in an object: "\n" in the object at "/1/\n" (byte 20)`},
		{nested(canon.MaxDepth + 1), "nested too deeply: more than 512 arrays and objects inside each other (byte 512)"},
		{``, "not valid JSON: the text ends where a value should be (byte 0)"},
		{`{} x`, "not valid JSON: the text should end after the first value (byte 3)"},
	} {
		err := canon.Check([]byte(c.text))
		if err == nil || err.Error() != c.want {
			t.Errorf("Check(%.60q)\n got %v\nwant %s", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error holds the value: %v", err)
		}
	}
}

func TestLongKeysAreShortenedInErrors(t *testing.T) {
	t.Parallel()
	key := "x" + strings.Repeat("é", 1<<18)
	err := canon.Check(fmt.Appendf(nil, `{%q:{%q:1,%q:2}}`, key, key, key))
	if !errors.Is(err, canon.ErrDuplicateKey) || len(err.Error()) > 400 || strings.ContainsRune(err.Error(), '\ufffd') {
		t.Errorf("got %.500v", err)
	}
}

// nested returns arrays inside each other, depth of them.
func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

// object returns an object with keys k0, k1 … and then extra.
func object(keys int, extra string) string {
	members := make([]string, keys)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":0`, i)
	}
	return "{" + strings.Join(members, ",") + extra + "}"
}

// The time for a byte should not grow with the text, whatever its shape.
func BenchmarkCanonical(b *testing.B) {
	shapes := map[string]func(size int) string{
		"wide":  func(size int) string { return object(size/10, "") },
		"deep":  func(size int) string { return deepObjects(size) },
		"zeros": func(size int) string { return "[" + strings.Repeat("0,", size/2) + "0]" },
		"text":  func(size int) string { return `"` + strings.Repeat(`\u00e9`, size/6) + `"` },
	}
	for name, shape := range shapes {
		for _, size := range []int{1 << 14, 1 << 18} {
			text := []byte(shape(size))
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := canon.Canonical(text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// deepObjects nests as deep as allowed around a string, each level unsorted.
func deepObjects(size int) string {
	levels := canon.MaxDepth
	return strings.Repeat(`{"z":`, levels) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`,"a":1}`, levels)
}
