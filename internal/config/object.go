package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// element is a node with the path that leads to it.
type element struct {
	path string
	node *yaml.Node
}

// object is a mapping of the text whose keys have been checked.
type object struct {
	r      *reader
	path   string
	line   int
	fields map[string]*yaml.Node // by known key; null counts as absent
	broken bool                  // no mapping at all, a fault already: nothing is missing in it
}

// mapping checks that e is a mapping with no keys but the known ones, each once.
func (r *reader) mapping(e element, known ...string) object {
	o := object{r: r, path: e.path, line: e.node.Line, fields: map[string]*yaml.Node{}}
	if e.node.Kind != yaml.MappingNode {
		o.broken = true
		o.fault("", "must be a mapping, that is lines of the form key: value; known keys here are "+strings.Join(known, ", "))
		return o
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(e.node.Content); i += 2 {
		key, value := e.node.Content[i], dereference(e.node.Content[i+1])
		first, again := lines[key.Value]
		lines[key.Value] = key.Line
		switch {
		case key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value):
			o.unknown(key, known, e.node.Style&yaml.FlowStyle != 0 || isNull(value))
		case again:
			r.fault(join(o.path, key.Value), key.Line, fmt.Sprintf("is here twice, first in line %d; keep one", first))
		case !isNull(value):
			o.fields[key.Value] = value
		}
	}
	return o
}

// unknown reports a key that is not known. Where secrets stand, a key that may be the rest of one is not shown: a
// password with a comma in it breaks in two between braces, and its second half reads as a key.
func (o object) unknown(key *yaml.Node, known []string, doubtful bool) {
	secrets := slices.Contains(known, "password")
	advice := "known here are " + strings.Join(known, ", ")
	if near := closest(key.Value, known); near != "" {
		advice = "did you mean " + near + "?"
	}
	if key.Kind != yaml.ScalarNode || !shownKey.MatchString(key.Value) || secrets && doubtful {
		o.r.fault(o.path, key.Line, "holds an unknown key; "+advice)
		return
	}
	o.r.fault(join(o.path, key.Value), key.Line, "is an unknown key; "+advice)
}

var shownKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)

// section reads the mapping under key; an absent one is empty.
func (o object) section(key string, known ...string) object {
	path := join(o.path, key)
	if !o.has(key) {
		return object{r: o.r, path: path, line: o.line, broken: o.broken}
	}
	return o.r.mapping(element{path, o.fields[key]}, known...)
}

// list returns the elements of the sequence under key, none when it is absent. ok is false when something else stands
// there, or nothing can.
func (o object) list(key string) (items []element, ok bool) {
	if !o.has(key) {
		return nil, !o.broken
	}
	n := o.fields[key]
	if n.Kind != yaml.SequenceNode {
		o.fault(key, "must be a list, each element of it beginning with a dash")
		return nil, false
	}
	for i, child := range n.Content {
		items = append(items, element{fmt.Sprintf("%s[%d]", join(o.path, key), i), dereference(child)})
	}
	return items, true
}

// values returns the elements of the list under key, each as an object that has it under the key "".
func (o object) values(key string) []object {
	items, _ := o.list(key)
	values := make([]object, len(items))
	for i, item := range items {
		values[i] = object{r: o.r, path: item.path, line: item.node.Line, fields: map[string]*yaml.Node{"": item.node}}
	}
	return values
}

// has reports whether key has a value other than null, "" and [].
func (o object) has(key string) bool {
	n, found := o.fields[key]
	return found && (n.Value != "" || len(n.Content) > 0 || n.Kind == yaml.MappingNode)
}

// fault reports a problem of the value under key, of o itself for no key.
func (o object) fault(key, problem string) {
	line := o.line
	if n := o.fields[key]; n != nil {
		line = n.Line
	}
	o.r.fault(join(o.path, key), line, problem)
}

func (r *reader) fault(path string, line int, problem string) {
	if line > 0 {
		problem = fmt.Sprintf("%s (line %d)", problem, line)
	}
	r.faults = append(r.faults, Fault{Path: path, Problem: problem})
}

func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

func dereference(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// closest returns the known key that a misspelt one most likely stands for, "" when none is near. Case, dashes and
// underscores do not count, so that clientId finds client_id.
func closest(key string, known []string) string {
	const longest = 40 // of what is worth comparing
	if len(key) > longest {
		return ""
	}
	best, bestDistance := "", 0
	for _, k := range known {
		d := distance(fold(key), fold(k))
		if d <= max(1, min(2, len(k)/3)) && (best == "" || d < bestDistance) {
			best, bestDistance = k, d
		}
	}
	return best
}

func fold(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// distance counts the bytes to insert, remove or replace to turn a into b, two swapped neighbours counting as one step.
func distance(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
