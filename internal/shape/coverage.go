package main

import (
	"bufio"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"strings"
)

// module is what the paths of this project begin with in figures of coverage.
const module = "github.com/ferry-broker/ferry/"

// visited is what one request ran through: of each file, its functions.
type visited map[string]map[string]bool

// functions counts all functions.
func (v visited) functions() int {
	n := 0
	for _, names := range v {
		n += len(names)
	}
	return n
}

// record runs f and returns which files and functions of the product it ran through, those that work behind it at the
// same time included. The error says how to run this program when it is not instrumented.
func record(ctx context.Context, f func() error) (visited, error) {
	dir, err := os.MkdirTemp("", "shape-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := coverage.ClearCounters(); err != nil {
		return nil, fmt.Errorf("this program has to be built with -cover -covermode=atomic, as `make shape` does: %w", err)
	}
	if err := f(); err != nil {
		return nil, err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return nil, err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return nil, err
	}
	profile := filepath.Join(dir, "profile")
	if out, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go tool covdata: %w: %s", err, out)
	}
	return visits(profile)
}

// visits reads a profile: lines of "path:line.column,line.column statements count".
func visits(profile string) (visited, error) {
	file, err := os.Open(profile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	seen := map[string][]int{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		path, rest, ok := strings.Cut(strings.TrimPrefix(lines.Text(), module), ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) != 3 || fields[2] == "0" || !ofProduct(path) {
			continue
		}
		from, _, _ := strings.Cut(fields[0], ".")
		line, err := strconv.Atoi(from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		seen[path] = append(seen[path], line)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	all := visited{}
	for path, at := range seen {
		if all[path], err = functionsAt(path, at); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func ofProduct(path string) bool {
	folder := filepath.ToSlash(filepath.Dir(path))
	if folder == simulated {
		return false
	}
	for _, a := range aside {
		if folder == a {
			return false
		}
	}
	return true
}

// functionsAt returns the names of the functions that hold these lines.
func functionsAt(path string, at []int) (map[string]bool, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := fset.Position(function.Pos()).Line, fset.Position(function.End()).Line
		for _, line := range at {
			if from <= line && line <= to {
				names[fmt.Sprintf("%s:%d", function.Name.Name, from)] = true
			}
		}
	}
	return names, nil
}
