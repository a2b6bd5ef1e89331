package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMeasure shows what is counted, and what is not.
func TestMeasure(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		"cmd/a/main.go":             "package main\n\nfunc main() {\n}\n",
		"internal/b/b.go":           "package b\n\n// C has a comment.\nconst C = 1\n\nvar D = 2\n",
		"internal/b/b_test.go":      "package b\n",
		"internal/b/testdata/x.go":  "package x\n",
		"internal/rules/doc.go":     "package rules\n",
		"internal/cfsim/sim.go":     "package cfsim\n",
		"internal/cfsim/a_test.go":  "package cfsim\n",
		"functions/api/main.go":     "package main\n",
		"functions/api/readme.text": "no code\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	product, simulator, err := measure(root)
	if err != nil {
		t.Fatal(err)
	}
	got := []int{len(product.files), sum(product.files), len(product.functions), sum(product.functions),
		product.exported, product.documented, len(product.bare), product.testLines, len(simulator.files)}
	if diff := cmp.Diff([]int{3, 4 + 6 + 1, 1, 2, 2, 1, 1, 2, 1}, got); diff != "" {
		t.Errorf("the cut (-want +got):\n%s", diff)
	}
}

// TestSpread shows the median, the 90th percentile and the largest of ten.
func TestSpread(t *testing.T) {
	t.Parallel()
	if got := spread([]int{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}); got != "5 / 9 / 10" {
		t.Errorf("spread %s, want 5 / 9 / 10", got)
	}
}

// TestVisits reads a profile of three blocks of this very folder: one that ran, one that did not, and one of a folder
// that is no part of the product.
func TestVisits(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	profile := filepath.Join(root, "profile")
	text := "mode: atomic\n" + module + "internal/shape/main.go:15.13,17.2 1 1\n"
	if err := os.WriteFile(profile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	seen, err := visits(profile)
	if err != nil || seen.functions() != 0 {
		t.Errorf("%v, %v; want nothing of a folder that is aside", seen, err)
	}
	named, err := functionsAt("main.go", []int{15})
	if err != nil || len(named) != 1 {
		t.Errorf("functions at line 15: %v, %v; want main alone", named, err)
	}
}
