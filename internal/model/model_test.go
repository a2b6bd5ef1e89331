package main

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// most is how many states a test visits, nearest first. `make model` visits all. Under the race detector, which makes a
// search ten times as slow and has one goroutine to look at, it is a sample.
func most(states int) int {
	if raced {
		return 300
	}
	return states
}

func TestScenariosHold(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			if sc.Brief != nil {
				sc.Brief(&sc)
			}
			found := search(t, sc, nil, most(90_000), false)
			t.Logf("%d states, complete: %t, race detector: %t", found.States, found.Complete, raced)
			for p := range found.all() {
				t.Error(traceText(p, found))
			}
		})
	}
}

// TestEverySafeguardIsMissed takes each safeguard away once: the search must find what section 11 of docs/protocol.md
// says. That it finds nothing with all of them then means something.
func TestEverySafeguardIsMissed(t *testing.T) {
	t.Parallel()
	for _, mu := range mutations {
		t.Run(mu.String(), func(t *testing.T) {
			t.Parallel()
			sc, err := mu.world()
			if err != nil {
				t.Fatal(err)
			}
			found := search(t, sc, mu.without, most(200_000), true)
			t.Logf("%d states: %s", found.States, found)
			switch {
			case raced && len(found.Found) == 0:
				t.Log("not found in the sample that is searched under the race detector")
			case len(found.Found) == 0:
				t.Errorf("nothing breaks in %d states", found.States)
			default:
				for p := range found.all() {
					t.Log(traceText(p, found))
				}
			}
		})
	}
}

// notMissed are the rules that no scenario misses, each with the reason.
var notMissed = map[string]string{
	"TakeLease":          "it saves work, and nothing depends on it",
	"RemoveOwnWhenStale": "without it a cancel waits until the open call expires",
	"RestoreWhenQuiet":   "what a restore under way costs stands in section 11",
}

func TestEverySafeguardHasAMutation(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, mu := range mutations {
		for _, rule := range mu.without {
			taken[rule] = true
		}
	}
	all := reflect.TypeFor[rules]()
	for i := range all.NumField() {
		if name := all.Field(i).Name; taken[name] == (notMissed[name] != "") {
			t.Errorf("%s: has a mutation: %t; is said to be missed by nothing: %t", name, taken[name], !taken[name])
		}
	}
}

func TestOperationsStayDriven(t *testing.T) {
	t.Parallel()
	for _, c := range startCases {
		states, undriven := c.rules.search()
		t.Logf("%s: %d states, %d of them never driven again", c.name, states, undriven)
		if c.holds != (undriven == 0) {
			t.Errorf("%s: from %d of %d states nobody drives the operation any more", c.name, undriven, states)
		}
	}
}

func TestSearchesAreRepeatable(t *testing.T) {
	t.Parallel()
	sc, err := named("pages")
	if err != nil {
		t.Fatal(err)
	}
	without := []string{"AloneWhenTorn"}
	first, second := search(t, sc, without, 1_500, false), search(t, sc, without, 1_500, false)
	if diff := cmp.Diff(first, second, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("two searches differ:\n%s", diff)
	}
}

func TestStatesSurvivePacking(t *testing.T) {
	t.Parallel()
	var s state
	for i := range raw(&s) {
		raw(&s)[i] = byte(i % 7)
		if got := unpack(pack(nil, &s)); got != s {
			t.Fatalf("byte %d is lost: %s", i, cmp.Diff(s, got))
		}
	}
}

// TestTracesAreExported plays what a program does that reads a trace.
func TestTracesAreExported(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := run([]string{"-scenario", "pages", "-without", "AloneWhenTorn", "-first", "-traces", "-json"}, &out)
	if err == nil {
		t.Error("a search that finds a violation ends without an error")
	}
	var search exportedSearch
	if err := json.Unmarshal(out.Bytes(), &search); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if len(search.Violated) != 1 || search.Violated[0].Property != rowRemains.String() {
		t.Fatalf("violated: %+v, want %s", search.Violated, rowRemains)
	}
	steps := search.Violated[0].Steps
	for _, step := range steps {
		if !slices.Contains(events[1:], step.Event) || step.What == "" || step.After == "" || step.ID != "A" && step.ID != "B" {
			t.Errorf("a step without event, id or state: %+v", step)
		}
	}
	if last := steps[len(steps)-1]; last.Event != reported.String() || last.ID != "B" || last.Operation != "D2" {
		t.Errorf("the last step is %+v, want the report of D2 about B", last)
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"an unknown rule":     {"-scenario", "life", "-without", "Luck"},
		"an unknown flag":     {"-luck"},
		"an unknown scenario": {"-scenario", "lief"},
	} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func search(t *testing.T, sc scenario, without []string, states int, stopAtFirst bool) outcome {
	t.Helper()
	m, err := newModel(sc, without...)
	if err != nil {
		t.Fatal(err)
	}
	return m.search(states, stopAtFirst)
}

func traceText(p property, found outcome) string {
	var out strings.Builder
	printTrace(&out, p, found.Found[p])
	return out.String()
}
