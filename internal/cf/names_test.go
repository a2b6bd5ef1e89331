package cf

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 255)
	for _, id := range []string{"a", "a b", "a,b", "%2C", "ä/ö?#", "..", "ferry-", "ferry-a", "日本", long} {
		if got := nameOf(id); got != id {
			t.Errorf("nameOf(%q) = %q, want it verbatim", id, got)
		}
	}
	hashed := nameOf("")
	seen := map[string]string{}
	for _, id := range []string{
		"", " ", " a", "a ", "\ta", "a\n", "a\x00b", "a\x7f", "\u00a0a", "\xff", "a\xff", long + "ü", strings.Repeat("x", 256),
		hashed, nameOf(hashed),
	} {
		name := nameOf(id)
		if !hashedName.MatchString(name) {
			t.Errorf("nameOf(%q) = %q, want a hash", id, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q share name %q", id, other, name)
		}
		seen[name] = id
	}
	// The names of what runs must outlive every version of Ferry.
	if want := "ferry-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq"; hashed != want {
		t.Errorf(`nameOf("") = %q, want %q`, hashed, want)
	}
}

func FuzzNameIsInjectiveAndTakeable(f *testing.F) {
	f.Add("a", " a")
	f.Add("", "ferry-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a != b && nameOf(a) == nameOf(b) {
			t.Errorf("%q and %q share name %q", a, b, nameOf(a))
		}
		if name := nameOf(a); strings.TrimSpace(name) != name || name == "" || len([]rune(name)) > maxName {
			t.Errorf("nameOf(%q) = %q cannot be a name", a, name)
		}
	})
}

func TestLooseKeyNamesAreReadBack(t *testing.T) {
	t.Parallel()
	const operation = "bind-0123456789abcdef0123456789abcdef"
	seen := map[string]string{}
	for _, id := range []string{
		"k", "k~ferry~bind-1~7", "a,b", " a", "", "\xff", "~", "x~1", strings.Repeat("ü", 255), strings.Repeat("x", 200),
		strings.Repeat("x", 201), strings.Repeat("x", 300),
	} {
		for _, op := range []string{operation, "bind~ferry~1", "a b"} {
			name := keyNameWithMarks(id, op, 1_700_000_000)
			if n := utf8.RuneCountInString(name); n > maxName || nameOf(name) != name {
				t.Errorf("keyNameWithMarks(%q) = %q, which is no name", id, name)
			}
			got, ok := readKeyName(name)
			if !ok || got.operation != op || got.seq != 1_700_000_000 || !got.isOf(id) {
				t.Errorf("%q is read as %+v, %v", name, got, ok)
			}
			if other, twice := seen[name]; twice {
				t.Errorf("%q and %q share name %q", id, other, name)
			}
			seen[name] = id
		}
	}
	if want := "k~ferry~bind-1~7"; keyNameWithMarks("k", "bind-1", 7) != want { // must outlive every version
		t.Errorf("LooseKeyName = %q, want %q", keyNameWithMarks("k", "bind-1", 7), want)
	}
}

func TestOtherNamesAreNotLoose(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "k", "~", "k~7", "~ferry~bind-1~7", "k~ferry~~7", "k~ferry~bind-1~", "k~ferry~bind-1~x", "k~ferry~bind-1~07",
		"k~ferry~bind-1", "k~ferry~%zz~7", "k~ferry~a~b~7",
	} {
		if got, ok := readKeyName(name); ok {
			t.Errorf("%q is read as %+v", name, got)
		}
	}
}

func FuzzLooseKeyNames(f *testing.F) {
	f.Add("a", "bind-1", int64(1), "a~ferry~b~1", "bind-1", int64(1))
	f.Fuzz(func(t *testing.T, id1, op1 string, seq1 int64, id2, op2 string, seq2 int64) {
		if op1 == "" || op2 == "" || seq1 < 1 || seq2 < 1 { // no operation has such a number
			return
		}
		a, b := keyNameWithMarks(id1, op1, seq1), keyNameWithMarks(id2, op2, seq2)
		if a == b && (id1 != id2 || op1 != op2 || seq1 != seq2) {
			t.Errorf("(%q, %q, %d) and (%q, %q, %d) share %q", id1, op1, seq1, id2, op2, seq2, a)
		}
		if k, ok := readKeyName(a); !ok || k.operation != op1 || k.seq != seq1 || !k.isOf(id1) {
			t.Errorf("%q is read as %+v, %v", a, k, ok)
		}
	})
}
