package rules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// link is a Markdown link to a file of the project; an anchor in it is not looked at.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)

// broken returns the links of a page that lead to no file.
func broken(page string, all map[string][]byte) []string {
	var findings []string
	for _, match := range link.FindAllSubmatch(all[page], -1) {
		target := path.Join(path.Dir(page), string(match[1]))
		if !isThere(target, all) {
			findings = append(findings, fmt.Sprintf("%s: no file %s", page, target))
		}
	}
	return findings
}

// isThere reports whether a path is a file of the project or a folder with one.
func isThere(target string, all map[string][]byte) bool {
	for name := range all {
		if name == target || strings.HasPrefix(name, target+"/") {
			return true
		}
	}
	return false
}

func TestLinks(t *testing.T) {
	t.Parallel()
	all := files(t)
	for page := range all {
		if strings.HasSuffix(page, ".md") {
			report(t, broken(page, all))
		}
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	all := map[string][]byte{
		"docs/a.md": []byte("[b](b.md#part), [up](../c.md), [folder](adr), [gone](gone.md), [far](https://example.org/x)"),
		"docs/b.md": nil, "c.md": nil, "docs/adr/1.md": nil,
	}
	if diff := cmp.Diff([]string{"docs/a.md: no file docs/gone.md"}, broken("docs/a.md", all)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
