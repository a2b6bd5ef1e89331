package cf

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 255)
	for _, id := range []string{"a", "a b", "a,b", "%2C", "ä/ö?#", "..", "ferry-", "ferry-a", "日本", long} {
		if got := Name(id); got != id {
			t.Errorf("Name(%q) = %q, want it verbatim", id, got)
		}
	}
	hashed := Name("")
	seen := map[string]string{}
	for _, id := range []string{
		"", " ", " a", "a ", "\ta", "a\n", "a\x00b", "a\x7f", "\u00a0a", "\xff", "a\xff", long + "ü", strings.Repeat("x", 256),
		hashed, Name(hashed),
	} {
		name := Name(id)
		if !hashedName.MatchString(name) {
			t.Errorf("Name(%q) = %q, want a hash", id, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q share name %q", id, other, name)
		}
		seen[name] = id
	}
	// The names of what runs must outlive every version of Ferry.
	if want := "ferry-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq"; hashed != want {
		t.Errorf(`Name("") = %q, want %q`, hashed, want)
	}
}

func FuzzNameIsInjectiveAndTakeable(f *testing.F) {
	f.Add("a", " a")
	f.Add("", "ferry-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a != b && Name(a) == Name(b) {
			t.Errorf("%q and %q share name %q", a, b, Name(a))
		}
		if name := Name(a); strings.TrimSpace(name) != name || name == "" || len([]rune(name)) > maxName {
			t.Errorf("Name(%q) = %q cannot be a name", a, name)
		}
	})
}
