package lifecycle_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

var update = flag.Bool("update", false, "write docs/lifecycle.md anew")

const page = "../../docs/lifecycle.md"

// The contract, cell by cell, as platforms see it: answers tells which outcome is which answer.
const (
	wantInstances = `
the instance is | PUT same               | PUT different          | PATCH same target      | PATCH other target     | PATCH without effect   | PATCH empty            | DELETE
absent          | 202 new                | 202 new                | 404                    | 404                    | 404                    | 404                    | 410
ghost           | 202 new                | 202 new                | 404                    | 404                    | 404                    | 404                    | 410
creating        | 202 same operation     | 409                    | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 202 new
ready           | 200                    | 409                    | 202 new                | 202 new                | 200                    | 200                    | 202 new
updating        | 422 ConcurrencyError   | 422 ConcurrencyError   | 202 same operation     | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 202 new
deleting        | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 202 same operation
create failed   | 202 new                | 409                    | 422 with a description | 422 with a description | 422 with a description | 422 with a description | 202 new
update failed   | 200                    | 409                    | 202 new                | 202 new                | 202 new                | 200                    | 202 new
delete failed   | 409                    | 409                    | 422 with a description | 422 with a description | 422 with a description | 422 with a description | 202 new
gone            | 202 new                | 202 new                | 404                    | 404                    | 404                    | 404                    | 410`

	wantInstancesSync = `
the instance is | PUT same               | PUT different          | PATCH same target      | PATCH other target     | PATCH without effect   | PATCH empty            | DELETE
absent          | 422 AsyncRequired      | 422 AsyncRequired      | 404                    | 404                    | 404                    | 404                    | 422 AsyncRequired
ghost           | 422 AsyncRequired      | 422 AsyncRequired      | 404                    | 404                    | 404                    | 404                    | 422 AsyncRequired
creating        | 422 AsyncRequired      | 409                    | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 AsyncRequired
ready           | 200                    | 409                    | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired
updating        | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 AsyncRequired      | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 AsyncRequired
deleting        | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 AsyncRequired
create failed   | 422 AsyncRequired      | 409                    | 422 with a description | 422 with a description | 422 with a description | 422 with a description | 422 AsyncRequired
update failed   | 200                    | 409                    | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired
delete failed   | 409                    | 409                    | 422 with a description | 422 with a description | 422 with a description | 422 with a description | 422 AsyncRequired
gone            | 422 AsyncRequired      | 422 AsyncRequired      | 404                    | 404                    | 404                    | 404                    | 422 AsyncRequired`

	wantBindings = `
the binding is                 | PUT same             | PUT different        | DELETE
absent                         | 202 new              | 202 new              | 410
ghost                          | 202 new              | 202 new              | 410
creating                       | 202 same operation   | 409                  | 202 new
ready                          | 200                  | 409                  | 202 new
deleting                       | 422 ConcurrencyError | 422 ConcurrencyError | 202 same operation
create failed                  | 202 new              | 409                  | 202 new
delete failed                  | 409                  | 409                  | 202 new
gone                           | 202 new              | 202 new              | 410
ready, of a former incarnation | 202 new              | 202 new              | 410`

	wantClaims = `
the instance is           | bind, new, asynchronous | bind, new, synchronous
absent                    | 404                     | 404
ghost                     | 404                     | 404
creating                  | 202 new                 | held
ready                     | 202 new                 | 202 new
updating                  | 202 new                 | held
deleting                  | 422 ConcurrencyError    | 422 ConcurrencyError
create failed             | 404                     | 404
update failed             | 202 new                 | 202 new
delete failed             | 202 new                 | 202 new
gone                      | 404                     | 404
delete failed, never made | 404                     | 404`

	wantLiving = `
the instance is | bind, same | bind, different | unbind
absent          | 404        | 404             | 410
ghost           | 404        | 404             | 410
creating        | 200        | 409             | 202 new
ready           | 200        | 409             | 202 new
updating        | 200        | 409             | 202 new
deleting        | 200        | 409             | 202 new
create failed   | 200        | 409             | 202 new
update failed   | 200        | 409             | 202 new
delete failed   | 200        | 409             | 202 new
gone            | 404        | 404             | 410`
)

