package rules

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
		"an exported map is mutable": {rule: "no package keeps mutable state", text: "package a\nvar M = map[string]int{}",
			want: []string{"internal/a/a.go:2: package-level variable M: make it a constant, a function or a field"}},
		"a table of its own is not": {rule: "no package keeps mutable state", text: "package a\nvar m = map[string]int{\"a\": 1}"},
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
		"a context in a struct is found": {rule: "a context is passed on", text: "package a\ntype t struct { ctx context.Context }",
			want: []string{"internal/a/a.go:2: a struct holds a context: pass it to each function"}},
		"a context in an interface's method is none": {rule: "a context is passed on", text: "package a\ntype t interface { F(context.Context) }"},
		"an exported method without a comment is found": {rule: "an exported name is documented", text: "package a\ntype t int\nfunc (t) F() {}",
			want: []string{"internal/a/a.go:3: F has no comment"}},
		"a group's comment is one":        {rule: "an exported name is documented", text: "package a\n// Sizes.\nconst (\n\tA = 1\n\tB = 2\n)"},
		"a comment of 120 columns passes": {rule: "a comment has 120 columns", text: "package a\n// " + strings.Repeat("x", 117)},
		"a comment of 121 columns does not": {rule: "a comment has 120 columns", text: "package a\n// " + strings.Repeat("x", 118),
			want: []string{"internal/a/a.go:2: a comment of 121 columns, over 120"}},
		"one behind code is the code's line": {rule: "a comment has 120 columns", text: "package a\nconst a = 1 // " + strings.Repeat("x", 118)},
		"server has the clock":               {rule: "time comes in as a value", path: "internal/server/serve.go", text: "package server\nfunc f() { g(time.Now) }"},
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

func TestWrittenTables(t *testing.T) {
	t.Parallel()
	var all []source
	for path, text := range map[string]string{
		"internal/a/table.go": "package a\nvar m = map[string]int{}\nvar n = []int{1}",
		"internal/a/other.go": "package a\nfunc f() { m[``] = 1; n[0]++; delete(m, ``); _ = &n; _ = append(n[:0], 2) }",
		"internal/a/own.go":   "package a\nfunc g() { m := map[string]int{}; m[``] = 1 }",
		"internal/b/b.go":     "package b\nfunc h() { m[``] = 1 }",
	} {
		s, err := parse(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if findings := writtenTables(all); len(findings) != 5 {
		t.Errorf("%d findings, want 5: %q", len(findings), findings)
	}
}

func TestCrowded(t *testing.T) {
	t.Parallel()
	text := "package a\ntype a int\ntype b int\n"
	for n := range maxMethods {
		text += fmt.Sprintf("func (a) f%d() {}\nfunc (*b) f%d() {}\n", n, n)
	}
	s, err := parse("internal/a/a.go", []byte(text+"func (b) more() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"internal/a: b has 31 methods, over 30: which things is it?"}, crowded([]source{s})); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
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
