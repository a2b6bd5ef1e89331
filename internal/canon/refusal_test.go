package canon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/canon"
)

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
