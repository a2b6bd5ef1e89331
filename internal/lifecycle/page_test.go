package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// arrows collects the transitions of a diagram, with what causes each.
type arrows struct {
	order  []string
	labels map[string][]string
}

func (a *arrows) add(from, to lc.State, label string) {
	if a.labels == nil {
		a.labels = map[string][]string{}
	}
	edge := node(from) + " --> " + node(to)
	if _, ok := a.labels[edge]; !ok {
		a.order = append(a.order, edge)
	}
	a.labels[edge] = append(a.labels[edge], label)
}

// node is the diagram's name of a state.
func node(s lc.State) string {
	if s == lc.Absent {
		return "[*]"
	}
	return strings.ReplaceAll(string(s), " ", "_")
}

func (a *arrows) mermaid() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, edge := range a.order {
		fmt.Fprintf(&b, "    %s : %s\n", edge, strings.Join(a.labels[edge], " / "))
	}
	b.WriteString("```\n")
	return b.String()
}

// requests adds an arrow for every cell of the table that writes.
func (a *arrows) requests(t *testing.T, g grid) {
	t.Helper()
	seen := map[string]bool{}
	for _, l := range g.lines {
		for _, c := range g.columns {
			d := g.decide(t, l, c)
			label := methods[c.request.Verb]
			if d.Outcome == lc.AlreadyGone {
				label += " (410)"
			}
			key := l.name + string(d.Record.State) + label
			if d.Write && !seen[key] && l.instance.CreateOp != "another" {
				seen[key] = true
				a.add(l.record.State, d.Record.State, label)
			}
		}
	}
}

// ticks adds the arrows of what ticks see.
func (a *arrows) ticks(t *testing.T, kind lc.Kind) {
	t.Helper()
	for _, s := range lastTicks(kind) {
		r := stored(kind, s.state)
		s.change(&r)
		d, err := lc.Next(r, s.tick)
		if err != nil || d.Result == nil {
			t.Fatalf("%s, %s: %+v, %v: it should end the operation", s.state, s.label, d, err)
		}
		a.add(s.state, d.Record.State, s.label)
	}
}

// lastTick is what a tick learns, and what a reader of the diagram calls that.
type lastTick struct {
	state  lc.State
	label  string
	tick   lc.Tick
	change func(*lc.Record)
}

// lastTicks are the ways in which operations end.
func lastTicks(kind lc.Kind) []lastTick {
	vanished := func(r *lc.Record) { r.Operation.Job = "job" }
	all := []lastTick{
		{lc.Creating, "its row succeeded", seen(mine(lc.Create, lc.LastSucceeded)), as},
		{lc.Creating, "its row and job failed", withJob(seen(mine(lc.Create, lc.LastFailed)), byBroker("")), accepted},
		{lc.Creating, "refused for good", seen(), refused},
		{lc.Creating, "vanished", withJob(seen(), inState(lc.JobComplete)), vanished},
		{lc.Creating, "name in use by somebody else", seen(stranger()), as},
		{lc.Creating, "made by an operation that the record does not know", seen(unknown()), as},
		{lc.Creating, "name taken by what cannot be seen", seen(), func(r *lc.Record) { r.Operation.NameTaken = 3 }},
		{lc.Creating, "deadline", seen(), overdue},
		{lc.Deleting, "no row, no open POST", seen(), as},
		{lc.Deleting, "the backing broker refused", withJob(seen(mine(lc.Delete, lc.LastFailed)), byBroker("")), accepted},
		{lc.Deleting, "made by an operation that the record does not know", seen(unknown()), as},
		{lc.Deleting, "deadline", seen(mine(lc.Create, lc.LastInProgress)), overdue},
	}
	if kind == lc.Binding {
		going := seen()
		v := instance(lc.Deleting)
		going.Instance = &v
		return append(all, lastTick{lc.Creating, "its instance goes", going, as})
	}
	marked := mine(lc.Update, lc.LastSucceeded)
	marked.Update = "mine"
	return append(all,
		lastTick{lc.Updating, "its mark is there", seen(marked), as},
		lastTick{lc.Updating, "its job failed", withJob(seen(mine(lc.Update, lc.LastFailed)), byBroker("")), accepted},
		lastTick{lc.Updating, "refused for good", seen(mine(lc.Create, lc.LastSucceeded)), refused},
		lastTick{lc.Updating, "the row is gone", seen(), as},
		lastTick{lc.Updating, "deadline", seen(mine(lc.Create, lc.LastSucceeded)), overdue},
	)
}

