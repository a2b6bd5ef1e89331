package rules

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// alien are words that do not belong in the product, written so that this file does not hold them itself. A pattern is
// looked for only in lines that hold one of its hints: under the race detector that takes a hundredth of the time.
var alien = []struct {
	reason  string
	hints   []string
	pattern *regexp.Regexp
}{
	{"the path of somebody's machine", []string{"work/", "root/", "home/", "Users/"},
		regexp.MustCompile(`(^|[^A-Za-z0-9_.~-])/(work|root|home|Users)/`)},
	{"the host of a registry; the environment names it",
		[]string{"golang.", "goproxy", "registry", "pypi", "pythonhosted", "crates", "rubygems", "maven", "debian", "ubuntu"},
		regexp.MustCompile(`(proxy|sum)\.golang\.org|goproxy\.(io|cn)|registry\.npmjs\.org|registry\.yarnpkg\.com|` +
			`\bpypi\.org|pythonhosted\.org|\bcrates\.io|\brubygems\.org|repo1?\.maven\.|deb\.debian\.org|archive\.ubuntu\.com`)},
	{"an open end; finish it or write an issue", []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "not " + "implemented"},
		regexp.MustCompile(`\b(TO[D]O|FIX[M]E|X{3})\b|not [i]mplemented`)},
}

// strange returns every line of the file that holds an alien word.
func strange(path string, text []byte) []string {
	var findings []string
	for i, line := range bytes.Split(text, []byte("\n")) {
		for _, a := range alien {
			if !slices.ContainsFunc(a.hints, func(hint string) bool { return bytes.Contains(line, []byte(hint)) }) {
				continue
			}
			if word := a.pattern.Find(line); word != nil {
				findings = append(findings, fmt.Sprintf("%s:%d: %q is %s", path, i+1, word, a.reason))
			}
		}
	}
	return findings
}

func TestWords(t *testing.T) {
	t.Parallel()
	read := 0
	for path, text := range files(t) {
		if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			t.Logf("%s: not read, it is no text", path)
			continue
		}
		read++
		report(t, strange(path, text))
	}
	if read == 0 {
		t.Error("no file was read: is the root another folder now?")
	}
}

func TestStrange(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"a home folder": {"see /" + "home/x", []string{`a:1: " /` + `home/" is the path of somebody's machine`}},
		"a registry on the second line": {"\nhttps://proxy." + "golang.org/x",
			[]string{`a:2: "proxy.` + `golang.org" is the host of a registry; the environment names it`}},
		"an open end":                       {"// TO" + "DO: more", []string{`a:1: "TO` + `DO" is an open end; finish it or write an issue`}},
		"a folder of the project called so": {"docs/work/page.md and ./home/ and https://example.org/home/", nil},
		"a pattern for mktemp":              {"mktemp ferry.XXXXXX", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, strange("a", []byte(test.text))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
