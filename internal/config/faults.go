package config

import (
	"fmt"
	"strings"
)

// Fault is one thing to correct.
type Fault struct {
	Path    string // as in clients[1].cloud_foundry.api; empty: the whole text
	Problem string // what is wrong and what to do, with the line; never a value
}

// Faults is the error of [Parse]: everything that is wrong with a text.
type Faults struct {
	File string // the name that Parse was given
	List []Fault
}

// Error returns one line per fault, "path: sentence". A fault of the whole
// text has the name of the text for its path.
func (f *Faults) Error() string {
	lines := make([]string, len(f.List))
	for i, fault := range f.List {
		path := fault.Path
		if path == "" {
			path = f.File
		}
		lines[i] = fmt.Sprintf("%s: %s", path, fault.Problem)
	}
	return strings.Join(lines, "\n")
}