// document is the text of docs/lifecycle.md.
func document(t *testing.T) string {
	t.Helper()
	var instances, bindings arrows
	instances.requests(t, instanceGrid(true))
	instances.ticks(t, lc.Instance)
	bindings.requests(t, bindingGrid(true))
	bindings.ticks(t, lc.Binding)
	return strings.NewReplacer(
		"{{instances}}", markdown(instanceGrid(true).cells(t)),
		"{{instances without}}", markdown(instanceGrid(false).cells(t)),
		"{{bindings}}", markdown(bindingGrid(true).cells(t)),
		"{{claims}}", markdown(claimGrid().cells(t)),
		"{{living}}", markdown(livingGrid().cells(t)),
		"{{instance diagram}}", instances.mermaid(),
		"{{binding diagram}}", bindings.mermaid(),
	).Replace(pageText)
}

const pageText = `# The lifecycle

What Ferry answers to each request in each state, and what moves a state on. The tables and diagrams on this page are
derived from ` + "`lifecycle.Next`" + `, the one function that decides, by a test that also holds every cell against the contract. Do
not edit the page: change the function and the contract in ` + "`internal/lifecycle`" + `, then run ` + "`make docs`" + `.

## Instances

With ` + "`accepts_incomplete=true`" + `:

{{instances}}
- A DELETE is accepted in every state. During a create it cancels the create: the create's result is "failed" from that
  moment on, and a POST of unknown fate is waited out before absence is believed. During an update it waits until Cloud
  Foundry allows it.
- A PUT after a failed create begins again with a new operation; what the first one left is removed before.
- A PATCH after a failed update is carried out even when it names what the record says already: how much of the failed
  one took effect is not known.

Without the flag Ferry cannot say 202, and refuses where it would have to. Nothing is written then:

{{instances without}}
{{instance diagram}}
## Bindings

The table is the same with and without ` + "`accepts_incomplete=true`" + `. Without the flag, where it says 202, the request is
held until the key is there or gone, and then answered with 201 or 200; it fails with 500 when its time is over, and the
work goes on behind it.

{{bindings}}
A binding belongs to the incarnation of its instance for which it was accepted. When that instance is gone, or was
created anew under the same id, the binding counts as gone for every request.

Whether a new binding may begin depends on its instance. *Held* means that the request waits and claims nothing
meanwhile; when its time is over it is answered with 422 ConcurrencyError and has left no trace.

{{claims}}
A binding that is there does not depend on what its instance does, as long as there is one:

{{living}}
{{binding diagram}}
## Words

| word | meaning |
|---|---|
| absent | there is no record of the id |
| ghost | the id was never there, but a DELETE of it was answered with 410; its counters make sure that an older PUT cannot claim afterwards. Else the same as absent |
| gone | deleted, and still remembered, so that polls of the delete get their answer |
| PUT same, different | the attributes that count are those in force, or are not: service, plan, parameters in canonical form, organization and space; for a binding also what it is for |
| PATCH same target | it leads to where the running update leads |
| PATCH without effect | it names things, and all are in force already |
| PATCH empty | it names nothing that could change |
| 202 new | a new operation was stored, and its name is in the answer |
| 202 same operation | nothing was stored; the answer has the name of the operation that runs, byte for byte |
| 200 | it is as asked for, with the same content as before |
| 410 | nothing is there. The one refusal that is stored: it moves the id's life counter |
| row | what Cloud Foundry has: a service instance or a service key |
| mark | the annotation on a row that names the operation which made it, or last updated it |
| vanished | Cloud Foundry had accepted the create, and the row is not there any more |
| open POST | a POST that may still take effect, since its answer is not known and its time is not over |
| deadline | the operation ran as long as its plan allows, a week unless configured otherwise |

How the ticks get from one state to the next without doing anything twice stands in [protocol.md](protocol.md).
`