// TestTable derives the lifecycle table from Next, holds it against the contract above, and against docs/lifecycle.md,
// which -update writes.
func TestTable(t *testing.T) {
	t.Parallel()
	type test struct {
		grid grid
		want string
	}
	each(t, map[string]test{
		"instances, accepts_incomplete=true": {instanceGrid(true), wantInstances},
		"instances, without the flag":        {instanceGrid(false), wantInstancesSync},
		"bindings, accepts_incomplete=true":  {bindingGrid(true), wantBindings},
		"bindings, without the flag":         {bindingGrid(false), wantBindings},
		"a new binding by its instance":      {claimGrid(), wantClaims},
		"a ready binding by its instance":    {livingGrid(), wantLiving},
	}, func(t *testing.T, test test) {
		if diff := cmp.Diff(parsed(test.want), test.grid.cells(t)); diff != "" {
			t.Errorf("cells (-contract +Next):\n%s", diff)
		}
	})
	t.Run("docs/lifecycle.md is fresh", func(t *testing.T) {
		t.Parallel()
		text := document(t)
		if *update {
			if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		written, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(written)); diff != "" {
			t.Errorf("docs/lifecycle.md is stale, run make docs (-Next +page):\n%s", diff)
		}
	})
}

// methods are the HTTP methods of the requests, as the page names them.
var methods = map[lc.Verb]string{lc.Create: "PUT", lc.Update: "PATCH", lc.Delete: "DELETE"}

// answers are what platforms are told by the outcomes, as the page names them.
var answers = map[lc.Outcome]string{
	lc.Accepted: "202 new", lc.Running: "202 same operation", lc.Exists: "200", lc.Hold: "held",
	lc.Conflict: "409", lc.Busy: "422 ConcurrencyError", lc.AsyncRequired: "422 AsyncRequired",
	lc.NotUpdatable: "422 with a description", lc.Missing: "404", lc.AlreadyGone: "410",
}

// column is a request, and how a table calls it.
type column struct {
	name    string
	request lc.Request
}

// line is a record, with its instance for a binding, and how a table calls it.
type line struct {
	name     string
	record   lc.Record
	instance lc.InstanceView
}

// grid is one table of the lifecycle, derived from Next.
type grid struct {
	corner  string
	lines   []line
	columns []column
}

// decide gives the decision of a cell.
func (g grid) decide(t *testing.T, l line, c column) lc.Decision {
	t.Helper()
	q := c.request
	q.Instance = l.instance
	return ask(t, l.record, q)
}

// cells returns the table, its head line first, and checks what each cell leaves in the record.
func (g grid) cells(t *testing.T) [][]string {
	t.Helper()
	head := []string{g.corner}
	for _, c := range g.columns {
		head = append(head, c.name)
	}
	rows := [][]string{head}
	for _, l := range g.lines {
		row := []string{l.name}
		for _, c := range g.columns {
			d := g.decide(t, l, c)
			cellWrites(t, l, c, d)
			row = append(row, answers[d.Outcome])
		}
		rows = append(rows, row)
	}
	return rows
}

func cellWrites(t *testing.T, l line, c column, d lc.Decision) {
	t.Helper()
	switch d.Outcome {
	case lc.Accepted:
		begun := map[lc.Verb]lc.State{lc.Create: lc.Creating, lc.Update: lc.Updating, lc.Delete: lc.Deleting}
		if !d.Write || d.Record.State != begun[c.request.Verb] || d.Record.Operation.ID != "new" || d.Record.Seq <= l.record.Seq {
			t.Errorf("%s, %s: the claim writes %t %+v", l.name, c.name, d.Write, d.Record)
		}
	case lc.AlreadyGone:
		if !d.Write || d.Record.Life != l.record.Life+1 || d.Record.State.Living() || d.Record.ExpiresAt.IsZero() {
			t.Errorf("%s, %s: the 410 writes %t %+v", l.name, c.name, d.Write, d.Record)
		}
	default:
		if diff := cmp.Diff(l.record, d.Record); d.Write || diff != "" {
			t.Errorf("%s, %s: %s leaves a trace: %s", l.name, c.name, d.Outcome, diff)
		}
	}
	if d.Effect.Do != lc.DoNothing {
		t.Errorf("%s, %s: a request wants to %s", l.name, c.name, d.Effect.Do)
	}
}

