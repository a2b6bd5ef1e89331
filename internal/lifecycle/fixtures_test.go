package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// noon is when the unit tests play.
func noon() time.Time { return time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC) }

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

// states are all of them, in the order of a life.
func states(kind lc.Kind) []lc.State {
	all := []lc.State{lc.Absent, lc.Ghost, lc.Creating, lc.Ready, lc.Updating, lc.Deleting, lc.CreateFailed, lc.UpdateFailed, lc.DeleteFailed, lc.Gone}
	if kind == lc.Instance {
		return all
	}
	return []lc.State{lc.Absent, lc.Ghost, lc.Creating, lc.Ready, lc.Deleting, lc.CreateFailed, lc.DeleteFailed, lc.Gone}
}

// name is what the tables call a state.
func name(s lc.State) string {
	if s == lc.Absent {
		return "absent"
	}
	return string(s)
}

// stored returns a record in the state, as a life that led there leaves it.
func stored(kind lc.Kind, state lc.State) lc.Record {
	r := lc.Record{Kind: kind, State: state}
	if state == lc.Absent {
		return r
	}
	r.Life, r.Seq = 1, 100
	if state == lc.Ghost {
		return r
	}
	verbs := map[lc.State]lc.Verb{
		lc.Creating: lc.Create, lc.Ready: lc.Create, lc.CreateFailed: lc.Create, lc.Updating: lc.Update,
		lc.UpdateFailed: lc.Update, lc.Deleting: lc.Delete, lc.DeleteFailed: lc.Delete, lc.Gone: lc.Delete,
	}
	r.Operation = lc.Operation{ID: "mine", Seq: 100, Verb: verbs[state], Started: noon(), Deadline: noon().Add(week), Due: noon().Add(time.Hour)}
	r.CreateOp = lc.Reference{ID: "made", Seq: 100}
	if verbs[state] == lc.Create {
		r.CreateOp.ID = "mine"
	}
	if state != lc.Creating && state != lc.CreateFailed {
		r.CFGUID = "guid"
	}
	r.Finished = []lc.Finished{{ID: "theirs", Verb: lc.Create, EndedAt: noon().Add(-time.Hour)}}
	if !state.Busy() {
		r.Finished = append(r.Finished, lc.Finished{ID: "mine", Verb: verbs[state], Succeeded: state == lc.Ready || state == lc.Gone, EndedAt: noon()})
	}
	if kind == lc.Binding {
		r.InstanceCreateOp, r.InstanceGUID = "incarnation", "parent"
	}
	return r
}

// instance is what a binding sees of an instance in the state.
func instance(state lc.State) lc.InstanceView {
	v := lc.InstanceView{State: state}
	if state.Living() || state == lc.Gone {
		v.CreateOp = "incarnation"
	}
	if state != lc.Creating && state != lc.CreateFailed && state.Living() {
		v.CFGUID = "parent"
	}
	return v
}

// atNoon is the request as it is decided at noon, for an operation called "new".
func atNoon(q lc.Request) lc.Request {
	q.Now, q.TombstoneTTL = noon(), keep
	q.NewOperation = lc.NewOperation{ID: "new", Deadline: noon().Add(week), Due: noon().Add(time.Minute)}
	return q
}

// decide gives the decision of a cell.
func (g grid) decide(t *testing.T, l line, c column) lc.Decision {
	t.Helper()
	q := atNoon(c.request)
	q.Instance = l.instance
	d, err := lc.Next(l.record, q)
	if err != nil {
		t.Fatalf("%s, %s: %v", l.name, c.name, err)
	}
	return d
}

// methods are the HTTP methods of the requests, as the page names them.
func methods() map[lc.Verb]string {
	return map[lc.Verb]string{lc.Create: "PUT", lc.Update: "PATCH", lc.Delete: "DELETE"}
}

// answers are what platforms are told by the outcomes, as the page names them.
func answers() map[lc.Outcome]string {
	return map[lc.Outcome]string{
		lc.Accepted: "202 new", lc.Running: "202 same operation", lc.Exists: "200", lc.Hold: "held",
		lc.Conflict: "409", lc.Busy: "422 ConcurrencyError", lc.AsyncRequired: "422 AsyncRequired",
		lc.NotUpdatable: "422 with a description", lc.Missing: "404", lc.AlreadyGone: "410",
	}
}

// cells returns the table, its head line first.
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
			row = append(row, answers()[g.decide(t, l, c).Outcome])
		}
		rows = append(rows, row)
	}
	return rows
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
	another := instance(lc.Ready)
	another.CreateOp = "another"
	g.lines = append(g.lines, line{name: "ready, of a former incarnation", record: stored(lc.Binding, lc.Ready), instance: another})
	return g
}

// claimGrid is what a binding may do by the state of its instance.
func claimGrid() grid {
	g := grid{corner: "the instance is", columns: []column{
		{"bind, new, asynchronous", lc.Request{Verb: lc.Create, AcceptsIncomplete: true}},
		{"bind, new, synchronous", lc.Request{Verb: lc.Create}},
	}}
	for _, s := range states(lc.Instance) {
		g.lines = append(g.lines, line{name: name(s), record: stored(lc.Binding, lc.Absent), instance: instance(s)})
	}
	never := instance(lc.DeleteFailed)
	never.CFGUID = ""
	g.lines = append(g.lines, line{name: "delete failed, never made", record: stored(lc.Binding, lc.Absent), instance: never})
	return g
}

// livingGrid is what a binding that is ready may do by the state of its instance.
func livingGrid() grid {
	g := grid{corner: "the instance is", columns: []column{
		{"bind, same", lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: true}},
		{"bind, different", lc.Request{Verb: lc.Create, AcceptsIncomplete: true}},
		{"unbind", lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}},
	}}
	for _, s := range states(lc.Instance) {
		g.lines = append(g.lines, line{name: name(s), record: stored(lc.Binding, lc.Ready), instance: instance(s)})
	}
	return g
}
