package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// What we keep files and functions below.
const (
	maxFileLines     = 500
	maxFunctionLines = 70
	maxMethods       = 30
	maxColumns       = 120
)

// rule returns what is wrong with a file, one sentence a finding.
type rule func(source) []string

// rules are those that look at one file.
var rules = map[string]rule{
	"files stay short":               shortFile,
	"functions stay short":           shortFunctions,
	"nothing runs before main":       noInit,
	"no package keeps mutable state": noMutableState,
	"a package is named by a noun":   tellingName,
	"nothing waits by sleeping":      noSleep,
	"time comes in as a value":       noClock,
	"a context is passed on":         noStoredContext,
	"an exported name is documented": documented,
	"a comment has 120 columns":      shortComments,
}

func TestRulesHold(t *testing.T) {
	t.Parallel()
	all := sources(t)
	for name, check := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range all {
				report(t, check(s))
			}
		})
	}
	t.Run("a package says what it is for", func(t *testing.T) {
		t.Parallel()
		report(t, undocumented(all))
	})
	t.Run("a type is one thing", func(t *testing.T) {
		t.Parallel()
		report(t, crowded(all))
	})
	t.Run("nothing writes a table", func(t *testing.T) {
		t.Parallel()
		report(t, writtenTables(all))
	})
}

func shortFile(s source) []string {
	if s.isTest() || s.lines <= maxFileLines {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d lines, over %d: which noun or use case wants its own file?", s.path, s.lines, maxFileLines)}
}

// shortFunctions counts what a reader has to follow: in a test its longest table, which is data, does not count.
func shortFunctions(s source) []string {
	var findings []string
	for _, declaration := range s.file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := s.span(function) + 1
		if s.isTest() {
			lines -= longestTable(s, function)
		}
		if lines > maxFunctionLines {
			findings = append(findings, fmt.Sprintf("%s:%d: %s has %d lines, over %d", s.path, s.line(function), function.Name.Name, lines, maxFunctionLines))
		}
	}
	return findings
}

func longestTable(s source, function *ast.FuncDecl) int {
	longest := 0
	ast.Inspect(function, func(n ast.Node) bool {
		if table, ok := n.(*ast.CompositeLit); ok {
			longest = max(longest, s.span(table))
		}
		return true
	})
	return longest
}

func noInit(s source) []string {
	for _, declaration := range s.file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Recv == nil && function.Name.Name == "init" {
			return []string{fmt.Sprintf("%s:%d: func init: hand the value to whoever needs it", s.path, s.line(function))}
		}
	}
	return nil
}

// set by the linker, and never again: the one way to bring them in.
var linked = []string{"cmd/ferry version", "cmd/ferry commit", "internal/lambda build"}

// noMutableState allows a package-level variable where nothing can change behind a reader's back: sentinels of errors,
// compiled expressions, embedded files, literals as bytes (Go has no constants of that type), unexported tables that
// nothing writes (writtenTables looks), and proofs that a type has an interface's methods. Tests and the contract
// suites are exempt: their flags and tables are variables by nature, and the race detector watches them.
func noMutableState(s source) []string {
	if s.isTest() || strings.HasPrefix(s.path, "internal/brokertest/") {
		return nil
	}
	var findings []string
	for _, declaration := range s.file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if embedded(group.Doc) || embedded(value.Doc) {
				continue
			}
			for i, name := range value.Names {
				if fixed(value, i) || slices.Contains(linked, path.Dir(s.path)+" "+name.Name) {
					continue
				}
				findings = append(findings, fmt.Sprintf("%s:%d: package-level variable %s: make it a constant, a function or a field", s.path, s.line(name), name.Name))
			}
		}
	}
	return findings
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

