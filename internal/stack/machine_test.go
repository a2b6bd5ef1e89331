package stack

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// machine is what the tests read of statemachine/operation.asl.json.
type machine struct {
	QueryLanguage, StartAt string
	States                 map[string]state
}

type state struct {
	Type, Next, Default, Resource, SecondsPath string
	TimeoutSeconds                             int
	Choices                                    []choice
	Retry                                      []struct {
		ErrorEquals                  []string
		IntervalSeconds, BackoffRate float64
		MaxDelaySeconds              float64
		MaxAttempts                  int
		JitterStrategy               string
	}
	Catch []struct {
		ErrorEquals []string
		Next        string
	}
}

type choice struct {
	Variable, Next           string
	BooleanEquals, IsPresent bool
	NumericGreaterThanEquals int
	And                      []choice
}

func definition(t *testing.T) machine {
	t.Helper()
	var m machine
	if err := json.Unmarshal(readRoot(t, "statemachine/operation.asl.json"), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// targets are the states that a state may lead to.
func (s state) targets() []string {
	var all []string
	for _, name := range []string{s.Next, s.Default} {
		if name != "" {
			all = append(all, name)
		}
	}
	for _, c := range s.Choices {
		all = append(all, c.Next)
	}
	for _, c := range s.Catch {
		all = append(all, c.Next)
	}
	return all
}

func TestTheMachineLeadsSomewhere(t *testing.T) {
	t.Parallel()
	m := definition(t)
	if m.QueryLanguage != "JSONPath" {
		t.Errorf("query language %s", m.QueryLanguage)
	}
	reached := []string{m.StartAt}
	for i := 0; i < len(reached); i++ {
		s, ok := m.States[reached[i]]
		if !ok {
			t.Errorf("no state %q", reached[i])
			continue
		}
		ends := s.Type == "Succeed" || s.Type == "Fail"
		if ends != (len(s.targets()) == 0) || s.Type != "Choice" && !ends && s.Next == "" || s.Type == "Choice" && s.Default == "" {
			t.Errorf("%s, a %s, leads to %q", reached[i], s.Type, s.targets())
		}
		for _, name := range s.targets() {
			if !slices.Contains(reached, name) {
				reached = append(reached, name)
			}
		}
	}
	if len(reached) != len(m.States) {
		t.Errorf("reached %q of %d states", reached, len(m.States))
	}
	if m.States["Wait"].Next != "Advance" || m.States["Advance"].Next != "Done?" || m.States["Done?"].Default != "Wait" {
		t.Error("a turn is not a wait, a task and a choice, which docs/aws-cost.md counts")
	}
}

// TestTheMachineReadsWhatThePollerWrites: the paths are fields of a Tick.
func TestTheMachineReadsWhatThePollerWrites(t *testing.T) {
	t.Parallel()
	text := string(readRoot(t, "statemachine/operation.asl.json"))
	tick := string(readRoot(t, "internal/sfn/tick.go"))
	for _, path := range regexp.MustCompile(`"\$\.([a-z_.]+)"`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(tick, "`json:\""+path[1]+"\"`") {
			t.Errorf("$.%s is no field that a Tick always has", path[1])
		}
	}
	m := definition(t)
	if m.StartAt != "Advance" || m.States["Wait"].Type != "Wait" || m.States["Wait"].SecondsPath != "$.wait_seconds" {
		t.Errorf("it begins with %+v, and waits as %+v", m.States[m.StartAt], m.States["Wait"])
	}
}

// TestTheMachineChooses: an operation that has ended is not handed over, and one that is handed over is no fault of a
// full history. What was started with an input of an earlier version does not have the field.
func TestTheMachineChooses(t *testing.T) {
	t.Parallel()
	want := []choice{
		{Variable: "$.done", BooleanEquals: true, Next: "Ended"},
		{Next: "Handed over", And: []choice{
			{Variable: "$.handed_over", IsPresent: true}, {Variable: "$.handed_over", BooleanEquals: true},
		}},
		{Variable: "$.turn", NumericGreaterThanEquals: 2200, Next: "Handed over"},
	}
	m := definition(t)
	if diff := cmp.Diff(want, m.States["Done?"].Choices); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"Ended", "Handed over"} {
		if m.States[name].Type != "Succeed" {
			t.Errorf("%s is a %s, which an alarm counts", name, m.States[name].Type)
		}
	}
}

// TestTheMachineRepeatsWhatMayPass: by names that exist, with pauses of less than two minutes in all, as the runbook
// says.
func TestTheMachineRepeatsWhatMayPass(t *testing.T) {
	t.Parallel()
	advance := definition(t).States["Advance"]
	longest := 0.0
	var names []string
	for _, r := range advance.Retry {
		for wait, n := r.IntervalSeconds, 0; n < r.MaxAttempts; n++ {
			longest += min(wait, r.MaxDelaySeconds)
			wait *= r.BackoffRate
		}
		if r.JitterStrategy != "FULL" || r.BackoffRate <= 1 {
			t.Errorf("%q are repeated in step with each other", r.ErrorEquals)
		}
		names = append(names, r.ErrorEquals...)
	}
	if longest >= 120 {
		t.Errorf("repeating takes up to %v s", longest)
	}
	poller := string(readRoot(t, "internal/lambda/poller.go"))
	for _, name := range []string{"TickFailed", "TickPanicked", "NoConfiguration"} {
		if !slices.Contains(names, name) || !strings.Contains(poller, "\t"+name+" struct") {
			t.Errorf("%s is not repeated, or is no error of the poller any more", name)
		}
	}
	if slices.Contains(names, "BadInput") || slices.Contains(names, "States.ALL") || slices.Contains(names, "States.TaskFailed") {
		t.Errorf("%q are repeated, though an input that nobody wrote does not get better", names)
	}
	if len(advance.Catch) != 1 || !slices.Equal(advance.Catch[0].ErrorEquals, []string{"States.ALL"}) {
		t.Errorf("caught: %+v", advance.Catch)
	}
	if timeout := template(t).at("Resources.PollerFunction.Properties.Timeout").String(); timeout != "160" || advance.TimeoutSeconds <= 160 {
		t.Errorf("the task ends after %d s, the function after %s: the shorter one is the function's", advance.TimeoutSeconds, timeout)
	}
}

// TestThePollerHasTimeForWhatItBegins: the last step of a tick may begin when all the short waits are over, may take
// the longest, and is noted afterwards.
func TestThePollerHasTimeForWhatItBegins(t *testing.T) {
	t.Parallel()
	text := string(readRoot(t, "internal/lambda/poller.go"))
	needed := 0
	for _, name := range []string{"stayFor", "longestTick", "noteMargin"} {
		found := regexp.MustCompile(`\b` + name + `\s+= (\d+) \* time\.Second`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s is no number of seconds any more", name)
		}
		seconds, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		needed += seconds
	}
	timeout, err := strconv.Atoi(template(t).at("Resources.PollerFunction.Properties.Timeout").String())
	if err != nil || timeout < needed {
		t.Errorf("the poller ends after %d s (%v), and may need %d", timeout, err, needed)
	}
}

// What one pass through a state adds to the history of an execution.
const (
	eventsOfWait   = 2 // entered, exited
	eventsOfTask   = 5 // entered, scheduled, started, succeeded, exited
	eventsOfChoice = 2 // entered, exited
	eventsOfEnds   = 4 // execution started; last state entered and exited, execution succeeded
	turn           = eventsOfWait + eventsOfTask + eventsOfChoice
	mostEvents     = 20_000 // the quota is 25,000; the rest is for repeated tasks
)

// turns is how often an operation is looked at within a time.
func turns(p lifecycle.Pace, within time.Duration) int {
	n := 0
	for passed := time.Duration(0); passed < within; n++ {
		// As sfn.Tick does: whole seconds, at least one.
		passed += max(time.Second, (p.Wait(passed) + time.Second - 1).Truncate(time.Second))
	}
	return n + 1 // the one that ends it
}

func TestSevenDaysFitIntoOneHistory(t *testing.T) {
	t.Parallel()
	pace := lifecycle.Pace{First: config.Demo().Polling.First, Max: config.Demo().Polling.Max}
	n := turns(pace, 7*24*time.Hour)
	t.Logf("%d turns, %d events", n, n*turn+eventsOfEnds)
	if events := n*turn + eventsOfEnds; events >= mostEvents || events < 15_000 {
		t.Errorf("%d turns make %d events, want fewer than %d (and not so few that the count is wrong)", n, events, mostEvents)
	}
}

// TestABusierPaceIsHandedOver: where no rounds seem to come and waits are shorter, an execution leaves its operation to
// them before it is full.
func TestABusierPaceIsHandedOver(t *testing.T) {
	t.Parallel()
	limit := 0
	for _, c := range definition(t).States["Done?"].Choices {
		if c.Variable == "$.turn" && c.Next == "Handed over" {
			limit = c.NumericGreaterThanEquals
		}
	}
	if events := limit*turn + eventsOfEnds; limit == 0 || events >= mostEvents {
		t.Errorf("it is handed over after %d turns, %d events", limit, events)
	}
	if n := turns(lifecycle.Pace{First: 2 * time.Second, Max: time.Minute}, 7*24*time.Hour); n > limit {
		t.Errorf("the default pace takes %d turns and is handed over at %d", n, limit)
	}
}
