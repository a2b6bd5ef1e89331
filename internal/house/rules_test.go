package house

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRules shows each rule an offender and something alike that is allowed.
func TestRules(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rule string
		path string // internal/a/a.go when empty
		text string
		want []string
	}{
		"a file of 501 lines is too long": {rule: "files stay short", text: "package a" + strings.Repeat("\n", 501),
			want: []string{"internal/a/a.go: 501 lines, over 500: which noun or use case wants its own file?"}},
		"a file of 500 lines is not":    {rule: "files stay short", text: "package a" + strings.Repeat("\n", 500)},
		"a test of 501 lines is not":    {rule: "files stay short", path: "internal/a/a_test.go", text: "package a" + strings.Repeat("\n", 501)},
		"a function of 70 lines passes": {rule: "functions stay short", text: function(70)},
		"a function of 71 lines does not, in a test neither": {rule: "functions stay short", path: "a_test.go", text: function(71),
			want: []string{"a_test.go:2: f has 71 lines, over 70"}},
		"a table in a test does not count": {rule: "functions stay short", path: "a_test.go",
			text: "package a\nfunc f() { _ = []int{" + strings.Repeat("\n", 80) + "} }"},
		"a table in the product does": {rule: "functions stay short",
			text: "package a\nfunc f() { _ = []int{" + strings.Repeat("\n", 80) + "} }",
			want: []string{"internal/a/a.go:2: f has 81 lines, over 70"}},
		"an init is found": {rule: "nothing runs before main", text: "package a\nfunc init() {}",
			want: []string{"internal/a/a.go:2: func init: hand the value to whoever needs it"}},
		"a method called init is none": {rule: "nothing runs before main", text: "package a\ntype t int\nfunc (t) init() {}"},
		"a map is mutable": {rule: "no package keeps mutable state", text: "package a\nvar m = map[string]int{}",
			want: []string{"internal/a/a.go:2: package-level variable m: make it a constant, a function or a field"}},
		"so are bytes from elsewhere": {rule: "no package keeps mutable state", text: "package a\nvar b = []byte(f())",
			want: []string{"internal/a/a.go:2: package-level variable b: make it a constant, a function or a field"}},
		"so is a counter in a group": {rule: "no package keeps mutable state", text: "package a\nvar (\n\tErrA = 1\n\tn, errorCount int\n)",
			want: []string{
				"internal/a/a.go:4: package-level variable n: make it a constant, a function or a field",
				"internal/a/a.go:4: package-level variable errorCount: make it a constant, a function or a field"}},
		"sentinels, expressions, files and proofs are not": {rule: "no package keeps mutable state", text: `package a
var ErrGone = errors.New("gone")
var errToken = fmt.Errorf("token: %w", ErrGone)
var name = regexp.MustCompile("a")
var bucket = []byte("items")
//go:embed page.html
var page string
var _ fmt.Stringer = t(0)`},
		"the linker's variables are not": {rule: "no package keeps mutable state", path: "cmd/ferry/main.go", text: "package main\nvar version = \"dev\""},
		"a helpers package is found": {rule: "a package is named by a noun", text: "package helpers",
			want: []string{"internal/a/a.go: package helpers says nothing about what is inside"}},
		"a sleep is found": {rule: "nothing waits by sleeping", path: "internal/a/a_test.go", text: "package a\nfunc f() { time.Sleep(1) }",
			want: []string{"internal/a/a_test.go:2: time.Sleep: wait for a channel, a condition or a context"}},
		"a clock is found, also when it is handed on": {rule: "time comes in as a value", text: "package a\nfunc f() { g(time.Now); time.Since(t) }",
			want: []string{
				"internal/a/a.go:2: the clock: take a now func() time.Time",
				"internal/a/a.go:2: the clock: take a now func() time.Time"}},
		"wire has the clock": {rule: "time comes in as a value", path: "internal/wire/wire.go", text: "package wire\nfunc f() { g(time.Now) }"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.path == "" {
				test.path = "internal/a/a.go"
			}
			s, err := parse(test.path, []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, rules[test.rule](s)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// function returns a file with a function of so many lines.
func function(lines int) string {
	return fmt.Sprintf("package a\nfunc f() {%s}\n", strings.Repeat("\n", lines-1))
}

func TestUndocumented(t *testing.T) {
	t.Parallel()
	var all []source
	for path, text := range map[string]string{
		"internal/a/doc.go": "// Package a is documented.\npackage a",
		"internal/a/a.go":   "package a",
		"internal/b/b.go":   "package b",
	} {
		s, err := parse(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if diff := cmp.Diff([]string{"internal/b: no package comment"}, undocumented(all)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
