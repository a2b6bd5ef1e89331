package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// simulated is the folder of the simulated Cloud Foundry. It is as large as the rest of what a platform's request never
// runs through, so it has a row of its own.
const simulated = "internal/cfsim"

// aside are the folders that are no part of the product: they measure or test it.
var aside = []string{
	"internal/acceptance", "internal/bench", "internal/brokertest", "internal/conformance", "internal/deployed",
	"internal/model", "internal/osbtest", "internal/process", "internal/rules", "internal/shape", "internal/stack",
	"internal/standin",
}

// cut is how a part of the code is cut.
type cut struct {
	// files are the lines of each file, functions those of each function, both without tests.
	files, functions []int
	// exported counts the exported names that are declared, documented those with a comment.
	exported, documented int
	// bare are the exported names without a comment, by their place.
	bare []string
	// testLines are the lines of the tests beside these files.
	testLines int
}

// measure reads every Go file below root and returns the cut of the product and that of the simulated Cloud Foundry.
// The lines of all tests, those aside too, count as the product's.
func measure(root string) (product, simulator cut, err error) {
	for _, top := range []string{"cmd", "functions", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				if entry != nil && entry.Name() == "testdata" {
					return fs.SkipDir
				}
				return err
			}
			if !strings.HasSuffix(path, ".go") {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines := bytes.Count(text, []byte("\n"))
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			folder = filepath.ToSlash(folder)
			switch {
			case strings.HasSuffix(path, "_test.go"):
				product.testLines += lines
				return nil
			case slices.ContainsFunc(aside, func(a string) bool { return folder == a }):
				return nil
			case folder == simulated:
				return simulator.add(path, text, lines)
			default:
				return product.add(path, text, lines)
			}
		})
		if err != nil {
			return cut{}, cut{}, err
		}
	}
	return product, simulator, nil
}

// add counts one file.
func (c *cut) add(path string, text []byte, lines int) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	c.files = append(c.files, lines)
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			c.functions = append(c.functions, fset.Position(d.End()).Line-fset.Position(d.Pos()).Line+1)
			c.name(fset, d.Name, d.Doc)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					c.name(fset, s.Name, s.Doc, d.Doc)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						c.name(fset, name, s.Doc, s.Comment, d.Doc)
					}
				}
			}
		}
	}
	return nil
}

// name counts a name that is exported, and whether one of these comments is about it.
func (c *cut) name(fset *token.FileSet, name *ast.Ident, comments ...*ast.CommentGroup) {
	if !name.IsExported() {
		return
	}
	c.exported++
	if slices.ContainsFunc(comments, func(g *ast.CommentGroup) bool { return g != nil }) {
		c.documented++
		return
	}
	at := fset.Position(name.Pos())
	c.bare = append(c.bare, fmt.Sprintf("%s:%d %s", filepath.ToSlash(at.Filename), at.Line, name.Name))
}

// printCut prints one column for the product and one for the simulated Cloud Foundry.
func printCut(out io.Writer, product, simulator cut) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	row := func(what string, of func(cut) string) {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", what, of(product), of(simulator))
	}
	_, _ = fmt.Fprintln(table, "\tproduct\tsimulated Cloud Foundry")
	row("files", func(c cut) string { return fmt.Sprint(len(c.files)) })
	row("lines", func(c cut) string { return fmt.Sprint(sum(c.files)) })
	row("lines a file, mean", func(c cut) string { return fmt.Sprint(sum(c.files) / max(1, len(c.files))) })
	row("lines a file, p50 / p90 / max", func(c cut) string { return spread(c.files) })
	row("lines a function, p50 / p90 / max", func(c cut) string { return spread(c.functions) })
	row("exported names with a comment", func(c cut) string { return fmt.Sprintf("%d of %d", c.documented, c.exported) })
	_, _ = fmt.Fprintf(table, "test lines, of both\t%d\t\n", product.testLines)
	_, _ = fmt.Fprintf(table, "test lines a line of the product\t%.1f\t\n", float64(product.testLines)/float64(max(1, sum(product.files))))
	if err := table.Flush(); err != nil {
		return err
	}
	for _, name := range slices.Concat(product.bare, simulator.bare) {
		_, _ = fmt.Fprintf(out, "without a comment: %s\n", name)
	}
	return nil
}

func sum(list []int) int {
	total := 0
	for _, n := range list {
		total += n
	}
	return total
}

// spread is the median, the 90th percentile and the largest.
func spread(list []int) string {
	sorted := slices.Sorted(slices.Values(list))
	if len(sorted) == 0 {
		return "-"
	}
	at := func(share float64) int { return sorted[int(share*float64(len(sorted)-1))] }
	return fmt.Sprintf("%d / %d / %d", at(0.5), at(0.9), at(1))
}
