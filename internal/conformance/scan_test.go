package conformance

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// idToken is what an id looks like: the area, and a number of two digits, with nothing behind it that would make it
// another word. An underscore, which go test makes of a space, may stand there.
var idToken = regexp.MustCompile(`\b((?:HTTP|AUTH|HDR|OID|RID|ERR|CAT|LIM|MI|ASY|CON|LOI|LOB|PROV|FI|UPD|BIND|ROT|FB|UNB|DEP|ORPH)-[0-9]{2})(?:[^0-9A-Za-z]|$)`)

// proof is a test that names an id, or a check that tests share.
type proof struct {
	// path is the file from the root; name the function.
	path, name string
	// shared: name is no test but is called by several.
	shared bool
	// clause is the rest of a subtest's name that begins with ids, "" without one.
	clause string
}

// fewTests is up to how many tests are named one by one for an id that stands in something they share.
const fewTests = 3

// unit is one function, or one declaration of data, of a test file.
type unit struct {
	path, name string
	// ids are those that stand in it, each with the clauses that its strings add.
	ids  map[string][]string
	uses map[string]bool
}

func (u unit) isTest() bool {
	return strings.HasPrefix(u.name, "Test") || strings.HasPrefix(u.name, "Fuzz") || strings.HasPrefix(u.name, "Benchmark")
}

// suite is the folder of the clauses that tests of other packages play (osbtest.Run). They stand in files that are no
// tests, and prove something where any test plays them.
const suite = "internal/osbtest"

func (u unit) isSuite() bool { return path.Dir(u.path) == suite && u.name == "Run" }

// plays reports whether a test plays the suite.
func (u unit) plays() bool {
	return u.isTest() && path.Dir(u.path) != suite && u.uses[path.Base(suite)] && u.uses["Run"]
}

// skipped are files whose tokens mean something else: cases of public bug reports have ids of their own, some of which
// look like ours, and this package's tests are about ids.
func skipped(file string) bool {
	return !strings.HasSuffix(file, "_test.go") && path.Dir(file) != suite ||
		strings.HasPrefix(path.Base(file), "cases_") || path.Dir(file) == "internal/conformance"
}

// scan returns the proofs of each id in the test files, sorted.
func scan(files map[string][]byte) (map[string][]proof, error) {
	packages := map[string][]unit{}
	played := false
	for file, text := range files {
		if skipped(file) {
			continue
		}
		units, err := unitsOf(file, text)
		if err != nil {
			return nil, err
		}
		packages[path.Dir(file)] = append(packages[path.Dir(file)], units...)
		played = played || slices.ContainsFunc(units, unit.plays)
	}
	proofs := map[string][]proof{}
	for folder, units := range packages {
		if folder == suite && !played {
			continue
		}
		for _, u := range units {
			for _, p := range proofsOf(u, units) {
				for id, clauses := range u.ids {
					for _, p.clause = range clauses {
						proofs[id] = append(proofs[id], p)
					}
				}
			}
		}
	}
	for id := range proofs {
		slices.SortFunc(proofs[id], func(a, b proof) int {
			return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.name, b.name), strings.Compare(a.clause, b.clause))
		})
		proofs[id] = slices.Compact(proofs[id])
	}
	return proofs, nil
}

// proofsOf says what a unit proves: itself when it is a test or a part of the suite, else the tests that reach it, or
// itself as a shared check when those are many.
func proofsOf(u unit, units []unit) []proof {
	if len(u.ids) == 0 {
		return nil
	}
	if u.isTest() {
		return []proof{{path: u.path, name: u.name}}
	}
	reached := reaching(u.name, units)
	if slices.ContainsFunc(reached, unit.isSuite) {
		return []proof{{path: u.path, name: u.name}}
	}
	var tests []proof
	for _, test := range reached {
		tests = append(tests, proof{path: test.path, name: test.name})
	}
	if len(tests) > fewTests {
		return []proof{{path: u.path, name: u.name, shared: true}}
	}
	return tests
}

// reaching returns the tests that use the name, directly or not, and the suite if it does.
func reaching(name string, units []unit) []unit {
	reached := map[string]bool{name: true}
	for grown := true; grown; {
		grown = false
		for _, u := range units {
			for used := range u.uses {
				if reached[used] && !reached[u.name] {
					reached[u.name], grown = true, true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(units), func(u unit) bool { return !u.isTest() && !u.isSuite() || !reached[u.name] })
}

// unitsOf parses a file. Ids count in string literals and in comments, those directly above a declaration included.
func unitsOf(file string, text []byte) ([]unit, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var units []unit
	for _, declaration := range parsed.Decls {
		for _, name := range names(declaration) {
			units = append(units, unit{path: file, name: name, ids: ids(parsed, declaration), uses: uses(declaration)})
		}
	}
	return units, nil
}

// names are those that a declaration makes; imports make none.
func names(declaration ast.Decl) []string {
	if function, ok := declaration.(*ast.FuncDecl); ok {
		return []string{function.Name.Name}
	}
	var found []string
	for _, spec := range declaration.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				found = append(found, name.Name)
			}
		case *ast.TypeSpec:
			found = append(found, spec.Name.Name)
		}
	}
	return found
}

func ids(file *ast.File, declaration ast.Decl) map[string][]string {
	found := map[string][]string{}
	take := func(text, clause string) {
		for _, match := range idToken.FindAllStringSubmatch(text, -1) {
			if id := match[1]; !slices.Contains(found[id], clause) {
				found[id] = append(found[id], clause)
			}
		}
	}
	from := declaration.Pos()
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		from = start(d.Doc, from)
	case *ast.GenDecl:
		from = start(d.Doc, from)
	}
	for _, group := range file.Comments {
		if from <= group.Pos() && group.End() <= declaration.End() {
			take(group.Text(), "")
		}
	}
	ast.Inspect(declaration, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			take(literal.Value, clauseOf(literal.Value))
		}
		return true
	})
	return found
}

// further is a word before a clause that names ids: one, or the number of a further one of the same area.
var further = regexp.MustCompile(`^([A-Z]+-)?[0-9]{2}$`)

// clauseOf is what a literal says after the ids that it begins with.
func clauseOf(literal string) string {
	text := strings.Trim(literal, "\"`")
	if !strings.Contains(text, " ") {
		text = strings.ReplaceAll(text, "_", " ")
	}
	words := strings.Fields(text)
	first := slices.IndexFunc(words, func(word string) bool { return !further.MatchString(word) })
	if first <= 0 {
		return ""
	}
	return strings.Join(words[first:], " ")
}

func start(doc *ast.CommentGroup, otherwise token.Pos) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return otherwise
}

func uses(declaration ast.Decl) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(declaration, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			found[name.Name] = true
		}
		return true
	})
	return found
}
