package conformance

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/osb-conformance.md anew")

// TestConformance holds the requirements against the tests of the whole project.
func TestConformance(t *testing.T) {
	t.Parallel()
	all, why := requirements(t), reasons(t)
	proofs, err := scan(testFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	page, open := render(all, proofs, why)
	if len(open) > 0 {
		t.Errorf("%d duties of a broker have neither a test nor a reason: %s", len(open), strings.Join(open, " "))
	}
	for _, finding := range stray(all, proofs, why) {
		t.Error(finding)
	}
	checkPage(t, page)
}

func checkPage(t *testing.T, page string) {
	t.Helper()
	path := filepath.Join(root, "docs/osb-conformance.md")
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(path)
	if err != nil || string(old) != page {
		t.Errorf("docs/osb-conformance.md is stale; write it anew with make docs (%v)", err)
	}
}

// stray returns ids that stand where they do not belong: unknown ones in tests or among the reasons, and reasons for
// what a test shows.
func stray(all []requirement, proofs map[string][]proof, why map[string]string) []string {
	known := map[string]bool{}
	for _, r := range all {
		known[r.id] = true
	}
	var findings []string
	for id, where := range proofs {
		if !known[id] {
			findings = append(findings, "unknown id "+id+" in "+where[0].path+", "+where[0].name)
		}
	}
	for id := range why {
		switch {
		case !known[id]:
			findings = append(findings, "unknown id "+id+" in not-applicable.tsv")
		case len(proofs[id]) > 0:
			findings = append(findings, "not-applicable.tsv gives a reason for "+id+", which "+proofs[id][0].name+" shows")
		}
	}
	slices.Sort(findings)
	return findings
}

// testFiles returns the test files of the project by their paths from the root.
func testFiles(t *testing.T) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); base != ".." && strings.HasPrefix(base, ".") || base == "bin" || base == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		path, err := filepath.Rel(root, name)
		if err != nil || !strings.HasSuffix(name, ".go") || skipped(filepath.ToSlash(path)) {
			return err
		}
		found[filepath.ToSlash(path)], err = os.ReadFile(name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestScan(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{
		"internal/a/a_test.go": []byte(`package a
// TestOne shows HTTP-01 and not HTTP-011 or UTF-16.
func TestOne(t *testing.T) { check() } // HTTP-99 stands beside it
func check() {
	inner() // HTTP-02
}
var table = []string{"HTTP-03 HTTP-08 a clause", "HTTP-09_10_a_clause"}
func inner() { _ = table }
// nobody calls it: HTTP-04
func idle() {}
// many shows HTTP-05.
func many() {}
func TestA(t *testing.T) { many() }
func TestB(t *testing.T) { many() }
func TestC(t *testing.T) { many() }
func TestD(t *testing.T) { many() }`),
		"internal/a/cases_a_test.go":               []byte("package a\n// TestCase is CAT-01 of a bug report.\nfunc TestCase(t *testing.T) {}"),
		"internal/conformance/conformance_test.go": []byte("package conformance\n// TestScan is about HTTP-06.\nfunc TestScan() {}"),
		"internal/a/a.go":                          []byte("package a\n// Do is HTTP-07.\nfunc Do() {}"),
		"internal/osbtest/suite.go": []byte(`package osbtest
func Run() { _ = clauses }
var clauses = []string{"HTTP-12 of the suite"}
// idle is HTTP-13 and nobody's.
func idle() {}`),
		"internal/b/b_test.go": []byte("package b\nfunc TestPlay() { osbtest.Run() }"),
	}
	got, err := scan(files)
	if err != nil {
		t.Fatal(err)
	}
	one := []proof{{path: "internal/a/a_test.go", name: "TestOne"}}
	clause := []proof{{path: "internal/a/a_test.go", name: "TestOne", clause: "a clause"}}
	want := map[string][]proof{
		"HTTP-01": one, "HTTP-02": one, "HTTP-03": clause, "HTTP-08": clause, "HTTP-09": clause, "HTTP-05": {{path: "internal/a/a_test.go", name: "many", shared: true}},
		"HTTP-12": {{path: "internal/osbtest/suite.go", name: "clauses", clause: "of the suite"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(proof{})); diff != "" {
		t.Errorf("proofs (-want +got):\n%s", diff)
	}
	delete(files, "internal/b/b_test.go")
	if got, err := scan(files); err != nil || len(got["HTTP-12"]) != 0 {
		t.Errorf("a suite that nobody plays proves %v (%v)", got["HTTP-12"], err)
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	all := []requirement{
		{"A-01", "some_area", "MUST", "broker", "shown"}, {"A-02", "some_area", "MAY", "broker", "excused"},
		{"A-03", "some_area", "MUST", "broker", "open"}, {"A-04", "some_area", "MUST", "input", "theirs"},
	}
	one := proof{path: "internal/a/a_test.go", name: "TestOne", clause: "a clause"}
	two := one
	two.clause = "another"
	proofs := map[string][]proof{"A-01": {one, two}}
	page, open := render(all, proofs, map[string]string{"A-02": "there is none"})
	if diff := cmp.Diff([]string{"A-03"}, open); diff != "" {
		t.Errorf("open ids (-want +got):\n%s", diff)
	}
	for _, part := range []string{
		"4 ids, 3 of them duties of a broker; tests show 1 of those, and 2 have a reason.", "\n## Some area\n",
		"| A-01 | MUST | shown | [a.TestOne](../internal/a/a_test.go): *a clause*; *another* |", "| A-02 | MAY | excused | there is none |",
		"| A-04 | MUST | theirs | what platforms do; the broker has no part in it |",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q:\n%s", part, page)
		}
	}
}

func TestStray(t *testing.T) {
	t.Parallel()
	proofs := map[string][]proof{"A-01": {{path: "a", name: "TestOne"}}, "B-99": {{path: "b", name: "TestTwo"}}}
	want := []string{
		"not-applicable.tsv gives a reason for A-01, which TestOne shows", "unknown id B-99 in b, TestTwo", "unknown id C-01 in not-applicable.tsv",
	}
	got := stray([]requirement{{id: "A-01"}}, proofs, map[string]string{"A-01": "x", "C-01": "x"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	if _, err := cells("a\tb\n1\t2\n", 2); err != nil {
		t.Errorf("a good table: %v", err)
	}
	for _, text := range []string{"a\tb\n1\n", "a\tb\n1\t2\t3\n", "a\tb\n1\t \n"} {
		if rows, err := cells(text, 2); err == nil {
			t.Errorf("%q was read as %v", text, rows)
		}
	}
}
