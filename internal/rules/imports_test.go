package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// imports are what a package may import besides the standard library and the libraries that docs/dependencies.md gives
// it.
type imports struct {
	own   []string // packages of ours; anything stands for all of them
	never []string // packages of the standard library, with all below them
}

// anything is for the package that puts the process together.
const anything = "*"

// impure is what a pure package does without: no disk, no network, no randomness, no log. The clock is kept out by
// TestRulesHold/time_comes_in_as_a_value.
var impure = []string{"os", "io/fs", "net", "syscall", "log", "math/rand", "crypto/rand", "os/exec", "runtime", "context"}

// web is for the packages that do not speak HTTP: its words stop in api and cf.
var web = []string{"net/http", "os"}

// table is the one of ARCHITECTURE.md. A package that is not in it fails.
var table = map[string]imports{
	"osb":               {},
	"canon":             {never: impure},
	"lifecycle":         {never: impure},
	"broker":            {own: []string{"osb", "lifecycle", "canon"}, never: web},
	"singleflight":      {never: web},
	"schema":            {own: []string{"canon"}, never: web},
	"catalog":           {own: []string{"osb", "canon", "broker", "lifecycle", "schema", "singleflight"}, never: web},
	"api":               {own: []string{"osb", "broker", "catalog", "canon"}},
	"dynamo":            {own: []string{"broker", "lifecycle"}},
	"bolt":              {own: []string{"broker", "lifecycle"}, never: []string{"net/http"}},
	"loop":              {own: []string{"broker"}, never: web},
	"cf":                {own: []string{"broker", "ccapi", "lifecycle", "singleflight"}},
	"ccapi":             {own: []string{"singleflight"}},
	"cfsim":             {},
	"config":            {never: []string{"net/http"}},
	"metrics":           {},
	"demo":              {own: []string{"osb"}},
	"sfn":               {own: []string{"broker"}, never: web},
	"secrets":           {own: []string{"config"}, never: web},
	"setup":             {own: []string{"api", "broker", "catalog", "cf", "config", "lifecycle"}},
	"lambda":            {own: []string{"broker", "dynamo", "osb", "secrets", "setup", "sfn"}},
	"server":            {own: []string{anything}},
	"lambda/local":      {own: []string{"config", "server", "lambda"}},
	"brokertest":        {own: []string{"broker", "lifecycle", "osb"}},
	"osbtest":           {},
	"acceptance":        {},
	"conformance":       {},
	"process":           {},
	"bench":             {},
	"model":             {},
	"shape":             {own: []string{anything}},
	"rules":             {},
	"stack":             {},
	"standin":           {},
	"deployed":          {},
	"cmd/ferry":         {own: []string{"server"}},
	"functions/api":     {own: []string{"lambda"}},
	"functions/poller":  {own: []string{"lambda"}},
	"functions/janitor": {own: []string{"lambda"}},
}

// onlyForTests are packages that no product code imports, server included.
var onlyForTests = []string{"brokertest", "osbtest", "acceptance", "conformance", "process", "bench", "rules", "stack", "standin", "deployed"}

// nameOf returns the short name of a package of ours; false for another's.
func nameOf(importPath string) (string, bool) {
	path, ours := strings.CutPrefix(importPath, module)
	return strings.TrimPrefix(path, "internal/"), ours
}

// wrongImports returns every import that the table does not allow. Imports of tests are free: a test may put packages
// together that do not know each other.
func wrongImports(packages []listed) []string {
	var findings []string
	for _, p := range packages {
		if !p.ours() {
			continue
		}
		name, _ := nameOf(p.ImportPath)
		row, known := table[name]
		if !known {
			findings = append(findings, fmt.Sprintf("%s: not in the table of packages; add it here and in ARCHITECTURE.md", name))
			continue
		}
		for _, imported := range p.Imports {
			if why := row.refuses(imported); why != "" {
				findings = append(findings, fmt.Sprintf("%s imports %s: %s", name, imported, why))
			}
		}
	}
	return findings
}

// refuses returns why the package may not import it, or nothing.
func (r imports) refuses(imported string) string {
	other, ours := nameOf(imported)
	if ours {
		switch {
		case slices.Contains(onlyForTests, other):
			return "that package is for tests"
		case slices.Contains(r.own, other), slices.Contains(r.own, anything):
			return ""
		}
		return "the table of packages does not allow it"
	}
	for _, path := range r.never {
		if imported == path || strings.HasPrefix(imported, path+"/") {
			return "this package does without it"
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	t.Parallel()
	report(t, wrongImports(list(t)))
}

// TestPackagesAreDescribed holds the table of ARCHITECTURE.md against this one.
func TestPackagesAreDescribed(t *testing.T) {
	t.Parallel()
	described := map[string][]string{}
	for _, cells := range rows(string(files(t)["ARCHITECTURE.md"]), "## The packages") {
		name := strings.TrimPrefix(cells[0], "internal/")
		switch cells[2] {
		case "none":
			described[name] = nil
		case "all of the above":
			described[name] = []string{anything}
		default:
			described[name] = strings.Split(cells[2], ", ")
		}
	}
	want := map[string][]string{}
	for name, row := range table {
		want[name] = row.own
	}
	if diff := cmp.Diff(want, described); diff != "" {
		t.Errorf("the two tables differ (-this one +ARCHITECTURE.md):\n%s", diff)
	}
}

func TestWrongImports(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path    string
		imports []string
		want    []string
	}{
		"a package imports what its row names": {"internal/broker", []string{"fmt", module + "internal/osb"}, nil},
		"server imports any package":           {"internal/server", []string{module + "internal/bolt", module + "internal/cf"}, nil},
		"an adapter imports another": {"internal/bolt", []string{module + "internal/cf"},
			[]string{"bolt imports " + module + "internal/cf: the table of packages does not allow it"}},
		"the core imports an adapter": {"internal/broker", []string{module + "internal/bolt"},
			[]string{"broker imports " + module + "internal/bolt: the table of packages does not allow it"}},
		"server imports a contract suite": {"internal/server", []string{module + "internal/brokertest"},
			[]string{"server imports " + module + "internal/brokertest: that package is for tests"}},
		"the lifecycle reads a file": {"internal/lifecycle", []string{"os"},
			[]string{"lifecycle imports os: this package does without it"}},
		"the lifecycle throws dice": {"internal/lifecycle", []string{"math/rand/v2"},
			[]string{"lifecycle imports math/rand/v2: this package does without it"}},
		"a package is not in the table": {"internal/attic", nil,
			[]string{"attic: not in the table of packages; add it here and in ARCHITECTURE.md"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := listed{ImportPath: module + test.path, Imports: test.imports}
			p.Module = &struct {
				Path, Version string
				Main          bool
			}{Main: true}
			if diff := cmp.Diff(test.want, wrongImports([]listed{p})); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
