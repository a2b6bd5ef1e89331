package main

import (
	"fmt"
	"io"
	"iter"
	"strings"
)

// all are the properties that do not hold, in their order.
func (o outcome) all() iter.Seq[property] {
	return func(yield func(property) bool) {
		for p := range property(len(properties)) {
			if o.Found[p] != nil && !yield(p) {
				return
			}
		}
	}
}

// String is the verdict, with the number of steps to each violation.
func (o outcome) String() string {
	if len(o.Found) == 0 && o.Complete {
		return "holds"
	}
	if len(o.Found) == 0 {
		return "holds so far, not all states were visited"
	}
	var broken []string
	for p := range o.all() {
		broken = append(broken, fmt.Sprintf("%s (%d steps)", p, len(o.Found[p])))
	}
	return "VIOLATED: " + strings.Join(broken, "; ")
}

// printTrace prints a trace for people: each step, and the state after it.
func printTrace(out io.Writer, p property, steps []traceStep) {
	_, _ = fmt.Fprintf(out, "\n  %s:\n", p)
	for i, step := range steps {
		_, _ = fmt.Fprintf(out, "  %3d %-78s | %s\n", i+1, step.text(&step.after), step.after.text())
	}
	if len(steps) == 0 || steps[len(steps)-1].after.Bad == 0 {
		_, _ = fmt.Fprintf(out, "      ... and a fair run from there without further faults comes to: %s\n", p)
	}
}

// The form of traces for programs. A trace is played against the real broker by its events: each names its actor by
// the operation or the request, and the id, A or B, that it is about.
type (
	exportedSearch struct {
		Scenario string          `json:"scenario"`
		Without  []string        `json:"without,omitempty"`
		States   int             `json:"states"`
		Steps    int             `json:"steps"`
		Complete bool            `json:"complete"`
		Violated []exportedTrace `json:"violated"`
	}
	exportedTrace struct {
		Property string         `json:"property"`
		Steps    []exportedStep `json:"steps,omitempty"`
	}
	exportedStep struct {
		Event     string `json:"event"`
		ID        string `json:"id"`
		Request   string `json:"request,omitempty"`
		Operation string `json:"operation,omitempty"`
		GUID      uint8  `json:"guid,omitempty"`
		What      string `json:"what"`
		After     string `json:"after"`
	}
)

func exported(m *model, o options, found outcome) exportedSearch {
	search := exportedSearch{Scenario: m.Name, Without: o.without, States: found.States, Steps: found.Steps, Complete: found.Complete,
		Violated: []exportedTrace{}}
	for p := range found.all() {
		trace := exportedTrace{Property: p.String()}
		for _, step := range found.Found[p] {
			if !o.traces {
				break
			}
			trace.Steps = append(trace.Steps, step.export())
		}
		search.Violated = append(search.Violated, trace)
	}
	return search
}

func (t traceStep) export() exportedStep {
	step := exportedStep{Event: t.Event.String(), ID: "A", Request: kindNames[t.Request], GUID: t.GUID, What: t.What, After: t.after.text()}
	if t.Second {
		step.ID = "B"
	}
	if t.Op != 0 {
		step.Operation = t.after.opName(t.Op)
	}
	return step
}