// fixed reports whether the i-th name of a declaration is of an allowed kind.
func fixed(value *ast.ValueSpec, i int) bool {
	name := value.Names[i].Name
	if name == "_" || isSentinel(name) {
		return true
	}
	if i >= len(value.Values) {
		return false
	}
	if _, table := value.Values[i].(*ast.CompositeLit); table {
		return !ast.IsExported(name)
	}
	call, ok := value.Values[i].(*ast.CallExpr)
	return ok && (isQualified(call.Fun, "regexp", "MustCompile") || isLiteralAsBytes(call))
}

// isLiteralAsBytes reports whether an expression is []byte("so").
func isLiteralAsBytes(call *ast.CallExpr) bool {
	slice, ok := call.Fun.(*ast.ArrayType)
	if !ok || slice.Len != nil || len(call.Args) != 1 {
		return false
	}
	element, isName := slice.Elt.(*ast.Ident)
	_, isLiteral := call.Args[0].(*ast.BasicLit)
	return isName && element.Name == "byte" && isLiteral
}

// isSentinel reports whether a name is one of an error: ErrGone, errToken.
func isSentinel(name string) bool {
	rest, ok := strings.CutPrefix(name, "Err")
	if !ok {
		rest, ok = strings.CutPrefix(name, "err")
	}
	first, _ := utf8.DecodeRuneInString(rest)
	return ok && unicode.IsUpper(first)
}

// isQualified reports whether an expression is pkg.name.
func isQualified(e ast.Node, pkg string, names ...string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	left, ok := selector.X.(*ast.Ident)
	return ok && left.Name == pkg && slices.Contains(names, selector.Sel.Name)
}

// writtenTables returns every place that changes a package-level table of its package, or takes its address: a table is
// written once, where it stands.
func writtenTables(all []source) []string {
	tables := map[string]bool{}
	for _, s := range all {
		for _, name := range tablesOf(s) {
			tables[path.Dir(s.path)+" "+name] = true
		}
	}
	var findings []string
	for _, s := range all {
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, changed := range changedBy(n) {
				name := variableOf(changed)
				if name != nil && isPackageLevel(name) && tables[path.Dir(s.path)+" "+name.Name] {
					findings = append(findings, fmt.Sprintf("%s:%d: changes the table %s, which others read without a lock", s.path, s.line(n), name.Name))
				}
			}
			return true
		})
	}
	return findings
}

