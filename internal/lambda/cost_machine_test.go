package lambda

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/sfn"
)

// machineDefinition is what the count needs of statemachine/operation.asl.json.
type machineDefinition struct {
	StartAt string
	States  map[string]struct {
		Type, Next, Default string
		Choices             []struct {
			Variable, Next           string
			BooleanEquals            *bool
			NumericGreaterThanEquals *int
		}
	}
}

func definition(t *testing.T) machineDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "statemachine", "operation.asl.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m machineDefinition
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// execution is one on its way: it stands in a Wait, or has ended.
type execution struct {
	tick  sfn.Tick
	state string
	due   time.Time
	// since is when it was started, or its last turn ended.
	since time.Time
	// entered counts the states that were entered: what AWS bills.
	entered int
	turns   int
	ended   bool
}

// enter walks on from a state until a Wait keeps the execution, or it ends.
func (s *stack) enter(e *execution, name string) {
	s.Helper()
	for {
		e.state = name
		e.entered++
		s.meter.enter()
		switch state := s.asl.States[name]; state.Type {
		case "Wait":
			e.due = e.since.Add(time.Duration(e.tick.WaitSeconds) * time.Second)
			return
		case "Task":
			e.turns++
			s.invoke("poller", func() {
				next, err := s.poller.Handle(s.event(), e.tick)
				if err != nil {
					s.Fatal(err)
				}
				e.tick, e.since = next, s.clock.now()
			})
			s.adopt()
			name = state.Next
		case "Choice":
			name = s.choose(e.tick, name)
		default:
			e.ended = true
			return
		}
	}
}

// choose reads the variables that the machine chooses by.
func (s *stack) choose(tick sfn.Tick, name string) string {
	s.Helper()
	for _, c := range s.asl.States[name].Choices {
		switch {
		case c.Variable == "$.done" && c.BooleanEquals != nil:
			if tick.Done == *c.BooleanEquals {
				return c.Next
			}
		case c.Variable == "$.turn" && c.NumericGreaterThanEquals != nil:
			if tick.Turn >= *c.NumericGreaterThanEquals {
				return c.Next
			}
		default:
			s.Fatalf("%s chooses by %s, which this test does not know", name, c.Variable)
		}
	}
	return s.asl.States[name].Default
}

// adopt takes on the executions that were started, and ends those that were stopped.
func (s *stack) adopt() {
	s.Helper()
	for _, o := range s.meter.orders() {
		var input struct{ Input, ExecutionArn string }
		if err := json.Unmarshal(o.body, &input); err != nil {
			s.Fatal(err)
		}
		if o.operation == "StopExecution" {
			s.stop(input.ExecutionArn)
			continue
		}
		e := &execution{since: o.at}
		if err := json.Unmarshal([]byte(input.Input), &e.tick); err != nil {
			s.Fatal(err)
		}
		s.running = append(s.running, e)
		s.enter(e, s.asl.StartAt)
	}
}

// stop ends the execution of the name that the ARN ends with.
func (s *stack) stop(arn string) {
	s.Helper()
	for _, e := range s.running {
		if strings.HasSuffix(arn, ":"+e.tick.Operation) && !e.ended {
			e.ended = true
			return
		}
	}
	s.Errorf("%s does not run, but is stopped", arn)
}

// step takes an execution's next turn, at its time.
func (s *stack) step(e *execution) {
	s.Helper()
	s.clock.until(e.due)
	s.enter(e, s.asl.States[e.state].Next)
}

// finish takes all turns of what was started, and returns the executions.
func (s *stack) finish() []*execution {
	s.Helper()
	for i := 0; i < len(s.running); i++ {
		for !s.running[i].ended {
			s.step(s.running[i])
			if s.running[i].turns > 1000 {
				s.Fatalf("%+v does not end", s.running[i])
			}
		}
	}
	all := s.running
	s.running = nil
	return all
}

// split takes the query off a path.
func split(path string) (string, map[string]string) {
	u, err := url.Parse(path)
	if err != nil {
		panic(err) // a path of a test
	}
	query := map[string]string{}
	for name := range u.Query() {
		query[name] = u.Query().Get(name)
	}
	return u.EscapedPath(), query
}
