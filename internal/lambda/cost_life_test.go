package lambda

import (
	"strings"
	"testing"
	"time"
)

// pollEvery is how often the platform of these lives asks.
const pollEvery = 10 * time.Second

// quick is how long a backing broker takes that answers at once: a worker of the Cloud
// Controller has to come first.
const quick = 2 * time.Second

// operation is one that a platform begins and follows to its end.
type operation struct {
	begin func()
	// poll is what it asks meanwhile; empty for a request that is held.
	poll string
	// takes is how long Cloud Foundry needs.
	takes time.Duration
}

// live carries the operation through: the platform polls, the workflow ticks, each at
// its time, until both have seen the end.
func (s *stack) live(o operation) tally {
	s.Helper()
	return s.counted(func() {
		s.foundry.holdFor(o.takes)
		o.begin()
		poll := s.clock.now().Add(pollEvery)
		for polling := o.poll != ""; ; {
			e := s.next()
			switch {
			case polling && (e == nil || poll.Before(e.due)):
				s.clock.until(poll)
				answer := s.ask(200, "GET", o.poll+"/last_operation", "")
				polling = strings.Contains(answer.Body, "in progress")
				poll = poll.Add(pollEvery)
			case e != nil:
				s.step(e)
			default:
				s.running = nil
				return
			}
		}
	})
}

// next is the execution whose wait ends first; nil when none runs.
func (s *stack) next() *execution {
	var first *execution
	for _, e := range s.running {
		if !e.ended && (first == nil || e.due.Before(first.due)) {
			first = e
		}
	}
	return first
}

func (s *stack) create(takes time.Duration) tally {
	return s.live(operation{poll: at(instanceID), takes: takes, begin: func() {
		s.ask(202, "PUT", at(instanceID)+async, provisionBody(small))
	}})
}

func (s *stack) update(takes time.Duration) tally {
	return s.live(operation{poll: at(instanceID), takes: takes, begin: func() {
		s.ask(202, "PATCH", at(instanceID)+async, `{"service_id":"`+service+`","parameters":{"size":4}}`)
	}})
}

func (s *stack) bind(takes time.Duration) tally {
	return s.live(operation{takes: takes, begin: func() { s.ask(201, "PUT", key(bindingID), bindBody()) }})
}

func (s *stack) unbind(takes time.Duration) tally {
	return s.live(operation{takes: takes, begin: func() { s.ask(200, "DELETE", key(bindingID)+"?"+ids, "") }})
}

// polledUnbind is one that the platform does not wait for.
func (s *stack) polledUnbind(takes time.Duration) tally {
	return s.live(operation{poll: key(bindingID), takes: takes, begin: func() {
		s.ask(202, "DELETE", key(bindingID)+async+"&"+ids, "")
	}})
}

func (s *stack) remove(takes time.Duration) tally {
	return s.live(operation{poll: at(instanceID), takes: takes, begin: func() {
		s.ask(202, "DELETE", at(instanceID)+async+"&"+ids, "")
	}})
}

// part is an operation of a life and what it took.
type part struct {
	name string
	took tally
}

// life is one from create to delete. Create, update and delete take so long; keys
// are made and removed quickly, while the platform waits. Nobody has used the stack in
// the minute before.
func (s *stack) life(takes time.Duration, updated bool) []part {
	s.clock.pass(time.Minute)
	parts := []part{{"create", s.create(takes)}, {"bind, held", s.bind(quick)}}
	if updated {
		parts = append(parts, part{"update", s.update(takes)})
	}
	return append(parts, part{"unbind, held", s.unbind(quick)}, part{"delete", s.remove(takes)})
}

func sum(parts []part) tally {
	all := newTally()
	for _, p := range parts {
		all = all.add(p.took)
	}
	return all
}

// newLife is a stack that is warm, and reads its configuration as often as a deployed one.
func newLife(t *testing.T) *stack {
	t.Helper()
	s := newStack(t, time.Minute)
	s.patient = true
	s.warm()
	return s
}

// hour is what the janitor takes in an hour in which nothing is due.
func (s *stack) hour() tally {
	s.sweep(TaskAudit)
	return s.counted(func() {
		s.sweepDue()
		for range 60 {
			s.clock.pass(time.Minute)
			s.sweep(TaskRound)
		}
	})
}

// TestTheShapeOfALife holds what does not depend on any assumption: an execution that
// ends within the poller's stay enters four states, one that a held request stops a
// single one, and a slow one three more for each turn.
func TestTheShapeOfALife(t *testing.T) {
	t.Parallel()
	s := newLife(t)
	for _, p := range s.life(quick, true) {
		states, turns := 4, 1
		if strings.Contains(p.name, "held") {
			states, turns = 1, 0
		}
		if p.took.entered != states || p.took.invoked["poller"] != turns || p.took.calls["StartExecution"] != 1 {
			t.Errorf("%s: %d executions enter %d states and call the poller %d times; want 1, %d and %d",
				p.name, p.took.calls["StartExecution"], p.took.entered, p.took.invoked["poller"], states, turns)
		}
	}
	slow := s.create(5 * time.Minute)
	if turns := slow.invoked["poller"]; slow.entered != 3*turns+1 || turns > 10 {
		t.Errorf("a create of five minutes takes %d turns and enters %d states; want at most 10, and three each", turns, slow.entered)
	}
}
