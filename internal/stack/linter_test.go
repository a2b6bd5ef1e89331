package stack

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestTheLinterOfTheMachineIsPinned: every package by its hash, from whatever registry
// the machine is told to use.
func TestTheLinterOfTheMachineIsPinned(t *testing.T) {
	t.Parallel()
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	if err := json.Unmarshal(readRoot(t, "tools/asl/package-lock.json"), &lock); err != nil {
		t.Fatal(err)
	}
	linter := lock.Packages["node_modules/asl-validator"].Version
	if linter == "" || !strings.Contains(string(readRoot(t, "docs/dependencies.md")), "`asl-validator` "+linter+" ") {
		t.Errorf("docs/dependencies.md does not name asl-validator %s", linter)
	}
	for name, p := range lock.Packages {
		if name != "" && (!strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "") {
			t.Errorf("%s: hash %q, from %q", name, p.Integrity, p.Resolved)
		}
	}
}
