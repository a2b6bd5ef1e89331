package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThePageNamesTheScenarios holds the table at the end of docs/protocol.md against the scenarios.
func TestThePageNamesTheScenarios(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## 13. What the model checks\n")
	said := map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, match := range regexp.MustCompile("`([a-zA-Z0-9]+)`").FindAllStringSubmatch(cells[3], -1) {
				said[match[1]] = true
			}
		}
	}
	want := map[string]bool{"starts": true}
	for _, sc := range scenarios() {
		want[sc.Name] = true
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("scenarios and the page differ (-scenarios +page):\n%s", diff)
	}
}
