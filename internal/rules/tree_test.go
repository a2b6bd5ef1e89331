package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of go.mod, seen from this package's.
const root = "../.."

// module is what import paths of this project begin with.
const module = "github.com/ferry-broker/ferry/"

// source is a Go file, parsed.
type source struct {
	path  string // from the root, with slashes
	fset  *token.FileSet
	file  *ast.File
	lines int
	text  []byte
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

// span is how many line ends a node holds.
func (s source) span(n ast.Node) int { return s.fset.Position(n.End()).Line - s.line(n) }

// startsLine reports whether nothing but tabs stands before a node.
func (s source) startsLine(n ast.Node) bool {
	offset := s.fset.Position(n.Pos()).Offset
	before := s.text[bytes.LastIndexByte(s.text[:offset], '\n')+1 : offset]
	return len(bytes.Trim(before, "\t")) == 0
}

func parse(path string, text []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	return source{path, fset, file, bytes.Count(text, []byte("\n")), text}, err
}

// files returns every file that belongs to the project, by its path from the root: all but what git and the build keep
// for themselves.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", ".cache", ".ferry", ".aws-sam", "bin":
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || entry.Name() == ".git" { // a file where the folder is a worktree
			return nil
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's own file, gone since the folder was listed
		}
		path, relErr := filepath.Rel(root, name)
		found[filepath.ToSlash(path)] = text
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatalf("reading the project: %v", err)
	}
	return found
}

// sources returns every Go file of the project.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for path, text := range files(t) {
		if !strings.HasSuffix(path, ".go") || strings.Contains(path, "/testdata/") {
			continue
		}
		s, err := parse(path, text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// listed is what `go list` says about a package.
type listed struct {
	ImportPath string
	ForTest    string
	Module     *struct {
		Path, Version string
		Main          bool
	}
	Imports, TestImports, XTestImports []string
}

// ours reports whether p is a package of this project as it is built: no dependency, no variant made for a test.
func (p listed) ours() bool {
	return p.Module != nil && p.Module.Main && p.ForTest == "" && !strings.HasSuffix(p.ImportPath, ".test")
}

// list returns this project's packages and all that they and their tests import.
func list(t *testing.T) []listed {
	t.Helper()
	const fields = "-json=ImportPath,ForTest,Module,Imports,TestImports,XTestImports"
	var all []listed
	decoder := json.NewDecoder(bytes.NewReader(run(t, "go", "list", "-deps", "-test", fields, "./...")))
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

// run returns what a command prints when started in the root.
func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = root
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, &complaint)
	}
	return out
}

// report fails the test once for each finding.
func report(t *testing.T, findings []string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
}
