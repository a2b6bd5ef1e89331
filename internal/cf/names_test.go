package cf

import (
	"strings"
	"testing"
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
