package house

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// room is what a package may import besides the standard library and the
// libraries that docs/dependencies.md gives it.
type room struct {
	own   []string // rooms of ours; anything stands for all of them
	never []string // packages of the standard library, with all below them
}

// anything is for the room that puts the process together.
const anything = "*"

// impure is what a pure room does without: no disk, no network, no randomness,
// no log. The clock is kept out by TestHouse/time_comes_in_as_a_value.
var impure = []string{"os", "io/fs", "net", "syscall", "log", "math/rand", "crypto/rand", "os/exec", "runtime", "context"}

// web is for the rooms that do not speak HTTP: its words stop in api and cf.
var web = []string{"net/http", "os"}

// rooms is the table of ARCHITECTURE.md. A package that is not in it fails.
var rooms = map[string]room{
	"osb":        {},
	"canon":      {never: impure},
	"lifecycle":  {never: impure},
	"broker":     {own: []string{"osb", "lifecycle", "canon"}, never: web},
	"catalog":    {own: []string{"osb", "canon", "broker", "lifecycle"}, never: web},
	"api":        {own: []string{"osb", "broker", "catalog", "canon"}},
	"dynamo":     {own: []string{"broker", "lifecycle"}},
	"bolt":       {own: []string{"broker", "lifecycle"}, never: []string{"net/http"}},
	"loop":       {own: []string{"broker"}, never: web},
	"cf":         {own: []string{"broker", "lifecycle"}},
	"cfsim":      {},
	"config":     {never: []string{"net/http"}},
	"metrics":    {},
	"demo":       {own: []string{"osb"}},
	"sfn":        {own: []string{"broker"}, never: web},
	"secrets":    {own: []string{"config"}, never: web},
	"wire/parts": {own: []string{"api", "broker", "catalog", "cf", "config"}},
	"wire/functions": {own: []string{
		"api", "broker", "catalog", "config", "dynamo", "lifecycle", "osb", "secrets", "sfn", "wire/parts"}},
	"wire":              {own: []string{anything}},
	"wire/local":        {own: []string{"config", "wire", "wire/functions"}},
	"brokertest":        {own: []string{"broker", "lifecycle", "osb"}},
	"acceptance":        {},
	"conformance":       {},
	"process":           {},
	"bench":             {},
	"house":             {},
	"stack":             {},
	"standin":           {},
	"deployed":          {},
	"cmd/ferry":         {own: []string{"wire"}},
	"functions/api":     {own: []string{"wire/functions"}},
	"functions/poller":  {own: []string{"wire/functions"}},
	"functions/janitor": {own: []string{"wire/functions"}},
}

// onlyForTests are rooms that no product code imports, wire included.
var onlyForTests = []string{"brokertest", "acceptance", "conformance", "process", "bench", "house", "stack", "standin", "deployed"}

// roomOf returns the short name of a package of ours; false for another's.
func roomOf(importPath string) (string, bool) {
	path, ours := strings.CutPrefix(importPath, module)
	return strings.TrimPrefix(path, "internal/"), ours
}

// wrongImports returns every import that the table does not allow. Imports of
// tests are free: a test may put rooms together that do not know each other.
func wrongImports(packages []listed) []string {
	var findings []string
	for _, p := range packages {
		if !p.ours() {
			continue
		}
		name, _ := roomOf(p.ImportPath)
		row, known := rooms[name]
		if !known {
			findings = append(findings, fmt.Sprintf("%s: not in the table of rooms; add it here and in ARCHITECTURE.md", name))
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

// refuses returns why the room may not import it, or nothing.
func (r room) refuses(imported string) string {
	other, ours := roomOf(imported)
	if ours {
		switch {
		case slices.Contains(onlyForTests, other):
			return "that room is for tests"
		case slices.Contains(r.own, other), slices.Contains(r.own, anything):
			return ""
		}
		return "the table of rooms does not allow it"
	}
	for _, path := range r.never {
		if imported == path || strings.HasPrefix(imported, path+"/") {
			return "this room does without it"
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	t.Parallel()
	report(t, wrongImports(list(t)))
}

// TestRoomsAreDescribed holds the table of ARCHITECTURE.md against this one.
func TestRoomsAreDescribed(t *testing.T) {
	t.Parallel()
	described := map[string][]string{}
	for _, cells := range rows(string(files(t)["ARCHITECTURE.md"]), "## The rooms") {
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
	for name, row := range rooms {
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
		"a room imports what its row names": {"internal/broker", []string{"fmt", module + "internal/osb"}, nil},
		"wire imports any room":             {"internal/wire", []string{module + "internal/bolt", module + "internal/cf"}, nil},
		"an adapter imports another": {"internal/bolt", []string{module + "internal/cf"},
			[]string{"bolt imports " + module + "internal/cf: the table of rooms does not allow it"}},
		"the core imports an adapter": {"internal/broker", []string{module + "internal/bolt"},
			[]string{"broker imports " + module + "internal/bolt: the table of rooms does not allow it"}},
		"wire imports a contract suite": {"internal/wire", []string{module + "internal/brokertest"},
			[]string{"wire imports " + module + "internal/brokertest: that room is for tests"}},
		"the lifecycle reads a file": {"internal/lifecycle", []string{"os"},
			[]string{"lifecycle imports os: this room does without it"}},
		"the lifecycle throws dice": {"internal/lifecycle", []string{"math/rand/v2"},
			[]string{"lifecycle imports math/rand/v2: this room does without it"}},
		"a room is not in the table": {"internal/attic", nil,
			[]string{"attic: not in the table of rooms; add it here and in ARCHITECTURE.md"}},
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
