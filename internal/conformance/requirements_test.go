package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of go.mod, seen from this package's.
const root = "../.."

// requirement is one duty of the specification.
type requirement struct {
	id, area, strength, who, duty string
}

// ofBroker reports whether the duty is a broker's; the others say what platforms do.
func (r requirement) ofBroker() bool { return r.who == "broker" }

// requirements returns all duties in the order of the specification.
func requirements(t *testing.T) []requirement {
	t.Helper()
	var all []requirement
	for _, cells := range table(t, "internal/osb/testdata/requirements.tsv", 5) {
		all = append(all, requirement{cells[0], cells[1], cells[2], cells[3], cells[4]})
	}
	return all
}

// reasons returns why an id has no test, by id.
func reasons(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, cells := range table(t, "internal/osb/testdata/not-applicable.tsv", 2) {
		if all[cells[0]] != "" {
			t.Errorf("not-applicable.tsv gives two reasons for %s", cells[0])
		}
		all[cells[0]] = cells[1]
	}
	return all
}

// table reads a file of tab-separated cells below one line of headings.
func table(t *testing.T, path string, columns int) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := cells(string(text), columns)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return rows
}

func cells(text string, columns int) ([][]string, error) {
	var rows [][]string
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		row := strings.Split(line, "\t")
		for _, cell := range row {
			if strings.TrimSpace(cell) == "" {
				return nil, fmt.Errorf("line %d has an empty cell", i+1)
			}
		}
		if len(row) != columns {
			return nil, fmt.Errorf("line %d has %d cells, want %d", i+1, len(row), columns)
		}
		if i > 0 {
			rows = append(rows, row)
		}
	}
	return rows, nil
}