func instanceGrid(incomplete bool) grid {
	g := grid{corner: "the instance is", columns: []column{
		{"PUT same", lc.Request{Verb: lc.Create, SameAttributes: true}},
		{"PUT different", lc.Request{Verb: lc.Create}},
		{"PATCH same target", lc.Request{Verb: lc.Update, SameAttributes: true}},
		{"PATCH other target", lc.Request{Verb: lc.Update}},
		{"PATCH without effect", lc.Request{Verb: lc.Update, NoEffect: true}},
		{"PATCH empty", lc.Request{Verb: lc.Update, NoEffect: true, NamesNothing: true}},
		{"DELETE", lc.Request{Verb: lc.Delete}},
	}}
	for i := range g.columns {
		g.columns[i].request.AcceptsIncomplete = incomplete
	}
	for _, s := range states(lc.Instance) {
		g.lines = append(g.lines, line{name: name(s), record: stored(lc.Instance, s)})
	}
	return g
}

func bindingGrid(incomplete bool) grid {
	g := grid{corner: "the binding is", columns: []column{
		{"PUT same", lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: incomplete}},
		{"PUT different", lc.Request{Verb: lc.Create, AcceptsIncomplete: incomplete}},
		{"DELETE", lc.Request{Verb: lc.Delete, AcceptsIncomplete: incomplete}},
	}}
	for _, s := range states(lc.Binding) {
		g.lines = append(g.lines, line{name: name(s), record: stored(lc.Binding, s), instance: instance(lc.Ready)})
	}
	g.lines = append(g.lines, line{name: "ready, of a former incarnation", record: stored(lc.Binding, lc.Ready), instance: another()})
	return g
}

// claimGrid is what a new binding may do by the state of its instance.
func claimGrid() grid {
	g := byInstance(lc.Absent, []column{
		{"bind, new, asynchronous", lc.Request{Verb: lc.Create, AcceptsIncomplete: true}},
		{"bind, new, synchronous", lc.Request{Verb: lc.Create}},
	})
	never := instance(lc.DeleteFailed)
	never.CFGUID = ""
	g.lines = append(g.lines, line{name: "delete failed, never made", record: stored(lc.Binding, lc.Absent), instance: never})
	return g
}

// livingGrid is what a binding that is ready may do by the state of its instance.
func livingGrid() grid {
	return byInstance(lc.Ready, []column{
		{"bind, same", lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: true}},
		{"bind, different", lc.Request{Verb: lc.Create, AcceptsIncomplete: true}},
		{"unbind", lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}},
	})
}

// byInstance has a line for each state of the instance of a binding in one state.
func byInstance(binding lc.State, columns []column) grid {
	g := grid{corner: "the instance is", columns: columns}
	for _, s := range states(lc.Instance) {
		g.lines = append(g.lines, line{name: name(s), record: stored(lc.Binding, binding), instance: instance(s)})
	}
	return g
}

// name is what the tables call a state.
func name(s lc.State) string {
	if s == lc.Absent {
		return "absent"
	}
	return string(s)
}

// parsed reads a table that was written with bars.
func parsed(text string) [][]string {
	var rows [][]string
	for l := range strings.Lines(strings.TrimSpace(text)) {
		var row []string
		for _, cell := range strings.Split(l, "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	return rows
}

// markdown writes the table for docs/lifecycle.md.
func markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return b.String()
}
