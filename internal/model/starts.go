package main

// This file is a model of its own, of how the workflow of an operation is started (docs/protocol.md 9): it must never
// be that an accepted operation runs and nobody will ever drive it. The name of an execution is usable once; a second
// start under that name is refused for good, and reads as "started already".

const maxNames = 5

// execution is what became of a name.
type execution uint8

const (
	unused execution = iota
	atWork
	dead
)

// handlerStep is where the request is that accepts the operation.
type handlerStep uint8

const (
	beforeClaim handlerStep = iota
	hasClaimed
	overOrDead
	drivesItself // a held bind: it works beside the execution that it has started
)

// janitor is one run of it.
type janitor struct {
	Step   uint8 // 0 reads, 1 writes the number of the restart, 2 starts
	Number uint8
}

// starts is all there is at one moment.
type starts struct {
	Ended      bool
	Claimed    bool
	Handler    handlerStep
	Executions [maxNames]execution
	Restarts   uint8 // in the record
	Deaths     uint8 // that may still happen
	Janitors   [2]janitor
}

// startRules are the safeguards of starting, and what a held request does with the execution that it has started.
type startRules struct {
	NameOfItsOwn bool // each restart has its own name
	StoreNumber  bool // its number is stored before it
	Janitor      bool
	Held         bool // the request drives the operation itself, and stops its execution when it has seen the end
	StopsBlindly bool // or at any time
}

func (s *starts) start(name uint8) {
	if s.Executions[name] == unused {
		s.Executions[name] = atWork
	}
}

// janitorNext is the next step of a run; false when there is none.
func (r startRules) janitorNext(s starts, j int) (starts, bool) {
	run := &s.Janitors[j]
	switch run.Step {
	case 0:
		if !s.Claimed || s.Ended || s.Restarts >= maxNames-1 {
			return s, false
		}
		*run = janitor{1, s.Restarts}
	case 1:
		switch {
		case !r.StoreNumber:
			*run = janitor{2, run.Number + 1}
		case s.Restarts != run.Number: // another run was first
			*run = janitor{}
		default:
			s.Restarts++
			*run = janitor{2, s.Restarts}
		}
	default:
		name := run.Number
		if !r.NameOfItsOwn {
			name = 0
		}
		*run = janitor{}
		s.start(name)
	}
	return s, true
}

func (r startRules) handlerNext(s starts) (all []starts) {
	switch n := s; s.Handler {
	case beforeClaim:
		n.Handler, n.Claimed = hasClaimed, true
		return []starts{n}
	case hasClaimed:
		n.Handler = overOrDead
		all = append(all, n) // dies between claim and start
		n.start(0)
		if r.Held {
			n.Handler = drivesItself
		}
		return append(all, n)
	case drivesItself:
		n.Handler = overOrDead
		all = append(all, n) // dies, or its time is over
		n = s
		n.Ended = true
		all = append(all, n)
		if s.Ended || r.StopsBlindly {
			n = s
			n.Handler = overOrDead
			if n.Executions[0] == atWork {
				n.Executions[0] = dead
			}
			all = append(all, n)
		}
	default: // over
	}
	return all
}

func (r startRules) next(s starts) []starts {
	all := r.handlerNext(s)
	for name, e := range s.Executions {
		if e != atWork {
			continue
		}
		n := s
		n.Ended = true
		all = append(all, n)
		if s.Deaths > 0 {
			n = s
			n.Executions[name] = dead
			n.Deaths--
			all = append(all, n)
		}
	}
	for j := range s.Janitors {
		if !r.Janitor {
			continue
		}
		if n, ok := r.janitorNext(s, j); ok {
			all = append(all, n)
		}
		if s.Janitors[j].Step != 0 {
			n := s
			n.Janitors[j] = janitor{}
			all = append(all, n)
		}
	}
	return all
}

// willBeDriven reports whether two passes of one janitor are enough for an execution to be at work. States near the
// bound of names are left out.
func (r startRules) willBeDriven(s starts) bool {
	if !s.Claimed || s.Ended || s.Restarts > maxNames-3 {
		return true
	}
	s.Janitors = [2]janitor{}
	for k := 0; k < 6 && r.Janitor; k++ {
		s, _ = r.janitorNext(s, 0)
	}
	for _, e := range s.Executions {
		if e == atWork {
			return true
		}
	}
	return false
}

// search visits every state, and counts those from which the operation is never driven again.
func (r startRules) search() (states, undriven int) {
	first := starts{Deaths: 2}
	seen := map[starts]bool{first: true}
	for todo := []starts{first}; len(todo) > 0; todo = todo[1:] {
		if !r.willBeDriven(todo[0]) {
			undriven++
		}
		for _, n := range r.next(todo[0]) {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return len(seen), undriven
}

// startCase is a way of starting, and whether every operation stays driven.
type startCase struct {
	name  string
	rules startRules
	holds bool
}

var startCases = []startCase{
	{"as specified", startRules{NameOfItsOwn: true, StoreNumber: true, Janitor: true}, true},
	{"held, stops what it has seen end", startRules{NameOfItsOwn: true, StoreNumber: true, Janitor: true, Held: true}, true},
	{"held, stops at any time", startRules{NameOfItsOwn: true, StoreNumber: true, Janitor: true, Held: true, StopsBlindly: true}, true},
	{"one name for all restarts", startRules{StoreNumber: true, Janitor: true}, false},
	{"the number is not stored", startRules{NameOfItsOwn: true, Janitor: true}, false},
	{"no janitor", startRules{NameOfItsOwn: true, StoreNumber: true}, false},
	{"held, stops at any time, no janitor", startRules{NameOfItsOwn: true, StoreNumber: true, Held: true, StopsBlindly: true}, false},
}
