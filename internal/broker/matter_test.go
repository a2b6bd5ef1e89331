package broker_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var mutate = flag.Bool("mutate", false, "take each safeguard out of the code, and want its schedule to notice")

// TestSafeguardsMatter takes each safeguard out of the production code, by a small
// change in a copy of the file, and wants TestSafeguard to notice. What a schedule
// does not notice it does not test.
func TestSafeguardsMatter(t *testing.T) {
	if !*mutate {
		t.Skip("compiles the package again for every safeguard; run with -mutate")
	}
	t.Parallel()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to compile the changed code with")
	}
	slots := make(chan struct{}, 2)
	for _, s := range safeguards() {
		for n, way := range s.without {
			t.Run(fmt.Sprintf("%s %d", s.name, n+1), func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				mustNotice(t, tool, s.name, way)
			})
		}
	}
}

// mustNotice runs the safeguard's test on the mutated code.
func mustNotice(t *testing.T, tool, name string, mutations []mutation) {
	t.Helper()
	test := strings.ReplaceAll(name, " ", "_")
	cmd := exec.CommandContext(t.Context(), tool, "test", "-vet=off", "-count=1", "-short",
		"-overlay", overlay(t, mutations), "-run", "^TestSafeguard$/^"+test+"$", ".")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("nothing failed without the safeguard:\n%s", out)
	}
	if !strings.Contains(string(out), "--- FAIL: TestSafeguard/"+test) {
		t.Fatalf("the test did not fail by itself:\n%.3000s", out)
	}
}

// overlay writes the mutated files and the description that the go command reads.
func overlay(t *testing.T, mutations []mutation) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for _, m := range mutations {
		original, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		from := original
		if changed, twice := replace[original]; twice {
			from = changed
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.find); n != 1 {
			t.Fatalf("%s holds %q %d times, want once: say in safeguards() how to take the safeguard out now", m.file, m.find, n)
		}
		replace[original] = filepath.Join(dir, filepath.Base(m.file))
		write(t, replace[original], []byte(strings.Replace(string(text), m.find, m.replace, 1)))
	}
	description, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	write(t, path, description)
	return path
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