// tablesOf returns the names of the file's package-level variables that are literals.
func tablesOf(s source) []string {
	var names []string
	for _, declaration := range s.file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if i < len(value.Values) {
					if _, table := value.Values[i].(*ast.CompositeLit); table {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// changedBy returns what the statement or expression may change.
func changedBy(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		name, ok := n.Fun.(*ast.Ident)
		if ok && slices.Contains([]string{"delete", "clear", "append", "copy"}, name.Name) && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

// variableOf is the variable that an expression is a part of.
func variableOf(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.IndexExpr:
		return variableOf(e.X)
	case *ast.SelectorExpr:
		return variableOf(e.X)
	case *ast.ParenExpr:
		return variableOf(e.X)
	case *ast.SliceExpr:
		return variableOf(e.X)
	default:
		return nil
	}
}

// isPackageLevel reports whether a name is not one of a function's own.
func isPackageLevel(name *ast.Ident) bool {
	if name.Obj == nil { // declared in another file
		return true
	}
	_, ok := name.Obj.Decl.(*ast.ValueSpec)
	return ok
}

func tellingName(s source) []string {
	name := strings.TrimSuffix(s.file.Name.Name, "_test")
	switch name {
	case "util", "utils", "common", "types", "models", "model", "helpers", "helper", "misc":
		return []string{fmt.Sprintf("%s: package %s says nothing about what is inside", s.path, name)}
	}
	return nil
}

// noSleep holds for the product too: a pause that no context can end holds up a shutdown, and a test that sleeps is
// slow on a good day and wrong on a bad one.
func noSleep(s source) []string {
	return uses(s, "time.Sleep: wait for a channel, a condition or a context", "Sleep")
}

// clocks are the places that may look at the clock, each with its reason.
var clocks = map[string]string{
	"cmd/":                 "the top of a process",
	"internal/server/":     "hands the clock to everybody else",
	"internal/setup/":      "hands the clock to what it makes",
	"internal/lambda/":     "the top of a function",
	"internal/cfsim/":      "default of an option: a simulator is started alone, too",
	"internal/bench/":      "measuring is its purpose",
	"internal/model/":      "says how long a search takes",
	"internal/shape/":      "puts a broker together to measure it",
	"internal/brokertest/": "contract suites give up at a deadline",
}

// noClock keeps tests free to say what time it is.
func noClock(s source) []string {
	if s.isTest() {
		return nil
	}
	for place := range clocks {
		if strings.HasPrefix(s.path, place) {
			return nil
		}
	}
	return uses(s, "the clock: take a now func() time.Time", "Now", "Since", "Until")
}

// noStoredContext finds contexts in structs: one that is stored outlives the call that it is about.
func noStoredContext(s source) []string {
	if s.isTest() {
		return nil
	}
	var findings []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		structure, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range structure.Fields.List {
			if isQualified(field.Type, "context", "Context") {
				findings = append(findings, fmt.Sprintf("%s:%d: a struct holds a context: pass it to each function", s.path, s.line(field)))
			}
		}
		return true
	})
	return findings
}

// documented finds exported names of the product without a comment. Methods of types that are not exported count:
// whoever reads the type meets them through an interface.
func documented(s source) []string {
	if s.isTest() || s.file.Name.Name == "main" {
		return nil
	}
	var findings []string
	check := func(name *ast.Ident, comments ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(comments, func(g *ast.CommentGroup) bool { return g != nil }) {
			findings = append(findings, fmt.Sprintf("%s:%d: %s has no comment", s.path, s.line(name), name.Name))
		}
	}
	for _, declaration := range s.file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			check(d.Name, d.Doc)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					check(spec.Name, spec.Doc, d.Doc)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						check(name, spec.Doc, spec.Comment, d.Doc)
					}
				}
			}
		}
	}
	return findings
}

// shortComments looks at comments that stand alone on their line; a tab counts as four columns.
func shortComments(s source) []string {
	var findings []string
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			at := s.fset.Position(comment.Pos())
			columns := 4*(at.Column-1) + utf8.RuneCountInString(comment.Text)
			if strings.HasPrefix(comment.Text, "// ") && columns > maxColumns && s.startsLine(comment) {
				findings = append(findings, fmt.Sprintf("%s:%d: a comment of %d columns, over %d", s.path, at.Line, columns, maxColumns))
			}
		}
	}
	return findings
}

// crowded returns the types of the product that have too many methods, those of tests aside.
func crowded(all []source) []string {
	methods := map[string]int{}
	for _, s := range all {
		if s.isTest() {
			continue
		}
		for _, declaration := range s.file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv == nil {
				continue
			}
			receiver := function.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if name, ok := receiver.(*ast.Ident); ok {
				methods[path.Dir(s.path)+": "+name.Name]++
			}
		}
	}
	var findings []string
	for name, n := range methods {
		if n > maxMethods {
			findings = append(findings, fmt.Sprintf("%s has %d methods, over %d: which things is it?", name, n, maxMethods))
		}
	}
	return findings
}

// uses returns a finding for every mention of these names of package time.
func uses(s source, finding string, names ...string) []string {
	var findings []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if isQualified(n, "time", names...) {
			findings = append(findings, fmt.Sprintf("%s:%d: %s", s.path, s.line(n), finding))
		}
		return true
	})
	return findings
}

// undocumented returns the packages without a comment of their own.
func undocumented(all []source) []string {
	documented := map[string]bool{}
	for _, s := range all {
		if folder := path.Dir(s.path); !s.isTest() {
			documented[folder] = documented[folder] || s.file.Doc != nil
		}
	}
	var findings []string
	for folder, ok := range documented {
		if !ok {
			findings = append(findings, folder+": no package comment")
		}
	}
	return findings
}
