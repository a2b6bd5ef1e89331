package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Parse reads a configuration of the given name (a file's or a secret's, for messages). lookupEnv and readFile, of the
// shape of os.LookupEnv and os.ReadFile, resolve ${env:NAME}, ${file:PATH} and ca_file. The error is a *[Faults] that
// lists every fault.
func Parse(name string, text []byte, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (Config, error) {
	r := &reader{lookupEnv: lookupEnv, readFile: readFile}
	c := defaults()
	if root := r.document(text); root != nil {
		r.config(root, &c)
	}
	if len(r.faults) > 0 {
		return Config{}, &Faults{File: name, List: r.faults}
	}
	return c, nil
}

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

// Error returns one line per fault, "path: sentence". A fault of the whole text has the name of the text for its path.
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

// reader collects faults while it walks the nodes of a text.
type reader struct {
	faults    []Fault
	lookupEnv func(string) (string, bool)
	readFile  func(string) ([]byte, error)
}

// document returns the root of the only document in text. The library's own messages are not passed on: they may quote
// the text.
func (r *reader) document(text []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithUniqueKeys(false))
	if err != nil {
		r.fault("", 0, "cannot be read as YAML")
		return nil
	}
	var doc, rest yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF) || err == nil && isNull(content(&doc)):
		r.fault("", 0, "is empty; at least clients: is needed")
		return nil
	case err != nil:
		r.notYAML(err)
		return nil
	}
	switch err := loader.Load(&rest); {
	case err == nil:
		r.fault("", rest.Line, "holds several documents; keep one and remove the lines ---")
	case !errors.Is(err, io.EOF):
		r.notYAML(err)
		return nil
	}
	return content(&doc)
}

func (r *reader) notYAML(err error) {
	line := 0
	var at *yaml.LoadError
	if errors.As(err, &at) {
		line = at.Mark.Line
	}
	r.fault("", line, "is not valid YAML; look there, and just above, for wrong indentation, a tab, "+
		"missing quotes (${…} between braces needs them) or an unknown anchor")
}

// content returns the node of a document, nil when the document has none.
func content(doc *yaml.Node) *yaml.Node {
	if len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

func (r *reader) config(root *yaml.Node, c *Config) {
	o := r.mapping(element{"", root}, "clients", "polling", "operations", "limits", "metrics")
	c.Limits = o.limits(c.Limits)
	c.Clients = o.clients(c.Limits)
	c.Polling = o.polling(c.Polling)
	c.Operations = o.operations(c.Operations)
	c.Metrics.Credentials = o.section("metrics", "credentials").credentials()
}

func (o object) polling(p Polling) Polling {
	s := o.section("polling", "first", "max")
	p.First = s.duration("first", p.First, longestWait)
	p.Max = s.duration("max", p.Max, longestWait)
	switch {
	case p.First <= p.Max:
	case !s.has("first"):
		p.First = p.Max // the default gives way to a shorter max
	default:
		s.fault("first", "is above polling.max; lower it or raise that")
	}
	return p
}

func (o object) operations(op Operations) Operations {
	s := o.section("operations", "deadline", "keep", "settle_after", "request_budget")
	op.Deadline = s.duration("deadline", op.Deadline, longestInAll)
	op.TombstoneTTL = s.duration("keep", op.TombstoneTTL, longestInAll)
	op.SettleAfter = s.duration("settle_after", op.SettleAfter, longestInAll)
	op.RequestBudget = s.duration("request_budget", op.RequestBudget, longestWait)
	return op
}

func (o object) limits(l Limits) Limits {
	s := o.section("limits", "request_bytes", "parameters_bytes", "concurrent_requests")
	l.RequestBytes = s.count("request_bytes", l.RequestBytes, mostBytes)
	l.ParametersBytes = s.count("parameters_bytes", l.ParametersBytes, mostBytes)
	l.ConcurrentRequests = int(s.count("concurrent_requests", int64(l.ConcurrentRequests), mostRequests))
	return l
}
