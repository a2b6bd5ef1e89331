package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page is where the libraries and the tools are listed, each with its reason.
const page = "docs/dependencies.md"

// use is a library at a version and who imports it: packages of ours from the root, or forTests.
type use struct {
	module, version, by string
}

// forTests stands in the page for "test files, of whatever package".
const forTests = "tests"

func (u use) String() string { return fmt.Sprintf("%s %s, imported by %s", u.module, u.version, u.by) }

// rows returns the cells of the tables under a heading, without their headings.
func rows(text, heading string) [][]string {
	_, rest, _ := strings.Cut(text, "\n"+heading+"\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	var all [][]string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), "`", "")
		}
		all = append(all, cells)
	}
	return all
}

// promised returns the uses that the page lists.
func promised(text string) map[use]bool {
	uses := map[use]bool{}
	for _, cells := range rows(text, "## Libraries") {
		for by := range strings.SplitSeq(cells[2], ",") {
			uses[use{cells[0], cells[1], strings.TrimSpace(by)}] = true
		}
	}
	return uses
}

// found returns the uses that the code makes of other people's modules. Tests count only for modules that no product
// code imports.
func found(packages []listed) map[use]bool {
	modules := map[string]listed{}
	for _, p := range packages {
		if p.Module != nil && !p.Module.Main {
			modules[p.ImportPath] = p
		}
	}
	uses, inProduct := map[use]bool{}, map[string]bool{}
	add := func(by string, imports []string) {
		for _, path := range imports {
			if p, ok := modules[path]; ok && (by != forTests || !inProduct[p.Module.Path]) {
				uses[use{p.Module.Path, p.Module.Version, by}] = true
				inProduct[p.Module.Path] = inProduct[p.Module.Path] || by != forTests
			}
		}
	}
	ours := slices.DeleteFunc(slices.Clone(packages), func(p listed) bool { return !p.ours() })
	for _, p := range ours {
		if !p.forTests() {
			add(strings.TrimPrefix(p.ImportPath, module), p.Imports)
		}
	}
	for _, p := range ours {
		imports := slices.Concat(p.TestImports, p.XTestImports)
		if p.forTests() {
			imports = append(imports, p.Imports...)
		}
		add(forTests, imports)
	}
	return uses
}

// forTests reports whether the whole package is for tests.
func (p listed) forTests() bool {
	name, _ := nameOf(p.ImportPath)
	return slices.Contains(onlyForTests, name)
}

// stale compares the page with the code, in both directions.
func stale(promised, found map[use]bool) []string {
	var findings []string
	for u := range found {
		if !promised[u] {
			findings = append(findings, fmt.Sprintf("%s is not in %s", u, page))
		}
	}
	for u := range promised {
		if !found[u] {
			findings = append(findings, fmt.Sprintf("%s: not any more, but %s says so", u, page))
		}
	}
	slices.Sort(findings)
	return findings
}

func TestLibrariesAreListed(t *testing.T) {
	t.Parallel()
	report(t, stale(promised(string(files(t)[page])), found(list(t))))
}

// TestToolsAreListed holds the second table of the page against tools/go.mod.
func TestToolsAreListed(t *testing.T) {
	t.Parallel()
	var file struct {
		Require []struct{ Path, Version string }
		Tool    []struct{ Path string }
	}
	if err := json.Unmarshal(run(t, "go", "mod", "edit", "-json", "tools/go.mod"), &file); err != nil {
		t.Fatal(err)
	}
	pinned := map[string]string{}
	for _, tool := range file.Tool {
		for _, required := range file.Require {
			if strings.HasPrefix(tool.Path+"/", required.Path+"/") {
				pinned[tool.Path] = required.Version
			}
		}
	}
	listed := map[string]string{}
	for _, cells := range rows(string(files(t)[page]), "## Tools") {
		listed[cells[0]] = cells[1]
	}
	if diff := cmp.Diff(pinned, listed); diff != "" {
		t.Errorf("tools/go.mod and %s differ (-go.mod +page):\n%s", page, diff)
	}
}

func TestFound(t *testing.T) {
	t.Parallel()
	const packages = `[
		{"ImportPath": "example.org/a/sub", "Module": {"Path": "example.org/a", "Version": "v1.0.0"}},
		{"ImportPath": "example.org/b", "Module": {"Path": "example.org/b", "Version": "v2.0.0"}},
		{"ImportPath": "` + module + `internal/bolt", "Module": {"Main": true},
			"Imports": ["fmt", "example.org/a/sub"], "TestImports": ["example.org/b"]},
		{"ImportPath": "` + module + `internal/loop", "Module": {"Main": true}, "XTestImports": ["example.org/a/sub"]},
		{"ImportPath": "` + module + `internal/brokertest", "Module": {"Main": true}, "Imports": ["example.org/b"]}
	]`
	var all []listed
	if err := json.Unmarshal([]byte(packages), &all); err != nil {
		t.Fatal(err)
	}
	want := map[use]bool{{"example.org/a", "v1.0.0", "internal/bolt"}: true, {"example.org/b", "v2.0.0", forTests}: true}
	if diff := cmp.Diff(want, found(all), cmp.AllowUnexported(use{})); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	const text = "# Page\n\n## Libraries\n\n| library | version | imported by | why |\n|---|---|---|---|\n" +
		"| `example.org/a` | v1.0.0 | `internal/bolt`, `internal/cf` | both |\n\n## Tools\n\n| `example.org/t` | v2.0.0 | no library |\n"
	want := map[use]bool{{"example.org/a", "v1.0.0", "internal/bolt"}: true, {"example.org/a", "v1.0.0", "internal/cf"}: true}
	if diff := cmp.Diff(want, promised(text), cmp.AllowUnexported(use{})); diff != "" {
		t.Fatalf("the page is misread (-want +got):\n%s", diff)
	}
	same := maps.Clone(want)
	if findings := stale(want, same); findings != nil {
		t.Errorf("nothing differs, but: %q", findings)
	}
	delete(same, use{"example.org/a", "v1.0.0", "internal/cf"})
	same[use{"example.org/a", "v1.0.0", "internal/api"}] = true
	got := stale(want, same)
	wanted := []string{
		"example.org/a v1.0.0, imported by internal/api is not in docs/dependencies.md",
		"example.org/a v1.0.0, imported by internal/cf: not any more, but docs/dependencies.md says so",
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
